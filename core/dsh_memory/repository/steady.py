"""One moment of the payload: a reading that no run cuts through, from the worktree or else from HEAD.

While a run applies its change the worktree may hold half of it: readers then take the payload from HEAD. Whether a
run began or ended during a reading shows in the files of `.sync` that every run touches, as in a sequence lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar

from dsh_memory.errors import UnsafeLayout
from dsh_memory.repository.journal import LAST_RUN
from dsh_memory.repository.lock import ACTIVE_RUN_NAME, LOCK_NAME, SYNC_FOLDER, is_applying
from dsh_memory.repository.opening import Repository

# After so many readings that a run cut through, HEAD is the only steady place.
_ATTEMPTS: Final = 3
_RUN_MARKS: Final = (ACTIVE_RUN_NAME, LOCK_NAME, LAST_RUN.removeprefix(f"{SYNC_FOLDER}/"))

_T = TypeVar("_T")


def steady(
    repo: Repository, now: datetime, from_worktree: Callable[[], _T], from_head: Callable[[], _T]
) -> _T:
    """What `from_worktree` reads of one moment that no run cuts through; `from_head` where there is none to be had."""
    for _ in range(_ATTEMPTS):
        before = _run_marks(repo)
        # guard: no-half-state
        if is_applying(repo.root, now):
            break
        try:
            found = from_worktree()
        except UnsafeLayout:
            # A run that is putting a file in place gives it two names for an instant.
            if _run_marks(repo) == before and not is_applying(repo.root, now):
                raise
            continue
        if _run_marks(repo) == before:
            return found
    return from_head()


def _run_marks(repo: Repository) -> list[tuple[int, int, int] | None]:
    """By what a change of any file that a run writes at its begin, in its course and at its end is seen."""
    marks: list[tuple[int, int, int] | None] = []
    try:
        with repo.root.folder(SYNC_FOLDER) as folder:
            for name in _RUN_MARKS:
                try:
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except FileNotFoundError:
                    marks.append(None)
                else:
                    marks.append((status.st_ino, status.st_mtime_ns, status.st_ctime_ns))
    except FileNotFoundError:
        return []
    return marks
