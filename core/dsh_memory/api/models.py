"""What requests of the memory API may hold (`spec`: xmemo, Endpoints): one model for REST and MCP alike.

Unknown keys are ignored, `null` stands for an absent key, and a text that holds JSON or a number is read
where a list, an object or a number belongs, since clients send them so.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dsh_memory.api.failures import ApiFailure
from dsh_memory.api.paths import path_fault

MAX_CONTENT_BYTES = 1024 * 1024


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number, not a boolean")
    return value


def from_text(value: object) -> object:
    """The list or object that a text holds as JSON, since clients send them so; other values as they are."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError("not a valid JSON text") from None
    return value


def _bounded(value: str) -> str:
    if len(value) > MAX_CONTENT_BYTES or len(value.encode("utf-8", "surrogatepass")) > MAX_CONTENT_BYTES:
        raise ApiFailure(413, "payload_too_large", "The content may have 1 MiB at most.")
    return value


def _safe_path(value: str) -> str:
    # guard: path-on-every-door
    fault = path_fault(value)
    if fault is not None:
        raise ValueError(fault)
    return value


Content = Annotated[str, Field(min_length=1), AfterValidator(_bounded)]
Path = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_safe_path)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
Reason = Annotated[str, Field(max_length=2000)]
Id = Annotated[str, Field(min_length=1, max_length=512)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), BeforeValidator(_no_bool)]
Count = Annotated[int, BeforeValidator(_no_bool)]
Object = Annotated[dict[str, Any], BeforeValidator(from_text)]
Vector = Annotated[
    list[Annotated[float, Field(allow_inf_nan=False)]], Field(max_length=8192), BeforeValidator(from_text)
]
Options = Annotated[
    list[Annotated[str, Field(max_length=2000)]], Field(max_length=100), BeforeValidator(from_text)
]
MemoryType = Literal["auto", "semantic", "episodic", "procedural", "working", "identity"]
Status = Literal["active", "archived", "superseded", "deleted", "redacted"]
TypeFilter = Literal["%", "", "auto", "semantic", "episodic", "procedural", "working", "identity"]
Mode = Literal["soft_delete", "hard_delete", "redact"]


def _nullable(schema: dict[str, Any]) -> None:
    """Declares what the models do: an optional key may be null."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        if name not in required and {"type": "null"} not in field.get("anyOf", ()):
            kept = {key: field.pop(key) for key in ("default", "title", "description") if key in field}
            schema["properties"][name] = {"anyOf": [field, {"type": "null"}], **kept}


class Request(BaseModel):
    """A request's body or query."""

    model_config = ConfigDict(extra="ignore", json_schema_extra=_nullable)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        fields = cls.model_fields
        return {
            key: value
            for key, value in values.items()
            if value is not None or (key in fields and fields[key].is_required())
        }


class Place(Request):
    """Where a memory belongs."""

    bucket: Name = "public"
    scope: Name | None = None
    team_id: Name | None = None


class StoreRequest(Place):
    """`POST /v1/memories`"""

    content: Content
    path: Path
    metadata: Object = {}
    source: Name | None = None
    logic_path: Path | None = None
    embedding: Vector | None = None
    memory_id: Id | None = None
    semantic_key: Name | None = None
    memory_type: MemoryType = "semantic"
    version: Annotated[Count, Field(ge=1, le=2**31)] | None = None
    status: Status | None = None
    superseded_by: Id | None = None
    embedding_provider: Name | None = None
    embedding_model: Name | None = None
    embedding_dimension: Annotated[Count, Field(ge=1, le=1_000_000)] | None = None
    importance: Share | None = 0.5
    confidence: Share | None = 1.0
    expires_at: Annotated[str, Field(max_length=64)] | None = None
    provenance: Object = {}
    idempotency_key: Name | None = None


