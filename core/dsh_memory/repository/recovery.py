"""What a run left behind when its process died is finished or undone, without losing a byte (`design.md`
§5.1).

A dead run whose branch moved is rolled forward: its plan says what the worktree still lacks. One whose
branch did not move had touched nothing but its private folder and ref, which go. Either way the journal
tells.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace

from dsh_memory.repository.failures import TransactionFailed
from dsh_memory.repository.finishing import (
    INDEX_FILES,
    finish,
    journal_bytes,
    prepare_index,
    preserve,
    write_journal,
)
from dsh_memory.repository.git import WritingGit
from dsh_memory.repository.git_locks import leftover_locks, remove_dead_locks
from dsh_memory.repository.journal import LAST_RUN, Journal, RunRecord, new_run_id, validate_run_id
from dsh_memory.repository.lock import ActiveRun, Clock, OperationLock, parse_active_run, read_dead_run
from dsh_memory.repository.objects import Entry, payload_of, read_blobs, read_settings
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.origin_stage import find_stage_folders, settle_stage_folder
from dsh_memory.repository.phases import reached
from dsh_memory.repository.plan import PLAN_NAME, FileChange, Plan
from dsh_memory.repository.projection import Outcome, Projection
from dsh_memory.repository.purge_cleaning import finish_purge
from dsh_memory.repository.refs import branch_of_head, commit_of_branch, contains, drop_private_ref
from dsh_memory.repository.transaction import Transaction
from dsh_memory.repository.view import read_index
from dsh_memory.repository.workspace import INDEX_LOCK, RUN_NAME, WORKSPACES, Workspace


@dataclass(slots=True)
class Recovery:
    """What recovery did: runs rolled `forward` and `back` by their ids, and the rest by paths.

    `erased` says that a purge which had died before it cleaned up is done now. `resolved` are older runs whose
    interruption was still open in the journal. `left` are payload files where an outside editor's bytes stand
    instead of a finished run's; `locks` are Git's own lock files that were removed, `locks_left` those whose
    owner may be alive; `restored` are payload files that the origin's unfinished clear had moved away.
    """

    forward: list[str] = field(default_factory=list)
    back: list[str] = field(default_factory=list)
    resolved: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    locks: list[str] = field(default_factory=list)
    locks_left: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    erased: bool = False

    @property
    def did_nothing(self) -> bool:
        """Whether there was nothing to recover."""
        return not (self.forward or self.back or self.resolved or self.locks or self.restored or self.erased)


def settle(repo: Repository, clock: Clock, lock: OperationLock, *, resolving: bool = True) -> Recovery:
    """Recovers every dead run, under the caller's lock: the heart of `recover`, and the begin of every
    change.

    Without `resolving` an interruption that is journaled already stays open. Raises TransactionFailed or a
    MemoryFailure where recovery cannot be done now; nothing is lost by then either.
    """
    dead = read_dead_run(repo.root, clock())
    workspaces = _dead_workspaces(repo)
    recovery = Recovery()
    if dead is not None or workspaces or leftover_locks(repo):
        someone_died = dead is not None or bool(workspaces)
        recovery.locks, recovery.locks_left = remove_dead_locks(repo, after_a_death=someone_died)
    git = repo.writing()
    met: list[ActiveRun] = []
    done: list[Workspace] = []
    with ExitStack() as stack:
        for run_id in workspaces:
            workspace = Workspace(repo, run_id, create=False)
            stack.callback(workspace.close)
            run = _recover_workspace(repo, clock, git, workspace, recovery)
            done.append(workspace)
            if run is not None:
                met.append(run)
        if dead is not None and dead.run_id not in {run.run_id for run in met}:
            met.append(dead)
            _note_outcome(git, dead, repo, recovery)
        _drop_stray_refs(repo, git)
        for name in find_stage_folders(repo.root):
            recovery.restored += settle_stage_folder(repo, name)
        unresolved = [*met, *(_interrupted_last(repo, met) if resolving else ())]
        if unresolved:
            _journal(repo, clock, lock, unresolved, recovery)
        reached("recovered")
        for workspace in done:
            workspace.remove()
    recovery.erased = finish_purge(repo)
    return recovery


def note_interrupted(repo: Repository, clock: Clock, lock: OperationLock) -> ActiveRun | None:
    """Journals a dead run `interrupted` and leaves it to recovery; the run, or None where there is none."""
    dead = read_dead_run(repo.root, clock())
    if dead is not None and Journal(repo.root).find(dead.run_id) is None:
        remove_dead_locks(repo, after_a_death=True)
        with Transaction(repo, clock, lock) as journaling:
            journaling.journal(_interrupted(dead))
        # The journaling replaced the record of the dead run; it must stand until recovery has been.
        lock.leave_run(dead)
    return dead


# --- who died -------------------------------------------------------------------------------------


def _dead_workspaces(repo: Repository) -> list[str]:
    try:
        names = os.listdir(os.path.join(repo.git_dir, WORKSPACES))
    except FileNotFoundError:
        return []
    return sorted(name for name in names if validate_run_id(name))


def _interrupted_last(repo: Repository, met: Iterable[ActiveRun]) -> list[ActiveRun]:
    """The last journaled run if it is interrupted, so that the next change resolves it."""
    last = Journal(repo.root).last_run()
    if last is None or last.status != "interrupted" or last.run_id in {run.run_id for run in met}:
        return []
    if not validate_run_id(last.run_id):
        return []
    return [_as_run(last)]


def _as_run(record: RunRecord) -> ActiveRun:
    return ActiveRun(record.run_id, record.operation, record.status, "complete", 0, record.started_at or "")


# --- one dead run ---------------------------------------------------------------------------------


def _recover_workspace(
    repo: Repository, clock: Clock, git: WritingGit, workspace: Workspace, recovery: Recovery
) -> ActiveRun | None:
    run = _run_of(workspace)
    # First of all: a git process that outlived its parent cannot move the branch any more without this ref.
    drop_private_ref(git, workspace.run_id)
    plan = _plan_of(workspace)
    if plan is None:
        if run is not None:
            recovery.back.append(run.run_id)
        return run
    tip = commit_of_branch(git, plan.branch)
    moved = tip is not None and contains(git, tip, plan.target_commit)
    workspace.discard(INDEX_LOCK)
    with workspace.index_locked():
        if moved and tip is not None and _is_current(git, plan, tip):
            outcome = _roll_forward(repo, git, workspace, plan)
        else:
            outcome = _salvage(repo, workspace, plan, in_git=moved)
            if moved and branch_of_head(git) == plan.branch:
                write_journal(repo.root, _missing_journal(repo, git, plan))
        recovery.left += outcome.left
        if outcome.rescued:
            branch = plan.branch if tip is not None else branch_of_head(git)
            if branch is None:
                raise TransactionFailed(
                    "ready", "detached-head", "HEAD is detached: no branch to rescue edits to."
                )
            preserve(repo, git, plan.run_id, branch, outcome.rescued, read_settings(git), clock())
    (recovery.forward if moved else recovery.back).append(plan.run_id)
    known = run or ActiveRun(plan.run_id, plan.operation, "running", "applying", 0, "")
    return replace(known, head_commit=plan.head_commit, target_commit=plan.target_commit)


def _is_current(git: WritingGit, plan: Plan, tip: str) -> bool:
    """Whether the worktree is still meant to be what the run made of it."""
    if branch_of_head(git) != plan.branch:
        return False
    return tip == plan.target_commit or payload_of(git, tip) == payload_of(git, plan.apply_commit)


def _roll_forward(repo: Repository, git: WritingGit, workspace: Workspace, plan: Plan) -> Outcome:
    read_settings(git)
    with Projection(repo.root, workspace.files, plan.files, repo.object_format) as projection:
        projection.stage(read_blobs(git, projection.unstaged()))
        workspace.discard(*INDEX_FILES)
        prepare_index(repo, git, workspace, replace(plan, index=_still_due(repo, plan)))
        return finish(repo, git, workspace, plan, projection, journal_bytes(git, plan), resumed=True)


def _still_due(repo: Repository, plan: Plan) -> tuple[FileChange, ...]:
    """The plan's index entries, less those that somebody staged anew since."""
    current = {path: Entry(first.mode, first.blob) for path, (first, *_) in read_index(repo).items()}
    return tuple(row for row in plan.index if current.get(row.path) in (row.before, row.after))


