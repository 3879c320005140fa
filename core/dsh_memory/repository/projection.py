"""The worktree follows a commit, file by file, and never destroys bytes that are not in Git.

What stands at a path is first taken out of the way by rename, then looked at, and only if it is what the
run expected is the new file put in its place, by a rename that never replaces. What was taken out is looked
at again at the very end, since an editor may have kept it open.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from dsh_memory.errors import UnsafeLayout
from dsh_memory.repository.descriptors import (
    CREATE_FLAGS,
    READ_FLAGS,
    Folders,
    flush_file_system,
    flushes_at_once,
    rename_exclusive,
)
from dsh_memory.repository.layout import RECORD_FOLDERS, Root
from dsh_memory.repository.lock import write_all
from dsh_memory.repository.objects import EXECUTABLE_MODE, FILE_MODE, BlobHasher, Entry
from dsh_memory.repository.phases import reached
from dsh_memory.repository.plan import FileChange

# What stands for a folder, link or special file that outside hands put at a file's place: it equals no
# entry of Git.
_NO_FILE = Entry("none", "")
_NEW = ".new"


class Signature(NamedTuple):
    """By what a file is known again without reading it."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Signature:
        return cls(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class Rescued(NamedTuple):
    """Bytes found in a file that was taken out, which are in no commit yet."""

    entry: Entry
    data: bytes


@dataclass(slots=True)
class Outcome:
    """What the projection could not do: paths left to outside hands, and bytes that Git must still be
    given."""

    left: list[str] = field(default_factory=list)
    rescued: dict[str, Rescued] = field(default_factory=dict)


class Projection:
    """The changes of one run to the payload files of the worktree; use it in a `with` statement.

    `folder` is the descriptor of the private folder (`Workspace.files`), on the root's file system.
    """

    def __init__(self, root: Root, folder: int, changes: Sequence[FileChange], object_format: str) -> None:
        self._folder = folder
        self._changes = changes
        self._hasher = BlobHasher(object_format)
        self._folders = Folders(root)
        self.outcome = Outcome()

    def __enter__(self) -> Projection:
        self._folders.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._folders.__exit__(None, None, None)

    def stage(self, contents: Mapping[str, bytes], *, flush: bool = True) -> None:
        """Writes every new file that `contents` has the bytes of into the private folder, with its mode,
        durably; without `flush` that is left to the caller."""
        staged = set(os.listdir(self._folder))
        due = [
            (number, change)
            for number, change in enumerate(self._changes)
            if change.after is not None and change.after.blob in contents and _new(number) not in staged
        ]
        at_once = flushes_at_once(len(due))
        for number, change, status in self._standing(due):
            assert change.after is not None  # noqa: S101
            name = _new(number)
            mode = _mode(change.after, status)
            descriptor = os.open(name, CREATE_FLAGS, mode, dir_fd=self._folder)
            try:
                os.fchmod(descriptor, mode)
                write_all(descriptor, contents[change.after.blob])
                if flush and not at_once:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
        if flush:
            if at_once:
                flush_file_system(self._folder)
            os.fsync(self._folder)

    def staged(self) -> list[str]:
        """The names of the staged files in the private folder."""
        return [name for name in os.listdir(self._folder) if name.endswith(_NEW)]

    def unstaged(self) -> list[str]:
        """The blobs that `stage` needs the bytes of, after a dead process put some files in place already."""
        staged = set(os.listdir(self._folder))
        return [
            change.after.blob
            for number, change in enumerate(self._changes)
            if change.after is not None
            and _new(number) not in staged
            and self._live_entry(change.path) != change.after
        ]

    def changed_since(self, signatures: Mapping[str, Signature]) -> str | None:
        """The first path that is no longer what was captured (a path without a signature was absent), or
        None."""
        for _, change, status in self._standing(enumerate(self._changes)):
            # A folder that a file is to replace is gone by then; what else is in it keeps it from going.
            found = None if status is None or stat.S_ISDIR(status.st_mode) else Signature.of(status)
            if found != signatures.get(change.path):
                return change.path
        return None

    def run(self, *, resumed: bool = False) -> Outcome:
        """Brings every path to its new state, deletes before adds; `resumed` where a dead process may have
        begun.

        Raises OSError where the system refuses; it can be run again then, with `resumed`.
        """
        deletes = [pair for pair in enumerate(self._changes) if pair[1].after is None]
        for number, change in deletes:
            self._settle(number, change, resumed)
        self._remove_empty_folders(change.path for _, change in deletes)
        reached("deleted")
        for number, change in enumerate(self._changes):
            if change.after is not None:
                self._settle(number, change, resumed)
                reached("replaced")
        self._folders.flush()
        reached("projected")
        return self.salvage()

    def salvage(self) -> Outcome:
        """Deletes what was taken out, if it still is what is in Git; else it is put back, or rescued."""
        self._look_again()
        self._folders.flush()
        return self.outcome

    # --- one path ---------------------------------------------------------------------------------

    def _settle(self, number: int, change: FileChange, resumed: bool) -> None:
        if resumed and self._is_settled(number, change):
            return
        taken = resumed and self._exists(_old(number))
        if not taken and change.before is not None:
            taken = self._take_out(number, change.path)
        # guard: verify-what-was-taken
        if taken and self._entry(self._folder, _old(number)) != change.before:
            self._leave(change.path)
            self._put(_old(number), change.path)
        elif change.after is not None and not self._put(_new(number), change.path):
            self._leave(change.path)

    def _is_settled(self, number: int, change: FileChange) -> bool:
        """Whether nothing is to be done: the path is as it should be, or in the hands of others."""
        live = self._live_entry(change.path)
        if live == change.after:
            return True
        if live is None or (live == change.before and not self._exists(_old(number))):
            return False
        self._leave(change.path)
        return True

    def _take_out(self, number: int, path: str) -> bool:
        parent, _, name = path.rpartition("/")
        try:
            folder = self._folders.get(parent)
            os.rename(name, _old(number), src_dir_fd=folder, dst_dir_fd=self._folder)
        except FileNotFoundError:
            return False
        except UnsafeLayout:
            # Something else stands at a folder's place by now; putting the new file there will find it, too.
            return False
        self._folders.changed(parent)
        return True

    def _put(self, source: str, path: str) -> bool:
        """Moves a file of the private folder to its place, unless that is taken."""
        parent, _, name = path.rpartition("/")
        try:
            folder = self._folders.get(parent, create=True)
        except UnsafeLayout:
            return False
        self._folders.changed(parent)
        return rename_exclusive(self._folder, source, folder, name)

    def _leave(self, path: str) -> None:
        if path not in self.outcome.left:
            self.outcome.left.append(path)

    def _remove_empty_folders(self, paths: Iterable[str]) -> None:
        levels: dict[int, set[str]] = {}
        for folder in {path.rpartition("/")[0] for path in paths}:
            levels.setdefault(folder.count("/"), set()).add(folder)
        for depth in range(max(levels, default=-1), -1, -1):
            for folder in levels.get(depth, ()):
                # The payload's own folders stay, empty or not.
                if folder and folder not in RECORD_FOLDERS and self._folders.remove_if_empty(folder):
                    levels.setdefault(depth - 1, set()).add(folder.rpartition("/")[0])

    def _look_again(self) -> None:
        names = set(os.listdir(self._folder))
        for number, change in enumerate(self._changes):
            name = _old(number)
            entry = self._entry(self._folder, name) if name in names else None
            if entry is None:
                continue
            live = None if entry in (change.before, change.after) else self._live_entry(change.path)
            # guard: verify-before-delete
            if entry in (change.before, change.after, live):
                os.unlink(name, dir_fd=self._folder)
                continue
            self._leave(change.path)
            if live is None and self._put(name, change.path):
                continue
            if entry is _NO_FILE:
                self._put(name, f"{change.path}.kept-{number}")
                continue
            with os.fdopen(os.open(name, READ_FLAGS, dir_fd=self._folder), "rb") as file:
                data = file.read()
            self.outcome.rescued[change.path] = Rescued(Entry(entry.mode, self._hasher.of(data)), data)

    # --- looking ----------------------------------------------------------------------------------

    def _standing(
        self, changes: Iterable[tuple[int, FileChange]]
    ) -> Iterator[tuple[int, FileChange, os.stat_result | None]]:
        """The changes with what stands at their paths now; a folder is asked for once for all that is in it."""
        parent, folder = "", self._folders.get("")
        for number, change in changes:
            above, _, name = change.path.rpartition("/")
            status = None
            with suppress(FileNotFoundError, UnsafeLayout):
                if above != parent:
                    parent, folder = above, -1
                    folder = self._folders.get(above)
                if folder >= 0:
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            yield number, change, status

    def _live_entry(self, path: str) -> Entry | None:
        parent, _, name = path.rpartition("/")
        try:
            return self._entry(self._folders.get(parent), name)
        except (FileNotFoundError, UnsafeLayout):
            return None

    def _entry(self, folder: int, name: str) -> Entry | None:
        try:
            descriptor = os.open(name, READ_FLAGS, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
                return _NO_FILE
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return _NO_FILE
            mode = EXECUTABLE_MODE if status.st_mode & stat.S_IXUSR else FILE_MODE
            return Entry(mode, self._hasher.of_file(descriptor))
        finally:
            os.close(descriptor)

    def _exists(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True


def _mode(after: Entry, replaced: os.stat_result | None) -> int:
    """The permissions of the new file: those of the one it replaces, else 0600; executable as Git says."""
    mode = replaced.st_mode & 0o777 if replaced is not None and stat.S_ISREG(replaced.st_mode) else 0o600
    if after.mode == EXECUTABLE_MODE:
        return mode | (mode & 0o444) >> 2
    return mode & ~0o111


def _old(number: int) -> str:
    return f"{number}.old"


def _new(number: int) -> str:
    return f"{number}{_NEW}"
