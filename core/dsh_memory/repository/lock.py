"""The operation lock and the active run: who is changing the memory now.

The lock file appears with its content and already locked, and a stale one is replaced by rename under its own
lock, so that at no instant two processes hold it (`design.md` §5.6). Reading it never blocks a holder.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dsh_memory.environment import format_instant, parse_instant
from dsh_memory.errors import OperationInProgress, UnsafeLayout
from dsh_memory.repository.layout import Root, open_folder
from dsh_memory.repository.processes import is_alive, started_after
from dsh_memory.repository.turns import lock_held, turn_of

SYNC_FOLDER = ".sync"
LOCK_NAME = "operation.lock"
ACTIVE_RUN_NAME = "active-run.json"

Clock = Callable[[], datetime]

_UNREADABLE_IS_STALE_AFTER = timedelta(seconds=5)
_LIVE_HOLDER_IS_STALE_AFTER = timedelta(hours=6)
_POLL_SECONDS = 0.01
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_LARGEST_FILE = 64 * 1024
# `.sync/.gitignore` knows the form `.usage.*.tmp`: what a crash leaves never shows in `git status`.
_PRIVATE_PREFIX = ".usage.lock-"
_ACTIVE_PREFIX = ".usage.active-"
JOURNAL_PREFIX = ".usage.journal-"
_PRIVATE_PREFIXES = (_PRIVATE_PREFIX, _ACTIVE_PREFIX, JOURNAL_PREFIX)
_PRIVATE_SUFFIX = ".tmp"


@dataclass(frozen=True, slots=True)
class LockState:
    """The lock file as it stands: `active` unless its holder is provably gone; `stale_reason` says why.

    The four fields of its content are None where the file cannot be read as a lock.
    """

    operation: str | None
    pid: int | None
    run_id: str | None
    started_at: str | None
    active: bool
    stale_reason: str | None


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """`.sync/active-run.json`: the run in progress, or the one whose process died.

    The three commits are None before the run has built them, and always in records of other programs, which
    are not `ours`. `state` is `running` or `interrupted`.
    """

    run_id: str
    operation: str
    status: str
    phase: str
    pid: int
    started_at: str
    head_commit: str | None = None
    recovery_commit: str | None = None
    target_commit: str | None = None
    state: str = "running"
    ours: bool = True

    def to_bytes(self) -> bytes:
        """The file's content, without the derived `state`."""
        content = {
            "schema_version": 1,
            "run_id": self.run_id,
            "operation": self.operation,
            "status": self.status,
            "phase": self.phase,
            "pid": self.pid,
            "started_at": self.started_at,
            "head_commit": self.head_commit,
            "recovery_commit": self.recovery_commit,
            "target_commit": self.target_commit,
        }
        return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def read_lock(root: Root, now: datetime) -> LockState | None:
    """The operation lock as it stands, None when there is none.

    Raises UnsafeLayout when something else than a regular file stands at its place.
    """
    try:
        with root.folder(SYNC_FOLDER) as folder:
            descriptor = _open_lock(folder)
            if descriptor is None:
                return None
            try:
                return _state(descriptor, now, held=_is_flocked(descriptor))
            finally:
                os.close(descriptor)
    except FileNotFoundError:
        return None
    except PermissionError:
        return LockState(None, None, None, None, active=True, stale_reason=None)


def read_active_run(root: Root, now: datetime) -> ActiveRun | None:
    """The active run with its derived `state`, None when there is none or the file is no such record."""
    try:
        run = parse_active_run(root.read(f"{SYNC_FOLDER}/{ACTIVE_RUN_NAME}", _LARGEST_FILE))
    except FileNotFoundError:
        return None
    if run is None:
        return None
    return replace(run, state="running" if _is_running(root, run, now) else "interrupted")


def read_dead_run(root: Root, now: datetime) -> ActiveRun | None:
    """The run whose process died, for the holder of the lock: whatever is recorded is not running any more.

    A live process of other hands has ended its run and forgot the record; that one is None.
    """
    run = read_active_run(root, now)
    if run is None or (not run.ours and _may_run(run, now)):
        return None
    return replace(run, state="interrupted")


def is_applying(root: Root, now: datetime) -> bool:
    """Whether the worktree may hold half of a change, so that the payload has to be read from HEAD.

    True while a live run is in phase applying, and after one of ours died there until recovery has been.
    """
    run = read_active_run(root, now)
    if run is None or run.phase != "applying":
        return False
    return run.state == "running" or run.target_commit is not None


