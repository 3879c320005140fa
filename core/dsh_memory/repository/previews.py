"""Previews: candidate changes that wait under `.sync/previews/<id>/` for a decision.

What a preview would change is computed from its staging and its manifest; of preview.json only the dates and
the number of sessions are believed. Reading deletes nothing (`spec`: repository, Previews and staging).
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from dsh_memory.environment import parse_instant
from dsh_memory.errors import PreviewFailure, RepoUnavailable, UnsafeLayout
from dsh_memory.repository.journal import SETTLED_NS
from dsh_memory.repository.jsonfile import parse_json_object
from dsh_memory.repository.layout import PAYLOAD, RECORD_FOLDERS, SUMMARY, LiveFile, Reader, Root

PREVIEWS_FOLDER: Final = ".sync/previews"
README: Final = "README.md"

_PREVIEW_ID: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
# A manifest of 100,000 files takes 20 MB.
_MAX_MANIFEST_BYTES: Final = 64 * 1024 * 1024
_MAX_PREVIEW_BYTES: Final = 16 * 1024 * 1024
_PIECE: Final = 1 << 20

_Stamp = tuple[int, int, int, int]


class ManifestEntry(NamedTuple):
    """A file of the tree that a preview was made from; `executable` is None where its mode is unknown."""

    size: int
    sha256: str
    executable: bool | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The live tree that a preview was made from: its payload by path, README.md apart, and HEAD by then."""

    created_at: str | None
    head: str | None
    entries: Mapping[str, ManifestEntry]
    readme: ManifestEntry | None


@dataclass(frozen=True, slots=True)
class Preview:
    """A readable preview; `created_at` and `expires_at` are the texts of its file, the instants beside."""

    preview_id: str
    created_at: str
    expires_at: str
    candidate_sessions: int | None
    changed_paths: tuple[str, ...]
    created: datetime
    expires: datetime
    manifest: Manifest

    def to_json(self) -> dict[str, Any]:
        """The contract's six-key object."""
        return {
            "preview_id": self.preview_id,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            "candidate_sessions": self.candidate_sessions,
            "changed_paths": list(self.changed_paths),
            "status": "pending",
        }


@dataclass(frozen=True, slots=True)
class PreviewList:
    """`pending` previews, newest first; `expired` ids with the instant they expired; `broken` ids."""

    pending: tuple[Preview, ...]
    expired: Mapping[str, datetime]
    broken: tuple[str, ...]


class Staging:
    """The open staging of a preview: its payload `files`, and `foreign` names that may not be there.

    Reading is bounded and follows no link; use it in a `with` statement.
    """

    def __init__(self, root: Root, preview_id: str) -> None:
        """Opens a preview's staging.

        Raises FileNotFoundError, and UnsafeLayout for links, special files and the like in it.
        """
        self._root = root.below(f"{_folder(preview_id)}/staging")
        self._reader = Reader(self._root)
        try:
            self.files: dict[str, LiveFile] = self._root.scan().files
            self.foreign = tuple(sorted(set(os.listdir(self._root.descriptor)) - {*PAYLOAD, README}))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every folder."""
        self._reader.close()
        self._root.close()

    def read(self, path: str, limit: int) -> bytes:
        """The bytes of a staged file or README.md, at most `limit` + 1 of them; raises as `Reader.read`."""
        return self._reader.read(path, limit)

    def changed_paths(self, manifest: Manifest) -> tuple[str, ...]:
        """The payload paths that differ from the tree the preview was made from, sorted."""
        gone = manifest.entries.keys() - self.files.keys()
        changed = (
            path for path, live in self.files.items() if not self._equals(live, manifest.entries.get(path))
        )
        return tuple(sorted({*gone, *changed}))

    def _equals(self, live: LiveFile, entry: ManifestEntry | None) -> bool:
        if entry is None or entry.size != live.size or entry.executable not in (None, live.executable):
            return False
        descriptor, _ = self._reader.open(live.path)
        digest = sha256()
        try:
            while piece := os.read(descriptor, _PIECE):
                digest.update(piece)
        finally:
            os.close(descriptor)
        return digest.hexdigest() == entry.sha256


class PreviewMemo:
    """What a long-lived process remembers of previews, so that each unchanged one is compared once."""

    def __init__(self) -> None:
        self.seen: dict[str, _Seen] = {}

    def forget_others(self, ids: list[str]) -> None:
        """Drop what is remembered of previews that are gone."""
        self.seen = {preview_id: seen for preview_id, seen in self.seen.items() if preview_id in ids}


class _Seen(NamedTuple):
    manifest_stamp: _Stamp
    files: dict[str, LiveFile]
    read_at_ns: int
    manifest: Manifest
    changed_paths: tuple[str, ...]

    def holds_for(self, manifest_stamp: _Stamp, files: dict[str, LiveFile]) -> bool:
        newest = max((max(live.mtime_ns, live.ctime_ns) for live in files.values()), default=0)
        settled = self.read_at_ns - max(newest, *manifest_stamp[2:]) > SETTLED_NS
        return settled and self.manifest_stamp == manifest_stamp and self.files == files


class _Label(NamedTuple):
    """What is believed of preview.json."""

    created_at: str
    expires_at: str
    candidate_sessions: int | None
    created: datetime
    expires: datetime


class _Broken(Exception):
    """A preview that cannot be read, with the failure's `detail`."""


