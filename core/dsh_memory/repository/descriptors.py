"""File work by descriptor: folders opened once, and a rename that never replaces."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import Self

from dsh_memory.repository.layout import Root, open_folder

CREATE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_FLUSH_ALL_ABOVE = 128
_OPEN_FOLDERS = 64
_RENAME_NOREPLACE = 1  # linux/fs.h
_RENAME_EXCL = 4  # sys/stdio.h of macOS
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


class Folders:
    """Folders below a root by their paths, opened without following links; use it in a `with` statement."""

    def __init__(self, root: Root) -> None:
        self._open: dict[str, int] = {"": os.dup(root.descriptor)}
        self._changed: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def get(self, path: str, *, create: bool = False) -> int:
        """The folder's descriptor; made 0700 where it is missing and `create` says so.

        Raises FileNotFoundError, and UnsafeLayout where a link or file stands in the way.
        """
        descriptor = self._open.get(path)
        if descriptor is not None:
            return descriptor
        parent, _, name = path.rpartition("/")
        above = self.get(parent, create=create)
        try:
            descriptor = open_folder(above, name, path)
        except FileNotFoundError:
            if not create:
                raise
            os.mkdir(name, 0o700, dir_fd=above)
            self.changed(parent)
            descriptor = open_folder(above, name, path)
        if len(self._open) >= _OPEN_FOLDERS:
            for old in [known for known in self._open if known and not path.startswith(known + "/")]:
                os.close(self._open.pop(old))
        self._open[path] = descriptor
        return descriptor

    def changed(self, path: str) -> None:
        """Notes that an entry of this folder was changed, so that `flush` makes it durable."""
        self._changed.add(path)

    def remove_if_empty(self, path: str) -> bool:
        """Removes the folder when nothing is in it; whether it is gone now."""
        parent, _, name = path.rpartition("/")
        try:
            above = self.get(parent)
            for inner in [known for known in self._open if known == path or known.startswith(path + "/")]:
                os.close(self._open.pop(inner))
            os.rmdir(name, dir_fd=above)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        self._changed.discard(path)
        self.changed(parent)
        return True

    def flush(self) -> None:
        """Makes the changes of every changed folder durable."""
        if flushes_at_once(len(self._changed)):
            flush_file_system(self._open[""])
            self._changed.clear()
        for path in sorted(self._changed):
            try:
                os.fsync(self.get(path))
            except FileNotFoundError:
                # Removed since by other hands: nothing of it is left to be kept.
                continue
        self._changed.clear()


def flushes_at_once(count: int) -> bool:
    """Whether one flush of a file system is to be had and costs less than that many of single files or folders."""
    return count > _FLUSH_ALL_ABOVE and _system_function("syncfs") is not None


def flush_file_system(descriptor: int) -> None:
    """Makes all that was written to the file system of an open file durable; raises OSError where it cannot."""
    call = _system_function("syncfs")
    if call is None or call(descriptor) != 0:
        number = errno.ENOSYS if call is None else ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def rename_exclusive(source_folder: int, source: str, target_folder: int, target: str) -> bool:
    """Renames a file unless something stands at the target already; whether it did.

    One step where the system has it; else a link and an unlink, between which the file has two names.
    """
    # guard: never-replace
    outcome = _renameat_exclusive(source_folder, source, target_folder, target)
    if outcome is not None:
        return outcome
    try:
        os.link(source, target, src_dir_fd=source_folder, dst_dir_fd=target_folder, follow_symlinks=False)
    except FileExistsError:
        return False
    os.unlink(source, dir_fd=source_folder)
    return True


def remove_tree(root: Root, path: str) -> bool:
    """Deletes the folder at `path` with all that is in it, following no link; whether there was one.

    Raises UnsafeLayout where a link or file stands in its place or on the way.
    """
    parent, _, name = path.rpartition("/")
    try:
        with root.folder(parent) as above:
            _remove_folder(above, name, path)
    except FileNotFoundError:
        return False
    return True


def _remove_folder(above: int, name: str, path: str) -> None:
    folder = open_folder(above, name, path)
    try:
        for entry in os.listdir(folder):
            status = os.stat(entry, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                _remove_folder(folder, entry, f"{path}/{entry}")
            else:
                os.unlink(entry, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=above)


def _renameat_exclusive(source_folder: int, source: str, target_folder: int, target: str) -> bool | None:
    """The system's own call, None where it or the file system knows none."""
    name, flag = ("renameat2", _RENAME_NOREPLACE)
    if sys.platform == "darwin":
        name, flag = ("renameatx_np", _RENAME_EXCL)
    call = _system_function(name)
    if call is None:
        return None
    while call(source_folder, os.fsencode(source), target_folder, os.fsencode(target), flag) != 0:
        number = ctypes.get_errno()
        if number == errno.EEXIST:
            return False
        if number in _UNSUPPORTED:
            return None
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number), source, None, target)
    return True


@cache
def _system_function(name: str) -> Callable[..., int] | None:
    function: Callable[..., int] | None = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    return function
