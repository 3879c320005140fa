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
from dsh_memory.repository.finishing import PREPARED_INDEX, finish, prepare_index, preserve
from dsh_memory.repository.flushing import Flush
from dsh_memory.repository.git import GitFailed, WritingGit
from dsh_memory.repository.git_locks import remove_locks_of_killed_git
from dsh_memory.repository.index_file import IndexFile
from dsh_memory.repository.layout import Reader
from dsh_memory.repository.lock import ACTIVE_RUN_NAME, SYNC_FOLDER, Clock, OperationLock
from dsh_memory.repository.loose_objects import LooseObjects, commit_bytes
from dsh_memory.repository.mutation import locked
from dsh_memory.repository.objects import (
    EXECUTABLE_MODE,
    FILE_MODE,
    FILE_MODES,
    BlobHasher,
    CommitPlan,
    Entry,
    Settings,
    read_blobs,
)
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.phases import reached
from dsh_memory.repository.plan import PLAN_NAME, FileChange, Plan
from dsh_memory.repository.projection import Projection, Signature
from dsh_memory.repository.refs import drop_private_ref, move_branch, place_private_ref
from dsh_memory.repository.trees import TreeEdit
from dsh_memory.repository.view import in_progress
from dsh_memory.repository.workspace import RUN_NAME, Workspace
from dsh_memory.repository.write_memo import WriteMemo, head_and_branch

OPERATION: Final = "write"

_REF: Final = "ref.prepared"


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
def record_writer(repo: Repository, clock: Clock, memo: WriteMemo | None = None) -> Iterator[RecordWriter]:
    """The operation lock and a writer under it; `memo` is what the same process knows from earlier writes.

    Raises OperationInProgress, UnsafeLayout, or TransactionFailed where the repository is not ours to move.
    """
    with failing("ready"), locked(repo, clock, OPERATION) as lock:
        yield RecordWriter(repo, lock, clock, WriteMemo() if memo is None else memo)


class RecordWriter:
    """Commits small writes under the held lock."""

    def __init__(self, repo: Repository, lock: OperationLock, clock: Clock, memo: WriteMemo) -> None:
        self._repo = repo
        self._lock = lock
        self._clock = clock
        self._memo = memo

    def commit(self, writes: Sequence[FileWrite], *, refresh: bool = False) -> list[str]:
        """The ids of the commits made, one a write, all durable; nothing has changed where it raises.

        With `refresh`, Git's index learns the new files' times, so that `git status` need not read them.
        """
        with failing("ready"), ExitStack() as stack:
            workspace = Workspace(self._repo, self._lock.run.run_id, create=True)
            session = _Session(self._repo, self._lock, self._clock, self._memo, workspace)
            stack.push(session.outlive)
            stack.callback(session.put_away)
            workspace.write(RUN_NAME, self._lock.run.to_bytes())
            stack.enter_context(workspace.index_locked())
            return session.commit(writes, refresh)


