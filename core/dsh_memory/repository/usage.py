"""The usage sidecar `.sync/usage.json`: how often each record was read into a context.

It holds metadata only; losing it loses an order, no memory (`spec`: repository, Context).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from dsh_memory.environment import format_instant, parse_instant
from dsh_memory.errors import ContextFailure
from dsh_memory.repository.descriptors import CREATE_FLAGS
from dsh_memory.repository.jsonfile import parse_json_object, to_json_line
from dsh_memory.repository.layout import Root
from dsh_memory.repository.lock import SYNC_FOLDER, write_all
from dsh_memory.repository.usage_turns import temporary_name, turn

USAGE_NAME: Final = "usage.json"
MAX_USAGE_BYTES: Final = 1024 * 1024
DECAY_FACTOR: Final = 0.5
#: What Git must never take up, as patterns of an exclude file.
EXCLUDED: Final = (".sync/usage.json", ".sync/usage.lock/", ".sync/.usage.*.tmp")


class Hit(NamedTuple):
    """A record that a context returned."""

    path: str
    logical_id: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """What the sidecar knows of one record; `last_usage` is ISO 8601 text, `extra` keeps unknown keys.

    `prior_usage_count` is the count of the content before the present one; `generation` counts contents.
    """

    usage_count: int = 0
    last_usage: str | None = None
    logical_id: str | None = None
    generation: int = 1
    content_hash: str | None = None
    prior_usage_count: float = 0
    decay_factor: float = DECAY_FACTOR
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def effective(self) -> float:
        """The usage that a context's order goes by."""
        return self.usage_count + self.prior_usage_count * self.decay_factor

    def read_again(self, hit: Hit, now: str) -> UsageEntry:
        """The entry after one more read; another content than the known one starts a generation."""
        changed = self.content_hash is not None and self.content_hash != hit.content_hash
        return UsageEntry(
            1 if changed else self.usage_count + 1,
            now,
            hit.logical_id,
            self.generation + 1 if changed else self.generation,
            hit.content_hash,
            self.usage_count if changed else self.prior_usage_count,
            self.decay_factor,
            self.extra,
        )

    def to_json(self) -> dict[str, Any]:
        """The entry as the sidecar holds it."""
        known = {key: getattr(self, key) for key in _ENTRY_KEYS}
        return {**known, **self.extra}


_ENTRY_KEYS: Final = (
    "usage_count",
    "last_usage",
    "logical_id",
    "generation",
    "content_hash",
    "prior_usage_count",
    "decay_factor",
)
NEVER_USED: Final = UsageEntry()


@dataclass(frozen=True, slots=True)
class Usage:
    """The whole sidecar: entries by record path; `extra` are its other keys (`aliases`), as found."""

    records: Mapping[str, UsageEntry] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def of(self, path: str) -> UsageEntry:
        """The entry of a record, also of one never used."""
        return self.records.get(path, NEVER_USED)


def read_usage(root: Root) -> Usage:
    """The sidecar, empty where there is none.

    Raises ContextFailure `usage-invalid` for one that is broken, over 1 MiB or unreadable, UnsafeLayout for a
    link.
    """
    try:
        data = root.read(f"{SYNC_FOLDER}/{USAGE_NAME}", MAX_USAGE_BYTES)
    except FileNotFoundError:
        return Usage()
    except OSError as error:
        raise _invalid("it cannot be read") from error
    if len(data) > MAX_USAGE_BYTES:
        raise _invalid("it is larger than 1 MiB")
    return _parse(data)


def record_reads(
    root: Root, common_dir: str, hits: Iterable[Hit], now: datetime, live_paths: Collection[str]
) -> dict[str, UsageEntry] | None:
    """Count one more read of every hit; the new entries by path, None where nothing can be written now.

    Entries of paths that are not in `live_paths` go, and the least recently used where the file would grow
    over 1 MiB. `common_dir` is the Git directory whose exclude file names the sidecar. Raises as
    `read_usage`.
    """
    try:
        with _sync_folder(root) as folder, turn(folder) as taken:
            if not taken:
                return None
            usage = read_usage(root)
            stamp = format_instant(now)
            counted = {hit.path: usage.of(hit.path).read_again(hit, stamp) for hit in hits}
            kept = {path: entry for path, entry in usage.records.items() if path in live_paths}
            data = _bounded({**kept, **counted}, usage.extra, counted.keys())
            if data is None:
                return None
            _write(folder, data)
    except OSError:
        # A read-only or full file system must not cost the caller the answer.
        return None
    exclude_from_git(common_dir)
    return counted


