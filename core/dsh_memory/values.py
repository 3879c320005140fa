"""Pydantic models of the contract's values: what the tests hold every answer against; a value may carry more keys.

No answer is made through them, so that no call pays for loading them.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


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
