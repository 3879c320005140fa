"""A person's edits are runs too: what editors left in the worktree, and single files written by the
program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dsh_memory.errors import ChangeRefused, MemoryFailure, PreviewFailure, RepoUnavailable
from dsh_memory.repository.allowed_secrets import read_allowed_secrets
from dsh_memory.repository.changes import StagedFile, check_change
from dsh_memory.repository.content import RecordCache
from dsh_memory.repository.failures import TransactionFailed
from dsh_memory.repository.journal import RunRecord
from dsh_memory.repository.lock import Clock
from dsh_memory.repository.mutation import answering, transaction
from dsh_memory.repository.objects import Entry, read_blobs
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.states import digest_of
from dsh_memory.repository.transaction import Applied, Change, Transaction
from dsh_memory.repository.view import read_records


def save(
    repo: Repository,
    clock: Clock,
    message: str | None = None,
    *,
    expected_head: str | None = None,
    cache: RecordCache | None = None,
) -> dict[str, Any]:
    """Commits what editors left in the payload, as a journaled run, after the rules were held against it.

    Raises ChangeRefused for a file that breaks one, RepoUnavailable where the repository is not ready. The
    value: status (applied or no_change), runId, changedPaths, recoveryCommit, applyCommit.
    """
    with (
        answering(_refusal),
        transaction(repo, clock, "write", expected_head=expected_head, cache=cache) as changing,
    ):
        dirty = sorted(changing.view.dirty)
        if not dirty:
            return _value("no_change", None)
        live = changing.read_live(path for path in dirty if path in changing.view.files)
        files = [StagedFile(path, old, live.get(path)) for path, old in _committed(changing, dirty).items()]
        _check(changing, clock, files)
        change = Change(
            target={},
            message=_message(message, changing.run_id),
            captured=frozenset(dirty),
        )
        run = RunRecord(
            run_id=changing.run_id, operation="write", status="applied", staging_digest=digest_of(live)
        )
        return _value("applied", changing.apply(change, run))


def write_paths(
    repo: Repository,
    clock: Clock,
    changes: Mapping[str, bytes | None],
    *,
    expected: Mapping[str, bytes | None],
    message: str | None = None,
    operation: str = "write",
    cache: RecordCache | None = None,
) -> dict[str, Any]:
    """Writes single files (None deletes) as one journaled run that touches no other path.

    `expected` are the bytes that each path held when the change was thought out; where it holds others by
    now the call is refused with `live-memory-changed`, and both texts stay where they are. Raises
    ChangeRefused, PreviewFailure or RepoUnavailable; the value is that of `save`.
    """
    with answering(_refusal), transaction(repo, clock, operation, cache=cache) as changing:
        held = changing.read_live(path for path in changes if path in changing.view.files)
        for path in changes:
            # guard: expected-bytes
            if held.get(path) != expected.get(path):
                raise PreviewFailure(
                    "live-memory-changed",
                    "The file holds another text by now; yours was not written.",
                    detail=path,
                )
        wanted = {path: data for path, data in changes.items() if data != held.get(path)}
        if not wanted:
            return _value("no_change", None)
        files = [StagedFile(path, held.get(path), data) for path, data in wanted.items()]
        _check(changing, clock, files)
        _check_places(changing, wanted)
        target: dict[str, Entry | None] = {}
        contents = {}
        for path, data in wanted.items():
            target[path] = None if data is None else changing.entry_of(data, like=changing.live(path))
            if data is not None:
                contents[changing.entry_of(data).blob] = data
        change = Change(
            target,
            _message(message, changing.run_id),
            contents=contents,
            captured=frozenset(path for path in wanted if path in changing.view.dirty),
            checkpoint=f"DPSK memory recovery checkpoint: {changing.run_id}",
            scope=frozenset(wanted),
        )
        run = RunRecord(
            run_id=changing.run_id,
            operation=operation,
            status="applied",
            staging_digest=digest_of({path: data for path, data in wanted.items() if data is not None}),
        )
        return _value("applied", changing.apply(change, run))


def ids_elsewhere(changing: Transaction, clock: Clock, changed_paths: Iterable[str]) -> dict[str, str]:
    """The ids of the live records that a change leaves alone, each with its path."""
    changed = set(changed_paths)
    records = read_records(changing.repo, clock(), "all", changing.cache).records
    return {record.id: record.path for record in records if record.path not in changed}


def _check(changing: Transaction, clock: Clock, files: list[StagedFile]) -> None:
    check_change(
        files,
        ids_elsewhere(changing, clock, (file.path for file in files)),
        allowed_secrets=read_allowed_secrets(changing.repo.environment),
        limited=False,
    )


def _check_places(changing: Transaction, wanted: Mapping[str, bytes | None]) -> None:
    """A new file may not stand where a folder is, nor below a file."""
    for path, data in wanted.items():
        if data is None:
            continue
        for other in changing.view.files:
            if other not in wanted and (other.startswith(f"{path}/") or path.startswith(f"{other}/")):
                raise ChangeRefused("staging-invalid", "A file and a folder would have one name.", path=path)


def _committed(changing: Transaction, paths: Iterable[str]) -> dict[str, bytes | None]:
    """HEAD's bytes of the paths."""
    committed = changing.view.committed
    blobs = read_blobs(changing.git, (committed[path].blob for path in paths if path in committed))
    return {path: blobs[committed[path].blob] if path in committed else None for path in paths}


def _message(message: str | None, run_id: str) -> str:
    subject = f"DPSK memory write: {run_id}"
    return subject if not message else f"{subject}\n\n{message.strip()}\n"


def _value(status: str, applied: Applied | None) -> dict[str, Any]:
    return {
        "status": status,
        "runId": None if applied is None else applied.run.run_id,
        "changedPaths": [] if applied is None else list(applied.run.changed_paths),
        "recoveryCommit": None if applied is None else applied.recovery_commit,
        "applyCommit": None if applied is None else applied.apply_commit,
    }


def _refusal(failure: TransactionFailed) -> MemoryFailure:
    if failure.detail == "live-memory-changed":
        return PreviewFailure("live-memory-changed", failure.message)
    return RepoUnavailable(failure.message, detail=failure.detail)
