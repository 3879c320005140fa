"""`/v1/skill/operations`: the small operations of a client's skill behind one door."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dsh_memory.api import models
from dsh_memory.api.failures import ApiFailure, InvalidField
from dsh_memory.api.jobs import Answer
from dsh_memory.api.operations import MemoryApi
from dsh_memory.api.values import Caller

Admit = Callable[[str, str | None], Caller]
Operation = Callable[[MemoryApi, Caller, dict[str, Any]], Answer]


def run_skill(api: MemoryApi, asked: models.SkillRequest, admit: Admit) -> Answer:
    """The operation's answer under `result`; raises ApiFailure, and ValidationError for its arguments."""
    if asked.operation == "doctor":
        return {"ok": True, "operation": "doctor", "result": _doctor(admit)}
    known = _OPERATIONS.get(asked.operation)
    if known is None:
        raise ApiFailure(400, "invalid_request", f"Known operations: doctor, {', '.join(_OPERATIONS)}.")
    writes, operation = known
    caller = admit(*(("memory:write", "memory_write") if writes else ("memory:read", "memory_search")))
    return {"ok": True, "operation": asked.operation, "result": operation(api, caller, asked.arguments)}


def _doctor(admit: Admit) -> Answer:
    try:
        caller = admit("memory:read", None)
    except ApiFailure as failure:
        if failure.status != 401:
            raise
        return {"status": "ok", "authenticated": False, "scopes": []}
    rights = ["memory:read"] if caller.token is None else list(caller.token.rights)
    return {"status": "ok", "authenticated": True, "scopes": rights}


def _remember(api: MemoryApi, caller: Caller, arguments: dict[str, Any]) -> Answer:
    return api.writing.remember(caller, models.RememberRequest.model_validate({"path": "skill", **arguments}))


def _search(api: MemoryApi, caller: Caller, arguments: dict[str, Any]) -> Answer:
    return api.reading.search(caller, models.SearchQuery.model_validate(arguments))


def _save_state(api: MemoryApi, caller: Caller, arguments: dict[str, Any]) -> Answer:
    return api.states.update_state(caller, models.StateRequest.model_validate(_state(arguments)))


def _restore_state(api: MemoryApi, caller: Caller, arguments: dict[str, Any]) -> Answer:
    values = _state(arguments)
    return api.states.state(caller, models.Place.model_validate(values), str(values["state_key"]))


def _add_todo(api: MemoryApi, caller: Caller, arguments: dict[str, Any]) -> Answer:
    return api.items.create_reminder(caller, models.ReminderRequest.model_validate(arguments))


def _list_todos(api: MemoryApi, caller: Caller, arguments: dict[str, Any]) -> Answer:
    return api.items.reminders(caller, models.ItemsQuery.model_validate(arguments))


def _finish_todo(api: MemoryApi, caller: Caller, arguments: dict[str, Any]) -> Answer:
    reminder_id = arguments.get("id")
    if not isinstance(reminder_id, str):
        raise InvalidField(("body", "arguments", "id"), "Field required", "missing")
    return api.items.complete_reminder(caller, reminder_id, models.CompleteRequest.model_validate(arguments))


def _state(arguments: dict[str, Any]) -> dict[str, Any]:
    key = arguments.get("state_key") or arguments.get("key") or "active_task"
    return {**arguments, "state_key": key}


#: By name: whether it writes, and what it does.
_OPERATIONS: Final[dict[str, tuple[bool, Operation]]] = {
    "remember": (True, _remember),
    "recall": (False, _search),
    "search": (False, _search),
    "state-save": (True, _save_state),
    "state-restore": (False, _restore_state),
    "todo-add": (True, _add_todo),
    "todo-list": (False, _list_todos),
    "todo-done": (True, _finish_todo),
}
