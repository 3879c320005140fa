"""Reminders, decisions and events as memories, and as the answers that clients get of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsh_memory.api.draft import Draft
from dsh_memory.api.models import Place
from dsh_memory.api.values import Memory
from dsh_memory.api.writing import new_id


def new_item(
    draft: Draft,
    place: Place,
    kind: str,
    content: str,
    path: str,
    metadata: Mapping[str, object],
    details: Mapping[str, object],
) -> Memory:
    """A new memory of a kind of its own; its `details` stand in its metadata where they are given."""
    kept = {key: value for key, value in details.items() if value not in (None, [])}
    status = {"item_status": "open"} if kind in ("reminder", "decision") else {}
    return Memory(
        id=new_id(),
        content=content,
        path=path,
        kind=kind,
        bucket=place.bucket,
        scope=place.scope,
        team_id=place.team_id,
        memory_type="working" if kind == "state" else "episodic",
        created_at=draft.now,
        updated_at=draft.now,
        metadata={**metadata, **kept, **status},
        agent=draft.caller.agent,
        agent_instance=draft.caller.agent_instance,
        door=draft.caller.door,
    )


def common_fields(memory: Memory) -> dict[str, Any]:
    """What the answers of all kinds share."""
    return {
        "id": memory.id,
        "memory_id": memory.id,
        "content": memory.content,
        "path": memory.path,
        "bucket": memory.bucket,
        "scope": memory.scope,
        "team_id": memory.team_id,
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
        "version": memory.version,
    }


def reminder_fields(memory: Memory) -> dict[str, Any]:
    """A reminder's answer."""
    metadata = memory.metadata
    return {
        **common_fields(memory),
        "due_at": metadata.get("due_at"),
        "item_status": metadata.get("item_status"),
        "session_id": metadata.get("session_id"),
        "note": metadata.get("note"),
        "completed_at": metadata.get("closed_at"),
        "status": metadata.get("item_status"),
    }


def decision_fields(memory: Memory) -> dict[str, Any]:
    """A decision's answer."""
    metadata = memory.metadata
    return {
        **common_fields(memory),
        "context": memory.content,
        "options": metadata.get("options", []),
        "due_at": metadata.get("due_at"),
        "item_status": metadata.get("item_status"),
        "resolution": metadata.get("resolution"),
        "note": metadata.get("note"),
        "resolved_at": metadata.get("closed_at"),
        "status": metadata.get("item_status"),
    }


def event_fields(memory: Memory) -> dict[str, Any]:
    """An event's answer."""
    metadata = memory.metadata
    return {
        **common_fields(memory),
        "event_type": metadata.get("event_type"),
        "occurred_at": metadata.get("occurred_at"),
        "session_id": metadata.get("session_id"),
        "source": memory.source,
        "importance": memory.importance,
        "confidence": memory.confidence,
        "metadata": dict(metadata),
    }
