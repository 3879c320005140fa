"""The wire: one table of the `memory.*` methods that feeds service, command line, hosts, docs and tests.

The pydantic models of values (`values.py`) load only in tests: pydantic costs more than a cold `status`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Method:
    """One method: its wire name, the service attribute that serves it, its request and value by name, its own codes.

    `request` names it in `requests.REQUESTS`, None where the contract gives the method no request object.
    `invalid_code` is the code of a request that does not fit, `failure_code` that of a fault which no other code names.
    `codes` are those beyond the ones every method may answer (`ANY_METHOD_CODES`, for a mutating one also
    `operation-in-progress`). `opens_repository` is false for the two settings methods.
    """

    name: str
    attribute: str
    value: str
    codes: tuple[str, ...]
    summary: str
    request: str | None = None
    invalid_code: str | None = None
    failure_code: str = "repo-unavailable"
    mutating: bool = False
    destructive: bool = False
    opens_repository: bool = True

    @property
    def all_codes(self) -> frozenset[str]:
        """Every code this method may answer."""
        return frozenset(
            self.codes
            + (ANY_METHOD_CODES if self.opens_repository else ())
            + (("operation-in-progress",) if self.mutating and self.opens_repository else ())
        )

    def value_model(self) -> type[BaseModel]:
        """The pydantic model of the value, loaded now."""
        found: type[BaseModel] = getattr(import_module("dsh_memory.values"), self.value)
        return found


ANY_METHOD_CODES = ("repo-unavailable", "unsafe-layout")

_TABLE = (
    Method(
        "memory.getSettings",
        "get_settings",
        value="SettingsValue",
        failure_code="settings-unavailable",
        codes=("settings-unavailable",),
        summary="Whether memory is switched on",
        opens_repository=False,
    ),
    Method(
        "memory.setEnabled",
        "set_enabled",
        request="set_enabled",
        value="SettingsValue",
        invalid_code="settings-invalid-request",
        failure_code="settings-write-failed",
        codes=("settings-invalid-request", "settings-unavailable", "settings-write-failed"),
        summary="Switch memory on or off",
        mutating=True,
        opens_repository=False,
    ),
    Method("memory.status", "status", value="StatusValue", codes=(), summary="What is there, in numbers"),
    Method(
        "memory.health",
        "health",
        value="HealthValue",
        codes=(),
        summary="Whether all is well, and what to do",
    ),
    Method(
        "memory.runs",
        "runs",
        request="runs",
        value="RunsValue",
        codes=(),
        summary="Journaled runs, newest first",
    ),
    Method(
        "memory.legacyRecords",
        "legacy_records",
        value="LegacyRecordsValue",
        failure_code="migration-read-failed",
        codes=("migration-read-failed",),
        summary="Records without front matter",
    ),
    Method(
        "memory.migrateLegacy",
        "migrate_legacy",
        request="migrate",
        value="MigrateLegacyValue",
        invalid_code="migration-invalid-request",
        failure_code="migration-failed",
        codes=("migration-invalid-request", "migration-read-failed", "interrupted-run", "migration-failed"),
        summary="Give legacy records front matter",
        mutating=True,
    ),
    Method(
        "memory.clear",
        "clear",
        request="clear",
        value="ClearValue",
        invalid_code="clear-failed",
        failure_code="clear-failed",
        codes=("checkpoint-failed", "clear-failed", "commit-failed"),
        summary="Empty the memory; Git keeps it",
        mutating=True,
        destructive=True,
    ),
    Method(
        "memory.rollback",
        "rollback",
        request="rollback",
        value="RollbackValue",
        invalid_code="rollback-invalid-confirmation",
        failure_code="rollback-failed",
        codes=(
            "rollback-invalid-confirmation",
            "rollback-run-not-found",
            "rollback-not-applicable",
            "rollback-conflict",
            "rollback-failed",
        ),
        summary="Undo a journaled run by a new commit",
        mutating=True,
        destructive=True,
    ),
    Method(
        "memory.previews",
        "previews",
        value="PreviewsValue",
        codes=(),
        summary="Changes waiting for a decision",
    ),
    Method(
        "memory.applyPreview",
        "apply_preview",
        request="preview",
        value="ApplyPreviewValue",
        invalid_code="preview-invalid-request",
        failure_code="preview-apply-failed",
        codes=(
            "preview-invalid-request",
            "preview-not-found",
            "preview-expired",
            "live-memory-changed",
            "preview-apply-failed",
        ),
        summary="Apply a preview as a journaled run",
        mutating=True,
    ),
    Method(
        "memory.discardPreview",
        "discard_preview",
        request="preview",
        value="DiscardPreviewValue",
        invalid_code="preview-invalid-request",
        codes=("preview-invalid-request", "preview-not-found"),
        summary="Remove a preview without applying it",
        mutating=True,
    ),
    Method(
        "memory.search",
        "search",
        request="search",
        value="SearchValue",
        invalid_code="search-invalid-request",
        failure_code="search-failed",
        codes=("search-invalid-request", "search-failed"),
        summary="Full-text search over records",
    ),
    Method(
        "memory.context",
        "context",
        request="context",
        value="ContextValue",
        invalid_code="context-invalid-request",
        failure_code="context-failed",
        codes=("context-invalid-request", "usage-invalid", "context-failed"),
        summary="Bounded records for a model, counted as used",
    ),
)

#: Every method by its wire name, in the order of the contract.
METHODS: dict[str, Method] = {method.name: method for method in _TABLE}

#: The two agent tools: tool name -> the method that answers it.
AGENT_TOOLS = {"memory_search": "memory.search", "memory_context": "memory.context"}
