"""The record schema (version 1): a file's bytes become a `Record` or, with the reason, a `Malformed`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from hashlib import sha256
from typing import Final

from dsh_memory.records.frontmatter import CANONICAL_ORDER, header_fields, split
from dsh_memory.records.grammar import CONSTANTS, Field, FrontMatterError, shorten
from dsh_memory.records.legacy import legacy_id

SCHEMA_VERSION: Final = 1
MAX_RECORD_BYTES: Final = 8 * 1024 * 1024
MAX_TAG_CHARACTERS: Final = 64
MAX_PROVENANCE_CHARACTERS: Final = 128
TYPES: Final = ("preference", "fact", "decision", "procedure", "constraint", "observation")
STATUSES: Final = ("active", "candidate", "conflicted", "superseded", "archived")
"""In order of precedence: an earlier status wins over a later one."""
CONFIDENCES: Final = ("high", "medium", "low", "unknown")

_NULLS: Final = ("", "null", "~")
_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]*(?:/[a-z0-9][a-z0-9-]*)?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SCHEMA_KEYS: Final = frozenset(CANONICAL_ORDER)


@dataclass(frozen=True, slots=True)
class Metadata:
    """A header that satisfies the schema, defaults filled in; dates are `YYYY-MM-DD` texts of real days."""

    id: str
    type: str = "observation"
    status: str = "active"
    confidence: str = "unknown"
    created_at: str | None = None
    updated_at: str | None = None
    source_hash: str | None = None
    created_by: str | None = None
    content_hash: str | None = None
    source_session_digest: str | None = None
    supersedes: str | None = None
    conflicts_with: str | None = None
    review_after: str | None = None
    expires_at: str | None = None
    tags: tuple[str, ...] = ()
    source_rollouts: tuple[str, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Keys the schema does not know, as the flat grammar types them, in the file's order."""


@dataclass(frozen=True, slots=True)
class Record:
    """A readable record file; `metadata` is None for a legacy one, `sha256` (hex) is of all its bytes."""

    path: str
    metadata: Metadata | None
    body: bytes
    size: int
    sha256: str

    @property
    def id(self) -> str:
        """The record's own id, or the one derived from a legacy record's path."""
        return legacy_id(self.path) if self.metadata is None else self.metadata.id

    @property
    def is_legacy(self) -> bool:
        """Whether the file has no front matter."""
        return self.metadata is None

    @property
    def type(self) -> str | None:
        """The record's type; None for a legacy record."""
        return None if self.metadata is None else self.metadata.type

    @property
    def updated_at(self) -> str | None:
        """The day of the last update as the record states it."""
        return None if self.metadata is None else self.metadata.updated_at

    @property
    def text(self) -> str:
        """The body as text, without the byte-order mark of a legacy file."""
        return self.body.decode().removeprefix("\ufeff")

    @property
    def citation(self) -> str:
        """The contract's source line for this record."""
        return f"[source: {self.path} · id: {self.id}]"

    @property
    def content_hash(self) -> str:
        """The content identity that usage generations follow: the stated one, else the file's digest."""
        stated = None if self.metadata is None else self.metadata.content_hash
        return f"sha256:{self.sha256}" if stated is None else stated


@dataclass(frozen=True, slots=True)
class Malformed:
    """A record file that cannot be accepted: why, and where (1-based) in the file if that is known."""

    path: str
    code: str
    line: int | None
    message: str
    size: int
    column: int | None = None


def read_record(path: str, data: bytes) -> Record | Malformed:
    """Read one record file from its bytes; any bytes give an answer, nothing is raised."""
    size = len(data)
    if size > MAX_RECORD_BYTES:  # guard: record-size
        return oversized(path, size)
    try:
        _check_text(data)
        parts = split(data)
        if parts.header is None:
            return Record(path, None, data, size, sha256(data).hexdigest())
        metadata = read_metadata(header_fields(parts.header))
    except FrontMatterError as error:
        return Malformed(path, error.code, error.line, error.message, size, error.column)
    return Record(path, metadata, parts.body, size, sha256(data).hexdigest())


def oversized(path: str, size: int) -> Malformed:
    """Describe a record file over the size limit, which a reader need not load to know."""
    message = f"the file has {size:,} bytes, more than the {MAX_RECORD_BYTES:,} a record may have"
    return Malformed(path, "file-too-large", None, message, size)


def _check_text(data: bytes) -> None:
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:  # guard: utf8-only
            line = data.count(b"\n", 0, error.start) + 1
            message = f"the file is not UTF-8 text (byte 0x{data[error.start]:02x})"
            raise FrontMatterError("binary-file", line, message) from error
    if b"\0" in data:  # guard: no-nul
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise FrontMatterError("binary-file", line, "the file holds a NUL byte, so it is not text")


def read_metadata(fields: Mapping[str, Field]) -> Metadata:
    """Check the fields of a header against the schema; raises FrontMatterError with the contract's code."""
    get = fields.get
    _check_schema_version(get("schema_version"))
    record_id = _read_id(get("id"))
    extra: Mapping[str, object] = {}
    if not _SCHEMA_KEYS.issuperset(fields):
        extra = {key: entry.value for key, entry in fields.items() if key not in _SCHEMA_KEYS}
    return Metadata(
        record_id,
        _read_choice(get("type"), TYPES, "observation"),
        _read_choice(get("status"), STATUSES, "active"),
        _read_choice(get("confidence"), CONFIDENCES, "unknown"),
        _read_date(get("created_at")),
        _read_date(get("updated_at")),
        _read_provenance(get("source_hash")),
        _read_provenance(get("created_by")),
        _read_provenance(get("content_hash")),
        _read_provenance(get("source_session_digest")),
        _read_provenance(get("supersedes")),
        _read_provenance(get("conflicts_with")),
        _read_date(get("review_after")),
        _read_date(get("expires_at")),
        _read_texts(get("tags"), _tag_fault),
        _read_texts(get("source_rollouts"), _rollout_fault),
        extra,
    )