class _Session:
    """One batch of writes, from the look at its paths to the end."""

    def __init__(
        self, repo: Repository, lock: OperationLock, clock: Clock, memo: WriteMemo, workspace: Workspace
    ) -> None:
        self._repo = repo
        self._git: WritingGit = repo.writing()
        self._lock = lock
        self._clock = clock
        self._memo = memo
        self._hasher = BlobHasher(repo.object_format)
        self._workspace = workspace
        self._run_id = lock.run.run_id
        self._index: IndexFile | None = None
        self._has_ref = False
        self._moved = False
        self._pending = False

    def put_away(self) -> None:
        """Removes the private folder, unless recovery still needs it."""
        remove_locks_of_killed_git(self._repo)
        if self._pending:
            self._workspace.close()
            return
        if self._has_ref and not self._moved:
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
        operation = in_progress(self._repo)
        if operation is not None:
            raise TransactionFailed(
                "ready",
                f"{operation}-in-progress",
                f"A {operation} is in progress; finish or abort it in Git first.",
            )
        head, branch = head_and_branch(self._repo)
        settings = self._memo.settings(self._repo, self._git)
        paths = sorted({path for write in writes for path in write.files})
        with LooseObjects(self._repo.common_dir, self._repo.object_format) as objects:
            folders = self._memo.trees.folders(self._repo.git, head, paths)
            edit = TreeEdit(folders, self._memo.trees, objects)
            self._index = self._memo.index(self._repo)
            found = self._look(edit, paths)
            chain, contents = self._chain(writes, found)
            with failing("checkpoint"):
                commits = self._build(head, chain, contents, edit, objects, settings.identity)
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
                index = self._stage(plan, projection, contents, objects)
                self._move(plan, projection, found, settings.identity)
                self._finish(plan, projection, index, settings, refresh)
        return commits[saved:]

    def _look(self, edit: TreeEdit, paths: Sequence[str]) -> dict[str, _Found]:
        if self._index is None:
            staged = _entries(self._repo.git.run("ls-files", "-s", "-z", "--", *paths))
        else:
            staged = {path: self._index.entry(path) for path in paths}
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
                    edit.entry(path),
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

    def _build(
        self,
        head: str,
        chain: Sequence[CommitPlan],
        contents: Mapping[str, bytes],
        edit: TreeEdit,
        objects: LooseObjects,
        identity: str,
    ) -> list[str]:
        """Writes the objects of the commits, which nothing names yet; the commits' ids."""
        commits: list[str] = []
        now = self._clock()
        for plan in chain:
            for entry in plan.changes.values():
                if entry is not None and entry.blob in contents:
                    objects.add("blob", contents[entry.blob])
            tree = edit.apply(plan.changes)
            parent = commits[-1] if commits else head
            data = commit_bytes(tree, parent, plan.message, identity=identity, now=now)
            commits.append(objects.add("commit", data))
            self._memo.trees.keep_root(commits[-1], tree)
        return commits

    def _stage(
        self, plan: Plan, projection: Projection, contents: Mapping[str, bytes], objects: LooseObjects
    ) -> IndexFile | None:
        """Makes durable all that the move and a recovery need: first every file, then the names that say so."""
        with failing("stage"):
            missing = [
                change.after.blob
                for change in plan.files
                if change.after and change.after.blob not in contents
            ]
            projection.stage({**contents, **read_blobs(self._git, missing)}, flush=False)
            index = self._prepare_index(plan)
            self._workspace.write(PLAN_NAME, plan.to_bytes())
            self._workspace.write(_REF, plan.target_commit.encode() + b"\n")
            with Flush() as files:
                files.add_all(objects.descriptors)
                files.add_files(self._workspace.folder, PREPARED_INDEX, PLAN_NAME, _REF)
                files.add_files(self._workspace.files, *projection.staged())
                files.run()
            changed = objects.settle()
            self._has_ref = True
            changed += place_private_ref(
                self._git,
                self._repo.common_dir,
                self._run_id,
                plan.target_commit,
                folder=self._workspace.folder,
                name=_REF,
            )
            self._lock.record(
                replace(
                    self._lock.run,
                    phase="applying",
                    head_commit=plan.head_commit,
                    recovery_commit=plan.recovery_commit,
                    target_commit=plan.target_commit,
                )
            )
            with Flush() as names, self._repo.root.folder(SYNC_FOLDER) as sync:
                names.add_all([sync, self._workspace.folder, self._workspace.files])
                names.add_files(sync, ACTIVE_RUN_NAME)
                for path in changed:
                    names.add_path(path)
                names.run()
        reached("staged")
        return index

    def _prepare_index(self, plan: Plan) -> IndexFile | None:
        if self._index is None:
            prepare_index(self._repo, self._git, self._workspace, plan)
            return None
        index = self._index.changed((change.path, change.after) for change in plan.index)
        mode = os.stat(os.path.join(self._repo.git_dir, "index")).st_mode & 0o777
        self._workspace.write(PREPARED_INDEX, index.to_bytes())
        os.chmod(PREPARED_INDEX, mode, dir_fd=self._workspace.folder)
        return index

    def _move(self, plan: Plan, projection: Projection, found: Mapping[str, _Found], identity: str) -> None:
        with failing("stage"):
            # guard: recheck-record-before-moving
            signatures = {path: each.signature for path, each in found.items() if each.signature is not None}
            path = projection.changed_since(signatures)
            if path is not None:
                raise live_changed("stage", path)
            self._lock.check_still_held()
            # guard: head-still-names-the-records-branch
            if head_and_branch(self._repo)[1] != plan.branch:
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

    def _finish(
        self,
        plan: Plan,
        projection: Projection,
        index: IndexFile | None,
        settings: Settings,
        refresh: bool,
    ) -> None:
        try:
            outcome = finish(self._repo, self._git, self._workspace, plan, projection, {}, refresh=refresh)
            if index is not None and not refresh:
                self._memo.keep_index(self._repo, index)
            if outcome.rescued:
                preserve(
                    self._repo, self._git, self._run_id, plan.branch, outcome.rescued, settings, self._clock()
                )
        except (GitFailed, OSError, MemoryFailure):
            # The writes are in Git and stay; recovery brings the worktree after them.
            self._pending = self._lock.keep_run = True


def _entries(answer: bytes) -> dict[str, Entry | None]:
    """The entries of `ls-files -s -z`."""
    entries: dict[str, Entry | None] = {}
    for line in answer.split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        words = facts.decode("ascii").split()
        entries[os.fsdecode(path)] = Entry(words[0], words[1])
    return entries


def _changes(
    target: Mapping[str, Entry | None], before: Mapping[str, Entry | None]
) -> tuple[FileChange, ...]:
    return tuple(
        FileChange(path, before.get(path), entry)
        for path, entry in sorted(target.items())
        if before.get(path) != entry
    )
