"""Reminders, decisions, timeline, state and restart snapshots: memories of kinds of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from dsh_memory.api.draft import Draft
from dsh_memory.api.failures import InvalidField, conflict
from dsh_memory.api.models import (
    CompleteRequest,
    DecisionRequest,
    EventRequest,
    ItemsQuery,
    Place,
    ReminderRequest,
    ResolveRequest,
    SnapshotRequest,
    SnapshotRestoreRequest,
    StateRequest,
    TimelineQuery,
)
from dsh_memory.api.store import Answer, MemoryStore, Replay
from dsh_memory.api.values import Caller, Filter, Memory, canonical
from dsh_memory.api.writing import expiry, new_id
from dsh_memory.environment import format_instant


class Items:
    """What works on memories of other kinds than plain ones."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    # --- reminders and decisions

    def create_reminder(
        self, caller: Caller, request: ReminderRequest, replay: Replay | None = None
    ) -> Answer:
        """An open reminder."""

        def work(draft: Draft) -> Answer:
            details = {"due_at": expiry(draft, request.due_at, "due_at"), "session_id": request.session_id}
            saved = draft.save(
                _item(draft, request, "reminder", request.content, request.path, request.metadata, details)
            )
            return _reminder(saved)

        return self._store.write(caller, "create_reminder", work, replay)

    def reminders(self, caller: Caller, request: ItemsQuery) -> Answer:
        """Reminders, those due first at the top."""
        found = self._items(caller, request, "reminder")
        return {"reminders": [_reminder(memory) for memory in found]}

    def complete_reminder(
        self, caller: Caller, reminder_id: str, request: CompleteRequest, replay: Replay | None = None
    ) -> Answer:
        """The reminder, completed; completing it again changes nothing."""
        return self._close(caller, reminder_id, "reminder", "completed", {"note": request.note}, replay)

    def create_decision(
        self, caller: Caller, request: DecisionRequest, replay: Replay | None = None
    ) -> Answer:
        """A decision that waits for its resolution."""

        def work(draft: Draft) -> Answer:
            details = {"options": request.options, "due_at": expiry(draft, request.due_at, "due_at")}
            saved = draft.save(
                _item(draft, request, "decision", request.context, request.path, request.metadata, details)
            )
            return _decision(saved)

        return self._store.write(caller, "create_decision", work, replay)

    def decisions(self, caller: Caller, request: ItemsQuery) -> Answer:
        """Decisions, oldest first."""
        return {"decisions": [_decision(memory) for memory in self._items(caller, request, "decision")]}

    def resolve_decision(
        self, caller: Caller, decision_id: str, request: ResolveRequest, replay: Replay | None = None
    ) -> Answer:
        """The decision with its resolution; the same one again changes nothing, another is a conflict."""
        details = {"resolution": request.resolution, "note": request.note}
        return self._close(caller, decision_id, "decision", "resolved", details, replay)

    # --- timeline

    def record_event(self, caller: Caller, request: EventRequest, replay: Replay | None = None) -> Answer:
        """An event on the timeline."""

        def work(draft: Draft) -> Answer:
            details = {
                "event_type": request.event_type,
                "occurred_at": expiry(draft, request.occurred_at, "occurred_at") or draft.now,
                "session_id": request.session_id,
            }
            memory = _item(draft, request, "event", request.content, request.path, request.metadata, details)
            memory = replace(
                memory, importance=request.importance, confidence=request.confidence, source=request.source
            )
            return {**_event(draft.save(memory)), "status": "recorded"}

        return self._store.write(caller, "record_event", work, replay, coalesced=True)

    def timeline(self, caller: Caller, request: TimelineQuery) -> Answer:
        """Events, newest first."""
        wanted = Filter(
            bucket=request.bucket,
            scope=request.scope,
            team_id=request.team_id,
            status=request.status,
            kinds=("event",),
        )
        found = [
            memory
            for memory in self._matching(caller, wanted)
            if not request.event_type or memory.metadata.get("event_type") == request.event_type
        ]
        found.sort(key=lambda memory: (str(memory.metadata.get("occurred_at")), memory.id), reverse=True)
        return {"events": [_event(memory) for memory in found[: request.limit]]}

    # --- state and snapshots

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
            memory = _item(draft, request, "snapshot", content, "snapshots", {}, details)
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
                event = _item(draft, request, "event", text, "timeline", {}, details)
                restore_event = _event(draft.save(event))
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

    # --- shared

    def _close(
        self,
        caller: Caller,
        item_id: str,
        kind: str,
        status: str,
        details: Mapping[str, object],
        replay: Replay | None,
    ) -> Answer:
        shape = _SHAPES[kind]

        def work(draft: Draft) -> Answer:
            memory = draft.find(item_id, kind, kind=kind)
            if memory.is_gone:
                raise conflict(f"The {kind} was forgotten.")
            if memory.metadata.get("item_status") == status:
                resolution = details.get("resolution")
                if resolution is not None and memory.metadata.get("resolution") != resolution:
                    raise conflict("The decision was resolved otherwise.")
                return shape(memory)
            given = {key: value for key, value in details.items() if value is not None}
            closed = {**memory.metadata, **given, "item_status": status, "closed_at": draft.now}
            return shape(
                draft.save(replace(memory, metadata=closed, version=memory.version + 1, updated_at=draft.now))
            )

        return self._store.write(caller, f"{status}_{kind}", work, replay)

    def _items(self, caller: Caller, request: ItemsQuery, kind: str) -> list[Memory]:
        wanted = Filter(
            bucket=request.bucket,
            scope=request.scope,
            team_id=request.team_id,
            status="active",
            kinds=(kind,),
        )
        found = [
            memory
            for memory in self._matching(caller, wanted)
            if request.item_status in ("%", "", memory.metadata.get("item_status"))
            and (request.due_before is None or _due(memory) < request.due_before)
        ]
        found.sort(key=lambda memory: (_due(memory), memory.created_at or "", memory.id))
        return found[: request.limit]

    def _matching(self, caller: Caller, wanted: Filter) -> list[Memory]:
        passes, now = wanted.matcher(), self._store.clock()
        with self._store.reading() as catalogue:
            return [
                memory
                for memory in catalogue
                if passes(memory) and caller.may_see(memory) and not memory.is_expired(now)
            ]


