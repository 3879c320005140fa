"""Brings the writes that wait beside Git (`pending_log.py`) into one commit."""

from __future__ import annotations

import logging

from dsh_memory.records.metadata import MAX_RECORD_BYTES
from dsh_memory.repository.failures import TransactionFailed, failing
from dsh_memory.repository.journal import new_run_id
from dsh_memory.repository.lock import Clock, hold
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.pending_log import PendingWrite, opened
from dsh_memory.repository.phases import reached
from dsh_memory.repository.record_commits import OPERATION, FileWrite, RecordWriter
from dsh_memory.repository.recovery import settle
from dsh_memory.repository.write_memo import WriteMemo

_log = logging.getLogger("dsh_memory")


def fold_pending(repo: Repository, clock: Clock) -> None:
    """Commits all that waits, as one commit; what cannot be committed now goes on waiting.

    Raises OperationInProgress or UnsafeLayout.
    """
    try:
        with failing("ready"), hold(repo.root, OPERATION, new_run_id(clock()), clock) as lock:
            settle(repo, clock, lock)
            lock.record(lock.run)
            with opened(repo.git_dir) as log:
                due = _due(repo, log.writes())
                if due is not None:
                    RecordWriter(repo, lock, clock, WriteMemo()).commit([due])
                    reached("folded")
                # guard: folded-before-forgotten
                log.clear()
    except TransactionFailed as failure:
        # The change that is about to be made meets the same obstacle, and tells its caller.
        _log.warning("acknowledged writes wait to be committed: %s", failure.message)


def _due(repo: Repository, writes: list[PendingWrite]) -> FileWrite | None:
    """The one commit: the newest text of each file, unless a process that died has committed it already."""
    texts: dict[str, str | None] = {}
    for write in writes:
        texts |= write.files
    files: dict[str, bytes | None] = {}
    for path, text in texts.items():
        data = None if text is None else text.encode()
        if data != _present(repo, path):
            files[path] = data
    if not files:
        return None
    if len(writes) == 1:
        return FileWrite(writes[0].message, files)
    trailers = [
        line for write in writes for line in write.message.rstrip("\n").split("\n\n", 1)[-1].split("\n")
    ]
    return FileWrite(f"DPSK memory: {len(writes)} small writes\n\n" + "\n".join(trailers) + "\n", files)


def _present(repo: Repository, path: str) -> bytes | None:
    try:
        return repo.root.read(path, MAX_RECORD_BYTES)
    except FileNotFoundError:
        return None