class RememberRequest(StoreRequest):
    """`POST /v1/remember`"""

    memory_type: MemoryType = "auto"
    importance: Share | None = None
    confidence: Share | None = None
    dedupe: bool = True


class UpdateRequest(Request):
    """`PATCH /v1/memories/{memory_id}`"""

    content: Content | None = None
    path: Path | None = None
    metadata: Object | None = None
    source: Name | None = None
    logic_path: Path | None = None
    embedding: Vector | None = None
    bucket: Name | None = None
    semantic_key: Name | None = None
    memory_type: MemoryType | None = None
    status: Status | None = None
    superseded_by: Id | None = None
    embedding_provider: Name | None = None
    embedding_model: Name | None = None
    embedding_dimension: Annotated[Count, Field(ge=1, le=1_000_000)] | None = None
    importance: Share | None = None
    confidence: Share | None = None
    expires_at: Annotated[str, Field(max_length=64)] | None = None
    scope: Name | None = None
    team_id: Name | None = None
    provenance: Object | None = None
    supersession_reason: Reason | None = None
    merge_metadata: bool = True
    merge_provenance: bool = True
    detect_conflicts: bool = True
    expected_version: Annotated[Count, Field(ge=1)] | None = None
    idempotency_key: Name | None = None


class ForgetRequest(Request):
    """`POST /v1/memories/{memory_id}/forget`"""

    mode: Mode = "soft_delete"
    reason: Reason | None = None
    replacement_content: Content | None = None
    metadata: Object | None = None
    idempotency_key: Name | None = None


class DeleteQuery(Request):
    """`DELETE /v1/memories/{memory_id}`"""

    mode: Mode = "soft_delete"
    reason: Reason | None = None


class Narrowed(Request):
    """Filters; `%` matches anything."""

    path: Annotated[str, Field(max_length=1024)] = "%"
    bucket: Annotated[str, Field(max_length=256)] = "%"
    scope: Annotated[str, Field(max_length=256)] | None = None
    team_id: Annotated[str, Field(max_length=256)] | None = None
    memory_type: TypeFilter = "%"
    status: Literal["%", "", "active", "archived", "superseded", "deleted", "redacted"] = "active"


class SearchQuery(Narrowed):
    """`GET /v1/memories/search` and `GET /v1/recall`"""

    query: Annotated[str, Field(max_length=8192)]
    limit: Annotated[Count, Field(ge=1, le=1000)] = 5
    threshold: Annotated[float, Field(allow_inf_nan=False)] | None = None
    explain: bool = False
    prefer_working: bool = False
    candidate_count: Annotated[Count, Field(ge=1, le=1_000_000)] | None = None


class ContextRequest(Narrowed):
    """`POST /v1/recall/context`"""

    query: Annotated[str, Field(max_length=8192)]
    memory_type: TypeFilter = "auto"
    max_items: Annotated[Count, Field(ge=1, le=100)] = 8
    max_tokens: Annotated[Count, Field(ge=1, le=100_000)] = 1500
    prefer_working: bool = True
    include_knowledge: bool = False
    threshold: Annotated[float, Field(allow_inf_nan=False)] | None = None
    limit: Annotated[Count, Field(ge=1, le=1000)] | None = None


class ExplainQuery(Request):
    """`GET /v1/memories/{memory_id}/explain`"""

    query: Annotated[str, Field(max_length=8192)] | None = None


class ListQuery(Request):
    """`GET /v1/memories`"""

    limit: Annotated[Count, Field(ge=1, le=500)] = 100
    offset: Annotated[Count, Field(ge=0, le=2**31)] = 0
    path: Annotated[str, Field(max_length=1024)] = "%"
    path_prefix: Annotated[str, Field(max_length=1024)] | None = None


class UsageRequest(Request):
    """`POST /v1/memories/{memory_id}/usage`"""

    action: Name = "used"
    context: Reason | None = None
    idempotency_key: Name | None = None


