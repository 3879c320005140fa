"""Git's own lock files, when the process that made one is provably gone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress

from dsh_memory.repository.opening import Repository
from dsh_memory.repository.workspace import INDEX_LOCK, INDEX_LOCK_MARK

# Without a dead run to explain it, a lock this young may be another program's between two of its steps.
_SETTLED_SECONDS = 10.0


def leftover_locks(repo: Repository) -> list[str]:
    """The lock files that stand in the Git directory now, whoever made them."""
    found = [os.path.join(repo.git_dir, name) for name in (INDEX_LOCK, "HEAD.lock")]
    found.append(os.path.join(repo.common_dir, "packed-refs.lock"))
    # The last one: what expires reflogs, which a purge does, locks each of them.
    for locked in ("refs/heads", "refs/dsh-memory", "logs"):
        for folder, _, names in os.walk(os.path.join(repo.common_dir, locked)):
            found += [os.path.join(folder, name) for name in names if name.endswith(".lock")]
    return [path for path in found if os.path.lexists(path)]


def remove_dead_locks(repo: Repository, *, after_a_death: bool) -> tuple[list[str], list[str]]:
    """Removes the locks whose maker is provably gone; those removed, and those left.

    The caller holds the operation lock, so a lock with this program's mark is a dead run's. For any other,
    no git process may work in the repository and no process may have it open; where the system cannot tell
    (no /proc), it stays. `after_a_death` says that a dead run explains even a young one.
    """
    removed: list[str] = []
    left: list[str] = []
    for path in leftover_locks(repo):
        # guard: owner-provably-gone
        if _is_ours(path) or (_is_old_enough(path, after_a_death) and not _may_have_an_owner(repo, path)):
            with suppress(FileNotFoundError):
                os.unlink(path)
            removed.append(path)
        else:
            left.append(path)
    return removed, left


def remove_locks_of_killed_git(repo: Repository) -> None:
    """Removes what a git process of this operation left locked, where a signal ended one; the caller holds the
    lock.
    """
    if repo.writing().killed:
        remove_dead_locks(repo, after_a_death=True)


def _is_ours(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(INDEX_LOCK_MARK)) == INDEX_LOCK_MARK
    except OSError:
        return False


def _is_old_enough(path: str, after_a_death: bool) -> bool:
    try:
        return after_a_death or time.time() - os.lstat(path).st_mtime > _SETTLED_SECONDS
    except FileNotFoundError:
        return False


def _may_have_an_owner(repo: Repository, path: str) -> bool:
    if not os.path.isdir("/proc/self/fd"):
        return True
    places = (repo.root.path, repo.git_dir, repo.common_dir)
    return any(_holds(process, path, places) for process in _processes())


def _processes() -> Iterator[str]:
    own = str(os.getpid())
    for name in os.listdir("/proc"):
        if name.isdigit() and name != own:
            yield f"/proc/{name}"


def _holds(process: str, path: str, places: tuple[str, ...]) -> bool:
    try:
        with open(f"{process}/comm", encoding="utf-8", errors="replace") as comm:
            is_git = comm.read().startswith("git")
        if is_git:
            folder = os.readlink(f"{process}/cwd")
            if any(folder == place or folder.startswith(place + "/") for place in places):
                return True
        return any(_link_of(f"{process}/fd/{number}") == path for number in os.listdir(f"{process}/fd"))
    except (FileNotFoundError, ProcessLookupError):
        # It ended while it was looked at.
        return False
    except PermissionError:
        # Another user's: only if it is git it could be at work here.
        return is_git


def _link_of(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
