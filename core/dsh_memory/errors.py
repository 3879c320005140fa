"""The exception tree: one class for each stable code of the contract.

MemoryFailure
├── RepoUnavailable          repo-unavailable
├── UnsafeLayout             unsafe-layout
├── OperationInProgress      operation-in-progress
├── InterruptedRun           interrupted-run
├── SettingsFailure          settings-invalid-request | settings-unavailable | settings-write-failed
├── ClearFailure             checkpoint-failed | clear-failed | commit-failed
├── MigrationFailure         migration-invalid-request | migration-read-failed | migration-failed
├── RollbackFailure          rollback-invalid-confirmation | -run-not-found | -not-applicable | -conflict | -failed
├── RestoreFailure           restore-invalid-request | restore-version-not-found | restore-conflict
├── PreviewFailure           preview-invalid-request | -not-found | -expired | -apply-failed | live-memory-changed
├── SearchFailure            search-invalid-request | search-failed
├── ContextFailure           context-invalid-request | usage-invalid | context-failed
├── SessionFailure           session-unreadable | session-corrupt | session-empty
├── SyncFailure              sync-invalid-request | agent-missing | agent-failed | agent-timed-out | sync-failed
├── BackupFailure            backup-invalid | backup-target-exists | backup-failed
└── ChangeRefused            what a staged change may not do (a journal's error_code, an answer's detail)
"""

from __future__ import annotations

from typing import ClassVar


class MemoryFailure(Exception):
    """A refusal or failure with a stable code.

    `code` is the contract's; `detail` a short machine reason (kebab-case, or a path); `message` one sentence for a
    person, which never holds record text; `hint` says what to do next.
    """

    codes: ClassVar[dict[str, str]] = {}

    def __init__(self, code: str, message: str, *, detail: str | None = None) -> None:
        if code not in self.codes:
            raise ValueError(f"{type(self).__name__} has no code {code!r}")
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail

    @property
    def hint(self) -> str:
        """What a person can do about it."""
        return self.codes[self.code]


class RepoUnavailable(MemoryFailure):
    codes: ClassVar[dict[str, str]] = {
        "repo-unavailable": "Check the memory root, or create one with: dsh-memory init",
    }

    def __init__(self, message: str, *, detail: str | None = None) -> None:
        super().__init__("repo-unavailable", message, detail=detail)


class UnsafeLayout(MemoryFailure):
    codes: ClassVar[dict[str, str]] = {
        "unsafe-layout": "Remove the link, special file or nested repository named here; nothing was read through it.",
    }

    def __init__(self, message: str, *, detail: str | None = None) -> None:
        super().__init__("unsafe-layout", message, detail=detail)


class OperationInProgress(MemoryFailure):
    codes: ClassVar[dict[str, str]] = {
        "operation-in-progress": "Another program is changing this memory. Try again in a moment; "
        "Health names the holder.",
    }

    def __init__(self, message: str, *, detail: str | None = None) -> None:
        super().__init__("operation-in-progress", message, detail=detail)


class InterruptedRun(MemoryFailure):
    codes: ClassVar[dict[str, str]] = {
        "interrupted-run": "Look at: dsh-memory health, then run: dsh-memory recover",
    }

    def __init__(self, message: str, *, detail: str | None = None) -> None:
        super().__init__("interrupted-run", message, detail=detail)


class SettingsFailure(MemoryFailure):
    codes: ClassVar[dict[str, str]] = {
        "settings-invalid-request": "Give enabled as true or false.",
        "settings-unavailable": "settings.yaml cannot be read; mend or remove it, then try again.",
        "settings-write-failed": "settings.yaml was left as it was; check its permissions and the free space.",
    }


class ClearFailure(MemoryFailure):
    codes: ClassVar[dict[str, str]] = {
        "checkpoint-failed": "Nothing was cleared; the recovery point could not be made. Run: dsh-memory doctor",
        "clear-failed": "Nothing was cleared. The reason is in the message.",
        "commit-failed": "Nothing was cleared; Git refused the commit. Run: git status in the memory root",
    }


class MigrationFailure(MemoryFailure):
    codes: ClassVar[dict[str, str]] = {
        "migration-invalid-request": "Give dryRun as true or false.",
        "migration-read-failed": "A legacy record cannot be read; check its permissions.",
        "migration-failed": "Nothing was migrated. The reason is in the message.",
    }


class RollbackFailure(MemoryFailure):
    codes: ClassVar[dict[str, str]] = {
        "rollback-invalid-confirmation": "Give the confirmation value exactly as asked.",
        "rollback-run-not-found": "List the runs with: dsh-memory runs",
        "rollback-not-applicable": "Only an applied run can be rolled back.",
        "rollback-conflict": "Memory changed since that run: save outside edits with: dsh-memory save, "
        "or roll back the newer runs first.",
        "rollback-failed": "Nothing was rolled back. The reason is in the message.",
    }


