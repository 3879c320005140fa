"""Pydantic models of the contract's requests and values.

Requests are checked with these before the repository is opened; unknown keys are ignored. Values are what the docs show
and what the tests hold every answer against; they may carry more keys than named here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    field_validator,
)

from dsh_memory.search.ranking import tokenize


def _integer(value: object) -> object:
    # JSON has one kind of number: 3.0 is 3.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _positive_or_absent(value: object) -> object:
    value = _integer(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


Scope = Literal["active", "archive", "all"]
LenientLimit = Annotated[int | None, BeforeValidator(_positive_or_absent)]


class Request(BaseModel):
    """What the requests share: unknown keys are ignored, values are not changed after the check."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class SetEnabledRequest(Request):
    enabled: StrictBool


class RunsRequest(Request):
    """`operation` and `status` are exact-match filters; what is no text matches no run."""

    limit: LenientLimit = None
    operation: Any = None
    status: Any = None


class MigrateLegacyRequest(Request):
    dry_run: StrictBool = Field(alias="dryRun")


class ClearRequest(Request):
    confirmation: Literal["DELETE_MEMORY"]


class RollbackRequest(Request):
    confirmation: Literal["ROLLBACK_MEMORY"]
    run_id: Any = Field(default=None, alias="runId")


class PreviewRequest(Request):
    preview_id: StrictStr = Field(alias="previewId", min_length=1)


class SearchRequest(Request):
    query: StrictStr
    limit: LenientLimit = None
    scope: Scope | None = None

    @field_validator("query")
    @classmethod
    def _has_tokens(cls, query: str) -> str:
        return _with_tokens(query)


class ContextRequest(Request):
    query: StrictStr | None = None
    limit: Annotated[StrictInt, BeforeValidator(_integer), Field(ge=1, le=20)] | None = None
    scope: Scope | None = None

    @field_validator("query")
    @classmethod
    def _has_tokens(cls, query: str | None) -> str | None:
        return None if query is None else _with_tokens(query)


def _with_tokens(query: str) -> str:
    if not tokenize(query):
        raise ValueError("the query holds no letter and no number")
    # Lone surrogates are no characters: no record can hold one, and no answer could be encoded.
    query.encode()
    return query


class Value(BaseModel):
    """What the values share: more keys than the contract's are allowed."""

    model_config = ConfigDict(extra="allow", strict=True)


class SettingsValue(Value):
    enabled: bool


class LastRun(Value):
    runId: str
    status: str
    changedFileCount: int
    applyCommit: str | None


class PreviewSummary(Value):
    preview_id: str
    created_at: str
    expires_at: str
    candidate_sessions: int | None
    changed_paths: list[str]
    status: Literal["pending"]


class StatusValue(Value):
    empty: bool
    dataFileCount: int
    targetDirty: bool
    recoverable: bool
    schemaVersion: Literal[1]
    legacyFileCount: int
    malformedFileCount: int
    pendingMigration: bool
    lastRun: LastRun | None
    pendingPreview: PreviewSummary | None


class OperationLockValue(Value):
    operation: str | None
    pid: int | None
    runId: str | None
    startedAt: str | None
    active: bool


class MalformedRecord(Value):
    path: str
    code: str
    line: int | None


class HealthValue(Value):
    memoryRoot: str
    rootSafe: bool
    gitAvailable: bool
    dataFileCount: int
    payloadDirty: bool
    operationLock: OperationLockValue | None
    activeRun: dict[str, Any] | None
    interruptedRun: dict[str, Any] | None
    pendingPreview: PreviewSummary | None
    pendingPreviewCount: int
    journalReadable: bool
    needsManualRecovery: bool
    malformedRecords: list[MalformedRecord]


class RunsValue(Value):
    runs: list[dict[str, Any]]


class LegacyRecord(Value):
    path: str
    id: str
    frontMatter: str
    createdAt: str
    updatedAt: str
    bytes: int


class LegacyRecordsValue(Value):
    count: int
    pendingMigration: bool
    records: list[LegacyRecord]


class MigrateLegacyValue(Value):
    dryRun: bool
    status: Literal["pending", "applied", "no_change"]
    legacyCount: int
    migratedCount: int
    changedPaths: list[str]
    recoveryCommit: str | None
    applyCommit: str | None
    journalCommit: str | None


class ClearValue(Value):
    alreadyEmpty: bool
    clearedFileCount: int
    recoveryCommit: str | None
    clearCommit: str | None


class RollbackValue(Value):
    rollbackCommit: str
    runId: str


class PreviewsValue(Value):
    previews: list[PreviewSummary]


class ApplyPreviewValue(Value):
    status: Literal["applied", "no_change"]
    previewId: str
    changed_paths: list[str]
    recovery_commit: str | None
    apply_commit: str | None
    journaled: bool


class DiscardPreviewValue(Value):
    removed: Literal[True]
    previewId: str


class SearchResult(Value):
    path: str
    score: int
    id: str
    type: str | None
    updated_at: str | None
    content_hash: str
    generation: int
    source_rollouts: list[str]
    snippet: str
    citation: str


class SearchValue(Value):
    query: str
    count: int
    results: list[SearchResult]
    skipped: int


class ContextRecord(Value):
    path: str
    id: str
    type: str | None
    content: str
    truncated: bool
    citation: str
    usage_count: int
    last_usage: str | None
    logical_id: str
    generation: int
    content_hash: str
    source_rollouts: list[str]


class ContextValue(Value):
    query: str | None
    count: int
    records: list[ContextRecord]
    skipped: int
