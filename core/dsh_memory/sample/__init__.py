"""A believable throw-away memory, for `--demo`, the screenshots and the tests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

from dsh_memory.environment import Environment, format_instant
from dsh_memory.records import Malformed, read_record
from dsh_memory.repository.creation import EXECUTABLE_FILE, FIRST_FILES
from dsh_memory.repository.git import SealedGit
from dsh_memory.repository.jsonfile import to_json_line
from dsh_memory.repository.layout import RECORD_FOLDERS, SUMMARY
from dsh_memory.repository.objects import EXECUTABLE_MODE, FILE_MODE
from dsh_memory.repository.previews import README
from dsh_memory.sample.history import History, PendingPreview
from dsh_memory.sample.importing import HistoryWriter
from dsh_memory.sample.story import USES

__all__ = ["create_sample"]

_PREVIEW_LIFE: Final = timedelta(days=7)
_IDENTITY: Final = "[user]\n\tname = DPSK Memory\n\temail = dpsk-memory@localhost\n"
_FIRST_FILES: Final = {
    path: (EXECUTABLE_MODE if path == EXECUTABLE_FILE else FILE_MODE, data)
    for path, data in FIRST_FILES.items()
    if path != SUMMARY
}


def create_sample(target: str, now: datetime) -> Environment:
    """Builds the sample in the new folder `target` and gives its environment.

    All dates lie around `now`; the same `now` gives the same bytes and commit ids. Raises FileExistsError.
    """
    now = now.astimezone(UTC).replace(microsecond=0)
    environment = Environment(dsh_home=target, memory_root=os.path.join(target, "storages", "memory"))
    root = environment.memory_root
    os.mkdir(target, 0o700)
    os.makedirs(root, 0o700)
    git = SealedGit(root)
    git.run("init", "--quiet", "--initial-branch=main", "--template=")
    with open(os.path.join(root, ".git", "config"), "a") as config:
        config.write(_IDENTITY)
    with HistoryWriter(root) as writer:
        history = History(writer, now, _FIRST_FILES)
        history.write()
    files = {**history.other, **{path: (FILE_MODE, data) for path, data in history.payload.items()}}
    for path, (mode, data) in files.items():
        _write(root, path, data, executable=mode == EXECUTABLE_MODE)
    for folder in RECORD_FOLDERS:
        os.makedirs(os.path.join(root, folder), 0o700, exist_ok=True)
    for preview in history.previews:
        _write_preview(root, preview)
    _write(root, ".sync/usage.json", _usage(history.payload, now))
    watermark = int(history.watermark.timestamp())
    os.utime(os.path.join(root, ".last-sync"), (watermark, watermark))
    git.run("read-tree", "HEAD")
    git.run("update-index", "-q", "--refresh")
    _write(target, "settings.yaml", b"memory:\n  enabled: true\n")
    return environment


def _write_preview(root: str, preview: PendingPreview) -> None:
    folder = f".sync/previews/{preview.preview_id}"
    for path, data in {**preview.staged, README: FIRST_FILES[README]}.items():
        _write(root, f"{folder}/staging/{path}", data)
    entries = [
        {"path": path, "mode": FILE_MODE, "size": len(data), "sha256": sha256(data).hexdigest()}
        for path, data in sorted({**preview.base, README: FIRST_FILES[README]}.items())
    ]
    manifest = {
        "schema_version": 1,
        "created_at": format_instant(preview.created_at),
        "head_sha": preview.head,
        "entries": entries,
    }
    changed = sorted(
        path
        for path in preview.base.keys() | preview.staged.keys()
        if preview.base.get(path) != preview.staged.get(path)
    )
    keys = {
        "preview_id": preview.preview_id,
        "created_at": format_instant(preview.created_at),
        "expires_at": format_instant(preview.created_at + _PREVIEW_LIFE),
        "candidate_sessions": preview.sessions,
        "changed_paths": changed,
        "status": "pending",
    }
    _write(root, f"{folder}/manifest.json", to_json_line(manifest))
    _write(root, f"{folder}/preview.json", to_json_line(keys))


def _usage(payload: Mapping[str, bytes], now: datetime) -> bytes:
    entries: dict[str, object] = {}
    for path, (count, hours) in USES.items():
        record = read_record(path, payload[path])
        if isinstance(record, Malformed):
            raise ValueError(f"a used sample record is malformed: {record.message}")
        entries[path] = {
            "usage_count": count,
            "last_usage": format_instant(now - timedelta(hours=hours)),
            "logical_id": record.id,
            "generation": 1,
            "content_hash": record.content_hash,
            "prior_usage_count": 0,
            "decay_factor": 0.5,
        }
    return to_json_line({"schema_version": 1, "records": entries, "aliases": {}})


def _write(root: str, path: str, data: bytes, *, executable: bool = False) -> None:
    whole = os.path.join(root, path)
    os.makedirs(os.path.dirname(whole), 0o700, exist_ok=True)
    descriptor = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700 if executable else 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