class RestoreFailure(MemoryFailure):
    codes: ClassVar[dict[str, str]] = {
        "restore-invalid-request": "Give a record's path and the id of a commit, as its history lists them.",
        "restore-version-not-found": "Look at the record's history; what was erased for good cannot come back.",
        "restore-conflict": "Save outside edits with: dsh-memory save, then look again.",
    }


class PreviewFailure(MemoryFailure):
    codes: ClassVar[dict[str, str]] = {
        "preview-invalid-request": "Give the id of a pending preview; list them with: dsh-memory previews",
        "preview-not-found": "List the pending previews with: dsh-memory previews",
        "preview-expired": "It can only be discarded; make a new preview.",
        "live-memory-changed": "Memory changed since the preview was made; make a new preview from the memory of now.",
        "preview-apply-failed": "Nothing was applied. The reason is in the message.",
    }


class SearchFailure(MemoryFailure):
    codes: ClassVar[dict[str, str]] = {
        "search-invalid-request": "Give a query with at least one letter or number; scope is active, archive or all.",
        "search-failed": "The search could not be finished; run: dsh-memory health",
    }


class ContextFailure(MemoryFailure):
    codes: ClassVar[dict[str, str]] = {
        "context-invalid-request": "limit is 1 to 20; a query needs at least one letter or number.",
        "usage-invalid": ".sync/usage.json cannot be read; search still works. "
        "Rebuild it with: dsh-memory verify --repair",
        "context-failed": "The context could not be read; run: dsh-memory health",
    }


class SessionFailure(MemoryFailure):
    codes: ClassVar[dict[str, str]] = {
        "session-unreadable": "Check the path and its permissions.",
        "session-corrupt": "The log is damaged before its end; nothing was made of it.",
        "session-empty": "Give a session log of the host: session.jsonl.zstd, or its lines as JSON.",
    }


class SyncFailure(MemoryFailure):
    codes: ClassVar[dict[str, str]] = {
        "sync-invalid-request": "See: dsh-memory sync --help",
        "agent-missing": "Install the host, or name a program with DSH_BIN, DSH_MEMORY_AGENT or --agent-command.",
        "agent-failed": "Memory is as it was. What the agent said last stands above.",
        "agent-timed-out": "Memory is as it was. Allow more time with --time-limit.",
        "sync-failed": "Memory is as it was. The reason is in the message.",
    }


class BackupFailure(MemoryFailure):
    codes: ClassVar[dict[str, str]] = {
        "backup-invalid": "The bundle is damaged or was not made by dsh-memory backup export; nothing was written.",
        "backup-target-exists": "Name a folder that does not exist yet.",
        "backup-failed": "Nothing was left behind. The reason is in the message.",
    }


class ChangeRefused(MemoryFailure):
    """A staged change that breaks a rule (`spec`: repository, Previews and staging); `path` is the file at fault."""

    codes: ClassVar[dict[str, str]] = {
        "file-too-large": "A changed file may hold 1 MiB at most.",
        "too-many-files": "A change may add 50 files at most.",
        "change-too-large": "A change may hold 5 MiB in all.",
        "binary-file": "Records are UTF-8 text without NUL.",
        "staging-invalid": "A change may touch summary.md, handbook/, rollouts/ and archive/ only.",
        "unsafe-layout": "A change may hold plain files only, no links.",
        "invalid-metadata": "Mend the front matter at the line named.",
        "invalid-schema-version": "Front matter begins with schema_version: 1",
        "invalid-id": "An id looks like project/codegen: small letters, digits, hyphens, at most one slash.",
        "duplicate-id": "Give each record an id of its own.",
        "secret-detected": "Take the secret out, or allow the line in the allow-list.",
    }

    def __init__(self, code: str, message: str, *, path: str | None = None, line: int | None = None) -> None:
        super().__init__(code, message, detail=code)
        self.path = path
        self.line = line

    @property
    def placed(self) -> str:
        """The message with the file and line at fault in front."""
        line = "" if self.line is None else f", line {self.line}"
        return self.message if self.path is None else f"{self.path}{line}: {self.message}"


def hint_of(code: str) -> str | None:
    """What a person can do about a code; None for a code that is none of ours."""
    return next((kind.codes[code] for kind in MemoryFailure.__subclasses__() if code in kind.codes), None)


def failure_of(code: str, message: str, *, detail: str | None = None) -> MemoryFailure:
    """A failure of the class that `code` belongs to, for callers that take codes from the method table."""
    for kind in MemoryFailure.__subclasses__():
        if code in kind.codes and kind is not ChangeRefused:
            failure = kind.__new__(kind)
            MemoryFailure.__init__(failure, code, message, detail=detail)
            return failure
    raise ValueError(f"{code!r} is no code of the contract")
