"""Packing what changes leave behind, off their way: by a process of its own, of lowest priority, once it is due.

Only copies are ever deleted: an object stays whether a branch, a reflog, the journal or nothing at all names it, so
that neither recovery nor a rollback can miss one. A killed one leaves what the next one sweeps.
"""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from dsh_memory.errors import OperationInProgress
from dsh_memory.repository.git import GitFailed, sealed_arguments, sealed_environment
from dsh_memory.repository.opening import Repository

#: Git's own measures (`gc.auto`, `gc.autoPackLimit`): loose objects, counted in one of their 256 folders, and packs.
LOOSE_LIMIT: Final = 6_700
PACK_LIMIT: Final = 50

_LOCK_NAME: Final = "dsh-memory-maintenance.lock"
_SAMPLE: Final = "17"
# What failed will fail again: nothing is tried anew for so long.
_PAUSE_SECONDS: Final = 3600
# Temporary files of git processes this old have no owner any more.
_LEFT_SECONDS: Final = 86_400
_WAIT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05
_LOWEST_PRIORITY: Final = 19

_STEPS: Final = (
    # All packs that are not twice as large as what follows, and all loose objects, become one pack.
    ("repack", "--geometric=2", "-d", "-n", "-q", "--threads=1"),
    ("commit-graph", "write", "--reachable", "--split", "--changed-paths", "--no-progress"),
)

_log = logging.getLogger("dsh_memory")


def is_due(common_dir: str) -> bool:
    """Whether enough objects lie about to pack them, and it did not fail just now."""
    objects = os.path.join(common_dir, "objects")
    # Objects that lie in another repository are not ours to count.
    if os.path.lexists(os.path.join(objects, "info", "alternates")):
        return False
    packs = sum(name.endswith(".pack") for name in _names(os.path.join(objects, "pack")))
    if len(_names(os.path.join(objects, _SAMPLE))) * 256 <= LOOSE_LIMIT and packs <= PACK_LIMIT:
        return False
    try:
        status = os.stat(os.path.join(common_dir, _LOCK_NAME))
    except FileNotFoundError:
        return True
    return status.st_size == 0 or time.time() - status.st_mtime > _PAUSE_SECONDS


def start_if_due(repo: Repository) -> None:
    """Starts a process that packs, if it is due, and does not wait for it; the change is done, whatever comes of it."""
    try:
        if is_due(repo.common_dir):
            command = [sys.executable, "-m", "dsh_memory.repository.maintenance", repo.common_dir]
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
            # A child that nobody waits for stays as a zombie as long as a server lives.
            threading.Thread(target=process.wait, name="dsh-memory-maintenance", daemon=True).start()
    except OSError as error:
        _log.debug("no maintenance: %s", error)


@contextmanager
def excluded(common_dir: str) -> Iterator[None]:
    """Keeps maintenance out, which could pack again what is being erased; raises OperationInProgress after a minute."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        with _locked(common_dir) as descriptor:
            if descriptor is not None:
                yield
                return
        if time.monotonic() >= deadline:
            raise OperationInProgress("The memory is being packed.", detail="maintenance")
        time.sleep(_POLL_SECONDS)


def maintain(common_dir: str) -> bool:
    """Packs loose objects and small packs, and writes the commit graph; False where another process is at it.

    Raises GitFailed, and then it is not due for an hour.
    """
    with _locked(common_dir) as descriptor:
        if descriptor is None:
            return False
        sweep(common_dir)
        os.ftruncate(descriptor, 0)
        try:
            for step in _STEPS:
                _run(common_dir, step, descriptor)
        except GitFailed as failure:
            os.pwrite(descriptor, str(failure).encode(), 0)
            raise
    return True


def sweep(common_dir: str, *, older_than: float = _LEFT_SECONDS) -> None:
    """Deletes what killed git processes left half-written among the objects, if it is so many seconds old."""
    objects = os.path.join(common_dir, "objects")
    folders = ["pack", os.path.join("info", "commit-graphs"), *(f"{number:02x}" for number in range(256))]
    for folder in (os.path.join(objects, name) for name in folders):
        for name in _names(folder):
            if name.startswith(("tmp_", ".tmp-")) or name.endswith(".lock"):
                path = os.path.join(folder, name)
                with suppress(FileNotFoundError):
                    if time.time() - os.lstat(path).st_mtime >= older_than:
                        os.unlink(path)


def main() -> None:
    """The process that `start_if_due` starts, on the Git directory that it is given."""
    os.nice(_LOWEST_PRIORITY)
    maintain(sys.argv[1])


@contextmanager
def _locked(common_dir: str) -> Iterator[int | None]:
    """The lock file's descriptor while this process holds it, None where another one does."""
    path = os.path.join(common_dir, _LOCK_NAME)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield descriptor
    finally:
        os.close(descriptor)


def _run(common_dir: str, arguments: tuple[str, ...], descriptor: int) -> None:
    # Not in the repository's folder: recovery takes a git process that works there for the owner of a stale lock.
    command = sealed_arguments("/", ["--git-dir", common_dir, *arguments])
    done = subprocess.run(
        command,
        env=sealed_environment(common_dir),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd="/",
        # guard: lock-outlives-the-parent (git may; the lock is held as long as it has it open)
        pass_fds=(descriptor,),
    )
    if done.returncode != 0:
        raise GitFailed(arguments, done.returncode, done.stderr)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    main()
