"""Reminders, decisions and the timeline: memories of kinds of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dsh_memory.api.draft import Draft
from dsh_memory.api.failures import conflict
from dsh_memory.api.item_shapes import decision_fields, event_fields, new_item, reminder_fields
from dsh_memory.api.jobs import Answer, Replay
from dsh_memory.api.models import (
    CompleteRequest,
    DecisionRequest,
    EventRequest,
    ItemsQuery,
    ReminderRequest,
    ResolveRequest,
    TimelineQuery,
)
from dsh_memory.api.store import MemoryStore
from dsh_memory.api.values import Caller, Filter, Memory
from dsh_memory.api.writing import expiry


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
                new_item(draft, request, "reminder", request.content, request.path, request.metadata, details)
            )
            return reminder_fields(saved)

        return self._store.write(caller, "create_reminder", work, replay)

    def reminders(self, caller: Caller, request: ItemsQuery) -> Answer:
        """Reminders, those due first at the top."""
        found = self._items(caller, request, "reminder")
        return {"reminders": [reminder_fields(memory) for memory in found]}

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
                new_item(draft, request, "decision", request.context, request.path, request.metadata, details)
            )
            return decision_fields(saved)

        return self._store.write(caller, "create_decision", work, replay)

    def decisions(self, caller: Caller, request: ItemsQuery) -> Answer:
        """Decisions, oldest first."""
        return {"decisions": [decision_fields(memory) for memory in self._items(caller, request, "decision")]}

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
            memory = new_item(
                draft, request, "event", request.content, request.path, request.metadata, details
            )
            memory = replace(
                memory, importance=request.importance, confidence=request.confidence, source=request.source
            )
            return {**event_fields(draft.save(memory)), "status": "recorded"}

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
        return {"events": [event_fields(memory) for memory in found[: request.limit]]}

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


def _due(memory: Memory) -> str:
    # What is due at no time comes last.
    return str(memory.metadata.get("due_at") or "9999-12-31T23:59:59.999Z")


_SHAPES: dict[str, Callable[[Memory], dict[str, Any]]] = {
    "reminder": reminder_fields,
    "decision": decision_fields,
}
