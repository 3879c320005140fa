"""Writes that are durable and seen, but not committed yet: small ones that come thick and fast, kept beside Git.

The log lies in the Git directory, so that it moves with the memory and no commit can take it in. One write is one
line; a line without an end was never acknowledged. Whoever changes memory next folds all of it into one commit
(`folding.py`), so that nothing later is built on less than what was acknowledged.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from dsh_memory.repository.changes import is_payload_path
from dsh_memory.repository.lock import write_all
from dsh_memory.repository.workspace import WORKSPACES

NAME: Final = f"{WORKSPACES}/pending.jsonl"

_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC

#: Size and time: what tells whether somebody wrote to the log or folded it.
Mark = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """One acknowledged write: its commit message, and the new text of the files that it changes (None deletes)."""

    message: str
    files: Mapping[str, str | None]


class PendingLog:
    """The open log under its lock; `opened` is the way to one."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def mark(self) -> Mark:
        """Changes with every write to the log."""
        return _mark(os.fstat(self._descriptor))

    def writes(self) -> list[PendingWrite]:
        """What was acknowledged, in order; the end of a line that a dead process began is cut off."""
        data = _whole(self._descriptor)
        if len(data) < os.fstat(self._descriptor).st_size:
            os.ftruncate(self._descriptor, len(data))
        return _parsed(data)

    def append(self, writes: list[PendingWrite]) -> None:
        """Adds writes; they are durable when this returns, or not there at all when it raises OSError."""
        end = len(_whole(self._descriptor))
        os.ftruncate(self._descriptor, end)
        os.lseek(self._descriptor, end, os.SEEK_SET)
        lines = (json.dumps({"message": each.message, "files": dict(each.files)}) for each in writes)
        try:
            write_all(self._descriptor, "".join(f"{line}\n" for line in lines).encode())
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, end)
            raise

    def clear(self) -> None:
        """Forgets all of it, for it is in Git by now; durably, or it would come back over what is written next."""
        os.ftruncate(self._descriptor, 0)
        os.fsync(self._descriptor)


def mark_of(git_dir: str) -> Mark | None:
    """The log's mark without its lock; None where nothing is pending."""
    try:
        status = os.lstat(os.path.join(git_dir, NAME))
    except OSError:
        return None
    return _mark(status) if status.st_size else None


@contextmanager
def opened(git_dir: str) -> Iterator[PendingLog]:
    """The log under its lock, made where there is none and removed where nothing is left in it; raises OSError."""
    path = os.path.join(git_dir, NAME)
    descriptor = _locked(path, git_dir)
    try:
        yield PendingLog(descriptor)
        if os.fstat(descriptor).st_size == 0:
            os.unlink(path)
    finally:
        os.close(descriptor)


def _locked(path: str, git_dir: str) -> int:
    while True:
        descriptor = _open(path, git_dir)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Whoever held the lock may have folded the log and removed it meanwhile.
            stands = _stands_at(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        if stands:
            return descriptor
        os.close(descriptor)


def _stands_at(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _open(path: str, git_dir: str) -> int:
    try:
        return os.open(path, _FLAGS)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(path, _FLAGS | os.O_CREAT, 0o600)
        for folder in (os.path.dirname(path), git_dir):
            _flush_folder(folder)
        return descriptor


def read_pending(git_dir: str) -> list[PendingWrite]:
    """What waits now, read without the lock; raises OSError."""
    if mark_of(git_dir) is None:
        return []
    try:
        descriptor = os.open(os.path.join(git_dir, NAME), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    try:
        return _parsed(_whole(descriptor))
    finally:
        os.close(descriptor)


def _whole(descriptor: int) -> bytes:
    """The log up to the end of its last whole line."""
    pieces: list[bytes] = []
    position = 0
    while piece := os.pread(descriptor, 1 << 20, position):
        pieces.append(piece)
        position += len(piece)
    data = b"".join(pieces)
    return data[: data.rfind(b"\n") + 1]


def _parsed(data: bytes) -> list[PendingWrite]:
    try:
        values = [json.loads(line) for line in data.splitlines()]
        writes = [PendingWrite(value["message"], value["files"]) for value in values]
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(errno.EBADMSG, f"{NAME} is damaged") from error
    # guard: pending-payload-only
    if not all(is_payload_path(path) for write in writes for path in write.files):
        raise OSError(errno.EBADMSG, f"{NAME} names a file that is no memory")
    return writes


def _mark(status: os.stat_result) -> Mark:
    return status.st_size, status.st_mtime_ns


def _flush_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
