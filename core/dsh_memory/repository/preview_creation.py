"""Making a preview: a change is put up for review under `.sync/previews/`, whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from dsh_memory.environment import format_instant
from dsh_memory.errors import ChangeRefused, PreviewFailure
from dsh_memory.repository.descriptors import CREATE_FLAGS, Folders, remove_tree, rename_exclusive
from dsh_memory.repository.journal import Journal
from dsh_memory.repository.layout import RECORD_FOLDERS, Reader, Root
from dsh_memory.repository.lock import write_all
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.previews import PREVIEWS_FOLDER, README, exists, list_previews, validate_preview_id
from dsh_memory.repository.staging import Base, StagedChange

LIFETIME: Final = timedelta(days=7)
#: An expired preview can still be looked at and discarded for so long.
KEPT_AFTER_EXPIRY: Final = timedelta(days=7)
_UNFINISHED: Final = ".making-"


def check_new_id(repo: Repository, preview_id: str) -> None:
    """Raises PreviewFailure where no preview of that id can be made; to be asked before any work is done."""
    if not validate_preview_id(preview_id):
        message = "A preview's id looks like 20260820T150000Z-a1b2c3d4."
        raise PreviewFailure("preview-invalid-request", message, detail="preview-id")
    if exists(repo.root, preview_id) or Journal(repo.root).find(preview_id) is not None:
        raise PreviewFailure("preview-invalid-request", "That id is taken already.", detail="preview-exists")


def create_preview(
    repo: Repository,
    now: datetime,
    preview_id: str,
    base: Base,
    copy: str,
    change: StagedChange,
    *,
    candidate_sessions: int | None,
) -> dict[str, Any]:
    """Writes the preview of a checked change and returns its six-key object; the caller holds the lock.

    `copy` is the folder that the change was read from: the files that it leaves alone are taken from there.
    Raises PreviewFailure, ChangeRefused `staging-invalid` where these are not the base's, OSError.
    """
    check_new_id(repo, preview_id)
    sweep_previews(repo.root, now)
    label = {
        "preview_id": preview_id,
        "created_at": format_instant(now),
        "expires_at": format_instant(now + LIFETIME),
        "candidate_sessions": candidate_sessions,
        "changed_paths": list(change.paths),
        "status": "pending",
    }
    making = f"{_UNFINISHED}{preview_id}-{secrets.token_hex(4)}"
    place = f"{PREVIEWS_FOLDER}/{making}"
    try:
        with Folders(repo.root) as folders, Root(copy) as source:
            folders.get(f"{place}/staging", create=True)
            _write_staging(folders, f"{place}/staging", source, base, change)
            _write(folders, f"{place}/manifest.json", _json(_manifest(now, base)))
            _write(folders, f"{place}/preview.json", _json(label))
            folders.flush()
            previews = folders.get(PREVIEWS_FOLDER)
            if not rename_exclusive(previews, making, previews, preview_id):
                raise PreviewFailure(
                    "preview-invalid-request", "That id is taken already.", detail="preview-exists"
                )
            os.fsync(previews)
    finally:
        remove_tree(repo.root, place)
    return label


def sweep_previews(root: Root, now: datetime) -> None:
    """Removes previews that expired a week ago, and those that a dead process did not finish."""
    for preview_id, expired in list_previews(root, now).expired.items():
        if now - expired > KEPT_AFTER_EXPIRY:
            remove_tree(root, f"{PREVIEWS_FOLDER}/{preview_id}")
    with suppress(FileNotFoundError), root.folder(PREVIEWS_FOLDER) as folder:
        for name in os.listdir(folder):
            # The caller holds the lock: whoever was making one is gone.
            if name.startswith(_UNFINISHED):
                remove_tree(root, f"{PREVIEWS_FOLDER}/{name}")


def _write_staging(folders: Folders, place: str, source: Root, base: Base, change: StagedChange) -> None:
    for name in RECORD_FOLDERS:
        folders.get(f"{place}/{name}", create=True)
    with Reader(source) as reader:
        for path, entry in base.entries.items():
            if path in change.files:
                continue
            data = reader.read(path, entry.size)
            if sha256(data).hexdigest() != entry.sha256:
                raise ChangeRefused("staging-invalid", "The copy changed while it was read.", path=path)
            _write(folders, f"{place}/{path}", data, executable=bool(entry.executable))
    for path, new in change.files.items():
        if new is not None:
            _write(folders, f"{place}/{path}", new, executable=path in change.executable)
    if base.readme is not None:
        _write(folders, f"{place}/{README}", base.readme)


def _manifest(now: datetime, base: Base) -> dict[str, Any]:
    rows = [
        _row(path, entry.size, entry.sha256, bool(entry.executable)) for path, entry in base.entries.items()
    ]
    if base.readme is not None:
        rows.append(_row(README, len(base.readme), sha256(base.readme).hexdigest(), executable=False))
    return {
        "schema_version": 1,
        "created_at": format_instant(now),
        "head_sha": base.view.head.commit,
        "entries": sorted(rows, key=lambda row: str(row["path"])),
    }


def _row(path: str, size: int, digest: str, executable: bool) -> dict[str, Any]:
    return {"path": path, "mode": "0700" if executable else "0600", "size": size, "sha256": digest}


def _write(folders: Folders, path: str, data: bytes, *, executable: bool = False) -> None:
    parent, _, name = path.rpartition("/")
    descriptor = os.open(
        name, CREATE_FLAGS, 0o700 if executable else 0o600, dir_fd=folders.get(parent, create=True)
    )
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    folders.changed(parent)


def _json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"
