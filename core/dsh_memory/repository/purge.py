"""Erasing for good: a record's bytes leave every object, ref, reflog and folder of this machine
(`design.md` §5.9).

History is rewritten without the record, the journal's commit ids are mapped to the new ones, and what
nothing names any more is pruned (`purge_cleaning.py`). A purge that died is recovered like any run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from dsh_memory.environment import format_instant
from dsh_memory.errors import MemoryFailure
from dsh_memory.records.metadata import Record, read_record
from dsh_memory.repository.failures import TransactionFailed, failing
from dsh_memory.repository.finishing import finish, prepare_index
from dsh_memory.repository.git import GitFailed
from dsh_memory.repository.git_locks import remove_locks_of_killed_git
from dsh_memory.repository.journal import LAST_RUN, RUNS_FOLDER, RunRecord, validate_run_id
from dsh_memory.repository.lock import Clock, OperationLock
from dsh_memory.repository.mutation import locked
from dsh_memory.repository.objects import (
    FILE_MODE,
    BlobHasher,
    CommitPlan,
    Entry,
    identity_environment,
    import_commits,
    payload_of,
    read_blobs,
    read_settings,
)
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.phases import reached
from dsh_memory.repository.plan import PLAN_NAME, FileChange, Plan
from dsh_memory.repository.projection import Projection
from dsh_memory.repository.purge_cleaning import PENDING_NAME, REWRITING_NAME, clean
from dsh_memory.repository.refs import PRIVATE_REFS, branch_of_head, commit_of_branch, private_ref
from dsh_memory.repository.rewriting import (
    export_history,
    import_without,
    move_refs,
    payload_blobs,
    read_refs,
)
from dsh_memory.repository.view import in_progress, read_index
from dsh_memory.repository.workspace import RUN_NAME, Workspace

_COMMIT_ID: Final = re.compile(rb"\b[0-9a-f]{40}\b")
_LARGEST_RUN: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Purged:
    """A purge that is done; `purged` says that no object holds the record's bytes any more.

    `beyond_reach` names places that this program cannot clean.
    """

    run_id: str
    head: str
    commits_rewritten: int
    purged: bool
    beyond_reach: tuple[str, ...]


def purge(
    repo: Repository, clock: Clock, record_id: str, tombstones: Mapping[str, bytes] | None = None
) -> Purged:
    """Erase every version of the record from the repository; `tombstones` are files that stand in its place.

    Raises TransactionFailed where nothing was changed, OperationInProgress or UnsafeLayout.
    """
    if repo.object_format != "sha1":
        raise TransactionFailed("ready", "sha256-repository", "A sha256 repository cannot be rewritten yet.")
    if os.path.lexists(os.path.join(repo.common_dir, "shallow")):
        raise TransactionFailed("ready", "shallow", "A shallow clone does not have the history to rewrite.")
    with failing("ready"), locked(repo, clock, "purge") as lock, ExitStack() as stack:
        workspace = Workspace(repo, lock.run.run_id, create=True)
        session = _Purge(repo, clock, lock, workspace)
        stack.callback(session.put_away)
        workspace.write(RUN_NAME, lock.run.to_bytes())
        stack.enter_context(workspace.index_locked())
        return session.run(record_id, dict(tombstones or {}))


class _Purge:
    def __init__(self, repo: Repository, clock: Clock, lock: OperationLock, workspace: Workspace) -> None:
        self._repo = repo
        self._clock = clock
        self._lock = lock
        self._workspace = workspace
        self._git = repo.writing()
        self._run_id = lock.run.run_id
        self._pending = False
        self._private = os.path.join(repo.common_dir, REWRITING_NAME)

    def put_away(self) -> None:
        remove_locks_of_killed_git(self._repo)
        shutil.rmtree(self._private, ignore_errors=True)
        if self._pending:
            self._workspace.close()
        else:
            self._workspace.remove()

    def run(self, record_id: str, tombstones: dict[str, bytes]) -> Purged:
        started = self._clock()
        operation = in_progress(self._repo)
        branch = branch_of_head(self._git)
        if operation is not None or branch is None:
            raise TransactionFailed(
                "ready", operation or "detached-head", "Finish in Git what was begun there."
            )
        old_refs = {
            name: oid for name, oid in read_refs(self._git).items() if not name.startswith(PRIVATE_REFS)
        }
        head = old_refs.get(f"refs/heads/{branch}")
        if head is None:
            raise TransactionFailed("ready", "unborn-head", "The repository has no commit yet.")
        history = export_history(self._git)
        files, unwanted = self._versions_of(record_id, history)
        shutil.rmtree(self._private, ignore_errors=True)
        os.mkdir(self._private, 0o700)
        new = import_without(self._git, self._private, history, unwanted)
        reached("rewritten")
        base = new.refs[f"refs/heads/{branch}"]
        hasher = BlobHasher(self._repo.object_format)
        standing = {path: Entry(FILE_MODE, hasher.of(data)) for path, data in tombstones.items()}
        run = self._record(started, files | set(tombstones))
        journal = self._journal(run, new.commits)
        operational = {path: Entry(FILE_MODE, hasher.of(data)) for path, data in journal.items()}
        contents = {standing[path].blob: data for path, data in tombstones.items()}
        contents |= {operational[path].blob: data for path, data in journal.items()}
        settings = read_settings(self._git)
        chain = [CommitPlan(f"DPSK memory purged: {self._run_id}", {**standing, **operational})]
        [target] = import_commits(
            self._git,
            self._repo.git_dir,
            private_ref(self._run_id),
            base,
            chain,
            contents,
            identity=settings.identity,
            now=self._clock(),
        )
        plan = self._plan(branch, head, base, target, files, standing, operational)
        moved = {**new.refs, f"refs/heads/{branch}": target}
        with Projection(
            self._repo.root, self._workspace.files, plan.files, self._repo.object_format
        ) as projection:
            projection.stage(contents)
            prepare_index(self._repo, self._git, self._workspace, plan)
            self._note_pending(record_id, unwanted)
            self._workspace.write(PLAN_NAME, plan.to_bytes(), durable=True)
            applying = replace(
                self._lock.run, phase="applying", head_commit=head, recovery_commit=base, target_commit=target
            )
            self._lock.record(applying, durable=True)
            reached("staged")
            self._lock.check_still_held()
            old_refs[private_ref(self._run_id)] = target
            environment = identity_environment(settings.identity)
            try:
                move_refs(self._git, old_refs, moved, "dsh-memory: purge", environment)
            except GitFailed:
                # What ended git may have come after the move: only the branch can tell.
                if commit_of_branch(self._git, branch) != target:
                    raise
            reached("moved")
            self._pending = self._lock.keep_run = True
            purged = self._follow(plan, projection, journal, unwanted, record_id)
        rewritten = sum(old != now for old, now in new.commits.items())
        return Purged(self._run_id, target, rewritten, purged, self._beyond_reach())

    def _follow(
        self,
        plan: Plan,
        projection: Projection,
        journal: Mapping[str, bytes],
        unwanted: frozenset[str],
        record_id: str,
    ) -> bool:
        """Whether worktree, index and objects followed; else the next change brings them after the refs."""
        try:
            finish(self._repo, self._git, self._workspace, plan, projection, journal)
            self._pending = self._lock.keep_run = False
            return not clean(self._repo, self._git, unwanted, record_id)
        except (GitFailed, OSError, MemoryFailure):
            return False

    def _versions_of(self, record_id: str, history: bytes) -> tuple[set[str], frozenset[str]]:
        """The record's files, and every blob that was a version of it in history, index or worktree."""
        candidates = {pair for pair in payload_blobs(history) if pair[0].endswith(".md")}
        for path, entries in read_index(self._repo).items():
            candidates |= {(path, entry.blob) for entry in entries if path.endswith(".md")}
        blobs = read_blobs(self._git, {blob for _, blob in candidates})
        files: set[str] = set()
        unwanted: set[str] = set()
        for path, blob in candidates:
            record = read_record(path, blobs[blob])
            # guard: exactly-this-record
            if isinstance(record, Record) and record.id == record_id:
                files.add(path)
                unwanted.add(blob)
        hasher = BlobHasher(self._repo.object_format)
        for path in files:
            with suppress(FileNotFoundError):
                data = self._repo.root.read(path, 1 << 30)
                record = read_record(path, data)
                if isinstance(record, Record) and record.id == record_id:
                    unwanted.add(hasher.of(data))
        return files, frozenset(unwanted)

    def _record(self, started: datetime, paths: set[str]) -> RunRecord:
        now = self._clock()
        return RunRecord(
            run_id=self._run_id,
            operation="purge",
            status="applied",
            started_at=format_instant(started),
            finished_at=format_instant(now),
            changed_paths=tuple(sorted(paths)),
            changed_path_count=len(paths),
            phase="complete",
            duration_ms=max(0, round((now - started).total_seconds() * 1000)),
            rejected_file_count=0,
        )

    def _journal(self, run: RunRecord, commits: Mapping[str, str]) -> dict[str, bytes]:
        """The run's own files, and every earlier one that names a commit which has another id by now."""
        changed: dict[str, bytes] = {}
        for path, data in self._run_files():
            mapped = _COMMIT_ID.sub(
                lambda match: commits.get(match[0].decode("ascii"), match[0].decode("ascii")).encode(), data
            )
            if mapped != data:
                changed[path] = mapped
        changed[f"{RUNS_FOLDER}/{run.run_id}.json"] = run.to_bytes()
        changed[LAST_RUN] = run.last_run_bytes()
        return changed

    def _run_files(self) -> Iterator[tuple[str, bytes]]:
        try:
            with self._repo.root.folder(RUNS_FOLDER) as folder:
                names = sorted(os.listdir(folder))
        except FileNotFoundError:
            return
        for name in names:
            if validate_run_id(name.removesuffix(".json")) and name.endswith(".json"):
                path = f"{RUNS_FOLDER}/{name}"
                yield path, self._repo.root.read(path, _LARGEST_RUN)

    def _plan(
        self,
        branch: str,
        head: str,
        base: str,
        target: str,
        files: set[str],
        standing: Mapping[str, Entry],
        operational: Mapping[str, Entry],
    ) -> Plan:
        paths = sorted(files | set(standing))
        hasher = BlobHasher(self._repo.object_format)
        live: dict[str, Entry | None] = {}
        for path in paths:
            with suppress(FileNotFoundError):
                live[path] = Entry(FILE_MODE, hasher.of(self._repo.root.read(path, 1 << 30)))
        index = {path: Entry(first.mode, first.blob) for path, (first, *_) in read_index(self._repo).items()}
        after = {path: entry for path, entry in payload_of(self._git, target).items() if path in paths}
        return Plan(
            run_id=self._run_id,
            operation="purge",
            branch=branch,
            head_commit=head,
            recovery_commit=base,
            apply_commit=target,
            target_commit=target,
            files=tuple(
                FileChange(path, live.get(path), after.get(path))
                for path in paths
                if live.get(path) != after.get(path)
            ),
            operational=tuple(FileChange(path, None, entry) for path, entry in operational.items()),
            index=tuple(
                FileChange(path, index.get(path), after.get(path))
                for path in paths
                if index.get(path) != after.get(path)
            ),
        )

    def _note_pending(self, record_id: str, unwanted: frozenset[str]) -> None:
        path = os.path.join(self._repo.common_dir, PENDING_NAME)
        with open(path, "w", encoding="utf-8", opener=_private) as file:
            json.dump({"record_id": record_id, "blobs": sorted(unwanted)}, file)
            file.flush()
            os.fsync(file.fileno())

    def _beyond_reach(self) -> tuple[str, ...]:
        remotes = os.fsdecode(self._git.run("remote")).split()
        worktrees = self._git.run("worktree", "list", "--porcelain").count(b"worktree ") - 1
        found = [f"the remote {name} and whoever fetched from it" for name in remotes]
        if worktrees > 0:
            found.append(f"{worktrees} linked worktrees")
        return (*found, "clones, bundles and backups made before")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