class ReminderRequest(Place):
    """`POST /v1/reminders`"""

    content: Content
    due_at: Annotated[str, Field(max_length=64)] | None = None
    path: Path = "reminders"
    session_id: Name | None = None
    metadata: Object = {}
    idempotency_key: Name | None = None


class ItemsQuery(Request):
    """`GET /v1/reminders` and `GET /v1/decisions`"""

    bucket: Annotated[str, Field(max_length=256)] = "%"
    scope: Annotated[str, Field(max_length=256)] | None = None
    team_id: Annotated[str, Field(max_length=256)] | None = None
    item_status: Literal["open", "completed", "resolved", "%", ""] = "open"
    due_before: Annotated[str, Field(max_length=64)] | None = None
    limit: Annotated[Count, Field(ge=1, le=1000)] = 100


class CompleteRequest(Request):
    """`POST /v1/reminders/{reminder_id}/complete`"""

    note: Reason | None = None
    idempotency_key: Name | None = None


class DecisionRequest(Place):
    """`POST /v1/decisions`"""

    context: Content
    options: Options = []
    path: Path = "decisions"
    due_at: Annotated[str, Field(max_length=64)] | None = None
    metadata: Object = {}
    idempotency_key: Name | None = None


class ResolveRequest(Request):
    """`POST /v1/decisions/{decision_id}/resolve`"""

    resolution: Content
    note: Reason | None = None
    idempotency_key: Name | None = None


class StateRequest(Place):
    """`POST /v1/update_state`"""

    state_key: Name = "active_task"
    content: Content | None = None
    current_task: Reason | None = None
    next_action: Reason | None = None
    blocked_reason: Reason | None = None
    ttl_seconds: Annotated[Count, Field(ge=1, le=10 * 365 * 86400)] | None = None
    idempotency_key: Name | None = None


class EventRequest(Place):
    """`POST /v1/timeline/events`"""

    content: Content
    event_type: Name = "event"
    occurred_at: Annotated[str, Field(max_length=64)] | None = None
    path: Path = "timeline"
    session_id: Name | None = None
    source: Name | None = None
    importance: Share | None = None
    confidence: Share | None = None
    metadata: Object = {}
    idempotency_key: Name | None = None


class TimelineQuery(Request):
    """`GET /v1/timeline`"""

    bucket: Annotated[str, Field(max_length=256)] = "%"
    scope: Annotated[str, Field(max_length=256)] | None = None
    team_id: Annotated[str, Field(max_length=256)] | None = None
    status: Literal["%", "", "active", "archived", "superseded"] = "active"
    event_type: Annotated[str, Field(max_length=256)] | None = None
    limit: Annotated[Count, Field(ge=1, le=1000)] = 100


class SnapshotRequest(Place):
    """`POST /v1/restart/snapshot`"""

    label: Name | None = None
    state_key: Name = "active_task"
    session_id: Name | None = None
    ttl_seconds: Annotated[Count, Field(ge=1, le=10 * 365 * 86400)] = 30 * 86400
    idempotency_key: Name | None = None


class SnapshotRestoreRequest(Place):
    """`POST /v1/restart/restore`"""

    snapshot_id: Id | None = None
    state_key: Name = "active_task"
    restore_state: bool = True
    record_restore_event: bool = True
    idempotency_key: Name | None = None


class ExportRequest(Request):
    """`POST /v1/memories/export`"""

    cursor: Annotated[str, Field(max_length=1024)] | None = None
    limit: Annotated[Count, Field(ge=1, le=1000)] = 500


class ImportRequest(Request):
    """`POST /v1/memories/import`: the lines of an export."""

    jsonl: Annotated[str, Field(min_length=1)]
    idempotency_key: Name | None = None


class SkillRequest(Request):
    """`POST /v1/skill/operations`"""

    operation: Name
    arguments: Object = {}


class Nothing(Request):
    """A body that says nothing."""

    idempotency_key: Name | None = None
