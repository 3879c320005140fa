"""One table of the memory API's endpoints: routes, rights, limits, models and the OpenAPI document come
from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel

from dsh_memory.api import answers, models
from dsh_memory.api.items import Items
from dsh_memory.api.moving import Moving
from dsh_memory.api.reading import Reading
from dsh_memory.api.store import Answer, MemoryStore, Replay
from dsh_memory.api.values import Caller
from dsh_memory.api.writing import Writing
from dsh_memory.environment import format_instant

Policy = Literal["memory_write", "memory_search"]


class MemoryApi:
    """All operations over one store; REST, MCP and the skill door call the same ones."""

    def __init__(self, store: MemoryStore) -> None:
        self.memories = store
        self.writing = Writing(store)
        self.reading = Reading(store)
        self.items = Items(store)
        self.moving = Moving(store)

    def count_usage(self, caller: Caller, memory_id: str, request: models.UsageRequest) -> Answer:
        """Count that a client used a memory; counts live beside Git."""
        memory = self.reading.find(caller, memory_id)
        now = format_instant(self.memories.clock())
        count = self.memories.state.count_usage(memory.id, now)
        return {
            "ok": True,
            "id": memory.id,
            "memory_id": memory.id,
            "action": request.action,
            "usage_count": count,
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """One call: who asks for what. `query` and `body` are of the endpoint's models."""

    caller: Caller
    ids: dict[str, str]
    query: Any = None
    body: Any = None
    replay: Replay | None = None
    expected_version: int | None = None