def is_valid_id(text: str) -> bool:
    """Whether a text has the form of a record id: one name, or a namespace and a name."""
    return _ID.fullmatch(text) is not None


def is_hidden(record: Record) -> bool:
    """Whether the memory API deleted or redacted the record, so that no search of any scope shows it."""
    metadata = record.metadata
    # guard: deleted-is-hidden
    return metadata is not None and metadata.extra.get("memory_status") in ("deleted", "redacted")


def hidden_from(record: Record) -> str | None:
    """The first day (`YYYY-MM-DD`) on which no search shows the record: its expiry, or the first of all days."""
    if is_hidden(record):
        return date.min.isoformat()
    return None if record.metadata is None else record.metadata.expires_at


def is_expired(subject: Metadata | Record, today: date) -> bool:
    """Whether a record's validity has ended on a UTC day; it ends at 00:00 UTC of `expires_at` itself."""
    metadata = subject.metadata if isinstance(subject, Record) else subject
    return metadata is not None and has_ended(metadata.expires_at, today)


def has_ended(expires_at: str | None, today: date) -> bool:
    """Whether a validity that ends at 00:00 UTC of `expires_at` has ended on a UTC day; None never ends."""
    return expires_at is not None and expires_at <= today.isoformat()


def is_shown(record: Record, today: date) -> bool:
    """Whether searches may show the record on a UTC day: it is neither expired nor hidden."""
    return not is_expired(record, today) and not is_hidden(record)


def _check_schema_version(entry: Field | None) -> None:
    if entry is None:
        raise FrontMatterError("invalid-schema-version", 2, "schema_version is missing")
    if entry.raw != "1":  # guard: schema-version
        line = entry.line
        stated = f"schema_version must be a bare 1, not {shorten(entry.raw) or 'empty'}"
        raise FrontMatterError("invalid-schema-version", line, stated)


def _read_id(entry: Field | None) -> str:
    if entry is None:
        raise FrontMatterError("invalid-id", 2, "id is missing")
    is_text = entry.items is None and entry.raw not in CONSTANTS
    if not is_text or _ID.fullmatch(entry.text) is None:  # guard: id-form
        what = "a list or empty" if entry.items is not None else f'"{shorten(entry.text)}"'
        message = f"id must be lower-case letters, digits and hyphens, with at most one /, not {what}"
        raise FrontMatterError("invalid-id", entry.line, message)
    return entry.text


def _scalar(entry: Field) -> str | None:
    """The text of a field that takes one value; None where that is empty or null."""
    if entry.raw in _NULLS and not entry.items:
        return None
    if entry.items is not None:  # guard: no-list-for-scalar
        raise _invalid(entry, "takes one value, not a list")
    return entry.text


def _read_choice(entry: Field | None, choices: tuple[str, ...], default: str) -> str:
    if entry is None or (text := _scalar(entry)) is None:
        return default
    if text not in choices:
        message = f'unknown {entry.key} "{shorten(text)}"; known are {", ".join(choices)}'
        raise FrontMatterError("invalid-metadata", entry.line, message)
    return text


def _read_date(entry: Field | None) -> str | None:
    if entry is None or (text := _scalar(entry)) is None:
        return None
    if len(text) != 10 or not _is_day(text):  # guard: real-dates
        raise _invalid(entry, f'must be an existing day YYYY-MM-DD, not "{shorten(text)}"')
    return text


@lru_cache(maxsize=4096)
def _is_day(text: str) -> bool:
    """Whether a text is `YYYY-MM-DD` of a real day; cached, as the records of a root share few days."""
    try:
        return _DATE.fullmatch(text) is not None and date.fromisoformat(text) is not None
    except ValueError:
        return False


def _read_provenance(entry: Field | None) -> str | None:
    if entry is None or (text := _scalar(entry)) is None:
        return None
    if not 1 <= len(text) <= MAX_PROVENANCE_CHARACTERS:
        raise _invalid(entry, f"must have 1 to {MAX_PROVENANCE_CHARACTERS} characters, not {len(text)}")
    return text


def _read_texts(entry: Field | None, fault_of: Callable[[str], str | None]) -> tuple[str, ...]:
    if entry is None or (entry.raw in _NULLS and not entry.items):
        return ()
    if entry.items is None:
        raise _invalid(entry, f'must be a list, not "{shorten(entry.text)}"')
    for item in entry.items:
        fault = "is empty or null" if item.raw in _NULLS else fault_of(item.text)
        if fault is not None:
            message = f'{entry.key}: the entry "{shorten(item.text)}" {fault}'
            raise FrontMatterError("invalid-metadata", item.line, message)
    return tuple([item.text for item in entry.items])


def _tag_fault(text: str) -> str | None:
    if 1 <= len(text) <= MAX_TAG_CHARACTERS:
        return None
    return f"must have 1 to {MAX_TAG_CHARACTERS} characters, not {len(text)}"


def _rollout_fault(text: str) -> str | None:
    if text.startswith("rollouts/") and text.endswith(".md") and ".." not in text:  # guard: rollout-paths
        return None
    return 'must be a path "rollouts/….md" without ".."'


def _invalid(entry: Field, complaint: str) -> FrontMatterError:
    return FrontMatterError("invalid-metadata", entry.line, f"{entry.key} {complaint}")
