"""A sync from its first look to its last word: candidates, a private copy, the agent, the rules, and one
end of four.

The change is applied as a journaled run, put up as a preview, found empty, or refused; whatever happens,
the live memory is as it was until a verified change is in Git (`design.md` §5.10). The watermark moves
with the journal commit of a run that was applied or changed nothing, and with no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from dsh_memory.environment import Environment
from dsh_memory.errors import ChangeRefused, MemoryFailure, SyncFailure, UnsafeLayout
from dsh_memory.hosts.settings import Settings
from dsh_memory.repository.changes import StagedFile
from dsh_memory.repository.content import is_record_path
from dsh_memory.repository.failures import TransactionFailed, failing
from dsh_memory.repository.forgotten import forgotten_again
from dsh_memory.repository.journal import RunRecord, new_run_id
from dsh_memory.repository.layout import RECORD_FOLDERS
from dsh_memory.repository.lock import Clock, OperationLock
from dsh_memory.repository.mutation import answering, locked
from dsh_memory.repository.objects import EXECUTABLE_MODE, FILE_MODE, Entry
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.preview_creation import check_new_id, create_preview
from dsh_memory.repository.staging import (
    Base,
    StagedChange,
    check_staged,
    copy_payload,
    read_change,
    read_old,
    verdicts,
)
from dsh_memory.repository.states import digest_of
from dsh_memory.repository.transaction import Change, Transaction
from dsh_memory.repository.view import PayloadView, payload_view
from dsh_memory.repository.watermark import WATERMARK, set_mtime, watermark_bytes
from dsh_memory.sync.agent import (
    DEFAULT_TIME_LIMIT_SECONDS,
    agent_command,
    agent_environment,
    run_agent,
    write_patch,
)
from dsh_memory.sync.candidates import Submission, Window, window_of, write_transcripts
from dsh_memory.sync.caution import reasons_for_approval
from dsh_memory.sync.prompt import consolidation_prompt
from dsh_memory.sync.sessions import SessionFile
from dsh_memory.sync.stopping import Stopping
from dsh_memory.sync.workfolder import WorkFolder
from dsh_memory.text import visible

Status = Literal["applied", "no_change", "preview", "would_apply", "disabled"]
Say = Callable[[str], None]

_APPROVAL: Final = "approval-needed"


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """How to sync: `preview` puts the change up under `preview_id` (or a new one), `dry_run` leaves no
    trace.
    """

    dry_run: bool = False
    preview: bool = False
    preview_id: str | None = None
    agent: str | None = None
    time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS


@dataclass(frozen=True, slots=True)
class SyncReport:
    """How a sync ended; the counts are those of the contract. `reasons` say why a dry run's change would
    wait.
    """

    status: Status
    run_id: str | None = None
    preview_id: str | None = None
    candidates: int = 0
    processed: int = 0
    skipped: int = 0
    changed_paths: tuple[str, ...] = ()
    recovery_commit: str | None = None
    apply_commit: str | None = None
    answer: str = ""
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The report for machines."""
        return {
            "status": self.status,
            "runId": self.run_id,
            "previewId": self.preview_id,
            "candidate_sessions": self.candidates,
            "processed_sessions": self.processed,
            "skipped_sessions": self.skipped,
            "changed_paths": list(self.changed_paths),
            "recovery_commit": self.recovery_commit,
            "apply_commit": self.apply_commit,
            "agentAnswer": self.answer,
            "notes": list(self.notes),
            "reasons": list(self.reasons),
        }


def list_candidates(environment: Environment, clock: Clock) -> tuple[Window, list[SessionFile]]:
    """The window of a sync that would start now, and the sessions in it; starts nothing and writes
    nothing.
    """
    with Repository.open(environment) as repo:
        window = window_of(repo.root, clock())
        return window, window.sessions(environment.dsh_home)


def sync(
    environment: Environment, clock: Clock, options: SyncOptions, environ: Mapping[str, str], say: Say
) -> SyncReport:
    """Consolidates the sessions that are due; `say` is told in sentences how it goes.

    Raises SyncFailure, ChangeRefused, PreviewFailure, OperationInProgress, RepoUnavailable, UnsafeLayout;
    a failure after the agent began is journaled. KeyboardInterrupt where a signal ended it.
    """
    # guard: disabled-stops-sync
    if not Settings(environment).enabled():
        say("Memory is switched off: nothing was done.")
        return SyncReport("disabled")
    with Repository.open(environment) as repo, Stopping() as stopping:
        run = _Sync(repo, clock, options, environ, say, stopping)
        if options.dry_run:
            return run.rehearse()
        run_id = new_run_id(clock())
        preview_id = options.preview_id or new_run_id(clock())
        if options.preview:
            check_new_id(repo, preview_id)
        with answering(_refusal), locked(repo, clock, "sync", run_id) as lock:
            return run.carry_out(lock, preview_id)


@dataclass(slots=True)
class _Work:
    """What the agent left behind: the copy's base, its change, and what it was given and said."""

    base: Base
    change: StagedChange
    submission: Submission
    answer: str


