"""What an endpoint is: a route, its rights, its models, and the operation that answers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from dsh_memory.api import models
from dsh_memory.api.items import Items
from dsh_memory.api.jobs import Answer, Replay
from dsh_memory.api.moving import Moving
from dsh_memory.api.reading import Reading
from dsh_memory.api.states import States
from dsh_memory.api.store import MemoryStore
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
        self.states = States(store)
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
