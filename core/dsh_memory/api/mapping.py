"""A memory as a record file and back (`spec`: xmemo, On the Git-backed store).

The contract's keys hold the contract's values, so that every program reads the record; the API's own stand
beside them. Where the two disagree somebody edited the contract's, and that counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Final

from dsh_memory.api.values import KINDS, MEMORY_TYPES, STATUSES, Memory
from dsh_memory.environment import parse_instant
from dsh_memory.records import Record, edit, render, split
from dsh_memory.records.metadata import MAX_PROVENANCE_CHARACTERS, MAX_TAG_CHARACTERS

_TYPE_OF: Final = {"semantic": "fact", "procedural": "procedure", "identity": "preference"}
_MEMORY_TYPE_OF: Final = {
    "fact": "semantic",
    "decision": "semantic",
    "constraint": "semantic",
    "procedure": "procedural",
    "preference": "identity",
    "observation": "episodic",
}
_STATUS_OF: Final = {"active": "active", "superseded": "superseded"}
_MEMORY_STATUS_OF: Final = {"superseded": "superseded", "archived": "archived"}
_CONFIDENCE_OF_LEVEL: Final = {"high": 0.9, "medium": 0.6, "low": 0.3}

#: Texts of a memory whose key in the file is the same name.
_SAME_KEYS: Final = (
    "semantic_key",
    "logic_path",
    "superseded_by",
    "embedding_provider",
    "embedding_model",
    "deleted_at",
    "delete_reason",
)
#: Other texts: attribute and key.
_RENAMED: Final = {
    "path": "memory_path",
    "bucket": "memory_bucket",
    "scope": "memory_scope",
    "team_id": "memory_team",
    "created_at": "memory_created_at",
    "updated_at": "memory_updated_at",
    "source": "memory_source",
    "agent": "memory_agent",
    "agent_instance": "memory_agent_instance",
    "door": "memory_door",
}


def record_bytes(memory: Memory, old: bytes | None = None) -> bytes:
    """The file of a memory; with the bytes it has now, only what changed is changed.

    Raises ValueError for a value that front matter cannot hold.
    """
    fields = _fields(memory)
    body = memory.content.encode()
    if old is None or split(old).header is None:
        return render({key: value for key, value in fields.items() if value is not None}, body)
    edited = edit(old, fields)
    parts = split(edited)
    return edited if parts.body == body else edited[: len(edited) - len(parts.body)] + body


def memory_of(record: Record) -> Memory:
    """The memory that a readable record is; texts of the wrong kind count as absent."""
    metadata = record.metadata
    folder_status = "archived" if record.path.startswith("archive/") else "active"
    if metadata is None:
        return Memory(
            id=record.id,
            content=record.text,
            path=record.path,
            file=record.path,
            memory_type="episodic",
            status=folder_status,
            api_written=False,
        )
    extra = metadata.extra
    memory_type, status = _text(extra, "memory_type"), _text(extra, "memory_status")
    if memory_type not in MEMORY_TYPES or _type_of(memory_type) != metadata.type:
        memory_type = _MEMORY_TYPE_OF[metadata.type]
    if status not in STATUSES or _status_of(status) != metadata.status:
        status = _MEMORY_STATUS_OF.get(metadata.status, folder_status)
    confidence = _number(extra, "memory_confidence")
    if confidence is None or _level(confidence) != metadata.confidence:
        confidence = _CONFIDENCE_OF_LEVEL.get(metadata.confidence)
    kind, version, dimension = (
        _text(extra, "kind"),
        extra.get("memory_version"),
        extra.get("embedding_dimension"),
    )
    return Memory(
        id=metadata.id,
        content=record.body.decode(),
        path=_text(extra, "memory_path") or record.path,
        file=record.path,
        kind=kind if kind in KINDS else "memory",
        bucket=_text(extra, "memory_bucket") or "public",
        scope=_text(extra, "memory_scope"),
        team_id=_text(extra, "memory_team"),
        memory_type=memory_type,
        status=status,
        version=version if type(version) is int and version > 0 else 1,
        importance=_number(extra, "memory_importance"),
        confidence=confidence,
        created_at=_instant(extra, "memory_created_at", metadata.created_at),
        updated_at=_instant(extra, "memory_updated_at", metadata.updated_at),
        expires_at=_expiry(_text(extra, "memory_expires_at"), metadata.expires_at),
        source=_text(extra, "memory_source"),
        metadata=_object(extra, "metadata"),
        provenance=_object(extra, "provenance"),
        supersedes=metadata.supersedes,
        conflicts_with=metadata.conflicts_with,
        embedding_dimension=dimension if type(dimension) is int else None,
        agent=_text(extra, "memory_agent") or metadata.created_by,
        agent_instance=_text(extra, "memory_agent_instance"),
        door=_text(extra, "memory_door"),
        tags=metadata.tags,
        source_rollouts=metadata.source_rollouts,
        api_written="memory_type" in extra,
        **{key: _text(extra, key) for key in _SAME_KEYS},
    )


def with_client_tags(memory: Memory) -> Memory:
    """The memory with those of its `metadata.tags` as tags that the record schema can hold."""
    stated = memory.metadata.get("tags")
    if not isinstance(stated, list):
        return memory
    fitting = (tag for tag in stated if isinstance(tag, str) and 0 < len(tag.strip()) <= MAX_TAG_CHARACTERS)
    return replace(memory, tags=tuple(dict.fromkeys(tag for tag in fitting if tag not in ("null", "~"))))


def normal_expiry(text: str, now: datetime) -> str:
    """A client's expiry as it is kept: a day, or an exact instant in UTC; raises ValueError.

    An instant without an offset is UTC; other spellings of ISO 8601 are refused.
    """
    if len(text) == 10:
        return date.fromisoformat(text).isoformat()
    if len(text) < 16 or text[4] != "-" or text[10] not in "Tt ":
        raise ValueError("an instant is YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS with an offset or Z")
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=now.tzinfo)
    try:
        instant = instant.astimezone(now.tzinfo)
    except OverflowError:
        raise ValueError("the instant is out of range") from None
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(memory: Memory) -> dict[str, object | None]:
    created, updated = memory.created_at, memory.updated_at
    agent = memory.agent
    fields: dict[str, object | None] = {
        "schema_version": 1,
        "id": memory.id,
        "type": _type_of(memory.memory_type),
        "status": _status_of(memory.status),
        "confidence": _level(memory.confidence),
        "created_at": created and created[:10],
        "updated_at": updated and updated[:10],
        "created_by": agent[:MAX_PROVENANCE_CHARACTERS] if agent else None,
        "supersedes": memory.supersedes,
        "conflicts_with": memory.conflicts_with,
        "expires_at": _expiry_day(memory.expires_at),
        "tags": list(memory.tags) or None,
        "source_rollouts": list(memory.source_rollouts) or None,
        "kind": None if memory.kind == "memory" else memory.kind,
        "memory_type": memory.memory_type,
        "memory_status": memory.status,
        "memory_version": memory.version,
        "memory_confidence": memory.confidence,
        "memory_importance": memory.importance,
        "memory_expires_at": memory.expires_at if memory.expires_at and len(memory.expires_at) > 10 else None,
        "embedding_dimension": memory.embedding_dimension,
        "metadata": dict(memory.metadata) or None,
        "provenance": dict(memory.provenance) or None,
    }
    fields.update((key, getattr(memory, name)) for name, key in _RENAMED.items())
    fields.update((key, getattr(memory, key)) for key in _SAME_KEYS)
    return fields


def _type_of(memory_type: str) -> str:
    return _TYPE_OF.get(memory_type, "observation")


def _status_of(status: str) -> str:
    return _STATUS_OF.get(status, "archived")


def _level(confidence: float | None) -> str:
    if confidence is None:
        return "unknown"
    return "high" if confidence >= 0.75 else "medium" if confidence >= 0.4 else "low"


def _expiry_day(expires_at: str | None) -> str | None:
    if expires_at is None or len(expires_at) == 10:
        return expires_at
    day = date.fromisoformat(expires_at[:10])
    # The contract's expiry is a day that begins invalid: the first one that lies wholly after the instant.
    return (day if day == date.max else day + timedelta(days=1)).isoformat()


def _expiry(exact: str | None, day: str | None) -> str | None:
    if exact is not None and parse_instant(exact) is not None and _expiry_day(exact) == day:
        return exact
    return day


def _instant(extra: Mapping[str, object], key: str, day: str | None) -> str | None:
    exact = _text(extra, key)
    return exact if exact is not None and (day is None or exact[:10] == day) else day


def _text(extra: Mapping[str, object], key: str) -> str | None:
    value = extra.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def _number(extra: Mapping[str, object], key: str) -> float | None:
    value = extra.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _object(extra: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = extra.get(key)
    return value if isinstance(value, dict) else {}
