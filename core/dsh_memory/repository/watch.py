"""The walk over the payload, for processes that ask again and again: only what the kernel says changed is looked at.

Linux queues an event at the time of the change, and the queue is emptied at the time of the question: whatever any
program did before a call is in its answer. Where that is not to be had (another system, no watches left, a queue that
ran over, a file system that other machines change too), every call walks anew. Writes through a shared memory map, or
through a second name given to a file elsewhere, raise no event here; editors do not write so.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from dsh_memory.repository.layout import PAYLOAD, Root, Scan, live_file

if TYPE_CHECKING:
    from inotify_simple import INotify

# From the kernel's inotify(7).
_MODIFY, _ATTRIB, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _UNMOUNT, _OVERFLOW, _IGNORED, _FOLDER = (
    0x400,
    0x800,
    0x2000,
    0x4000,
    0x8000,
    0x40000000,
)
_WATCHED: Final = (
    _MODIFY | _ATTRIB | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | 0x01000000
)
_WALK_ANEW: Final = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _OVERFLOW | _IGNORED | _FOLDER

# Changes that another machine makes to these are known to its kernel alone.
_REMOTE: Final = (
    *("9p", "afs", "ceph", "cifs", "fuse", "gfs2", "gluster", "lustre", "ncp", "nfs", "ocfs2", "orangefs"),
    *("smb", "vboxsf", "virtiofs", "vmhgfs"),
)
_MOUNTS: Final = "/proc/self/mountinfo"

_log = logging.getLogger("dsh_memory")


class PayloadWatch:
    """Answers the same as `Root.scan`; the very same object as long as nothing has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: INotify | None = None
        self._folders: dict[int, str] = {}
        self._root: tuple[int, int] | None = None
        self._scan: Scan | None = None

    def scan(self, root: Root) -> Scan:
        """The payload as it is now; raises as `Root.scan`."""
        with self._lock:
            status = os.fstat(root.descriptor)
            identity = (status.st_dev, status.st_ino)
            changed = None if self._scan is None or self._root != identity else self._changed_paths()
            if changed is None:
                self._root = identity
                self._scan = self._walk(root)
            elif changed:
                self._scan = self._updated(root, changed)
            assert self._scan is not None  # noqa: S101
            return self._scan

    def _changed_paths(self) -> set[str] | None:
        """The files that may have changed since the last call; None where only a walk can tell."""
        if self._queue is None:
            return None
        changed: set[str] = set()
        for event in self._queue.read(timeout=0):
            folder = self._folders.get(event.wd)
            if folder is None:
                return None
            if folder or event.name in PAYLOAD:
                # guard: watch-doubts-walk
                if event.mask & _WALK_ANEW or event.name.lower() == ".git":
                    return None
                changed.add(f"{folder}/{event.name}" if folder else event.name)
            elif event.mask & (_WALK_ANEW & ~_FOLDER):
                return None
        return changed

    def _walk(self, root: Root) -> Scan:
        self._scan = None
        self._queue = queue = None if _is_remote(root.path) else _new_queue()
        self._folders = {}
        if queue is None:
            return root.scan()

        def enter(descriptor: int, path: str) -> None:
            # Through the descriptor: the folder that is walked is the one watched, whatever its name leads to by now.
            self._folders[queue.add_watch(f"/proc/self/fd/{descriptor}", _WATCHED)] = path

        try:
            enter(root.descriptor, "")
            return root.scan(enter)
        except OSError as error:
            _log.debug("the payload cannot be watched: %s", error)
            self._queue = None
            return root.scan()

    def _updated(self, root: Root, changed: set[str]) -> Scan:
        assert self._scan is not None  # noqa: S101
        files = dict(self._scan.files)
        scan, self._scan = self._scan, None
        for path in changed:
            status = root.lstat(path)
            if status is None:
                files.pop(path, None)
            else:
                files[path] = live_file(path, status)
        return scan._replace(files=files)


class FolderWatch:
    """Whether one folder, its files' contents included, is as it was; its own folders are not looked into."""

    def __init__(self) -> None:
        self._queue: INotify | None = None
        self._folder: tuple[int, int] | None = None

    def is_unchanged(self, descriptor: int, path: str) -> bool:
        """Whether nothing in the open folder at `path` has changed since the last call; False at the first."""
        status = os.fstat(descriptor)
        folder = (status.st_dev, status.st_ino)
        if self._queue is not None and self._folder == folder and not self._queue.read(timeout=0):
            return True
        self._folder = folder
        self._queue = queue = None if _is_remote(path) else _new_queue()
        if queue is not None:
            try:
                # guard: watched-before-it-is-read (what changes from here on is seen by the next call)
                queue.add_watch(f"/proc/self/fd/{descriptor}", _WATCHED)
            except OSError as error:
                _log.debug("a folder cannot be watched: %s", error)
                self._queue = None
        return False


def _is_remote(path: str) -> bool:
    """Whether a file system that other machines may change lies at `path` or below it."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            return has_remote_mount(os.path.realpath(path), mounts)
    except OSError:
        # Another system than Linux, or no /proc: there is nothing to watch with, either.
        return False


def has_remote_mount(path: str, mounts: Iterable[str]) -> bool:
    """The same for a real path, from the lines of proc_pid_mountinfo(5)."""
    nearest, remote = "", False
    for line in mounts:
        place, _, kind = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), place.split(" ")[4]).rstrip("/")
        is_remote = kind.startswith(_REMOTE)
        if is_remote and point.startswith(f"{path}/"):
            return True
        # A later mount on the same place hides the earlier one.
        if len(point) >= len(nearest) and (path == point or path.startswith(f"{point}/")):
            nearest, remote = point, is_remote
    return remote


def _new_queue() -> INotify | None:
    if sys.platform != "linux":
        return None
    try:
        from inotify_simple import INotify

        queue = INotify(closefd=False)
    except (ImportError, OSError) as error:
        _log.debug("there is no inotify: %s", error)
        return None
    weakref.finalize(queue, os.close, queue.fileno())
    return queue