Handler = Callable[[MemoryApi, Asked], Answer]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route below `/v1`; `right` is what the token needs, `policy` the rate limit that the call counts
    for.
    """

    method: str
    path: str
    summary: str
    right: str
    policy: Policy
    answer: type[BaseModel]
    handler: Handler
    status: int = 200
    query: type[models.Request] | None = None
    body: type[models.Request] | None = None
    body_required: bool = True

    @property
    def name(self) -> str:
        """The operation id."""
        words = [word.strip("{}") for word in self.path.split("/") if word]
        return "_".join([self.method.lower(), *words]).replace("-", "_").replace("{", "").replace("}", "")


def _forget(api: MemoryApi, asked: Asked) -> Answer:
    return api.writing.forget(
        asked.caller, asked.ids["memory_id"], asked.body or models.ForgetRequest(), asked.replay
    )


def _delete(api: MemoryApi, asked: Asked) -> Answer:
    request = models.ForgetRequest(mode=asked.query.mode, reason=asked.query.reason)
    return api.writing.forget(asked.caller, asked.ids["memory_id"], request, asked.replay)


def _update(api: MemoryApi, asked: Asked) -> Answer:
    return api.writing.update(
        asked.caller,
        asked.ids["memory_id"],
        asked.body,
        asked.replay,
        expected_version=asked.expected_version,
    )


def _search(api: MemoryApi, asked: Asked) -> Answer:
    return api.reading.search(asked.caller, asked.query)


_MEMORY: Final = "/memories/{memory_id:path}"
_READ: Final = "memory:read"
_WRITE: Final = "memory:write"

#: In the order of routing: an id may hold a slash, so that the longer paths come first.
ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/remember",
        "Remember a text",
        _WRITE,
        "memory_write",
        answers.Remembered,
        lambda api, asked: api.writing.remember(asked.caller, asked.body, asked.replay),
        status=201,
        body=models.RememberRequest,
    ),
    Endpoint(
        "GET",
        "/memories/search",
        "Search memories",
        _READ,
        "memory_search",
        answers.SearchAnswer,
        _search,
        query=models.SearchQuery,
    ),
    Endpoint(
        "GET",
        "/recall",
        "Search memories",
        _READ,
        "memory_search",
        answers.SearchAnswer,
        _search,
        query=models.SearchQuery,
    ),
    Endpoint(
        "POST",
        "/recall/context",
        "Assemble a context",
        _READ,
        "memory_search",
        answers.ContextAnswer,
        lambda api, asked: api.reading.context(asked.caller, asked.body),
        body=models.ContextRequest,
    ),
    Endpoint(
        "GET",
        "/memories/stats",
        "Count memories",
        _READ,
        "memory_search",
        answers.Stats,
        lambda api, asked: api.reading.stats(asked.caller),
    ),
    Endpoint(
        "POST",
        "/memories/export",
        "Export memories as JSON lines",
        _READ,
        "memory_search",
        answers.Exported,
        lambda api, asked: api.moving.export(asked.caller, asked.body or models.ExportRequest()),
        body=models.ExportRequest,
        body_required=False,
    ),
    Endpoint(
        "POST",
        "/memories/import",
        "Import JSON lines",
        _WRITE,
        "memory_write",
        answers.Imported,
        lambda api, asked: api.moving.bring_in(asked.caller, asked.body, asked.replay),
        body=models.ImportRequest,
    ),
    Endpoint(
        "POST",
        "/memories",
        "Store a memory",
        _WRITE,
        "memory_write",
        answers.Stored,
        lambda api, asked: api.writing.store(asked.caller, asked.body, asked.replay),
        status=201,
        body=models.StoreRequest,
    ),
    Endpoint(
        "GET",
        "/memories",
        "List memories",
        _READ,
        "memory_search",
        answers.MemoryPage,
        lambda api, asked: api.reading.listing(asked.caller, asked.query),
        query=models.ListQuery,
    ),
    Endpoint(
        "GET",
        f"{_MEMORY}/explain",
        "Explain a memory",
        _READ,
        "memory_search",
        answers.Explained,
        lambda api, asked: api.reading.explain(asked.caller, asked.ids["memory_id"], asked.query.query),
        query=models.ExplainQuery,
    ),
    Endpoint(
        "GET",
        f"{_MEMORY}/versions",
        "List a memory's versions",
        _READ,
        "memory_search",
        answers.Versions,
        lambda api, asked: api.reading.versions(asked.caller, asked.ids["memory_id"]),
    ),
    Endpoint(
        "POST",
        f"{_MEMORY}/forget",
        "Forget a memory",
        "memory:delete",
        "memory_write",
        answers.Forgotten,
        _forget,
        body=models.ForgetRequest,
        body_required=False,
    ),
    Endpoint(
        "POST",
        f"{_MEMORY}/restore",
        "Restore a memory",
        "memory:restore",
        "memory_write",
        answers.Restored,
        lambda api, asked: api.writing.restore(asked.caller, asked.ids["memory_id"], asked.replay),
        body=models.Nothing,
        body_required=False,
    ),
    Endpoint(
        "POST",
        f"{_MEMORY}/usage",
        "Count a use",
        _WRITE,
        "memory_write",
        answers.Used,
        lambda api, asked: api.count_usage(
            asked.caller, asked.ids["memory_id"], asked.body or models.UsageRequest()
        ),
        body=models.UsageRequest,
        body_required=False,
    ),
    Endpoint(
        "GET",
        _MEMORY,
        "Get a memory",
        _READ,
        "memory_search",
        answers.MemoryAnswer,
        lambda api, asked: api.reading.get(asked.caller, asked.ids["memory_id"]),
    ),
    Endpoint(
        "PATCH",
        _MEMORY,
        "Update a memory",
        _WRITE,
        "memory_write",
        answers.UpdatedMemory,
        _update,
        body=models.UpdateRequest,
    ),
    Endpoint(
        "DELETE",
        _MEMORY,
        "Delete a memory",
        "memory:delete",
        "memory_write",
        answers.Forgotten,
        _delete,
        query=models.DeleteQuery,
    ),
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
        lambda api, asked: api.items.update_state(asked.caller, asked.body, asked.replay),
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
        lambda api, asked: api.items.create_snapshot(
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
        lambda api, asked: api.items.restore_snapshot(
            asked.caller, asked.body or models.SnapshotRestoreRequest(), asked.replay
        ),
        body=models.SnapshotRestoreRequest,
        body_required=False,
    ),
)