def validate_preview_id(text: object) -> bool:
    """Whether `text` has the form of a preview's id; only such names build paths."""
    # guard: preview-id-form
    return isinstance(text, str) and _PREVIEW_ID.fullmatch(text) is not None


def list_previews(root: Root, now: datetime, memo: PreviewMemo | None = None) -> PreviewList:
    """Every preview of the root; raises UnsafeLayout where the previews' folder is a link or file."""
    memo = memo or PreviewMemo()
    pending: list[Preview] = []
    expired: dict[str, datetime] = {}
    broken: list[str] = []
    ids = _ids(root)
    memo.forget_others(ids)
    for preview_id in ids:
        try:
            label = _read_label(root, preview_id)
            if _is_expired(label, now):
                expired[preview_id] = label.expires
            else:
                pending.append(_read_preview(root, preview_id, label, memo))
        except _Broken:
            broken.append(preview_id)
    pending.sort(key=lambda preview: (preview.created, preview.preview_id), reverse=True)
    return PreviewList(tuple(pending), expired, tuple(broken))


def exists(root: Root, preview_id: object) -> bool:
    """Whether there is a preview of that id, be it pending, expired or broken."""
    return validate_preview_id(preview_id) and root.lstat(_folder(str(preview_id))) is not None


def find(root: Root, preview_id: object, now: datetime, memo: PreviewMemo | None = None) -> Preview:
    """The pending preview of that id.

    Raises PreviewFailure: preview-not-found, preview-expired, or preview-apply-failed with detail
    unsafe-layout or preview-broken.
    """
    if not isinstance(preview_id, str) or not exists(root, preview_id):
        raise PreviewFailure("preview-not-found", "There is no preview of that id.")
    try:
        label = _read_label(root, preview_id)
        if _is_expired(label, now):
            raise PreviewFailure("preview-expired", f"The preview expired at {label.expires_at}.")
        return _read_preview(root, preview_id, label, memo or PreviewMemo())
    except _Broken as broken:
        message = "The preview cannot be read; it can only be discarded."
        raise PreviewFailure("preview-apply-failed", message, detail=str(broken)) from broken


def _ids(root: Root) -> list[str]:
    try:
        with root.folder(PREVIEWS_FOLDER) as descriptor:
            return sorted(filter(validate_preview_id, os.listdir(descriptor)))
    except FileNotFoundError:
        return []
    except PermissionError as error:
        raise RepoUnavailable("The previews cannot be read.", detail="previews-unreadable") from error