def _salvage(repo: Repository, workspace: Workspace, plan: Plan, *, in_git: bool) -> Outcome:
    """Looks after files that were taken out of the worktree when the run cannot be finished in it any
    more."""
    files = plan.files if in_git else tuple(FileChange(change.path, None, None) for change in plan.files)
    with Projection(repo.root, workspace.files, files, repo.object_format) as projection:
        return projection.salvage()


def _missing_journal(repo: Repository, git: WritingGit, plan: Plan) -> dict[str, bytes]:
    """The run files of a plan that the worktree lacks; `last-run.json` is this recovery's own."""
    return {
        path: data
        for path, data in journal_bytes(git, plan).items()
        if path != LAST_RUN and repo.root.lstat(path) is None
    }


def _note_outcome(git: WritingGit, run: ActiveRun, repo: Repository, recovery: Recovery) -> None:
    branch = branch_of_head(git)
    tip = None if branch is None else commit_of_branch(git, branch)
    finished = tip is not None and run.target_commit is not None and contains(git, tip, run.target_commit)
    (recovery.forward if finished else recovery.back).append(run.run_id)


def _run_of(workspace: Workspace) -> ActiveRun | None:
    try:
        return parse_active_run(workspace.read(RUN_NAME))
    except FileNotFoundError:
        return None


