"""MemoryService: the only door for terminal UI, command line and hosts.

One method per `memory.*` method; every answer is the contract's envelope, and nothing is raised for a request, a
repository or a record that is not as it should be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypedDict

# Loaded before there are threads: two that first import parts of a package which itself imports them can meet
# half-made modules.
import dsh_memory.records  # noqa: F401
from dsh_memory.contract import METHODS, Method
from dsh_memory.environment import Environment, utc_now
from dsh_memory.errors import MemoryFailure, failure_of

if TYPE_CHECKING:
    from dsh_memory.answers import Memo
    from dsh_memory.repository.content import RecordCache
    from dsh_memory.repository.opening import Repository

_log = logging.getLogger("dsh_memory")


class ErrorValue(TypedDict, total=False):
    """`code` is the contract's; `message` is for a person; `detail` a short machine reason, where there is one."""

    code: str
    message: str
    detail: str


class Success(TypedDict):
    ok: Literal[True]
    value: dict[str, Any]


class Failure(TypedDict):
    ok: Literal[False]
    error: ErrorValue


Envelope = Success | Failure

#: The room below `repository` and the function in it that carries out a mutating method.
_CHANGES = {
    "clear": ("clearing", "clear"),
    "rollback": ("rollback", "rollback"),
    "apply_preview": ("preview_runs", "apply_preview"),
    "discard_preview": ("preview_runs", "discard_preview"),
    "migrate_legacy": ("migration", "migrate_legacy"),
}


