"""One table of the MCP tools: name, what a model reads about it, its arguments, right, and what it does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from dsh_memory.api import mcp_models as args
from dsh_memory.api.context import count_tokens
from dsh_memory.api.failures import ApiFailure, conflict
from dsh_memory.api.jobs import Answer
from dsh_memory.api.models import ContextRequest, ForgetRequest, ListQuery, Request, TimelineQuery
from dsh_memory.api.operations import MemoryApi
from dsh_memory.api.values import Caller
from dsh_memory.errors import ChangeRefused, PreviewFailure
from dsh_memory.hosts.prompt import MARKER, disarmed
from dsh_memory.hosts.tools import answer_tool
from dsh_memory.service import MemoryService
from dsh_memory.sync.proposing import from_files, propose

Run = Callable[[MemoryApi, Caller, Any], Answer | str]


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A tool. `right` is what the token needs; `whole` says that no restricted token may use it."""

    name: str
    description: str
    arguments: type[Request]
    run: Run
    right: str = "memory:read"
    destructive: bool = False
    whole: bool = False

    @property
    def read_only(self) -> bool:
        """Whether it changes nothing."""
        return (self.right == "memory:read" and not self.whole) or self.name == "memory_search"

    @property
    def policy(self) -> str:
        """The rate limit that a call counts for."""
        return "memory_search" if self.right == "memory:read" else "memory_write"


def _forget_target(api: MemoryApi, caller: Caller, given: args.ForgetTarget) -> Answer:
    # guard: exact-id-only (a target that is no id is refused, never guessed)
    return api.writing.forget(caller, given.target, ForgetRequest(reason=given.reason))


def _redact(api: MemoryApi, caller: Caller, given: args.Redact) -> Answer:
    request = ForgetRequest(mode="redact", reason=given.reason, replacement_content=given.replacement_content)
    return api.writing.forget(caller, given.memory_id, request)


def _activity(api: MemoryApi, caller: Caller, _: args.Named) -> Answer:
    memories = api.reading.listing(caller, ListQuery(limit=500))["memories"]
    memories.sort(key=lambda memory: (memory["updated_at"] or "", memory["id"]), reverse=True)
    events = api.items.timeline(caller, TimelineQuery(limit=10))["events"]
    keys = ("id", "path", "updated_at", "version", "status", "agent_boundary")
    return {"recent": [{key: memory[key] for key in keys} for memory in memories[:20]], "events": events}


def _overview(api: MemoryApi, caller: Caller, _: args.Named) -> Answer:
    memories = api.reading.listing(caller, ListQuery(limit=500))
    paths: dict[str, int] = {}
    for memory in memories["memories"]:
        paths[memory["path"]] = paths.get(memory["path"], 0) + 1
    return {**api.reading.stats(caller), "paths": dict(sorted(paths.items()))}


def _identity(_: MemoryApi, caller: Caller, given: args.Named) -> Answer:
    token = caller.token
    return {
        "agent_id": given.agent_id or caller.agent,
        "agent_instance_id": given.agent_instance_id or caller.agent_instance,
        "token": None if token is None else token.name,
        "scopes": ["memory:read", "memory:write"] if token is None else list(token.rights),
        "temporary_agent": token is not None and token.temporary_agent,
    }


def _project_context(api: MemoryApi, caller: Caller, given: args.ProjectContext) -> Answer:
    query = given.project or given.scope or "project context decisions conventions state"
    found = api.reading.context(
        caller,
        ContextRequest(
            query=query, scope=given.scope, bucket=given.bucket, max_tokens=given.max_tokens, max_items=20
        ),
    )
    return {
        "context_text": found["context_text"],
        "items": found["items"],
        "tokens": count_tokens(found["context_text"]),
    }


def _contract(name: str) -> Run:
    def run(api: MemoryApi, _: Caller, given: Request) -> str:
        service = MemoryService(api.memories.environment, clock=api.memories.clock)
        return answer_tool(service, name, given.model_dump(exclude_none=True))

    return run


