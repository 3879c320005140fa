"""The declared shapes of answers: what the OpenAPI document promises, and tests hold the server to."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """An answer; keys beyond the declared ones may come in a later version."""

    model_config = ConfigDict(extra="allow")


class ErrorBody(BaseModel):
    code: str
    message: str
    request_id: str


class ErrorAnswer(BaseModel):
    """Every error but 422; `detail` repeats the message for clients that read only one of the two."""

    error: ErrorBody
    detail: str


class ValidationIssue(BaseModel):
    loc: list[str | int]
    msg: str
    type: str


class HTTPValidationError(BaseModel):
    """A request that the contract does not allow."""

    detail: list[ValidationIssue]


class Remembered(BaseModel):
    id: str = Field(min_length=1)
    status: Literal["remembered"]


class Stored(BaseModel):
    id: str = Field(min_length=1)


class MemoryAnswer(Answer):
    id: str
    memory_id: str
    content: str
    path: str
    bucket: str
    scope: str | None
    memory_type: str
    status: str
    version: int
    created_at: str | None
    updated_at: str | None
    metadata: dict[str, Any]
    provenance: dict[str, Any]


class Conflict(BaseModel):
    id: str
    reason: str


class UpdatedMemory(MemoryAnswer):
    conflicts: list[Conflict]


class MemoryPage(BaseModel):
    memories: list[MemoryAnswer]
    total: int


class SearchResult(Answer):
    id: str
    memory_id: str
    content: str
    path: str
    bucket: str
    scope: str | None
    score: float
    similarity: float = Field(ge=0, le=1)
    memory_type: str
    status: str
    created_at: str | None
    updated_at: str | None
    agent_boundary: dict[str, Any]


class SearchAnswer(BaseModel):
    results: list[SearchResult]
    coverage: float = Field(ge=0, le=1)


class BudgetAnswer(BaseModel):
    max_items: int
    max_tokens: int
    used_items: int
    used_tokens: int
    skipped_items: int
    filtered_items: int
    structured_skipped_items: int
    budget_skipped_items: int
    truncated_items: int
    candidate_items: int
    selection_strategy: str
    budget_tradeoff: bool
    token_scope: str


class ContextItem(Answer):
    id: str
    bucket: str
    scope: str | None
    path: str
    score: float
    snippet: str


class ContextAnswer(BaseModel):
    """`retrieval_plan` and `answer_status` are left out for a temporary agent (version 1.0)."""

    version: Literal["value-density-v2", "1.0"]
    query: str
    retrieval_plan: dict[str, Any] = {}
    budget: BudgetAnswer
    items: list[ContextItem]
    context_text: str
    answer_status: Literal["answered", "no_confirmed_answer"] = "answered"


class Explained(Answer):
    id: str
    memory_id: str
    memory: MemoryAnswer
    provenance: dict[str, Any]
    versions: list[dict[str, Any]]


class Versions(Answer):
    id: str
    versions: list[dict[str, Any]]
    total: int


class Forgotten(Answer):
    ok: Literal[True]
    id: str
    memory_id: str
    mode: Literal["soft_delete", "hard_delete", "redact"]
    status: Literal["deleted", "redacted"]
    forgotten: Literal[True]
    history_purged: bool


class Restored(BaseModel):
    ok: Literal[True]
    id: str
    restored: Literal[True]


class Used(BaseModel):
    ok: Literal[True]
    id: str
    memory_id: str
    action: str
    usage_count: int


class Stats(Answer):
    total: int


class Exported(BaseModel):
    jsonl: str
    count: int
    next_cursor: str | None


class Imported(BaseModel):
    imported: int
    unchanged: int
    total: int


class ItemAnswer(Answer):
    id: str
    memory_id: str
    content: str
    scope: str | None


class Reminders(BaseModel):
    reminders: list[ItemAnswer]


class Decisions(BaseModel):
    decisions: list[ItemAnswer]


class Timeline(BaseModel):
    events: list[ItemAnswer]


class StateAnswer(BaseModel):
    id: str
    memory_id: str
    state_key: str
    version: int
    status: str
    expires_at: str | None


class SnapshotAnswer(BaseModel):
    id: str
    memory_id: str
    status: Literal["created"]
    expires_at: str | None
    snapshot: dict[str, Any]


class SnapshotRestored(BaseModel):
    id: str | None
    status: Literal["restored", "not_found"]
    restored: bool
    restored_at: str | None
    snapshot: dict[str, Any] | None
    state_update: dict[str, Any] | None
    restore_event: dict[str, Any] | None


class TokenAnswer(Answer):
    status: Literal["valid"]
    scopes: list[str]
    setup_state: str


class Alive(Answer):
    status: str
