"""What a change may do to the payload: the rules of staging, held against what changes and nothing else.

Files that break a rule already, and are left alone, never stand in the way (`spec`: repository, Previews and
staging).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dsh_memory.errors import ChangeRefused
from dsh_memory.records.metadata import Malformed, Record, read_record
from dsh_memory.records.secrets import scan
from dsh_memory.repository.content import is_record_path
from dsh_memory.repository.layout import RECORD_FOLDERS, SUMMARY

MAX_FILE_BYTES: Final = 1024 * 1024
MAX_ADDED_FILES: Final = 50
MAX_CHANGED_BYTES: Final = 5 * 1024 * 1024

_MAX_NAME_BYTES: Final = 255


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One file that changes: its bytes before and after, None where there is no file."""

    path: str
    old: bytes | None
    new: bytes | None


def is_payload_path(path: str) -> bool:
    """Whether a file of that path may be in the payload; traversal, control of Git and odd names are
    refused."""
    first, *rest = path.split("/")
    if not rest:
        return first == SUMMARY
    # guard: payload-path
    return first in RECORD_FOLDERS and all(map(_is_plain_name, rest))


def check_change(
    files: Sequence[StagedFile],
    ids_elsewhere: Mapping[str, str],
    *,
    allowed_secrets: frozenset[str] = frozenset(),
    limited: bool = True,
) -> None:
    """Raises ChangeRefused for the first rule that the change breaks.

    `ids_elsewhere` are the ids of the live records that are left alone, each with its path. Without
    `limited` the three limits of size do not count: what a person saves is not measured.
    """
    for file in files:
        if not is_payload_path(file.path):
            raise ChangeRefused(
                "staging-invalid", "The change touches a file that is no memory.", path=file.path
            )
    if limited:
        _check_limits(files)
    for file in files:
        if file.new is not None:
            _check_content(file.path, file.new, allowed_secrets)
    _check_ids(files, ids_elsewhere)


def _check_limits(files: Iterable[StagedFile]) -> None:
    added = total = 0
    for file in files:
        size = len(file.new or b"")
        if size > MAX_FILE_BYTES:
            raise ChangeRefused("file-too-large", f"A changed file has {size:,} bytes.", path=file.path)
        added += file.old is None
        total += size
    if added > MAX_ADDED_FILES:
        raise ChangeRefused("too-many-files", f"The change adds {added} files.")
    if total > MAX_CHANGED_BYTES:
        raise ChangeRefused("change-too-large", f"The change holds {total:,} bytes.")


def _check_content(path: str, data: bytes, allowed_secrets: frozenset[str]) -> None:
    if is_record_path(path):
        record = read_record(path, data)
        if isinstance(record, Malformed):
            raise ChangeRefused(record.code, f"{record.message}.", path=path, line=record.line)
    elif _is_binary(data):
        raise ChangeRefused("binary-file", "A changed file is no UTF-8 text.", path=path)
    for finding in scan(path, data, allowed_secrets):
        message = (
            f"A line holds what looks like a secret ({finding.kind}); allow it with sha256:{finding.digest}."
        )
        raise ChangeRefused("secret-detected", message, path=path, line=finding.line)


def _check_ids(files: Iterable[StagedFile], ids_elsewhere: Mapping[str, str]) -> None:
    ids = dict(ids_elsewhere)
    for file in files:
        identity = _id_of(file.path, file.new)
        if identity is None:
            continue
        # A duplicate that was there before is not the change's doing.
        was_there = identity in ids_elsewhere and identity == _id_of(file.path, file.old)
        if identity in ids and not was_there:
            raise ChangeRefused(
                "duplicate-id", f"The id {identity} is that of another record, too.", path=file.path
            )
        ids[identity] = file.path


def _id_of(path: str, data: bytes | None) -> str | None:
    record = read_record(path, data) if data is not None and is_record_path(path) else None
    return record.id if isinstance(record, Record) else None


def _is_binary(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return b"\0" in data


def _is_plain_name(name: str) -> bool:
    # Git itself refuses the names that some file system would take for `.git`.
    folded = name.casefold().rstrip(" .")
    return (
        name not in ("", ".", "..")
        and folded not in (".git", "git~1")
        and len(name.encode("utf-8", "surrogateescape")) <= _MAX_NAME_BYTES
        and not any(character < " " or character in "\\:\x7f" for character in name)
    )
