"""The inspector: one read-only question for each thing the screen shows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from dsh_memory.environment import Environment, utc_now
from dsh_memory.errors import RepoUnavailable
from dsh_memory.inspection import overview, records, runs
from dsh_memory.inspection.looking import look
from dsh_memory.inspection.values import (
    FileDiff,
    Overview,
    PreviewView,
    RecordEntry,
    RecordView,
    RunRow,
    RunView,
    Snapshot,
    TopicView,
)
from dsh_memory.inspection.visiting import Memo, Visit
from dsh_memory.inspection.watching import Begun, Watch
from dsh_memory.repository.content import RecordCache
from dsh_memory.repository.git import GitFailed
from dsh_memory.repository.opening import Repository

if TYPE_CHECKING:
    from dsh_memory.inspection.plan_values import (
        ApplyPlan,
        ClearPlan,
        DiscardPlan,
        MigratePlan,
        RecoverPlan,
        RestorePlan,
        RollbackPlan,
        SavePlan,
    )


class Inspector:
    """Reads one memory root for a person; every method raises MemoryFailure, and none writes.

    It may be used from several threads. It remembers what it read of files that have not changed since. The rooms
    that only some questions need are imported by those, so that a first snapshot waits for none of them.
    """

    def __init__(
        self,
        environment: Environment,
        clock: Callable[[], datetime] = utc_now,
        *,
        records: RecordCache | None = None,
    ) -> None:
        """`records` may be shared with a service, so that each file is parsed once for both."""
        self.environment = environment
        self.clock = clock
        self._memo = Memo() if records is None else Memo(records=records)
        self._watch = Watch(environment)
        self._watch_lock = threading.Lock()
        self._visit_lock = threading.Lock()

    def stamp(self) -> Hashable:
        """A value that changes when anything shown may have changed; it never raises."""
        with self._watch_lock:
            return self._watch.look(self.clock())

    def snapshot(self, run_limit: int = 1000) -> Snapshot:
        """The overview and all lists, read from one state."""
        # Taken first: a change in the middle of the reading shows at the next look.
        with self._watch_lock:
            stamp = self._watch.first_look(self.clock())
        with self._visit() as visit:
            snapshot = overview.snapshot(visit, stamp, run_limit)
        scan = self._memo.records.last_scan
        if scan is not None:
            with self._watch_lock:
                self._watch.begin_with(scan)
        return snapshot

    @property
    def begun(self) -> Begun | None:
        """The payload's file times as the first snapshot read them, for `continue_from` in another process."""
        return self._watch.begun

    def continue_from(self, begun: Begun | None) -> None:
        """Watch on from a first snapshot that another process read."""
        with self._watch_lock:
            self._watch.begun = begun

    def overview(self) -> Overview:
        """Everything Status, Health and the frame show."""
        with self._visit() as visit:
            return overview.overview(visit)

    def records(self) -> tuple[RecordEntry, ...]:
        """All record files, by path."""
        with self._visit() as visit:
            return overview.entries(visit, look(visit))

    def record(self, path: str, history_limit: int = 20) -> RecordView:
        """One record file, whole; RepoUnavailable (detail `record-missing`) when it is gone."""
        with self._visit() as visit:
            return records.record_view(visit, path, history_limit)

    def source(self, path: str) -> bytes:
        """One record file's bytes, for an editor; RepoUnavailable (`record-missing`) when it is gone."""
        with self._visit() as visit:
            return records.source(visit, path)

    def topic(self, path: str) -> TopicView | None:
        """The topic of one record; None for a legacy or malformed one, which belong to none."""
        with self._visit() as visit:
            return records.topic_view(visit, path)

    def runs(
        self, limit: int | None = 200, *, operation: str | None = None, status: str | None = None
    ) -> tuple[RunRow, ...]:
        """Journaled runs, newest first; the filters come before the limit, None is all."""
        with self._visit() as visit:
            return runs.run_rows(visit.journal, limit, operation, status)

    def run(self, run_id: str) -> RunView:
        """One run, whole; RollbackFailure `rollback-run-not-found` when the journal has none of that id."""
        with self._visit() as visit:
            return runs.run_view(visit, run_id)

    def run_diff(self, run_id: str, path: str) -> FileDiff:
        """Both sides of one file that a run changed."""
        with self._visit() as visit:
            return runs.run_diff(visit, run_id, path)

    def preview(self, preview_id: str) -> PreviewView:
        """One pending preview, whole; PreviewFailure when it is missing or expired."""
        from dsh_memory.inspection import previews

        with self._visit() as visit:
            return previews.preview_view(visit, preview_id)

    def preview_diff(self, preview_id: str, path: str) -> FileDiff:
        """Both sides of one file that a preview would change: the live file and the staged one."""
        from dsh_memory.inspection import previews

        with self._visit() as visit:
            return previews.preview_diff(visit, preview_id, path)

    def clear_plan(self) -> ClearPlan:
        """What `memory.clear` would do now."""
        from dsh_memory.inspection import plans

        with self._visit() as visit:
            return plans.clear_plan(visit)

    def rollback_plan(self, run_id: str) -> RollbackPlan:
        """What `memory.rollback` of one run would do now."""
        from dsh_memory.inspection import plans

        with self._visit() as visit:
            return plans.rollback_plan(visit, run_id)

    def apply_plan(self, preview_id: str) -> ApplyPlan:
        """What `memory.applyPreview` would do now."""
        from dsh_memory.inspection import plans

        with self._visit() as visit:
            return plans.apply_plan(visit, preview_id)

    def discard_plan(self, preview_id: str) -> DiscardPlan:
        """What `memory.discardPreview` would do now."""
        from dsh_memory.inspection import plans

        with self._visit() as visit:
            return plans.discard_plan(visit, preview_id)

    def migrate_plan(self) -> MigratePlan:
        """What `memory.migrateLegacy` would do now."""
        from dsh_memory.inspection import mending

        with self._visit() as visit:
            return mending.migrate_plan(visit)

    def recover_plan(self) -> RecoverPlan:
        """What `dsh-memory recover` would do now."""
        from dsh_memory.inspection import mending

        with self._visit() as visit:
            return mending.recover_plan(visit)

    def save_plan(self) -> SavePlan:
        """What `dsh-memory save` would commit now."""
        from dsh_memory.inspection import mending

        with self._visit() as visit:
            return mending.save_plan(visit)

    def restore_plan(self, path: str, commit: str) -> RestorePlan:
        """What restoring one version of a record would do now; RestoreFailure for what is no version of it."""
        from dsh_memory.inspection import restoring

        with self._visit() as visit:
            return restoring.restore_plan(visit, path, commit)

    @contextmanager
    def _visit(self) -> Iterator[Visit]:
        try:
            with self._visit_lock, Repository.open(self.environment) as repository:
                yield Visit(repository, self.clock(), self._memo)
        except GitFailed as failure:
            raise RepoUnavailable(f"Git refused: {failure.message}", detail="git-refused") from failure
        except OSError as error:
            raise RepoUnavailable(f"The system refused: {error.strerror}.", detail="os-error") from error