def _plan_of(workspace: Workspace) -> Plan | None:
    try:
        return Plan.parse(workspace.read(PLAN_NAME))
    except FileNotFoundError:
        return None


def _drop_stray_refs(repo: Repository, git: WritingGit) -> None:
    """Deletes private refs that no folder speaks for: a git process outlived its parent and made one late."""
    with suppress(FileNotFoundError):
        for name in os.listdir(os.path.join(repo.common_dir, "refs", "dsh-memory")):
            if validate_run_id(name):
                drop_private_ref(git, name)


# --- the journal ----------------------------------------------------------------------------------


def _journal(
    repo: Repository, clock: Clock, lock: OperationLock, runs: list[ActiveRun], recovery: Recovery
) -> None:
    journal = Journal(repo.root)
    records: list[RunRecord] = []
    for run in runs:
        if run.run_id in recovery.back and journal.find(run.run_id) is None and validate_run_id(run.run_id):
            records.append(_interrupted(run))
    for run in runs:
        # A call of `recover` is itself the record's run; any other change needs an id beside its own.
        own = lock.run.operation == "recover" and run is runs[-1] and journal.find(lock.run.run_id) is None
        records.append(
            RunRecord(
                run_id=lock.run.run_id if own else new_run_id(clock()),
                operation="recover",
                status="recovered",
                recovered_run_id=run.run_id,
            )
        )
    # The same preview applied again has the dead run's id, whose folder stands until all is journaled.
    again = any(run.run_id == lock.run.run_id for run in runs)
    with Transaction(repo, clock, lock, run_id=new_run_id(clock()) if again else None) as journaling:
        journaling.journal(*records, subject="DPSK memory recovered")


def _interrupted(run: ActiveRun) -> RunRecord:
    # The operation of a preview's run has another name in the journal than in the lock.
    operation = {"preview-apply": "preview"}.get(run.operation, run.operation)
    return RunRecord(
        run_id=run.run_id,
        operation=operation,
        status="interrupted",
        started_at=run.started_at or None,
        phase=run.phase,
        recovery_commit=run.recovery_commit,
        error_code="interrupted-run",
    )


def resolve_interrupted(repo: Repository, clock: Clock, lock: OperationLock) -> list[str]:
    """Journals a recover record for every interrupted run that has none; their ids."""
    journal = Journal(repo.root)
    everything = 1 << 62
    recovered = {run.recovered_run_id for run in journal.runs(everything, operation="recover")}
    runs = [
        _as_run(run) for run in journal.runs(everything, status="interrupted") if run.run_id not in recovered
    ]
    if runs:
        _journal(repo, clock, lock, runs, Recovery())
    return [run.run_id for run in runs]
