"""What a reviewer should see in a change before it is applied: what it loses, and what will refuse it.

The rules that refuse are the writers' own (`spec`: repository, Previews and staging); here all of them are
told at once, while a writer stops at the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from dsh_memory.inspection.facts import counted
from dsh_memory.inspection.values import ReviewWarning
from dsh_memory.records import Malformed, Record, read_record
from dsh_memory.records.secrets import scan
from dsh_memory.repository.content import is_record_path

MAX_FILE_BYTES: Final = 1024 * 1024
MAX_ADDED_FILES: Final = 50
MAX_CHANGED_BYTES: Final = 5 * 1024 * 1024

#: Both sides of a file are read up to this size; one over 1 MiB is refused anyway.
MOST_BYTES: Final = 8 * 1024 * 1024

#: A file that keeps less than this share of its bytes has shrunk; models drop the rest of a file by mistake.
_KEPT_SHARE: Final = 0.4


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One changed file: its bytes now and as they would be, None where it does not exist."""

    path: str
    old: bytes | None
    new: bytes | None


def review(
    files: Iterable[StagedFile],
    ids_elsewhere: Mapping[str, str],
    allowed_secrets: frozenset[str] = frozenset(),
) -> tuple[ReviewWarning, ...]:
    """All warnings about a change, the blocking ones first.

    `ids_elsewhere` are the ids of the live records that the change leaves alone, with a path of each.
    """
    files = list(files)
    found = _too_much(files)
    ids = dict(ids_elsewhere)
    for file in files:
        if file.new is None:
            found.append(_warning("delete", f"deletes the file, {counted(_lines(file.old), 'line')}", file))
            continue
        found += _content(file, file.new, allowed_secrets)
        if not is_record_path(file.path):
            continue
        new = read_record(file.path, file.new)
        if isinstance(new, Malformed):
            found.append(_warning(new.code, new.message, file, blocking=True, line=new.line))
            continue
        if new.metadata is not None:
            if new.id in ids:
                found.append(_warning("duplicate-id", f"the id {new.id} is taken", file, blocking=True))
            ids[new.id] = file.path
        found += _identity(file, new)
    return tuple(sorted(found, key=lambda warning: (not warning.blocking, warning.path or "")))


def _warning(
    kind: str, sentence: str, file: StagedFile, *, blocking: bool = False, line: int | None = None
) -> ReviewWarning:
    return ReviewWarning(kind, sentence, file.path, blocking, line)


def _too_much(files: list[StagedFile]) -> list[ReviewWarning]:
    found = []
    added = sum(file.old is None for file in files)
    if added > MAX_ADDED_FILES:
        sentence = f"adds {added} files, {MAX_ADDED_FILES} are allowed"
        found.append(ReviewWarning("too-many-files", sentence, None, True))
    changed = sum(len(file.new or b"") for file in files)
    if changed > MAX_CHANGED_BYTES:
        sentence = f"changes {changed:,} bytes in all, {MAX_CHANGED_BYTES:,} are allowed"
        found.append(ReviewWarning("change-too-large", sentence, None, True))
    return found


def _content(file: StagedFile, new: bytes, allowed_secrets: frozenset[str]) -> list[ReviewWarning]:
    found = []
    if len(new) > MAX_FILE_BYTES:
        sentence = f"has more than {MAX_FILE_BYTES:,} bytes"
        found.append(_warning("file-too-large", sentence, file, blocking=True))
    if not is_record_path(file.path) and _is_binary(new):
        found.append(_warning("binary-file", "is no UTF-8 text", file, blocking=True))
    for secret in scan(file.path, new, allowed_secrets):
        sentence = f"holds what looks like a secret ({secret.kind})"
        found.append(_warning("secret-detected", sentence, file, blocking=True, line=secret.line))
    if file.old and len(new) < _KEPT_SHARE * len(file.old):
        share = round(100 - 100 * len(new) / len(file.old))
        found.append(_warning("shrinks", f"shrinks by {share} %", file))
    return found


def _identity(file: StagedFile, new: Record) -> list[ReviewWarning]:
    old = None if file.old is None else read_record(file.path, file.old)
    if not isinstance(old, Record) or old.metadata is None:
        return []
    if new.metadata is None:
        return [_warning("front-matter-lost", "loses its front matter", file)]
    if new.id != old.id:
        return [_warning("id-changed", f"its id changes from {old.id} to {new.id}", file)]
    return []


def _is_binary(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return b"\0" in data


def _lines(data: bytes | None) -> int:
    return len((data or b"").splitlines())
