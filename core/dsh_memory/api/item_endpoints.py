"""The endpoints of reminders, decisions, the timeline, states and restart snapshots."""

from __future__ import annotations

from typing import Final

from dsh_memory.api import answers, models
from dsh_memory.api.operations import Endpoint

_READ: Final = "memory:read"
_WRITE: Final = "memory:write"

ITEM_ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/reminders",
        "Create a reminder",
        _WRITE,
        "memory_write",
        answers.ItemAnswer,
        lambda api, asked: api.items.create_reminder(asked.caller, asked.body, asked.replay),
        status=201,
        body=models.ReminderRequest,
    ),
    Endpoint(
        "GET",
        "/reminders",
        "List reminders",
        _READ,
        "memory_search",
        answers.Reminders,
        lambda api, asked: api.items.reminders(asked.caller, asked.query),
        query=models.ItemsQuery,
    ),
    Endpoint(
        "POST",
        "/reminders/{reminder_id}/complete",
        "Complete a reminder",
        _WRITE,
        "memory_write",
        answers.ItemAnswer,
        lambda api, asked: api.items.complete_reminder(
            asked.caller, asked.ids["reminder_id"], asked.body or models.CompleteRequest(), asked.replay
        ),
        body=models.CompleteRequest,
        body_required=False,
    ),
    Endpoint(
        "POST",
        "/decisions",
        "Create a pending decision",
        _WRITE,
        "memory_write",
        answers.ItemAnswer,
        lambda api, asked: api.items.create_decision(asked.caller, asked.body, asked.replay),
        status=201,
        body=models.DecisionRequest,
    ),
    Endpoint(
        "GET",
        "/decisions",
        "List decisions",
        _READ,
        "memory_search",
        answers.Decisions,
        lambda api, asked: api.items.decisions(asked.caller, asked.query),
        query=models.ItemsQuery,
    ),
    Endpoint(
        "POST",
        "/decisions/{decision_id}/resolve",
        "Resolve a decision",
        _WRITE,
        "memory_write",
        answers.ItemAnswer,
        lambda api, asked: api.items.resolve_decision(
            asked.caller, asked.ids["decision_id"], asked.body, asked.replay
        ),
        body=models.ResolveRequest,
    ),
    Endpoint(
        "POST",
        "/update_state",
        "Update a state",
        _WRITE,
        "memory_write",
        answers.StateAnswer,
        lambda api, asked: api.states.update_state(asked.caller, asked.body, asked.replay),
        body=models.StateRequest,
    ),
    Endpoint(
        "POST",
        "/timeline/events",
        "Record an event",
        _WRITE,
        "memory_write",
        answers.ItemAnswer,
        lambda api, asked: api.items.record_event(asked.caller, asked.body, asked.replay),
        status=201,
        body=models.EventRequest,
    ),
    Endpoint(
        "GET",
        "/timeline",
        "List events",
        _READ,
        "memory_search",
        answers.Timeline,
        lambda api, asked: api.items.timeline(asked.caller, asked.query),
        query=models.TimelineQuery,
    ),
    Endpoint(
        "POST",
        "/restart/snapshot",
        "Take a snapshot",
        _WRITE,
        "memory_write",
        answers.SnapshotAnswer,
        lambda api, asked: api.states.create_snapshot(
            asked.caller, asked.body or models.SnapshotRequest(), asked.replay
        ),
        status=201,
        body=models.SnapshotRequest,
        body_required=False,
    ),
    Endpoint(
        "POST",
        "/restart/restore",
        "Restore a snapshot",
        _WRITE,
        "memory_write",
        answers.SnapshotRestored,
        lambda api, asked: api.states.restore_snapshot(
            asked.caller, asked.body or models.SnapshotRestoreRequest(), asked.replay
        ),
        body=models.SnapshotRestoreRequest,
        body_required=False,
    ),
)
