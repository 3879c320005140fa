"""The state of a task, and snapshots of it to begin from after a restart."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from dsh_memory.api.draft import Draft
from dsh_memory.api.failures import InvalidField
from dsh_memory.api.item_shapes import event_fields, new_item
from dsh_memory.api.jobs import Answer, Replay
from dsh_memory.api.models import Place, SnapshotRequest, SnapshotRestoreRequest, StateRequest
from dsh_memory.api.store import MemoryStore
from dsh_memory.api.values import Caller, Memory, canonical
from dsh_memory.environment import format_instant


class States:
    """States and snapshots over one store."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def update_state(self, caller: Caller, request: StateRequest, replay: Replay | None = None) -> Answer:
        """The next version of a state, which replaces the one before."""

        def work(draft: Draft) -> Answer:
            return _state_answer(_write_state(draft, request))

        return self._store.write(caller, "update_state", work, replay, coalesced=True)

    def state(self, caller: Caller, place: Place, state_key: str) -> Answer:
        """The current state of a key, or nothing."""
        with self._store.reading() as catalogue:
            found = [
                each
                for each in catalogue.of_key(_state_place(place, state_key))
                if caller.may_see(each) and not each.is_gone and not each.is_expired(self._store.clock())
            ]
        if not found:
            return {"found": False, "state_key": state_key, "content": None}
        return {
            **_state_answer(found[0]),
            "found": True,
            "content": found[0].content,
            **_state_fields(found[0]),
        }

    def create_snapshot(
        self, caller: Caller, request: SnapshotRequest, replay: Replay | None = None
    ) -> Answer:
        """A snapshot of the current state, to begin from after a restart."""

        def work(draft: Draft) -> Answer:
            states = _states(draft, request, request.state_key)
            state = states[0] if states else None
            snapshot: dict[str, Any] = {
                "label": request.label,
                "state_key": request.state_key,
                "session_id": request.session_id,
                "state": None if state is None else {"content": state.content, **_state_fields(state)},
                "created_at": draft.now,
            }
            details = {"snapshot": snapshot, "state_key": request.state_key}
            content = request.label or f"Snapshot of {request.state_key}"
            memory = new_item(draft, request, "snapshot", content, "snapshots", {}, details)
            expires = format_instant(draft.instant + timedelta(seconds=request.ttl_seconds))
            saved = draft.save(replace(memory, memory_type="working", expires_at=expires))
            return {
                "id": saved.id,
                "memory_id": saved.id,
                "status": "created",
                "expires_at": saved.expires_at,
                "snapshot": snapshot,
            }

        return self._store.write(caller, "create_snapshot", work, replay)

    def restore_snapshot(
        self, caller: Caller, request: SnapshotRestoreRequest, replay: Replay | None = None
    ) -> Answer:
        """The newest snapshot that fits, put back as the current state and noted on the timeline."""

        def work(draft: Draft) -> Answer:
            memory = _snapshot(draft, caller, request)
            if memory is None:
                return {
                    "id": request.snapshot_id,
                    "status": "not_found",
                    "restored": False,
                    "restored_at": None,
                    "snapshot": None,
                    "state_update": None,
                    "restore_event": None,
                }
            snapshot = memory.metadata["snapshot"]
            state = snapshot.get("state") if isinstance(snapshot, dict) else None
            state_update = restore_event = None
            if request.restore_state and isinstance(state, dict):
                fields = {
                    key: state.get(key)
                    for key in ("content", "current_task", "next_action", "blocked_reason")
                }
                back = StateRequest.model_validate(
                    {**request.model_dump(include={"bucket", "scope", "team_id", "state_key"}), **fields}
                )
                state_update = _state_answer(_write_state(draft, back))
            if request.record_restore_event:
                details = {"event_type": "restore", "occurred_at": draft.now, "snapshot_id": memory.id}
                text = f"Restored the snapshot {memory.id}"
                event = new_item(draft, request, "event", text, "timeline", {}, details)
                restore_event = event_fields(draft.save(event))
            return {
                "id": memory.id,
                "status": "restored",
                "restored": True,
                "restored_at": draft.now,
                "snapshot": snapshot,
                "state_update": state_update,
                "restore_event": restore_event,
            }

        return self._store.write(caller, "restore_snapshot", work, replay)


def _state_place(place: Place, state_key: str) -> tuple[str, str | None, str | None, str]:
    return (place.bucket, place.scope, place.team_id, canonical(f"state:{state_key}"))


def _states(draft: Draft, place: Place, state_key: str) -> list[Memory]:
    return [
        each
        for each in draft.of_key(_state_place(place, state_key))
        if draft.caller.may_see(each) and not each.is_gone and not each.is_expired(draft.instant)
    ]


def _write_state(draft: Draft, request: StateRequest) -> Memory:
    fields = {
        key: value
        for key in ("current_task", "next_action", "blocked_reason")
        if (value := getattr(request, key)) is not None
    }
    content = request.content or "\n".join(f"{key}: {value}" for key, value in fields.items())
    if not content:
        loc = ("body", "content")
        raise InvalidField(loc, "Give content, current_task, next_action or blocked_reason.", "missing")
    details = {"state_key": request.state_key, **fields}
    memory = new_item(draft, request, "state", content, f"state/{_slug(request.state_key)}", {}, details)
    ttl = request.ttl_seconds
    expires = None if ttl is None else format_instant(draft.instant + timedelta(seconds=ttl))
    memory = replace(memory, semantic_key=f"state:{request.state_key}", expires_at=expires)
    known = [each for each in draft.of_key(_state_place(request, request.state_key)) if not each.is_gone]
    if known:
        current = known[0]
        memory = replace(
            memory,
            id=current.id,
            file=current.file,
            path=current.path,
            version=current.version + 1,
            created_at=current.created_at,
        )
    return draft.save(memory)


def _slug(state_key: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in state_key)


def _snapshot(draft: Draft, caller: Caller, request: SnapshotRestoreRequest) -> Memory | None:
    if request.snapshot_id is not None:
        found = draft.of_id(request.snapshot_id)
    else:
        found = [
            each
            for each in draft.every()
            if each.metadata.get("state_key") == request.state_key
            and (each.bucket, each.scope, each.team_id) == (request.bucket, request.scope, request.team_id)
        ]
    fitting = [
        each
        for each in found
        if each.kind == "snapshot"
        and caller.may_see(each)
        and not each.is_gone
        and not each.is_expired(draft.instant)
        and "snapshot" in each.metadata
    ]
    return max(fitting, key=lambda each: (each.created_at or "", each.id), default=None)


def _state_fields(memory: Memory) -> dict[str, Any]:
    return {key: memory.metadata.get(key) for key in ("current_task", "next_action", "blocked_reason")}


def _state_answer(memory: Memory) -> dict[str, Any]:
    return {
        "id": memory.id,
        "memory_id": memory.id,
        "state_key": memory.metadata.get("state_key"),
        "version": memory.version,
        "status": memory.status,
        "expires_at": memory.expires_at,
    }
