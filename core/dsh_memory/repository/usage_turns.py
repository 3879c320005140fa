"""Whose turn it is to write the usage sidecar.

Processes of this program take turns by a lock on the folder `.sync`, which dies with its holder; the lock
folder `usage.lock/` beside it is for the other program that shares the root (`spec`: repository, Context).
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from dsh_memory.environment import format_instant, parse_instant
from dsh_memory.repository.descriptors import CREATE_FLAGS, READ_FLAGS
from dsh_memory.repository.jsonfile import parse_json_object, to_json_line
from dsh_memory.repository.layout import open_folder
from dsh_memory.repository.lock import SYNC_FOLDER, write_all
from dsh_memory.repository.processes import is_alive, started_after

LOCK_FOLDER_NAME: Final = "usage.lock"
OWNER_NAME: Final = "owner.json"

_WAIT_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.005
# A lock folder whose owner is not written down yet is being made, or its maker died just then.
_OWNERLESS_IS_STALE_AFTER: Final = timedelta(seconds=5)
_TEMPORARY: Final = re.compile(r"\.usage\.([0-9]{1,10})\.[0-9a-f-]{1,36}\.tmp")


def temporary_name() -> str:
    """A new name for a private file in `.sync`, of a form that its `.gitignore` knows."""
    return f".usage.{os.getpid()}.{secrets.token_hex(16)}.tmp"


@contextmanager
def turn(folder: int) -> Iterator[bool]:
    """Whether this process may write now; `folder` is the open `.sync`, the wait for others 2 s at most."""
    deadline = time.monotonic() + _WAIT_SECONDS
    if not _flock(folder, deadline):
        yield False
        return
    lock = _make_lock_folder(folder, deadline)
    try:
        yield lock is not None
    finally:
        if lock is not None and _inode(folder) == lock:
            _remove_folder(folder, LOCK_FOLDER_NAME)


def _flock(folder: int, deadline: float) -> bool:
    while True:
        try:
            # Given back when the folder's descriptor is closed, also by death.
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True


def _make_lock_folder(folder: int, deadline: float) -> int | None:
    """Make the lock folder and name its owner in it; its inode, None where the other program keeps it."""
    while True:
        try:
            os.mkdir(LOCK_FOLDER_NAME, 0o700, dir_fd=folder)
            break
        except FileExistsError:
            if _remove_if_stale(folder):
                continue
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_SECONDS)
    lock = open_folder(folder, LOCK_FOLDER_NAME, f"{SYNC_FOLDER}/{LOCK_FOLDER_NAME}")
    try:
        owner = {"pid": os.getpid(), "started_at": format_instant(datetime.now(UTC))}
        descriptor = os.open(OWNER_NAME, CREATE_FLAGS, 0o600, dir_fd=lock)
        try:
            write_all(descriptor, to_json_line(owner))
        finally:
            os.close(descriptor)
        return os.fstat(lock).st_ino
    except OSError:
        # Without its owner's name the folder would be in everybody's way for a while.
        _remove_folder(folder, LOCK_FOLDER_NAME)
        raise
    finally:
        os.close(lock)


def _remove_if_stale(folder: int) -> bool:
    """Whether the lock folder is gone now, because its owner is."""
    try:
        lock = open_folder(folder, LOCK_FOLDER_NAME, f"{SYNC_FOLDER}/{LOCK_FOLDER_NAME}")
    except FileNotFoundError:
        return True
    try:
        if not _is_stale(lock):
            return False
        judged = os.fstat(lock).st_ino
    finally:
        os.close(lock)
    away = temporary_name()
    try:
        os.rename(LOCK_FOLDER_NAME, away, src_dir_fd=folder, dst_dir_fd=folder)
    except FileNotFoundError:
        return True
    # guard: steal-what-was-judged (the other program may have made a new one in between)
    if os.stat(away, dir_fd=folder, follow_symlinks=False).st_ino != judged:
        os.rename(away, LOCK_FOLDER_NAME, src_dir_fd=folder, dst_dir_fd=folder)
        return False
    _remove_folder(folder, away)
    _sweep(folder)
    return True


def _is_stale(lock: int) -> bool:
    try:
        descriptor = os.open(OWNER_NAME, READ_FLAGS, dir_fd=lock)
    except FileNotFoundError:
        owner = None
    else:
        with os.fdopen(descriptor, "rb") as file:
            owner = parse_json_object(file.read(4096))
    pid, started = (owner or {}).get("pid"), parse_instant((owner or {}).get("started_at"))
    if type(pid) is not int:
        made = datetime.fromtimestamp(os.fstat(lock).st_mtime, UTC)
        return datetime.now(UTC) - made > _OWNERLESS_IS_STALE_AFTER
    # Whoever of this process writes has the folder's own lock: under our id it is a predecessor's.
    return pid == os.getpid() or not is_alive(pid) or (started is not None and started_after(pid, started))


def _sweep(folder: int) -> None:
    """Remove what dead writers left."""
    for name in os.listdir(folder):
        made_by = _TEMPORARY.fullmatch(name)
        if made_by is None or is_alive(int(made_by[1])):
            continue
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            _remove_folder(folder, name)
        else:
            os.unlink(name, dir_fd=folder)


def _remove_folder(folder: int, name: str) -> None:
    inner = open_folder(folder, name, f"{SYNC_FOLDER}/{name}")
    try:
        for entry in os.listdir(inner):
            os.unlink(entry, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)


def _inode(folder: int) -> int | None:
    try:
        return os.stat(LOCK_FOLDER_NAME, dir_fd=folder, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return None