@dataclass(slots=True)
class _Sync:
    repo: Repository
    clock: Clock
    options: SyncOptions
    environ: Mapping[str, str]
    say: Say
    stopping: Stopping
    counts: dict[str, int] = field(default_factory=dict)

    def rehearse(self) -> SyncReport:
        """The agent works on a copy, and what would become of it is said; nothing of the root is touched."""
        window = window_of(self.repo.root, self.clock())
        sessions = window.sessions(self.repo.environment.dsh_home)
        self.counts = {"candidates": len(sessions)}
        if not sessions:
            return self._report("no_change", notes=window.notes)
        with WorkFolder() as folder:
            view = payload_view(self.repo)
            self._check_not_vanished(view)
            work = self._agent_work(view, sessions, folder)
            old = read_old(self.repo, work.change, work.base)
            files = check_staged(self.repo, self.clock(), work.change, old)
            reasons = self._reasons(files, work.base.view)
        status: Status = "would_apply" if work.change.files else "no_change"
        return self._report(status, work, notes=window.notes, reasons=tuple(reasons))

    def carry_out(self, lock: OperationLock, preview_id: str) -> SyncReport:
        """The sync itself, under the operation lock from the copy to the end."""
        window = window_of(self.repo.root, self.clock())
        sessions = window.sessions(self.repo.environment.dsh_home)
        self.counts = {"candidates": len(sessions)}
        if not sessions:
            return self._nothing_due(lock, window)
        self.say(f"{len(sessions)} sessions are due.")
        with Transaction(self.repo, self.clock, lock) as looking:
            # All that would refuse the change in the end refuses it now, before the agent costs anything.
            view = looking.view
        self._check_not_vanished(view)
        if self.options.preview and view.dirty:
            message = (
                f"{len(view.dirty)} memory files hold edits that are in no commit: run dsh-memory save first."
            )
            raise SyncFailure("sync-failed", message, detail="dirty-payload")
        with WorkFolder() as folder:
            work: _Work | None = None
            try:
                with failing("stage"):
                    work = self._agent_work(view, sessions, folder)
                    lock.record(replace(lock.run, phase="validating"))
                    return self._end(lock, window, work, folder, preview_id)
            except KeyboardInterrupt:
                self._journal_failure(lock, "interrupted", work)
                raise
            except MemoryFailure as failure:
                if isinstance(failure, ChangeRefused) and work is not None:
                    self._say_verdicts(work)
                self._journal_failure(lock, _journal_code(failure), work)
                raise
            except TransactionFailed as failure:
                self._journal_failure(lock, failure.detail, work)
                if failure.detail != "live-memory-changed" or work is None:
                    raise
                self._put_up(work, folder, preview_id)
                message = f"{failure.message} The agent's text is kept as preview {preview_id}."
                raise SyncFailure("sync-failed", message, detail=failure.detail) from failure

    def _nothing_due(self, lock: OperationLock, window: Window) -> SyncReport:
        self.say("No session is due.")
        if self.options.preview:
            return self._report("no_change", notes=window.notes)
        with Transaction(self.repo, self.clock, lock) as changing:
            return self._no_change(changing, window, None)

    def _agent_work(self, view: PayloadView, sessions: list[SessionFile], folder: WorkFolder) -> _Work:
        command = agent_command(self.environ, self.options.agent, write_patch(folder))
        with self.stopping.possible():
            base = copy_payload(self.repo, view, folder.staging)
            submission = write_transcripts(sessions, folder.transcripts)
            for note in submission.notes:
                self.say(note)
            self.counts |= {"processed": submission.processed, "skipped": submission.skipped}
            if submission.processed == 0:
                return _Work(base, StagedChange({}, frozenset()), submission, "")
            self.say("The agent is at work.")
            answer = run_agent(
                command,
                consolidation_prompt(folder.transcripts),
                agent_environment(self.environ, self.repo.environment, folder),
                folder,
                self.options.time_limit_seconds,
            )
            if answer.text:
                self.say(answer.text)
            return _Work(base, read_change(folder.staging, base), submission, answer.text)

    def _end(
        self, lock: OperationLock, window: Window, work: _Work, folder: WorkFolder, preview_id: str
    ) -> SyncReport:
        with Transaction(self.repo, self.clock, lock) as changing:
            moved = work.base.is_still(changing.view)
            # guard: sync-base
            if moved is not None:
                message = f"{visible(moved)} was changed by another program while the agent worked."
                raise TransactionFailed("stage", "live-memory-changed", message)
            if not work.change.files:
                return self._no_change(changing, window, work)
            old = changing.read_live(path for path in work.change.files if path in changing.view.files)
            files = check_staged(self.repo, self.clock(), work.change, old)
            reasons = self._reasons(files, changing.view)
            if not self.options.preview and not reasons:
                return self._apply(changing, window, work, files)
        self._put_up(work, folder, preview_id)
        if self.options.preview:
            return self._report(
                "preview", work, preview_id=preview_id, notes=window.notes, reasons=tuple(reasons)
            )
        message = f"A person has to approve this: {' '.join(reasons)} It waits as preview {preview_id}."
        raise SyncFailure("sync-failed", message, detail=_APPROVAL)

    def _apply(
        self, changing: Transaction, window: Window, work: _Work, files: list[StagedFile]
    ) -> SyncReport:
        target: dict[str, Entry | None] = {}
        contents: dict[str, bytes] = {}
        for file in files:
            if file.new is None:
                target[file.path] = None
                continue
            mode = EXECUTABLE_MODE if file.path in work.change.executable else FILE_MODE
            entry = Entry(mode, changing.entry_of(file.new).blob)
            target[file.path], contents[entry.blob] = entry, file.new
        self._move_watermark(changing, window)
        change = Change(
            target,
            f"DPSK memory sync applied: {changing.run_id}",
            contents=contents,
            captured=changing.view.dirty,
            checkpoint=f"DPSK memory recovery checkpoint: {changing.run_id}",
        )
        run = replace(
            self._run(changing.run_id, "applied"),
            staging_digest=digest_of({file.path: file.new for file in files if file.new is not None}),
        )
        applied = changing.apply(change, run)
        self._follow_watermark()
        return self._report(
            "applied",
            work,
            run_id=changing.run_id,
            changed_paths=applied.run.changed_paths,
            recovery_commit=applied.recovery_commit,
            apply_commit=applied.apply_commit,
            notes=window.notes,
        )

    def _no_change(self, changing: Transaction, window: Window, work: _Work | None) -> SyncReport:
        self._move_watermark(changing, window)
        changing.journal(self._run(changing.run_id, "no_change"))
        self._follow_watermark()
        return self._report("no_change", work, run_id=changing.run_id, notes=window.notes)

    def _move_watermark(self, changing: Transaction, window: Window) -> None:
        changing.operational[WATERMARK] = watermark_bytes(window.until)

    def _follow_watermark(self) -> None:
        # For the other program, which knows the time of the file alone; ours reads the content.
        try:
            set_mtime(self.repo.root)
        except (OSError, UnsafeLayout) as error:
            self.say(f"The time of {WATERMARK} could not be set: {error}")

    def _put_up(self, work: _Work, folder: WorkFolder, preview_id: str) -> None:
        create_preview(
            self.repo,
            self.clock(),
            preview_id,
            work.base,
            folder.staging,
            work.change,
            candidate_sessions=work.submission.processed,
        )

    def _journal_failure(self, lock: OperationLock, code: str, work: _Work | None) -> None:
        run = replace(
            self._run(lock.run.run_id, "failed"),
            error_code=code,
            phase="staging" if work is None else "validating",
            rejected_file_count=0 if work is None else len(work.change.files),
        )
        with Transaction(self.repo, self.clock, lock) as changing:
            changing.journal(run)

    def _run(self, run_id: str, status: str) -> RunRecord:
        return RunRecord(
            run_id=run_id,
            operation="sync",
            status=status,
            candidate_sessions=self.counts.get("candidates", 0),
            processed_sessions=self.counts.get("processed", 0),
            skipped_sessions=self.counts.get("skipped", 0),
        )

    def _say_verdicts(self, work: _Work) -> None:
        # All or nothing; but whoever mends it should not meet one fault after the other.
        old = read_old(self.repo, work.change, work.base)
        for path, refused in verdicts(self.repo, self.clock(), work.change, old).items():
            self.say(f"refused  {refused.placed}" if refused is not None else f"good     {path}")

    def _reasons(self, files: list[StagedFile], view: PayloadView) -> list[str]:
        records = [path for path in view.files if is_record_path(path)]
        return reasons_for_approval(files, records, forgotten_again(self.repo, files))

    def _check_not_vanished(self, view: PayloadView) -> None:
        """A folder that HEAD has records in and the worktree has none was unmounted or lost, not edited."""
        for folder in RECORD_FOLDERS:
            known = sum(path.startswith(f"{folder}/") for path in view.committed)
            # guard: vanished-folder
            if known and not any(path.startswith(f"{folder}/") for path in view.files):
                message = (
                    f"{folder}/ is missing or empty, but Git knows {known} files in it. If that is meant, "
                    "run dsh-memory save; if not, look whether a disk is missing."
                )
                raise SyncFailure("sync-failed", message, detail="payload-vanished")

    def _report(self, status: Status, work: _Work | None = None, **values: Any) -> SyncReport:
        notes = (*values.pop("notes", ()), *(work.submission.notes if work is not None else ()))
        values.setdefault("changed_paths", work.change.paths if work is not None else ())
        answer = work.answer if work is not None else ""
        return SyncReport(status, answer=answer, notes=notes, **{**self.counts, **values})


def _journal_code(failure: MemoryFailure) -> str:
    # `sync-failed` says nothing; its detail does.
    return failure.detail or failure.code if failure.code == "sync-failed" else failure.code


def _refusal(failure: TransactionFailed) -> SyncFailure:
    return SyncFailure("sync-failed", failure.message, detail=failure.detail)
