"""Many files made durable at the same time: flushes that wait together share the disk's work."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from types import TracebackType
from typing import Final, Self

from dsh_memory.repository.descriptors import READ_FLAGS

_MOST_AT_ONCE: Final = 16


class Flush:
    """Files and folders to flush; use it in a `with` statement, which closes those that it opened."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        self._opened: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in self._opened:
            os.close(descriptor)

    def add_all(self, descriptors: Iterable[int]) -> None:
        """Files and folders that the caller keeps open."""
        self._descriptors += descriptors

    def add_files(self, folder: int, *names: str) -> None:
        """Files of an open folder; raises OSError."""
        for name in names:
            self._opened.append(os.open(name, READ_FLAGS, dir_fd=folder))

    def add_path(self, path: str) -> None:
        """A file or folder by its path; raises OSError."""
        self._opened.append(os.open(path, READ_FLAGS))

    def run(self) -> None:
        """Flushes all, at the same time; raises OSError for the first that the system could not."""
        waiting = [
            _threads(os.getpid()).submit(os.fsync, each) for each in (*self._descriptors, *self._opened)
        ]
        # All are waited for before anything is closed, even where the first has failed already.
        wait(waiting)
        for each in waiting:
            each.result()


@lru_cache(maxsize=1)
def _threads(_: int) -> ThreadPoolExecutor:
    """The threads of one process: a fork has none of its parent's."""
    return ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="memory-flush")