class MemoryService:
    """The whole contract over one memory root; safe to use from several threads.

    The repository is opened anew for each call, so that a root that comes, goes or is replaced is seen at once; what
    was parsed is kept between calls.
    """

    def __init__(self, environment: Environment, *, clock: Callable[[], datetime] = utc_now) -> None:
        self.environment = environment
        self.clock = clock
        self._memo: Memo | None = None

    def call(self, method: str, params: object = None, *, expected_head: str | None = None) -> Envelope:
        """Answers one method of the contract; raises KeyError for a name that is no method.

        `params` is the contract's request object (None where there is none). With `expected_head`, a mutating call is
        refused when HEAD is another commit by then: a dialog that showed a plan binds its confirmation to it.
        """
        entry = METHODS[method]
        return self._answered(
            entry.name, entry.failure_code, lambda: self._dispatch(entry, params, expected_head)
        )

    def get_settings(self) -> Envelope:
        """`memory.getSettings()`"""
        return self.call("memory.getSettings")

    def set_enabled(self, enabled: bool) -> Envelope:
        """`memory.setEnabled({enabled})`"""
        return self.call("memory.setEnabled", {"enabled": enabled})

    def status(self) -> Envelope:
        """`memory.status()`"""
        return self.call("memory.status")

    def health(self) -> Envelope:
        """`memory.health()`"""
        return self.call("memory.health")

    def runs(
        self, limit: int | None = None, operation: str | None = None, status: str | None = None
    ) -> Envelope:
        """`memory.runs({limit, operation, status})`"""
        return self.call("memory.runs", {"limit": limit, "operation": operation, "status": status})

    def legacy_records(self) -> Envelope:
        """`memory.legacyRecords()`"""
        return self.call("memory.legacyRecords")

    def migrate_legacy(self, *, dry_run: bool) -> Envelope:
        """`memory.migrateLegacy({dryRun})`"""
        return self.call("memory.migrateLegacy", {"dryRun": dry_run})

    def clear(self, confirmation: str, *, expected_head: str | None = None) -> Envelope:
        """`memory.clear({confirmation})`"""
        return self.call("memory.clear", {"confirmation": confirmation}, expected_head=expected_head)

    def rollback(self, run_id: str, confirmation: str, *, expected_head: str | None = None) -> Envelope:
        """`memory.rollback({runId, confirmation})`"""
        params = {"runId": run_id, "confirmation": confirmation}
        return self.call("memory.rollback", params, expected_head=expected_head)

    def previews(self) -> Envelope:
        """`memory.previews()`"""
        return self.call("memory.previews")

    def apply_preview(self, preview_id: str, *, expected_head: str | None = None) -> Envelope:
        """`memory.applyPreview({previewId})`"""
        return self.call("memory.applyPreview", {"previewId": preview_id}, expected_head=expected_head)

    def discard_preview(self, preview_id: str) -> Envelope:
        """`memory.discardPreview({previewId})`"""
        return self.call("memory.discardPreview", {"previewId": preview_id})

    def search(self, query: str, limit: int | None = None, scope: str | None = None) -> Envelope:
        """`memory.search({query, limit, scope})`"""
        return self.call("memory.search", {"query": query, "limit": limit, "scope": scope})

    def context(
        self, query: str | None = None, limit: int | None = None, scope: str | None = None
    ) -> Envelope:
        """`memory.context({query, limit, scope})`"""
        return self.call("memory.context", {"query": query, "limit": limit, "scope": scope})

    @property
    def records(self) -> RecordCache:
        """What is remembered of record files; an inspector beside this service may share it."""
        return self._remembered().records

    def warm(self) -> None:
        """For a long-lived process: read what a search needs, so that the first one is as fast as any.

        Raises MemoryFailure, as the search would answer it.
        """
        from dsh_memory.answers import Call
        from dsh_memory.repository.opening import Repository

        with Repository.open(self.environment) as repository:
            Call(repository, self.clock(), self._remembered()).warm()

    def keep_index(self) -> None:
        """For a process about to end after a search: leave the next one an index, where that makes it much faster."""
        if self._memo is not None and self._memo.index is not None:
            from dsh_memory.answers import Call
            from dsh_memory.repository.opening import Repository

            with Repository.open(self.environment) as repository:
                Call(repository, self.clock(), self._memo).keep_index()

    def init(self) -> Envelope:
        """Creates the memory repository, or restores what one lacks; the value: `created`, and `restored` paths."""

        def answer() -> dict[str, Any]:
            from dsh_memory.repository.creation import init

            result = init(self.environment, self.clock)
            return {"created": result.created, "restored": list(result.restored)}

        return self._answered("init", "repo-unavailable", answer)

    def recover(self) -> Envelope:
        """Finishes or undoes what dead processes left; the value is what was done, `nothingToDo` included."""

        def change(repository: Repository) -> dict[str, Any]:
            from dsh_memory.repository.mutation import recover

            done = recover(repository, self.clock)
            return {
                "nothingToDo": done.did_nothing,
                "rolledForward": done.forward,
                "rolledBack": done.back,
                "resolvedRuns": done.resolved,
                "restoredPaths": done.restored,
                "leftPaths": done.left,
                "removedLocks": done.locks,
                "leftLocks": done.locks_left,
                "erased": done.erased,
            }

        return self._changed("recover", change)

    def save(self, message: str | None = None, *, expected_head: str | None = None) -> Envelope:
        """Commits what editors left in the payload as one journaled run, after its front matter was checked."""

        def change(repository: Repository) -> dict[str, Any]:
            from dsh_memory.repository.editing import save

            cache = self._remembered().records
            return save(repository, self.clock, message, expected_head=expected_head, cache=cache)

        return self._changed("save", change)

    def write_record(self, path: str, old: bytes | None, new: bytes | None) -> Envelope:
        """Writes one payload file (None deletes) as a journaled run, where it still holds `old` (None: is missing)."""

        def change(repository: Repository) -> dict[str, Any]:
            from dsh_memory.repository.editing import write_paths

            cache = self._remembered().records
            return write_paths(repository, self.clock, {path: new}, expected={path: old}, cache=cache)

        return self._changed("write_record", change)

    def restore_record(self, path: str, commit: str, *, expected_head: str | None = None) -> Envelope:
        """Writes a record as it was at a commit of HEAD's history, as a journaled run; no step back in history."""

        def change(repository: Repository) -> dict[str, Any]:
            from dsh_memory.repository.restoring import restore_record

            cache = self._remembered().records
            return restore_record(
                repository, self.clock, path, commit, expected_head=expected_head, cache=cache
            )

        return self._changed("restore_record", change)

    def _changed(self, name: str, change: Callable[[Repository], dict[str, Any]]) -> Envelope:
        def answer() -> dict[str, Any]:
            from dsh_memory.repository.opening import Repository

            with Repository.open(self.environment) as repository:
                return change(repository)

        return self._answered(name, "repo-unavailable", answer)

    def _dispatch(self, method: Method, params: object, expected_head: str | None) -> dict[str, Any]:
        request = checked_request(method, params)
        if not method.opens_repository:
            return self._settings(**request)
        from dsh_memory import answers
        from dsh_memory.repository.opening import Repository

        with Repository.open(self.environment) as repository:
            if method.mutating and not request.get("dry_run"):
                return self._change(method, repository, request, expected_head)
            answer: Callable[..., dict[str, Any]] = getattr(answers, method.attribute)
            return answer(answers.Call(repository, self.clock(), self._remembered()), **request)

    def _remembered(self) -> Memo:
        if self._memo is None:
            from dsh_memory.answers import Memo

            self._memo = Memo()
        return self._memo

    def _change(
        self, method: Method, repository: Repository, request: dict[str, Any], expected_head: str | None
    ) -> dict[str, Any]:
        room, name = _CHANGES[method.attribute]
        # What the request was checked for; the change itself does not need it.
        given = {key: value for key, value in request.items() if key not in ("confirmation", "dry_run")}
        if method.attribute != "discard_preview":
            given["cache"] = self._remembered().records
        change: Callable[..., dict[str, Any]] = getattr(import_module(f"dsh_memory.repository.{room}"), name)
        return change(repository, self.clock, expected_head=expected_head, **given)

    def _settings(self, enabled: bool | None = None) -> dict[str, Any]:
        from dsh_memory.hosts.settings import Settings

        settings = Settings(self.environment)
        return {"enabled": settings.enabled() if enabled is None else settings.set_enabled(enabled)}

    def _answered(self, name: str, failure_code: str, answer: Callable[[], dict[str, Any]]) -> Envelope:
        try:
            return {"ok": True, "value": answer()}
        except MemoryFailure as failure:
            return failed(failure)
        except Exception as error:
            from dsh_memory.repository.failures import refusal
            from dsh_memory.repository.git import GitFailed

            if isinstance(error, (GitFailed, OSError)):
                # A damaged object, a disk that gives errors: `verify` says more.
                detail, message = refusal(error)
                return failed(failure_of(failure_code, message, detail=detail))
            # A fault of ours must not become a traceback in a host; the log has it whole.
            _log.exception("%s failed", name)
            message = f"{name} could not be finished ({type(error).__name__})."
            return failed(failure_of(failure_code, message, detail="unexpected"))


def checked_request(method: Method, params: object) -> dict[str, Any]:
    """The request's fields by Python name; a MemoryFailure with the method's own code for one that does not fit."""
    if method.request is None:
        return {}
    from dsh_memory.requests import REQUESTS, InvalidField, checked

    if params is None or (method.invalid_code is None and not isinstance(params, Mapping)):
        params = {}
    try:
        return checked(REQUESTS[method.request], params)
    except InvalidField as error:
        code = method.invalid_code or method.failure_code
        raise failure_of(code, f"{error}.", detail="invalid-request") from None


def failed(failure: MemoryFailure) -> Failure:
    """The envelope of a failure."""
    error: ErrorValue = {"code": failure.code, "message": failure.message}
    if failure.detail is not None:
        error["detail"] = failure.detail
    return {"ok": False, "error": error}
