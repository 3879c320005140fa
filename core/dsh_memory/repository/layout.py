"""The memory root on disk: safe descent by directory descriptors, and the walk over the payload.

No path is ever followed through a link: each folder is opened relative to its parent's descriptor with O_NOFOLLOW, so
that a swap between check and use cannot lead outside the root (`cases.md` 64).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple, Self

from dsh_memory.errors import RepoUnavailable, UnsafeLayout

SUMMARY = "summary.md"
RECORD_FOLDERS = ("handbook", "rollouts", "archive")
PAYLOAD = (SUMMARY, *RECORD_FOLDERS)
OPERATIONAL = (".sync", ".last-sync")

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_DEPTH = 64
_OPEN_FOLDERS = 64


class LiveFile(NamedTuple):
    """A payload file as the walk found it; `path` is relative to the root, times in nanoseconds."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    executable: bool


class Scan(NamedTuple):
    """One walk over the payload: every file by path, and the folders that could not be read."""

    files: dict[str, LiveFile]
    unreadable: tuple[str, ...]


class Root:
    """An open memory root; close it, or use it in a `with` statement."""

    def __init__(self, path: str) -> None:
        """Opens `path`; raises UnsafeLayout for a link, RepoUnavailable for anything else that is no folder."""
        self.path = path
        try:
            self.descriptor = os.open(path, _FOLDER_FLAGS)
        except FileNotFoundError:
            raise RepoUnavailable(f"There is no memory at {path!r}.", detail="root-missing") from None
        except OSError as error:
            # guard: root-is-no-link
            if error.errno == errno.ELOOP or _is_link(path):
                raise UnsafeLayout("The memory root is a symbolic link.", detail="root-symlink") from None
            raise RepoUnavailable(
                f"The memory root cannot be opened: {os.strerror(error.errno or 0)}.",
                detail="root-unreadable",
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    @contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """A descriptor of the folder `path` below the root, reached without following a link.

        Raises FileNotFoundError where it is missing and UnsafeLayout where a link or a file stands in the way.
        """
        descriptor = os.dup(self.descriptor)
        try:
            for name in path.split("/") if path else ():
                deeper = open_folder(descriptor, name, path)
                os.close(descriptor)
                descriptor = deeper
            yield descriptor
        finally:
            os.close(descriptor)

    def below(self, path: str) -> Root:
        """The folder `path` as a root of its own, which the caller closes; raises as `folder`."""
        inner = Root.__new__(Root)
        with self.folder(path) as descriptor:
            inner.path = f"{self.path}/{path}"
            inner.descriptor = os.dup(descriptor)
        return inner

    def read(self, path: str, limit: int) -> bytes:
        """The bytes of the regular file `path`, at most `limit` + 1 of them; raises as `Reader.read`."""
        with Reader(self) as reader:
            return reader.read(path, limit)

    def lstat(self, path: str) -> os.stat_result | None:
        """What stands at `path` itself, or None; a link on the way there is UnsafeLayout."""
        parent, _, name = path.rpartition("/")
        try:
            with self.folder(parent) as descriptor:
                return os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def scan(self, entering: Callable[[int, str], None] | None = None) -> Scan:
        """Every payload file; a file that comes or goes during the walk is no error.

        `entering` is called with each folder's descriptor and path before it is read. Raises UnsafeLayout for
        links, special files, hard links, nested repositories and payload names of the wrong type (`spec`:
        repository, Roots).
        """
        files: dict[str, LiveFile] = {}
        unreadable: list[str] = []
        summary = self.lstat(SUMMARY)
        if summary is not None:
            files[SUMMARY] = live_file(SUMMARY, summary)
        for name in RECORD_FOLDERS:
            try:
                descriptor = open_folder(self.descriptor, name, name)
            except FileNotFoundError:
                continue
            except PermissionError:
                unreadable.append(name)
                continue
            try:
                _walk(descriptor, name, files, unreadable, 1, entering)
            finally:
                os.close(descriptor)
        return Scan(files, tuple(unreadable))


class Reader:
    """Reads many files below a root, each folder opened once; use it in a `with` statement."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._folders: dict[str, int] = {"": os.dup(root.descriptor)}
        self.files_read = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for descriptor in self._folders.values():
            os.close(descriptor)
        self._folders.clear()

    def read(self, path: str, limit: int) -> bytes:
        """The bytes of the regular file `path`, at most `limit` + 1 of them (so that a larger file shows).

        Raises FileNotFoundError, UnsafeLayout for a link or special file, OSError for what the system refuses.
        """
        descriptor, size = self.open(path)
        try:
            self.files_read += 1
            data = os.read(descriptor, min(size, limit) + 1)
            if len(data) == size or len(data) > limit:
                return data
            return _read_rest(descriptor, data, limit)
        finally:
            os.close(descriptor)

    def open(self, path: str) -> tuple[int, int]:
        """A descriptor of the regular file `path`, which the caller closes, and the file's size; raises as `read`."""
        parent, _, name = path.rpartition("/")
        try:
            descriptor = os.open(name, _FILE_FLAGS, dir_fd=self._folder(parent))
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                raise UnsafeLayout(
                    "A symbolic link stands where a file should be.", detail=f"symlink: {path}"
                ) from None
            if error.errno == errno.ENXIO:
                raise UnsafeLayout(
                    "A special file stands among the files.", detail=f"special-file: {path}"
                ) from None
            raise
        # guard: regular-file-after-open
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise UnsafeLayout("A special file stands among the files.", detail=f"special-file: {path}")
        return descriptor, status.st_size

    def _folder(self, path: str) -> int:
        descriptor = self._folders.get(path)
        if descriptor is not None:
            return descriptor
        parent, _, name = path.rpartition("/")
        descriptor = open_folder(self._folder(parent), name, path)
        if len(self._folders) >= _OPEN_FOLDERS:
            for old in [known for known in self._folders if known and not path.startswith(known + "/")]:
                os.close(self._folders.pop(old))
        self._folders[path] = descriptor
        return descriptor


def open_folder(parent: int, name: str, path: str) -> int:
    """A descriptor of the folder `name` in the folder `parent`; `path` is what an error shows."""
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    except OSError as error:
        # guard: folder-is-no-link
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
            raise UnsafeLayout(
                "A link or file stands where a folder should be.", detail=f"no-folder: {path}"
            ) from None
        raise


def _read_rest(descriptor: int, data: bytes, limit: int) -> bytes:
    # The file changed its size, or the system gave less than asked for: go on to its end or the limit.
    pieces = [data]
    total = len(data)
    while total <= limit:
        piece = os.read(descriptor, limit + 1 - total)
        if not piece:
            break
        pieces.append(piece)
        total += len(piece)
    return b"".join(pieces)


def _walk(
    descriptor: int,
    path: str,
    files: dict[str, LiveFile],
    unreadable: list[str],
    depth: int,
    entering: Callable[[int, str], None] | None,
) -> None:
    if depth > _MAX_DEPTH:
        raise UnsafeLayout(f"Folders are nested deeper than {_MAX_DEPTH}.", detail=f"too-deep: {path}")
    if entering is not None:
        entering(descriptor, path)
    with os.scandir(descriptor) as entries:
        for entry in entries:
            name = entry.name
            entry_path = f"{path}/{name}"
            # guard: nested-repository
            if name.lower() == ".git":
                raise UnsafeLayout(
                    "A Git repository is nested in the payload.", detail=f"nested-git: {entry_path}"
                )
            try:
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    deeper = open_folder(descriptor, name, entry_path)
                else:
                    files[entry_path] = live_file(entry_path, status)
                    continue
            except FileNotFoundError:
                continue
            except PermissionError:
                unreadable.append(entry_path)
                continue
            try:
                _walk(deeper, entry_path, files, unreadable, depth + 1, entering)
            finally:
                os.close(deeper)


def live_file(path: str, status: os.stat_result) -> LiveFile:
    """The payload file with that status; raises UnsafeLayout for what may not stand there."""
    _check_file(status, path)
    return LiveFile(
        path,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
        bool(status.st_mode & stat.S_IXUSR),
    )


def _check_file(status: os.stat_result, path: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        # guard: payload-has-no-link
        raise UnsafeLayout("A symbolic link stands in the payload.", detail=f"symlink: {path}")
    if not stat.S_ISREG(status.st_mode):
        kind = "no-file" if stat.S_ISDIR(status.st_mode) else "special-file"
        raise UnsafeLayout("Something that is no plain file stands in the payload.", detail=f"{kind}: {path}")
    if status.st_nlink > 1:
        # guard: hard-link (its other name may lie outside the root)
        raise UnsafeLayout(
            "A payload file has a second name elsewhere (a hard link).", detail=f"hard-link: {path}"
        )


def _is_link(path: str) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError:
        return False