def _propose(api: MemoryApi, _: Caller, given: args.Propose) -> Answer:
    changes = {
        change.path: None if change.content is None else change.content.encode() for change in given.changes
    }
    try:
        preview = propose(api.memories.environment, api.memories.clock, from_files(changes))
    except ChangeRefused as refusal:
        place = f" ({os.path.basename(refusal.path)})" if refusal.path else ""
        raise ApiFailure(422, refusal.code, f"{refusal.message}{place}") from refusal
    except PreviewFailure as refusal:
        raise conflict(refusal.message) from refusal
    if preview is None:
        raise ApiFailure(422, "staging-invalid", "The proposal changes nothing.")
    return {key: preview[key] for key in ("preview_id", "status", "changed_paths")}


_WRITE: Final = "memory:write"

TOOLS: Final = (
    ToolEntry(
        "remember",
        "Remember a text under a path; the same text or semantic key is not stored twice.",
        args.Remember,
        lambda api, caller, given: api.writing.remember(caller, given),
        _WRITE,
    ),
    ToolEntry(
        "store_memory",
        "Store a text as a new memory, whatever is there already.",
        args.Store,
        lambda api, caller, given: api.writing.store(caller, given),
        _WRITE,
    ),
    ToolEntry(
        "update_memory",
        "Change a memory; the version before stays in its history.",
        args.Update,
        lambda api, caller, given: api.writing.update(caller, given.memory_id, given),
        _WRITE,
    ),
    ToolEntry(
        "recall",
        "Find the memories that fit a question best.",
        args.Recall,
        lambda api, caller, given: api.reading.search(caller, given),
    ),
    ToolEntry(
        "search_memory",
        "Find the memories that fit a question best, within a scope or team.",
        args.Recall,
        lambda api, caller, given: api.reading.search(caller, given),
    ),
    ToolEntry(
        "recall_context",
        "Assemble what is known about a question within a token budget.",
        args.RecallContext,
        lambda api, caller, given: api.reading.context(caller, given),
    ),
    ToolEntry(
        "explain_memory",
        "Show where a memory comes from, its versions, and why a query finds it.",
        args.Explain,
        lambda api, caller, given: api.reading.explain(caller, given.memory_id, given.query),
    ),
    ToolEntry(
        "list_memory_versions",
        "List the versions of a memory, newest first.",
        args.OneMemory,
        lambda api, caller, given: api.reading.versions(caller, given.memory_id),
    ),
    ToolEntry("memory_overview", "Count the memories, by kind and by path.", args.Named, _overview),
    ToolEntry(
        "memory_stats",
        "Count the memories, by kind, type, status, bucket and scope.",
        args.Named,
        lambda api, caller, given: api.reading.stats(caller),
    ),
    ToolEntry("memory_activity", "Show what changed last.", args.Named, _activity),
    ToolEntry(
        "get_mcp_identity",
        "Show who you are to this server, and what your token may do.",
        args.Named,
        _identity,
    ),
    ToolEntry(
        "forget",
        "Delete the memory with exactly this id; it can be restored.",
        args.ForgetTarget,
        _forget_target,
        "memory:delete",
        destructive=True,
    ),
    ToolEntry(
        "forget_memory",
        "Delete a memory; the modes hard_delete and redact cannot be undone.",
        args.Forget,
        lambda api, caller, given: api.writing.forget(caller, given.memory_id, given),
        "memory:delete",
        destructive=True,
    ),
    ToolEntry(
        "redact_memory",
        "Erase a memory's text and its history for good.",
        args.Redact,
        _redact,
        "memory:delete",
        destructive=True,
    ),
    ToolEntry(
        "restore_memory",
        "Bring a deleted memory back.",
        args.OneMemory,
        lambda api, caller, given: api.writing.restore(caller, given.memory_id),
        "memory:restore",
    ),
    ToolEntry(
        "create_memory_todo",
        "Create a reminder.",
        args.CreateTodo,
        lambda api, caller, given: api.items.create_reminder(caller, given),
        _WRITE,
    ),
    ToolEntry(
        "list_memory_todos",
        "List reminders, open ones unless told otherwise.",
        args.ListItems,
        lambda api, caller, given: api.items.reminders(caller, given),
    ),
    ToolEntry(
        "complete_memory_todo",
        "Complete a reminder.",
        args.CompleteTodo,
        lambda api, caller, given: api.items.complete_reminder(caller, given.todo_id, given),
        _WRITE,
    ),
    ToolEntry(
        "create_pending_decision",
        "Note a decision that somebody has to take.",
        args.CreateDecision,
        lambda api, caller, given: api.items.create_decision(caller, given),
        _WRITE,
    ),
    ToolEntry(
        "list_pending_decisions",
        "List decisions, open ones unless told otherwise.",
        args.ListItems,
        lambda api, caller, given: api.items.decisions(caller, given),
    ),
    ToolEntry(
        "resolve_decision",
        "Note how a decision was taken.",
        args.ResolveDecision,
        lambda api, caller, given: api.items.resolve_decision(caller, given.decision_id, given),
        _WRITE,
    ),
    ToolEntry(
        "update_state",
        "Note what you are working on, to go on after a restart.",
        args.UpdateState,
        lambda api, caller, given: api.states.update_state(caller, given),
        _WRITE,
    ),
    ToolEntry(
        "record_event",
        "Record an event on the timeline.",
        args.RecordEvent,
        lambda api, caller, given: api.items.record_event(caller, given),
        _WRITE,
    ),
    ToolEntry(
        "get_timeline",
        "List events, newest first.",
        args.GetTimeline,
        lambda api, caller, given: api.items.timeline(caller, given),
    ),
    ToolEntry(
        "create_restart_snapshot",
        "Keep the current state to begin from after a restart.",
        args.CreateSnapshot,
        lambda api, caller, given: api.states.create_snapshot(caller, given),
        _WRITE,
    ),
    ToolEntry(
        "restore_restart_snapshot",
        "Get the newest snapshot back.",
        args.RestoreSnapshot,
        lambda api, caller, given: api.states.restore_snapshot(caller, given),
        _WRITE,
    ),
    ToolEntry(
        "get_project_context",
        "Assemble what is known about a project.",
        args.ProjectContext,
        _project_context,
    ),
    ToolEntry(
        "memory_search",
        "Full-text search over all records, with citations.",
        args.ContractSearch,
        _contract("memory_search"),
        whole=True,
    ),
    ToolEntry(
        "memory_context",
        "The records that fit a query, or the most used ones, with their text.",
        args.ContractContext,
        _contract("memory_context"),
        whole=True,
    ),
    ToolEntry(
        "propose_memory",
        "Put edits of record files up as a preview that a person applies or discards.",
        args.Propose,
        _propose,
        _WRITE,
        whole=True,
    ),
)


