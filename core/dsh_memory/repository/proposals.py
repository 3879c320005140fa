"""Pending previews made from single edits: the memory as it would become, for a person to decide."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Final

from dsh_memory.environment import format_instant
from dsh_memory.errors import ChangeRefused
from dsh_memory.records.metadata import MAX_RECORD_BYTES, Malformed, read_record
from dsh_memory.records.secrets import scan
from dsh_memory.repository.allowed_secrets import read_allowed_secrets
from dsh_memory.repository.descriptors import CREATE_FLAGS, Folders
from dsh_memory.repository.journal import new_run_id
from dsh_memory.repository.jsonfile import to_json_line
from dsh_memory.repository.layout import RECORD_FOLDERS, SUMMARY, LiveFile, Reader
from dsh_memory.repository.lock import Clock, hold, write_all
from dsh_memory.repository.objects import EXECUTABLE_MODE, FILE_MODE
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.previews import PREVIEWS_FOLDER
from dsh_memory.repository.view import read_head

_LIFETIME: Final = timedelta(days=7)
_MAX_FILE_BYTES: Final = 1024 * 1024
_MAX_CHANGE_BYTES: Final = 5 * 1024 * 1024
_MAX_FILES: Final = 50


def propose(repo: Repository, clock: Clock, changes: Mapping[str, bytes | None]) -> str:
    """Put the changes up as a pending preview (None deletes a file); its id.

    Raises ChangeRefused for what no staging may hold, OperationInProgress or UnsafeLayout.
    """
    check_changes(repo, changes)
    now = clock()
    preview_id = new_run_id(now)
    with hold(repo.root, "write", preview_id, clock), Folders(repo.root) as folders:
        head = read_head(repo).commit
        live = repo.root.scan().files
        staging = f"{PREVIEWS_FOLDER}/{preview_id}/staging"
        for name in RECORD_FOLDERS:
            folders.get(f"{staging}/{name}", create=True)
        rows = []
        with Reader(repo.root) as reader:
            for path, file in sorted(live.items()):
                data = reader.read(path, max(file.size, MAX_RECORD_BYTES))
                rows.append(_row(file, data))
                if path not in changes:
                    _write(folders, f"{staging}/{path}", data)
            _write(folders, f"{staging}/README.md", reader.read("README.md", MAX_RECORD_BYTES))
        for path, changed in changes.items():
            if changed is not None:
                _write(folders, f"{staging}/{path}", changed)
        manifest = {"schema_version": 1, "created_at": format_instant(now), "head_sha": head, "entries": rows}
        preview = {
            "preview_id": preview_id,
            "created_at": format_instant(now),
            "expires_at": format_instant(now + _LIFETIME),
            "candidate_sessions": 0,
            "changed_paths": sorted(changes),
            "status": "pending",
        }
        _write(folders, f"{PREVIEWS_FOLDER}/{preview_id}/manifest.json", to_json_line(manifest))
        # Last: without it the folder is no preview.
        _write(folders, f"{PREVIEWS_FOLDER}/{preview_id}/preview.json", to_json_line(preview))
        folders.flush()
    return preview_id


def check_changes(repo: Repository, changes: Mapping[str, bytes | None]) -> None:
    """Raise ChangeRefused for what a staging may not hold (`spec`: repository, Previews and staging)."""
    if not changes:
        raise ChangeRefused("staging-invalid", "The proposal changes nothing.")
    if len(changes) > _MAX_FILES:
        raise ChangeRefused("too-many-files", "The proposal changes too many files.")
    if sum(len(data or b"") for data in changes.values()) > _MAX_CHANGE_BYTES:
        raise ChangeRefused("change-too-large", "The proposal is too large.")
    allowed = read_allowed_secrets(repo.environment)
    for path, data in changes.items():
        parts = path.split("/")
        # guard: proposal-stays-in-payload
        if path != SUMMARY and (
            parts[0] not in RECORD_FOLDERS or len(parts) < 2 or any(_is_unsafe(part) for part in parts)
        ):
            raise ChangeRefused("staging-invalid", "A proposal may touch the payload only.", path=path)
        if data is None:
            continue
        if len(data) > _MAX_FILE_BYTES:
            raise ChangeRefused("file-too-large", "A file of the proposal is too large.", path=path)
        record = read_record(path, data)
        if isinstance(record, Malformed):
            code = record.code if record.code in ChangeRefused.codes else "invalid-metadata"
            raise ChangeRefused(code, record.message, path=path, line=record.line)
        if scan(path, data, allowed):
            raise ChangeRefused("secret-detected", "The proposal holds a secret.", path=path)


def _is_unsafe(part: str) -> bool:
    return part in ("", ".", "..") or part.lower() == ".git" or "\0" in part


def _row(file: LiveFile, data: bytes) -> dict[str, object]:
    mode = EXECUTABLE_MODE if file.executable else FILE_MODE
    return {"path": file.path, "mode": mode, "size": len(data), "sha256": sha256(data).hexdigest()}


def _write(folders: Folders, path: str, data: bytes) -> None:
    parent, _, name = path.rpartition("/")
    descriptor = os.open(name, CREATE_FLAGS, 0o600, dir_fd=folders.get(parent, create=True))
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)