def _item(
    draft: Draft,
    place: Place,
    kind: str,
    content: str,
    path: str,
    metadata: Mapping[str, object],
    details: Mapping[str, object],
) -> Memory:
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
    memory = _item(draft, request, "state", content, f"state/{_slug(request.state_key)}", {}, details)
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


def _due(memory: Memory) -> str:
    # What is due at no time comes last.
    return str(memory.metadata.get("due_at") or "9999-12-31T23:59:59.999Z")


def _common(memory: Memory) -> dict[str, Any]:
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


def _reminder(memory: Memory) -> dict[str, Any]:
    metadata = memory.metadata
    return {
        **_common(memory),
        "due_at": metadata.get("due_at"),
        "item_status": metadata.get("item_status"),
        "session_id": metadata.get("session_id"),
        "note": metadata.get("note"),
        "completed_at": metadata.get("closed_at"),
        "status": metadata.get("item_status"),
    }


def _decision(memory: Memory) -> dict[str, Any]:
    metadata = memory.metadata
    return {
        **_common(memory),
        "context": memory.content,
        "options": metadata.get("options", []),
        "due_at": metadata.get("due_at"),
        "item_status": metadata.get("item_status"),
        "resolution": metadata.get("resolution"),
        "note": metadata.get("note"),
        "resolved_at": metadata.get("closed_at"),
        "status": metadata.get("item_status"),
    }


def _event(memory: Memory) -> dict[str, Any]:
    metadata = memory.metadata
    return {
        **_common(memory),
        "event_type": metadata.get("event_type"),
        "occurred_at": metadata.get("occurred_at"),
        "session_id": metadata.get("session_id"),
        "source": memory.source,
        "importance": memory.importance,
        "confidence": memory.confidence,
        "metadata": dict(metadata),
    }


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


_SHAPES: dict[str, Callable[[Memory], dict[str, Any]]] = {"reminder": _reminder, "decision": _decision}
