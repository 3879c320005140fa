"""The one way in which memory changes: everything is in Git before anything in the worktree moves.

Under the operation lock and Git's index lock the live payload is captured as the recovery commit, the new
payload and its journal are built above it, and the plan is written down. Only then the branch moves, once, by
compare-and-swap to the journal commit: payload and journal can never disagree. Worktree and index follow
(`design.md` §5.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from dsh_memory.environment import format_instant, parse_instant
from dsh_memory.errors import MemoryFailure
from dsh_memory.repository.content import RecordCache
from dsh_memory.repository.failures import TransactionFailed, failing, live_changed
from dsh_memory.repository.finishing import check_journal_places, finish, prepare_index, preserve
from dsh_memory.repository.git import GitFailed, WritingGit
from dsh_memory.repository.git_locks import remove_locks_of_killed_git
from dsh_memory.repository.journal import LAST_RUN, RUNS_FOLDER, RunRecord
from dsh_memory.repository.layout import Reader
from dsh_memory.repository.lock import Clock, OperationLock
from dsh_memory.repository.objects import (
    EXECUTABLE_MODE,
    FILE_MODE,
    FILE_MODES,
    BlobHasher,
    CommitPlan,
    Entry,
    import_commits,
    read_blobs,
    read_settings,
)
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.phases import reached
from dsh_memory.repository.plan import PLAN_NAME, FileChange, Plan
from dsh_memory.repository.projection import Projection, Signature
from dsh_memory.repository.refs import branch_of_head, drop_private_ref, move_branch, private_ref
from dsh_memory.repository.states import Payload, difference, file_changes, overlaid
from dsh_memory.repository.view import PayloadView, in_progress, payload_view, read_index
from dsh_memory.repository.workspace import RUN_NAME, Workspace
from dsh_memory.text import visible


@dataclass(frozen=True, slots=True)
class Change:
    """What a transaction makes of the payload.

    `target` is the new state of the paths that change (None deletes), `contents` the bytes of blobs that Git
    may not have. `captured` are the dirty paths whose live state the change takes in: with `checkpoint`, a
    commit message, they become the recovery commit below the change, without it they are part of the change
    itself. `scope` are the paths whose index entries follow; None means the whole payload.
    """

    target: Mapping[str, Entry | None]
    message: str
    contents: Mapping[str, bytes] = field(default_factory=dict)
    captured: frozenset[str] = frozenset()
    checkpoint: str | None = None
    scope: frozenset[str] | None = None
    preview_id: str | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """A run that is in Git, durably.

    `left` are paths where an outside editor's bytes stand in the worktree now instead of the new ones.
    `pending` says that the system refused part of the worktree's following, which recovery will finish.
    """

    run: RunRecord
    recovery_commit: str
    apply_commit: str
    journal_commit: str
    left: tuple[str, ...]
    pending: bool


class Transaction:
    """One mutating operation under the held lock, from its first look at the payload; use it in a `with`
    statement.

    `view` is the payload as it was found, `head` and `branch` where the change will go, `cache` what was read
    on the way. After the end, `pending` says that recovery has something left to do.
    """

    view: PayloadView
    branch: str
    head: str

    def __init__(
        self,
        repo: Repository,
        clock: Clock,
        lock: OperationLock,
        cache: RecordCache | None = None,
        run_id: str | None = None,
    ) -> None:
        self.repo = repo
        self.git: WritingGit = repo.writing()
        self.run_id = run_id or lock.run.run_id
        self.pending = False
        #: Operational files beside the journal's own that the run's end writes and commits: a sync's
        #: watermark.
        self.operational: dict[str, bytes] = {}
        self._clock = clock
        self._started = clock()
        self._lock = lock
        self.cache = cache or RecordCache()
        self._hasher = BlobHasher(repo.object_format)
        self._imported = False
        self._moved = False
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with failing("ready"), ExitStack() as stack:
            self._workspace = Workspace(self.repo, self.run_id, create=True)
            stack.callback(self._put_away)
            self._workspace.write(RUN_NAME, replace(self._lock.run, run_id=self.run_id).to_bytes())
            stack.enter_context(self._workspace.index_locked())
            self._look()
            self._settings = read_settings(self.git)
            reached("looked")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with failing("stage"):
                self._stack.close()
        except (TransactionFailed, MemoryFailure):
            if not self._moved:
                raise
            # The change is in Git and stays: what could not be put away, the next change sweeps.
            self.pending = self._lock.keep_run = True

    def live(self, path: str) -> Entry | None:
        """What stands at a payload path in the worktree, as it was found."""
        file = self.view.files.get(path)
        if file is None:
            return None
        return Entry(EXECUTABLE_MODE if file.executable else FILE_MODE, self.view.blobs[path])

    def live_payload(self) -> dict[str, Entry]:
        """The whole payload in the worktree, as it was found."""
        return {path: entry for path in self.view.files if (entry := self.live(path)) is not None}

    def read_live(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The bytes of live files; raises TransactionFailed where one is no longer what was found."""
        found: dict[str, bytes] = {}
        with failing("checkpoint"), Reader(self.repo.root) as reader:
            for path in paths:
                try:
                    data = reader.read(path, self.view.files[path].size)
                except FileNotFoundError:
                    raise live_changed("checkpoint", path) from None
                # guard: captured-is-what-was-found
                if self._hasher.of(data) != self.view.blobs[path]:
                    raise live_changed("checkpoint", path)
                found[path] = data
        return found

    def entry_of(self, data: bytes, *, like: Entry | None = None) -> Entry:
        """The entry of a file with that content; executable if the one it replaces is."""
        return Entry(FILE_MODE if like is None else like.mode, self._hasher.of(data))

    def apply(self, change: Change, run: RunRecord) -> Applied:
        """Makes the change, journaled as `run`, whose commits, paths and times are filled in here.

        Raises TransactionFailed, or a MemoryFailure of any method, and then nothing has changed.
        """
        committed = self.view.committed
        captured = {path: self.live(path) for path in sorted(change.captured)}
        live_bytes = self.read_live(path for path, entry in captured.items() if entry is not None)
        contents = {self.view.blobs[path]: data for path, data in live_bytes.items()} | dict(change.contents)
        found = overlaid(committed, captured)
        target = overlaid(found, change.target)

        chain: list[tuple[str, Payload]] = []
        staged = self._staged(change.scope, found)
        if staged:
            chain.append((f"DPSK memory recovery checkpoint: {self.run_id}", overlaid(committed, staged)))
        if change.checkpoint is not None and (staged or found != committed):
            chain.append((change.checkpoint, found))
        commits = self._build([*chain, (change.message, target)], contents)
        reached("built")
        checked_out = change.checkpoint is not None and bool(chain)
        changed_paths = tuple(difference(committed if change.checkpoint is None else found, target))
        run = replace(
            run,
            recovery_commit=commits[-2] if checked_out else self.head,
            apply_commit=commits[-1],
            changed_paths=changed_paths,
            changed_path_count=len(changed_paths),
        )
        index = self._index_changes(change.scope, target)
        return self._carry_out(
            [run], commits[-1], file_changes(found, target), index, contents, change.preview_id
        )

    def journal(
        self, *runs: RunRecord, preview_id: str | None = None, subject: str = "DPSK memory journal"
    ) -> Applied:
        """Journals runs that change no payload; the last one becomes `last-run.json`. Raises as `apply`."""
        return self._carry_out(list(runs), self.head, (), (), {}, preview_id, subject)

    def _look(self) -> None:
        """Reads the payload, and refuses a repository whose branch is not ours to move."""
        operation = in_progress(self.repo)
        if operation is not None:
            raise _not_ready(
                f"{operation}-in-progress", f"A {operation} is in progress: end it in Git first."
            )
        self.view = payload_view(self.repo, self.cache)
        branch, commit = self.view.head.branch, self.view.head.commit
        if branch is None:
            raise _not_ready("detached-head", "HEAD is detached: no branch would keep the change.")
        if commit is None:
            raise _not_ready("unborn-head", "The repository has no commit yet.")
        if self.view.unreadable:
            raise _not_ready("unreadable", f"{visible(self.view.unreadable[0])} cannot be read.")
        self.branch, self.head = branch, commit
        self._index = read_index(self.repo)
        if any(entry.stage for entries in self._index.values() for entry in entries):
            raise _not_ready("unmerged-index", "Git's index holds a conflict between memory files.")

    # --- building ---------------------------------------------------------------------------------

    def _build(self, chain: list[tuple[str, Payload]], contents: Mapping[str, bytes]) -> list[str]:
        plans = []
        before: Payload = self.view.committed
        for message, payload in chain:
            plans.append(CommitPlan(message, difference(before, payload)))
            before = payload
        return self._import(self.head, plans, contents)

    def _import(self, parent: str, plans: list[CommitPlan], contents: Mapping[str, bytes]) -> list[str]:
        self._imported = True
        with failing("checkpoint"):
            return import_commits(
                self.git,
                self.repo.git_dir,
                private_ref(self.run_id),
                parent,
                plans,
                contents,
                identity=self._settings.identity,
                now=self._clock(),
            )

    def _staged(self, scope: frozenset[str] | None, found: Payload) -> dict[str, Entry]:
        """What was staged and is neither in HEAD nor in the worktree, so that only Git's index names it."""
        staged: dict[str, Entry] = {}
        empty = self._hasher.of(b"")
        for path, (first, *_) in self._index.items():
            if first.mode not in FILE_MODES or not (scope is None or path in scope):
                continue
            committed = self.view.committed.get(path)
            if committed is not None and committed.blob == first.blob:
                continue
            others = (self.live(path), found.get(path))
            if first.blob not in (empty, *(other.blob for other in others if other is not None)):
                staged[path] = Entry(first.mode, first.blob)
        return staged

    def _index_changes(self, scope: frozenset[str] | None, target: Payload) -> tuple[FileChange, ...]:
        current = {path: Entry(first.mode, first.blob) for path, (first, *_) in self._index.items()}
        if scope is None:
            return file_changes(current, target)
        return file_changes(_within(current, scope), _within(target, scope))

    # --- the point of no return -------------------------------------------------------------------

    def _carry_out(
        self,
        runs: list[RunRecord],
        apply_commit: str,
        files: tuple[FileChange, ...],
        index: tuple[FileChange, ...],
        contents: Mapping[str, bytes],
        preview_id: str | None,
        subject: str = "DPSK memory journal",
    ) -> Applied:
        runs = [self._finished(run) for run in runs]
        run = runs[-1]
        journal = {f"{RUNS_FOLDER}/{entry.run_id}.json": entry.to_bytes() for entry in runs}
        journal[LAST_RUN] = run.last_run_bytes()
        journal.update(self.operational)
        check_journal_places(self.repo.root, journal)
        operational = {path: self.entry_of(data) for path, data in journal.items()}
        journal_plan = CommitPlan(f"{subject}: {run.run_id}", operational)
        blobs = {operational[path].blob: data for path, data in journal.items()}
        [journal_commit] = self._import(apply_commit, [journal_plan], blobs)
        plan = Plan(
            run_id=self.run_id,
            operation=run.operation,
            branch=self.branch,
            head_commit=self.head,
            recovery_commit=run.recovery_commit or self.head,
            apply_commit=apply_commit,
            target_commit=journal_commit,
            files=files,
            operational=tuple(FileChange(path, None, entry) for path, entry in operational.items()),
            index=index,
            preview_id=preview_id,
        )
        with Projection(self.repo.root, self._workspace.files, files, self.repo.object_format) as projection:
            self._stage(plan, projection, contents)
            self._move(plan, projection)
            self._follow(plan, projection, journal)
            left = tuple(projection.outcome.left)
        return Applied(run, plan.recovery_commit, apply_commit, journal_commit, left, self.pending)

    def _finished(self, run: RunRecord) -> RunRecord:
        now = self._clock()
        started = parse_instant(run.started_at) or self._started
        return replace(
            run,
            started_at=run.started_at or format_instant(started),
            finished_at=format_instant(now),
            duration_ms=max(0, round((now - started).total_seconds() * 1000)),
            rejected_file_count=run.rejected_file_count or 0,
            phase=run.phase or "complete",
        )

    def _stage(self, plan: Plan, projection: Projection, contents: Mapping[str, bytes]) -> None:
        # All that can fail for want of space or rights is done here, before the branch moves.
        with failing("stage"):
            needed = (change.after.blob for change in plan.files if change.after is not None)
            missing = [blob for blob in needed if blob not in contents]
            projection.stage({**contents, **read_blobs(self.git, missing)})
            prepare_index(self.repo, self.git, self._workspace, plan)
            self._workspace.write(PLAN_NAME, plan.to_bytes(), durable=True)
            run = replace(
                self._lock.run,
                phase="applying",
                head_commit=plan.head_commit,
                recovery_commit=plan.recovery_commit,
                target_commit=plan.target_commit,
            )
            self._lock.record(run, durable=True)
        reached("staged")

    def _move(self, plan: Plan, projection: Projection) -> None:
        with failing("stage"):
            # guard: recheck-before-moving
            path = projection.changed_since(
                {
                    change.path: Signature(live.inode, live.size, live.mtime_ns, live.ctime_ns)
                    for change in plan.files
                    if (live := self.view.files.get(change.path)) is not None
                }
            )
            if path is not None:
                raise live_changed("stage", path)
            self._lock.check_still_held()
            # guard: head-still-names-the-branch
            if branch_of_head(self.git) != plan.branch:
                raise TransactionFailed("stage", "head-moved", "Another branch was checked out meanwhile.")
        with failing("commit"):
            moved = move_branch(
                self.git,
                plan.branch,
                new=plan.target_commit,
                old=plan.head_commit,
                run_id=self.run_id,
                identity=self._settings.identity,
                message=f"dsh-memory: {plan.operation}",
            )
        if not moved:
            raise TransactionFailed("commit", "head-moved", "Another program moved the branch meanwhile.")
        self._moved = True
        reached("moved")

    def _follow(self, plan: Plan, projection: Projection, journal: Mapping[str, bytes]) -> None:
        try:
            finish(self.repo, self.git, self._workspace, plan, projection, journal)
            if projection.outcome.rescued:
                preserve(
                    self.repo,
                    self.git,
                    self.run_id,
                    plan.branch,
                    projection.outcome.rescued,
                    self._settings,
                    self._clock(),
                )
        except (GitFailed, OSError, MemoryFailure):
            # The change is in Git and stays: what is left to do is written down, and recovery does it.
            self.pending = self._lock.keep_run = True

    def _put_away(self) -> None:
        remove_locks_of_killed_git(self.repo)
        if self.pending:
            self._workspace.close()
            return
        if self._imported and not self._moved:
            # The folder goes last: as long as it is there, recovery knows that the ref may be, too.
            drop_private_ref(self.git, self.run_id)
        self._workspace.remove()


def _not_ready(detail: str, message: str) -> TransactionFailed:
    return TransactionFailed("ready", detail, message)


def _within(payload: Payload, scope: frozenset[str]) -> dict[str, Entry]:
    return {path: entry for path in scope if (entry := payload.get(path)) is not None}
