"""The private folder of one run under the Git directory, and Git's own index lock while the run lasts.

A run's folder holds what it is about to put into the worktree, what it took out of it until that is known
to be in Git, and its plan, by which recovery can finish or undo it (`plan.py`).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dsh_memory.errors import OperationInProgress
from dsh_memory.repository.descriptors import CREATE_FLAGS, READ_FLAGS
from dsh_memory.repository.layout import open_folder
from dsh_memory.repository.lock import SYNC_FOLDER, write_all

if TYPE_CHECKING:
    from dsh_memory.repository.opening import Repository

WORKSPACES = "dsh-memory"
RUN_NAME = "run.json"
INDEX_LOCK = "index.lock"
INDEX_LOCK_MARK = b"dsh-memory "

_WAIT_FOR_INDEX_SECONDS = 2.0
_POLL_SECONDS = 0.02


class Workspace:
    """The open private folders of one run.

    `folder` lies under the Git directory. `files` is where payload files are staged and taken to: the same
    folder, or one below `.sync` where the Git directory is on another file system and nothing could be
    renamed to it.
    """

    def __init__(self, repo: Repository, run_id: str, *, create: bool) -> None:
        self.run_id = run_id
        self.path = os.path.join(repo.git_dir, WORKSPACES, run_id)
        self._git_dir = os.open(repo.git_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._above: list[tuple[int, str]] = []
        self.folder = -1
        self.files = -1
        try:
            self._workspaces = _folder(self._git_dir, WORKSPACES, create=create)
            self._above.append((self._workspaces, run_id))
            self.folder = _folder(self._workspaces, run_id, create=create)
            self.files = self._file_folder(repo, create=create)
        except BaseException:
            self.close()
            raise

    def _file_folder(self, repo: Repository, *, create: bool) -> int:
        if os.fstat(self.folder).st_dev == os.fstat(repo.root.descriptor).st_dev:
            return os.dup(self.folder)
        sync = open_folder(repo.root.descriptor, SYNC_FOLDER, SYNC_FOLDER)
        # Of a form that `.sync/.gitignore` knows, like the lock's private files.
        name = f".usage.run-{self.run_id}.tmp"
        self._above.append((sync, name))
        return _folder(sync, name, create=create)

    def write(self, name: str, data: bytes, *, durable: bool = False) -> None:
        """Writes a new file of the run's own."""
        descriptor = os.open(name, CREATE_FLAGS, 0o600, dir_fd=self.folder)
        try:
            write_all(descriptor, data)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if durable:
            os.fsync(self.folder)

    def read(self, name: str) -> bytes:
        """The bytes of a file of the run's own; FileNotFoundError."""
        with os.fdopen(os.open(name, READ_FLAGS, dir_fd=self.folder), "rb") as file:
            return file.read()

    def discard(self, *names: str) -> None:
        """Deletes files of the run's own, those that there are."""
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self.folder)

    def close(self) -> None:
        """Closes the folders and leaves them where they are."""
        descriptors = [self.files, self.folder, self._git_dir, *(above for above, _ in self._above)]
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)
        self.files = self.folder = self._git_dir = -1
        self._above.clear()

    def remove(self) -> None:
        """Deletes the run's folders with all that is in them, and closes them."""
        for folder in {self.files, self.folder}:
            for name in os.listdir(folder):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
        for above, name in reversed(self._above):
            try:
                os.rmdir(name, dir_fd=above)
            except OSError as error:
                # A git process that outlives its parent may write once more; the next recovery sweeps that.
                if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                    raise
        self.close()

    # --- Git's index ------------------------------------------------------------------------------

    @contextmanager
    def index_locked(self) -> Iterator[None]:
        """Holds Git's own index lock, so that no git command that touches the index can interleave.

        Raises OperationInProgress, detail index-locked, when another program holds it for two seconds.
        """
        self.write(INDEX_LOCK, INDEX_LOCK_MARK + self.run_id.encode() + b"\n")
        deadline = time.monotonic() + _WAIT_FOR_INDEX_SECONDS
        while True:
            try:
                os.link(
                    INDEX_LOCK,
                    INDEX_LOCK,
                    src_dir_fd=self.folder,
                    dst_dir_fd=self._git_dir,
                    follow_symlinks=False,
                )
                break
            except FileExistsError:
                if time.monotonic() >= deadline:
                    raise OperationInProgress(
                        "Another program holds Git's index lock.", detail="index-locked"
                    ) from None
                time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            self._release_index()

    def _release_index(self) -> None:
        try:
            ours = os.stat(INDEX_LOCK, dir_fd=self.folder, follow_symlinks=False)
            theirs = os.stat(INDEX_LOCK, dir_fd=self._git_dir, follow_symlinks=False)
        except FileNotFoundError:
            return
        if os.path.samestat(ours, theirs):
            os.unlink(INDEX_LOCK, dir_fd=self._git_dir)

    def copy_index(self, *names: str) -> None:
        """Copies Git's index to files of the run's own; an index that is missing is copied as none."""
        try:
            descriptor = os.open("index", READ_FLAGS, dir_fd=self._git_dir)
        except FileNotFoundError:
            return
        with os.fdopen(descriptor, "rb") as file:
            data = file.read()
            mode = os.fstat(descriptor).st_mode & 0o777
        for name in names:
            self.write(name, data)
            os.chmod(name, mode, dir_fd=self.folder)

    def install_index(self, name: str) -> None:
        """Makes a file of the run's own Git's index, in one step."""
        os.rename(name, "index", src_dir_fd=self.folder, dst_dir_fd=self._git_dir)


def _folder(above: int, name: str, *, create: bool) -> int:
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)
    return open_folder(above, name, name)
