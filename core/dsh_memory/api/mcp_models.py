"""Arguments of the MCP tools that differ from the REST bodies in their names."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from dsh_memory.api import models

Changes = Annotated[
    list["ProposedChange"], Field(min_length=1, max_length=50), BeforeValidator(models.from_text)
]


class Named(models.Request):
    """What every tool takes: who the agent says it is, and whether the result is to be JSON."""

    agent_id: models.Name | None = None
    agent_instance_id: models.Name | None = None
    output_json: bool = False

    @model_validator(mode="before")
    @classmethod
    def _plain_names(cls, values: object) -> object:
        """Reads `metadata_json` and the like under the names that they have in a body."""
        if not isinstance(values, dict):
            return values
        return {_BODY_NAMES.get(key, key): value for key, value in values.items()}


_BODY_NAMES = {
    "metadata_json": "metadata",
    "provenance_json": "provenance",
    "embedding_json": "embedding",
    "path_filter": "path",
}


class Remember(models.RememberRequest, Named):
    """`remember`"""


class Store(models.StoreRequest, Named):
    """`store_memory`"""


class Update(models.UpdateRequest, Named):
    """`update_memory`"""

    memory_id: models.Id


class Recall(models.SearchQuery, Named):
    """`recall` and `search_memory`"""


class RecallContext(models.ContextRequest, Named):
    """`recall_context`"""


class OneMemory(Named):
    """A tool about one memory."""

    memory_id: models.Id


class Explain(OneMemory):
    """`explain_memory`"""

    query: Annotated[str, Field(max_length=8192)] | None = None


class Forget(models.ForgetRequest, Named):
    """`forget_memory`"""

    memory_id: models.Id


class ForgetTarget(Named):
    """`forget`: the target is a memory's exact id."""

    target: models.Id
    reason: models.Reason | None = None


class Redact(Named):
    """`redact_memory`"""

    memory_id: models.Id
    reason: models.Reason | None = None
    replacement_content: models.Content | None = None


class CreateTodo(models.ReminderRequest, Named):
    """`create_memory_todo`"""


class ListItems(models.ItemsQuery, Named):
    """`list_memory_todos` and `list_pending_decisions`"""


class CompleteTodo(models.CompleteRequest, Named):
    """`complete_memory_todo`"""

    todo_id: models.Id

    @model_validator(mode="before")
    @classmethod
    def _other_names(cls, values: object) -> object:
        return _first_of(values, "todo_id", ("reminder_id", "memory_id", "id"))


class CreateDecision(models.DecisionRequest, Named):
    """`create_pending_decision`"""

    @model_validator(mode="before")
    @classmethod
    def _other_names(cls, values: object) -> object:
        return _first_of(values, "context", ("content", "question"))


class ResolveDecision(models.ResolveRequest, Named):
    """`resolve_decision`"""

    decision_id: models.Id

    @model_validator(mode="before")
    @classmethod
    def _other_names(cls, values: object) -> object:
        return _first_of(values, "decision_id", ("memory_id", "id"))


class UpdateState(models.StateRequest, Named):
    """`update_state`"""


class RecordEvent(models.EventRequest, Named):
    """`record_event`"""


class GetTimeline(models.TimelineQuery, Named):
    """`get_timeline`"""


class CreateSnapshot(models.SnapshotRequest, Named):
    """`create_restart_snapshot`"""


class RestoreSnapshot(models.SnapshotRestoreRequest, Named):
    """`restore_restart_snapshot`"""


class ProjectContext(Named):
    """`get_project_context`"""

    project: models.Name | None = None
    scope: models.Name | None = None
    bucket: Annotated[str, Field(max_length=256)] = "%"
    max_tokens: Annotated[models.Count, Field(ge=1, le=100_000)] = 1500


class ContractSearch(models.Request):
    """`memory_search` of the contract."""

    query: str
    limit: models.Count | None = None


class ContractContext(models.Request):
    """`memory_context` of the contract."""

    query: str | None = None
    limit: models.Count | None = None
    scope: Literal["active", "archive", "all"] | None = None


class ProposedChange(models.Request):
    """One file of a proposal: its whole new text, or null to delete it."""

    path: Annotated[str, Field(min_length=1, max_length=1024)]
    content: str | None = None


class Propose(Named):
    """`propose_memory`"""

    changes: Changes


def _first_of(values: object, name: str, others: tuple[str, ...]) -> object:
    if not isinstance(values, dict) or values.get(name) is not None:
        return values
    found: Any = next((values[other] for other in others if values.get(other) is not None), None)
    return values if found is None else {**values, name: found}
