"""Small writes: each one commit, many under one lock and one flush, whatever the memory's size.

A transaction looks at the whole payload and is journaled; a write of the memory API touches the paths it
names and nothing else, and is undone by another write. What moves and in which order is the transaction's
(`transaction.py`), and so is its plan: a write whose process died is finished or undone by the same
recovery.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final

from dsh_memory.errors import MemoryFailure
from dsh_memory.records.metadata import MAX_RECORD_BYTES
from dsh_memory.repository.failures import TransactionFailed, failing, live_changed
from dsh_memory.repository.finishing import finish, prepare_index, preserve
from dsh_memory.repository.git import GitFailed, WritingGit
from dsh_memory.repository.git_locks import remove_locks_of_killed_git
from dsh_memory.repository.layout import Reader
from dsh_memory.repository.lock import Clock, OperationLock
from dsh_memory.repository.mutation import locked
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
from dsh_memory.repository.view import in_progress
from dsh_memory.repository.workspace import RUN_NAME, Workspace

OPERATION: Final = "write"


@dataclass(frozen=True, slots=True)
class FileWrite:
    """One commit: its message, and the new bytes of the payload files that it changes (None deletes)."""

    message: str
    files: Mapping[str, bytes | None]


@dataclass(frozen=True, slots=True)
class _Found:
    """A path as it stands: in the worktree (bytes too, and by what it is known again), at HEAD, in Git's
    index.
    """

    live: Entry | None
    data: bytes | None
    signature: Signature | None
    committed: Entry | None
    staged: Entry | None


@contextmanager
def record_writer(repo: Repository, clock: Clock) -> Iterator[RecordWriter]:
    """The operation lock and a writer under it.

    Raises OperationInProgress, UnsafeLayout, or TransactionFailed where the repository is not ours to move.
    """
    with failing("ready"), locked(repo, clock, OPERATION) as lock:
        yield RecordWriter(repo, lock, clock)


class RecordWriter:
    """Commits small writes under the held lock."""

    def __init__(self, repo: Repository, lock: OperationLock, clock: Clock) -> None:
        self._repo = repo
        self._lock = lock
        self._clock = clock
        self._git: WritingGit = repo.writing()
        self._hasher = BlobHasher(repo.object_format)

    def commit(self, writes: Sequence[FileWrite], *, refresh: bool = False) -> list[str]:
        """The ids of the commits made, one a write, all durable; nothing has changed where it raises.

        With `refresh`, Git's index learns the new files' times, so that `git status` need not read them.
        """
        with failing("ready"), ExitStack() as stack:
            workspace = Workspace(self._repo, self._lock.run.run_id, create=True)
            session = _Session(self._repo, self._git, self._lock, self._clock, self._hasher, workspace)
            stack.push(session.outlive)
            stack.callback(session.put_away)
            workspace.write(RUN_NAME, self._lock.run.to_bytes())
            stack.enter_context(workspace.index_locked())
            return session.commit(writes, refresh)


class _Session:
    """One batch of writes, from the look at its paths to the end."""

    def __init__(
        self,
        repo: Repository,
        git: WritingGit,
        lock: OperationLock,
        clock: Clock,
        hasher: BlobHasher,
        workspace: Workspace,
    ) -> None:
        self._repo = repo
        self._git = git
        self._lock = lock
        self._clock = clock
        self._hasher = hasher
        self._workspace = workspace
        self._run_id = lock.run.run_id
        self._imported = False
        self._moved = False
        self._pending = False

    def put_away(self) -> None:
        """Removes the private folder, unless recovery still needs it."""
        remove_locks_of_killed_git(self._repo)
        if self._pending:
            self._workspace.close()
            return
        if self._imported and not self._moved:
            drop_private_ref(self._git, self._run_id)
        self._workspace.remove()

    def outlive(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Whether the writes stand in spite of that error: then the next change sweeps what was not put away."""
        if not self._moved or not isinstance(error, (GitFailed, OSError, MemoryFailure)):
            return False
        self._lock.keep_run = True
        return True

    def commit(self, writes: Sequence[FileWrite], refresh: bool) -> list[str]:
        head, branch = self._where()
        settings = read_settings(self._repo.git)
        paths = sorted({path for write in writes for path in write.files})
        found = self._look(head, paths)
        chain, contents = self._chain(writes, found)
        with failing("checkpoint"):
            self._imported = True
            commits = import_commits(
                self._git,
                self._repo.git_dir,
                private_ref(self._run_id),
                head,
                chain,
                contents,
                identity=settings.identity,
                now=self._clock(),
            )
        target = {path: entry for plan in chain for path, entry in plan.changes.items()}
        saved = len(commits) - len(writes)
        plan = Plan(
            run_id=self._run_id,
            operation=OPERATION,
            branch=branch,
            head_commit=head,
            recovery_commit=commits[saved - 1] if saved else head,
            apply_commit=commits[-1],
            target_commit=commits[-1],
            files=_changes(target, {path: found[path].live for path in paths}),
            operational=(),
            index=_changes(target, {path: found[path].staged for path in paths}),
        )
        with Projection(
            self._repo.root, self._workspace.files, plan.files, self._repo.object_format
        ) as projection:
            self._stage(plan, projection, contents)
            self._move(plan, projection, found, settings.identity)
            try:
                finish(
                    self._repo,
                    self._git,
                    self._workspace,
                    plan,
                    projection,
                    {},
                    refresh=refresh,
                )
                if projection.outcome.rescued:
                    rescued = projection.outcome.rescued
                    preserve(self._repo, self._git, self._run_id, branch, rescued, settings, self._clock())
            except (GitFailed, OSError, MemoryFailure):
                # The writes are in Git and stay; recovery brings the worktree after them.
                self._pending = self._lock.keep_run = True
        return commits[saved:]

    def _where(self) -> tuple[str, str]:
        operation = in_progress(self._repo)
        if operation is not None:
            raise TransactionFailed(
                "ready",
                f"{operation}-in-progress",
                f"A {operation} is in progress; finish or abort it in Git first.",
            )
        answer = self._repo.git.run("rev-parse", "HEAD", "--symbolic-full-name", "HEAD", accept=(0, 128))
        commit, _, ref = os.fsdecode(answer).strip().partition("\n")
        if not ref:
            raise TransactionFailed("ready", "unborn-head", "The repository has no commit yet.")
        if not ref.startswith("refs/heads/"):
            raise TransactionFailed(
                "ready", "detached-head", "HEAD is detached: no branch would keep the change."
            )
        return commit, ref.removeprefix("refs/heads/")

    def _look(self, head: str, paths: Sequence[str]) -> dict[str, _Found]:
        committed = _entries(self._repo.git.run("ls-tree", "-z", "--full-tree", head, "--", *paths), blob=2)
        staged = _entries(self._repo.git.run("ls-files", "-s", "-z", "--", *paths), blob=1)
        found: dict[str, _Found] = {}
        with Reader(self._repo.root) as reader:
            for path in paths:
                status = self._repo.root.lstat(path)
                data = None if status is None else reader.read(path, max(status.st_size, MAX_RECORD_BYTES))
                live = None
                if status is not None and data is not None:
                    mode = EXECUTABLE_MODE if status.st_mode & 0o100 else FILE_MODE
                    live = Entry(mode, self._hasher.of(data))
                found[path] = _Found(
                    live,
                    data,
                    None if status is None else Signature.of(status),
                    committed.get(path),
                    staged.get(path),
                )
        return found

    def _chain(
        self, writes: Sequence[FileWrite], found: Mapping[str, _Found]
    ) -> tuple[list[CommitPlan], dict[str, bytes]]:
        """The commits to build: first what only the index or the worktree holds of these paths, then the
        writes.
        """
        contents: dict[str, bytes] = {}
        chain: list[CommitPlan] = []
        saving = f"DPSK memory recovery checkpoint: {self._run_id}"
        only_staged = {
            path: each.staged
            for path, each in found.items()
            if each.staged is not None
            and each.staged.mode in FILE_MODES
            and each.staged not in (each.live, each.committed)
            and each.staged.blob != self._hasher.of(b"")
        }
        if only_staged:
            chain.append(CommitPlan(saving, only_staged))
        # guard: capture-before-overwrite
        dirty = {
            path: each.live
            for path, each in found.items()
            if each.live != each.committed or path in only_staged
        }
        if dirty:
            chain.append(CommitPlan(saving, dirty))
            contents |= {
                each.live.blob: each.data
                for path, each in found.items()
                if path in dirty and each.live is not None and each.data is not None
            }
        modes = {path: FILE_MODE if each.live is None else each.live.mode for path, each in found.items()}
        for write in writes:
            changes: dict[str, Entry | None] = {}
            for path, data in write.files.items():
                changes[path] = None if data is None else Entry(modes[path], self._hasher.of(data))
                if data is not None:
                    contents[self._hasher.of(data)] = data
            chain.append(CommitPlan(write.message, changes))
        return chain, contents

    def _stage(self, plan: Plan, projection: Projection, contents: Mapping[str, bytes]) -> None:
        with failing("stage"):
            missing = [
                change.after.blob
                for change in plan.files
                if change.after and change.after.blob not in contents
            ]
            projection.stage({**contents, **read_blobs(self._git, missing)})
            prepare_index(self._repo, self._git, self._workspace, plan)
            self._workspace.write(PLAN_NAME, plan.to_bytes(), durable=True)
            self._lock.record(
                replace(
                    self._lock.run,
                    phase="applying",
                    head_commit=plan.head_commit,
                    recovery_commit=plan.recovery_commit,
                    target_commit=plan.target_commit,
                ),
                durable=True,
            )
        reached("staged")

    def _move(self, plan: Plan, projection: Projection, found: Mapping[str, _Found], identity: str) -> None:
        with failing("stage"):
            # guard: recheck-record-before-moving
            signatures = {path: each.signature for path, each in found.items() if each.signature is not None}
            path = projection.changed_since(signatures)
            if path is not None:
                raise live_changed("stage", path)
            self._lock.check_still_held()
            # guard: head-still-names-the-records-branch
            if branch_of_head(self._repo.git) != plan.branch:
                raise TransactionFailed("stage", "head-moved", "Another branch was checked out meanwhile.")
        with failing("commit"):
            moved = move_branch(
                self._git,
                plan.branch,
                new=plan.target_commit,
                old=plan.head_commit,
                run_id=self._run_id,
                identity=identity,
                message=f"dsh-memory: {OPERATION}",
            )
            if not moved:
                raise TransactionFailed(
                    "commit", "head-moved", "The branch was moved by another program meanwhile."
                )
        self._moved = True
        reached("moved")


def _entries(answer: bytes, *, blob: int) -> dict[str, Entry]:
    """The entries of `ls-tree -z` or `ls-files -s -z`; `blob` is the place of the id among the facts."""
    entries: dict[str, Entry] = {}
    for line in answer.split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        words = facts.decode("ascii").split()
        entries[os.fsdecode(path)] = Entry(words[0], words[blob])
    return entries


def _changes(
    target: Mapping[str, Entry | None], before: Mapping[str, Entry | None]
) -> tuple[FileChange, ...]:
    return tuple(
        FileChange(path, before.get(path), entry)
        for path, entry in sorted(target.items())
        if before.get(path) != entry
    )