def as_agent(caller: Caller, given: Request) -> Caller:
    """The caller under the names that the arguments give it."""
    agent, instance = getattr(given, "agent_id", None), getattr(given, "agent_instance_id", None)
    return replace(caller, agent=agent or caller.agent, agent_instance=instance or caller.agent_instance)


def result_text(answer: Answer | str, *, as_json: bool) -> str:
    """A tool's result: JSON where that is wanted, else lines that a model reads easily."""
    if isinstance(answer, str):
        return answer
    if as_json:
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    if "context_text" in answer:
        return _marked(str(answer["context_text"]))
    if "results" in answer:
        return _marked("\n\n".join(_found(number, each) for number, each in enumerate(answer["results"], 1)))
    return "\n".join(f"{key}: {_shown(value)}" for key, value in answer.items())


def _marked(foreign: str) -> str:
    """Text of memories under the mark that says what it is; nothing inside can pass for that mark."""
    # guard: mcp-marks-foreign-text
    return f"{MARKER}\n{disarmed(foreign)}" if foreign else "No memory fits."


def _found(number: int, each: dict[str, Any]) -> str:
    # Every line of a memory is indented, and its path is one line: none can look like the head of another result.
    content = "\n  ".join(str(each["content"]).splitlines())
    path = " ".join(str(each["path"]).split())
    return f"[{number}] id={each['id']} path={path} score={each['score']}\n  {content}"


def _shown(value: object) -> str:
    if isinstance(value, str):
        # No line of a text can look like the next key.
        return "\n  ".join(value.splitlines())
    return json.dumps(value, ensure_ascii=False)