def _folder(preview_id: str) -> str:
    return f"{PREVIEWS_FOLDER}/{preview_id}"


def _is_expired(label: _Label, now: datetime) -> bool:
    return now >= label.expires


def _read_label(root: Root, preview_id: str) -> _Label:
    values = _read_object(root, f"{_folder(preview_id)}/preview.json", _MAX_PREVIEW_BYTES)
    created_at, expires_at = values.get("created_at"), values.get("expires_at")
    created, expires = parse_instant(created_at), parse_instant(expires_at)
    if created is None or expires is None:
        raise _Broken("preview-broken")
    sessions = values.get("candidate_sessions")
    known = isinstance(sessions, int) and not isinstance(sessions, bool)
    return _Label(str(created_at), str(expires_at), sessions if known else None, created, expires)


def _read_preview(root: Root, preview_id: str, label: _Label, memo: PreviewMemo) -> Preview:
    path = f"{_folder(preview_id)}/manifest.json"
    read_at = time.time_ns()
    try:
        status = root.lstat(path)
        if status is None:
            raise _Broken("preview-broken")
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        with Staging(root, preview_id) as staging:
            seen = memo.seen.get(preview_id)
            if seen is None or not seen.holds_for(stamp, staging.files):
                manifest = _parse_manifest(_read_object(root, path, _MAX_MANIFEST_BYTES))
                changed_paths = staging.changed_paths(manifest)
                seen = memo.seen[preview_id] = _Seen(stamp, staging.files, read_at, manifest, changed_paths)
    except UnsafeLayout as error:
        raise _Broken("unsafe-layout") from error
    except OSError as error:
        raise _Broken("preview-broken") from error
    return Preview(preview_id, *label[:3], seen.changed_paths, label.created, label.expires, seen.manifest)


def _read_object(root: Root, path: str, limit: int) -> dict[str, Any]:
    try:
        values = parse_json_object(root.read(path, limit))
    except UnsafeLayout as error:
        raise _Broken("unsafe-layout") from error
    except OSError as error:
        raise _Broken("preview-broken") from error
    if values is None:
        raise _Broken("preview-broken")
    return values


def _parse_manifest(values: Mapping[str, Any]) -> Manifest:
    rows = values.get("entries")
    if (
        type(values.get("schema_version")) is not int
        or values["schema_version"] != 1
        or type(rows) is not list
    ):
        raise _Broken("preview-broken")
    entries = dict(map(_parse_row, rows))
    readme = entries.pop(README, None)
    # guard: manifest-names-payload-only
    if len(entries) + (readme is not None) != len(rows) or not all(map(_is_payload_path, entries)):
        raise _Broken("preview-broken")
    return Manifest(_text(values.get("created_at")), _text(values.get("head_sha")), entries, readme)


def _parse_row(row: object) -> tuple[str, ManifestEntry]:
    values = row if isinstance(row, dict) else {}
    path, size, digest = values.get("path"), values.get("size"), values.get("sha256")
    if not isinstance(path, str) or type(size) is not int or not isinstance(digest, str):
        raise _Broken("preview-broken")
    if _SHA256.fullmatch(digest) is None:
        raise _Broken("preview-broken")
    return path, ManifestEntry(size, digest, _executable(values.get("mode")))


def _executable(mode: object) -> bool | None:
    """The executable bit of a mode, a number or octal text; None for anything else."""
    if isinstance(mode, str) and re.fullmatch(r"(0o)?[0-7]{1,7}", mode):
        return bool(int(mode.removeprefix("0o"), 8) & stat.S_IXUSR)
    return bool(mode & stat.S_IXUSR) if type(mode) is int else None


def _is_payload_path(path: str) -> bool:
    first, *rest = path.split("/")
    if not rest:
        return first == SUMMARY
    return first in RECORD_FOLDERS and not {"", ".", ".."}.intersection(rest) and "\0" not in path


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
