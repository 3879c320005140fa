"""The inspector: one read-only question for each thing the screen shows."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import datetime

from dsh_memory.environment import Environment, utc_now
from dsh_memory.inspection.values import (
    ApplyPlan,
    ClearPlan,
    DiscardPlan,
    FileDiff,
    MigratePlan,
    Overview,
    PreviewView,
    RecordEntry,
    RecordView,
    RecoverPlan,
    RollbackPlan,
    RunRow,
    RunView,
    SavePlan,
    Snapshot,
    TopicView,
)


class Inspector:
    """Reads one memory root for a person; every method raises MemoryFailure, and none writes.

    One inspector may be called from several threads, one call at a time. It remembers what it read of files
    that have not changed since.
    """

    def __init__(self, environment: Environment, clock: Callable[[], datetime] = utc_now) -> None:
        self.environment = environment
        self.clock = clock

    def stamp(self) -> Hashable:
        """A value that changes when anything shown may have changed; it never raises."""
        raise NotImplementedError

    def snapshot(self, run_limit: int = 200) -> Snapshot:
        """The overview and all lists, read from one state."""
        raise NotImplementedError

    def overview(self) -> Overview:
        """Everything Status, Health and the frame show."""
        raise NotImplementedError

    def records(self) -> tuple[RecordEntry, ...]:
        """All record files, by path."""
        raise NotImplementedError

    def record(self, path: str, history_limit: int = 20) -> RecordView:
        """One record file, whole; RepoUnavailable (detail `record-missing`) when it is gone."""
        raise NotImplementedError

    def topic(self, path: str) -> TopicView | None:
        """The topic of one record; None for a legacy or malformed one, which belong to none."""
        raise NotImplementedError

    def runs(
        self, limit: int | None = 200, *, operation: str | None = None, status: str | None = None
    ) -> tuple[RunRow, ...]:
        """Journaled runs, newest first; the filters come before the limit, None is all."""
        raise NotImplementedError

    def run(self, run_id: str) -> RunView:
        """One run, whole; RollbackFailure `rollback-run-not-found` when the journal has none of that id."""
        raise NotImplementedError

    def run_diff(self, run_id: str, path: str) -> FileDiff:
        """Both sides of one file that a run changed."""
        raise NotImplementedError

    def preview(self, preview_id: str) -> PreviewView:
        """One pending preview, whole; PreviewFailure when it is missing or expired."""
        raise NotImplementedError

    def preview_diff(self, preview_id: str, path: str) -> FileDiff:
        """Both sides of one file that a preview would change: the live file and the staged one."""
        raise NotImplementedError

    def clear_plan(self) -> ClearPlan:
        """What `memory.clear` would do now."""
        raise NotImplementedError

    def rollback_plan(self, run_id: str) -> RollbackPlan:
        """What `memory.rollback` of one run would do now."""
        raise NotImplementedError

    def apply_plan(self, preview_id: str) -> ApplyPlan:
        """What `memory.applyPreview` would do now."""
        raise NotImplementedError

    def discard_plan(self, preview_id: str) -> DiscardPlan:
        """What `memory.discardPreview` would do now."""
        raise NotImplementedError

    def migrate_plan(self) -> MigratePlan:
        """What `memory.migrateLegacy` would do now."""
        raise NotImplementedError

    def recover_plan(self) -> RecoverPlan:
        """What `dsh-memory recover` would do now."""
        raise NotImplementedError

    def save_plan(self) -> SavePlan:
        """What `dsh-memory save` would commit now."""
        raise NotImplementedError