def exclude_from_git(common_dir: str) -> None:
    """Name the sidecar in Git's own exclude file, each pattern once."""
    # `.sync/.gitignore` names them too: a Git directory that cannot be written does no harm.
    with suppress(OSError):
        os.makedirs(os.path.join(common_dir, "info"), exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(os.path.join(common_dir, "info", "exclude"), flags, 0o644)
        with os.fdopen(descriptor, "r+b") as exclude:
            known = exclude.read()
            missing = [pattern for pattern in EXCLUDED if pattern.encode() not in known.splitlines()]
            if missing:
                start = b"" if not known or known.endswith(b"\n") else b"\n"
                exclude.write(start + "".join(f"{pattern}\n" for pattern in missing).encode())


def _parse(data: bytes) -> Usage:
    values = parse_json_object(data)
    if values is None:
        raise _invalid("it is no JSON object")
    version = values.pop("schema_version", None)
    records = values.pop("records", None)
    if type(version) is not int or version != 1:
        raise _invalid("its schema_version is not 1")
    if not isinstance(records, dict):
        raise _invalid("it has no records")
    return Usage({path: _entry(entry) for path, entry in records.items()}, values)


def _entry(values: object) -> UsageEntry:
    if not isinstance(values, dict):
        raise _invalid("an entry is no object")
    known = {key: values[key] for key in _ENTRY_KEYS if key in values}
    for key, value in known.items():
        if not _VALID[key](value):
            raise _invalid(f"an entry's {key} is not as it should be")
    if "usage_count" not in known or "last_usage" not in known:
        raise _invalid("an entry lacks its usage_count or last_usage")
    extra = {key: value for key, value in values.items() if key not in _ENTRY_KEYS}
    return UsageEntry(**known, extra=extra)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= 2**53  # type: ignore[operator]


_VALID: Final[dict[str, Callable[[object], bool]]] = {
    "usage_count": _is_count,
    "last_usage": lambda value: value is None or parse_instant(value) is not None,
    "logical_id": lambda value: value is None or isinstance(value, str),
    "generation": lambda value: _is_count(value) and value != 0,
    "content_hash": lambda value: value is None or isinstance(value, str),
    "prior_usage_count": _is_number,
    "decay_factor": _is_number,
}


def _invalid(reason: str) -> ContextFailure:
    return ContextFailure("usage-invalid", f"The usage counts cannot be read: {reason}.", detail="usage.json")


def _bounded(
    entries: Mapping[str, UsageEntry], extra: Mapping[str, Any], keep: Collection[str]
) -> bytes | None:
    """The sidecar's bytes, without the least recently used entries where it would be too large."""
    records = {path: entry.to_json() for path, entry in entries.items()}
    data = to_json_line({"schema_version": 1, "records": records, **extra})
    if len(data) <= MAX_USAGE_BYTES:
        return data
    surplus = len(data) - MAX_USAGE_BYTES
    oldest_first = sorted(records.keys() - keep, key=lambda path: entries[path].last_usage or "")
    for path in oldest_first:
        if surplus <= 0:
            break
        surplus -= len(to_json_line({path: records.pop(path)})) - len("{}")
    data = to_json_line({"schema_version": 1, "records": records, **extra})
    return data if len(data) <= MAX_USAGE_BYTES else None


def _write(folder: int, data: bytes) -> None:
    name = temporary_name()
    descriptor = os.open(name, CREATE_FLAGS, 0o600, dir_fd=folder)
    try:
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)
        os.rename(name, USAGE_NAME, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        raise


@contextmanager
def _sync_folder(root: Root) -> Iterator[int]:
    with suppress(FileExistsError):
        os.mkdir(SYNC_FOLDER, 0o700, dir_fd=root.descriptor)
    with root.folder(SYNC_FOLDER) as folder:
        yield folder