class OperationLock:
    """The held lock; `hold` is the way to one.

    `keep_run` leaves the run's record behind at the end, for recovery.
    """

    def __init__(self, folder: int, descriptor: int, run: ActiveRun) -> None:
        self.keep_run = False
        self._folder = folder
        self._descriptor = descriptor
        self._run = run
        self._recorded = False

    @property
    def run(self) -> ActiveRun:
        """The active run as last recorded."""
        return self._run

    def record(self, run: ActiveRun, *, durable: bool = False) -> None:
        """Writes the active run atomically; with `durable` it survives a loss of power from here on."""
        name = f"{_ACTIVE_PREFIX}{os.getpid()}-{secrets.token_hex(4)}{_PRIVATE_SUFFIX}"
        descriptor = os.open(name, _CREATE_FLAGS, 0o600, dir_fd=self._folder)
        try:
            try:
                write_all(descriptor, run.to_bytes())
                if durable:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.rename(name, ACTIVE_RUN_NAME, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError:
            _unlink(self._folder, name)
            raise
        if durable:
            os.fsync(self._folder)
        self._run = run
        self._recorded = True

    def leave_run(self, run: ActiveRun) -> None:
        """Leaves another run's record behind at the end, as it was found."""
        self.record(run)
        self.keep_run = True

    def forget_run(self) -> None:
        """Removes the active run's record, unless it is another run's that recovery has not seen."""
        if self._recorded and not self.keep_run:
            _unlink(self._folder, ACTIVE_RUN_NAME)

    def check_still_held(self) -> None:
        """Raises OperationInProgress when other hands took the lock file away in spite of its holder."""
        # guard: lock-still-ours
        if not _same_file(self._folder, LOCK_NAME, self._descriptor):
            raise OperationInProgress("Another program took the lock of this operation.", detail="lock-lost")


@contextmanager
def hold(
    root: Root, operation: str, run_id: str, clock: Clock, wait_seconds: float = 2.0
) -> Iterator[OperationLock]:
    """Holds the operation lock; another process that has it is waited for `wait_seconds` at most.

    Raises OperationInProgress, UnsafeLayout, or OSError where `.sync` cannot be written.
    """
    with _sync_folder(root) as folder, turn_of(_identity(folder), wait_seconds) as turn:
        run = ActiveRun(run_id, operation, "running", "staging", os.getpid(), format_instant(clock()))
        descriptor = _acquire(folder, run, clock, turn.deadline)
        turn.held = True
        lock = OperationLock(folder, descriptor, run)
        try:
            _sweep(folder, descriptor)
            yield lock
        finally:
            _release(lock, folder, descriptor)


def _release(lock: OperationLock, folder: int, descriptor: int) -> None:
    try:
        lock.forget_run()
        # guard: release-own-inode-only
        if _same_file(folder, LOCK_NAME, descriptor):
            _unlink(folder, LOCK_NAME)
    except OSError:
        # What was done under the lock is done. A lock without its flock is stale to the next taker, and a run
        # without its lock is found dead and journaled by it.
        return
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all of `data`, however many writes the system makes of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextmanager
def _sync_folder(root: Root) -> Iterator[int]:
    try:
        descriptor = open_folder(root.descriptor, SYNC_FOLDER, SYNC_FOLDER)
    except FileNotFoundError:
        # Another writer may be faster; what it made is opened like any other.
        with suppress(FileExistsError):
            os.mkdir(SYNC_FOLDER, 0o700, dir_fd=root.descriptor)
        descriptor = open_folder(root.descriptor, SYNC_FOLDER, SYNC_FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


# --- taking the lock ------------------------------------------------------------------------------


def _acquire(folder: int, run: ActiveRun, clock: Clock, deadline: float) -> int:
    content = {"operation": run.operation, "pid": run.pid, "runId": run.run_id, "startedAt": run.started_at}
    data = json.dumps(content, separators=(",", ":")).encode()
    while True:
        descriptor = _try_once(folder, data, clock())
        if descriptor is not None:
            return descriptor
        if time.monotonic() >= deadline:
            raise lock_held()
        time.sleep(_POLL_SECONDS)


def _try_once(folder: int, data: bytes, now: datetime) -> int | None:
    standing = _open_lock(folder)
    try:
        if standing is not None:
            if not _flock(standing, fcntl.LOCK_EX) or not _same_file(folder, LOCK_NAME, standing):
                return None
            if _state(standing, now, held=False).active:
                return None
        name = f"{_PRIVATE_PREFIX}{os.getpid()}-{secrets.token_hex(4)}{_PRIVATE_SUFFIX}"
        descriptor = os.open(name, _CREATE_FLAGS, 0o600, dir_fd=folder)
        try:
            # Locked before it has the name that others look at: no one can ever see it free.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            write_all(descriptor, data)
            if standing is None:
                os.link(name, LOCK_NAME, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                _unlink(folder, name)
            else:
                # Only who holds the stale file's own lock may put another in its place.
                os.rename(name, LOCK_NAME, src_dir_fd=folder, dst_dir_fd=folder)
        except (FileExistsError, FileNotFoundError, BlockingIOError):
            # Another writer linked first, or a holder swept our file before it was locked: try again.
            _unlink(folder, name)
            os.close(descriptor)
            return None
        except BaseException:
            _unlink(folder, name)
            os.close(descriptor)
            raise
        return descriptor
    finally:
        if standing is not None:
            os.close(standing)


def _sweep(folder: int, own: int) -> None:
    """Removes the private files that dead processes left; one that its maker has locked is in use."""
    for name in os.listdir(folder):
        if not name.startswith(_PRIVATE_PREFIXES) or not name.endswith(_PRIVATE_SUFFIX):
            continue
        try:
            descriptor = os.open(name, _READ_FLAGS, dir_fd=folder)
        except OSError:
            # Gone by now, or nothing that this program made.
            continue
        try:
            if os.path.sameopenfile(descriptor, own) or _flock(descriptor, fcntl.LOCK_EX):
                _unlink(folder, name)
        finally:
            os.close(descriptor)


# --- judging a lock file --------------------------------------------------------------------------


def _open_lock(folder: int) -> int | None:
    try:
        descriptor = os.open(LOCK_NAME, _READ_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise _no_lock_file() from None
        raise
    # guard: lock-is-a-regular-file
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _no_lock_file()
    return descriptor


def _no_lock_file() -> UnsafeLayout:
    return UnsafeLayout("Something that is no file stands at the operation lock's place.", detail=LOCK_NAME)


def _state(descriptor: int, now: datetime, *, held: bool) -> LockState:
    content = _json_object(os.pread(descriptor, _LARGEST_FILE, 0))
    operation, pid, run_id, started_at = (
        content.get(key) for key in ("operation", "pid", "runId", "startedAt")
    )
    started = parse_instant(started_at)
    # bool is an int in Python and no process id.
    if type(pid) is not int or pid <= 0 or started is None:
        pid = None
    modified = datetime.fromtimestamp(os.fstat(descriptor).st_mtime, now.tzinfo)
    if held:
        reason = None
    elif pid is None or started is None:
        reason = "unreadable" if now - modified > _UNREADABLE_IS_STALE_AFTER else None
    else:
        reason = _gone(pid, started, min(started, modified), now)
    return LockState(
        operation if isinstance(operation, str) else None,
        pid,
        run_id if isinstance(run_id, str) else None,
        started_at if isinstance(started_at, str) else None,
        active=reason is None,
        stale_reason=reason,
    )


def _gone(pid: int, started: datetime, oldest: datetime, now: datetime) -> str | None:
    """Why the process that took a lock with a free flock is gone; None where it may be another program."""
    if not is_alive(pid):
        return "dead"
    # Whatever this process holds it holds by flock: under our own id it is a predecessor's.
    if pid == os.getpid() or started_after(pid, started):
        return "pid-reused"
    return "six-hours-old" if now - oldest > _LIVE_HOLDER_IS_STALE_AFTER else None


def _is_running(root: Root, run: ActiveRun, now: datetime) -> bool:
    lock = read_lock(root, now)
    if lock is not None and lock.active and lock.run_id == run.run_id:
        return True
    return not run.ours and _may_run(run, now)


def _may_run(run: ActiveRun, now: datetime) -> bool:
    # Ours hold the lock as long as they run; of other hands only the process can tell.
    started = parse_instant(run.started_at)
    return is_alive(run.pid) and started is not None and _gone(run.pid, started, started, now) is None


def parse_active_run(data: bytes) -> ActiveRun | None:
    """The run that the bytes of a record name, None where they are none."""
    content = _json_object(data)
    texts = [content.get(key) for key in ("run_id", "operation", "status", "phase", "started_at")]
    pid = content.get("pid")
    if not all(isinstance(text, str) for text in texts) or type(pid) is not int:
        return None
    run_id, operation, status, phase, started_at = (str(text) for text in texts)
    commits = {
        key: value
        for key in ("head_commit", "recovery_commit", "target_commit")
        if isinstance(value := content.get(key), str)
    }
    return ActiveRun(
        run_id, operation, status, phase, pid, started_at, **commits, ours="head_commit" in content
    )


def _json_object(data: bytes) -> dict[str, object]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _is_flocked(descriptor: int) -> bool:
    # A shared, non-blocking try; the descriptor's close gives it back at once.
    return not _flock(descriptor, fcntl.LOCK_SH)


def _flock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _same_file(folder: int, name: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(name, dir_fd=folder, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _unlink(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        # It is gone already, which is what was wanted.
        return


def _identity(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino
