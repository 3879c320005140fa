"""Notices changes made by others, from file times alone: no git process, no content but Git's own pointers.

A file that comes, goes or is replaced changes its folder's time and is noticed at the next look. A file
rewritten in place changes only its own: those are looked at in turns, so that a look costs some
milliseconds whatever their number.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Hashable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

from dsh_memory.environment import Environment
from dsh_memory.errors import MemoryFailure
from dsh_memory.repository.layout import RECORD_FOLDERS, SUMMARY, Root, Scan
from dsh_memory.repository.lock import read_active_run, read_lock

#: Two looks a second apart see all of 10,000 files, and one costs about 10 ms.
FILES_PER_LOOK: Final = 5_000

_HOLDER_FILES: Final = (".sync/operation.lock", ".sync/active-run.json")
_ROOT_NAMES: Final = (
    "",
    SUMMARY,
    "README.md",
    ".last-sync",
    ".sync",
    ".sync/runs",
    ".sync/last-run.json",
    ".sync/usage.json",
    ".sync/previews",
    *_HOLDER_FILES,
)
_GIT_PATHS: Final = (
    "HEAD",
    "index",
    "logs/HEAD",
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "rebase-merge",
    "rebase-apply",
    "BISECT_LOG",
)

_Times = tuple[int, int, int, int] | None
#: The files' times by name, by folder.
Begun = dict[str, dict[str, _Times]]


class Watch:
    """Looks at one memory root again and again; `look` gives an equal value while nothing changed."""

    def __init__(self, environment: Environment) -> None:
        self._root = environment.memory_root
        self._settings = os.path.join(environment.dsh_home, "settings.yaml")
        self._folders: dict[str, _Folder] = {}
        self.begun: Begun | None = None
        """What the first look has to compare with, where the payload was read before it."""
        self._turn: list[tuple[str, str]] = []
        self._changes_seen = 0

    def first_look(self, now: datetime) -> Hashable:
        """The stamp for who reads the payload right after and hands it to `begin_with`: none is walked twice."""
        if self._folders:
            self._look_at_payload()
        return self._stamp(now)

    def look(self, now: datetime) -> Hashable:
        """The stamp of what is there now; today's date is part of it, since records expire."""
        self._look_at_payload()
        return self._stamp(now)

    def _stamp(self, now: datetime) -> Hashable:
        paths = [self._settings, *(f"{self._root}/{name}" for name in _ROOT_NAMES)]
        paths += (entry.path for entry in _entries(f"{self._root}/.sync/previews"))
        paths += _git_paths(f"{self._root}/.git")
        return now.date(), self._changes_seen, tuple(map(_times, paths)), self._holder(now)

    def begin_with(self, scan: Scan) -> None:
        """Take the payload as it was read first; the next look compares with it."""
        if not self._folders and self.begun is None:
            self.begun = {f"{self._root}/{name}": {} for name in RECORD_FOLDERS}
            for live in scan.files.values():
                if live.path == SUMMARY:
                    continue
                folder, _, name = f"{self._root}/{live.path}".rpartition("/")
                times = live.inode, live.size, live.mtime_ns, live.ctime_ns
                self.begun.setdefault(folder, {})[name] = times

    def _holder(self, now: datetime) -> Hashable:
        # A holder that dies changes no file.
        if not any(os.path.lexists(f"{self._root}/{name}") for name in _HOLDER_FILES):
            return None
        try:
            with Root(self._root) as root:
                return read_lock(root, now), read_active_run(root, now)
        except (MemoryFailure, OSError) as error:
            return type(error).__name__

    def _look_at_payload(self) -> None:
        seen: dict[str, _Folder] = {}
        waiting = [f"{self._root}/{name}" for name in RECORD_FOLDERS]
        while waiting:
            path = waiting.pop()
            times = _times(path)
            folder = self._folders.get(path)
            if folder is None and self.begun is not None:
                begun = self.begun.get(path, {})
                folder = _list(path, times, begun)
                self._changes_seen += folder.files.keys() != begun.keys()
            elif folder is None or folder.times != times:
                folder = _list(path, times, {} if folder is None else folder.files)
                self._changes_seen += 1
            seen[path] = folder
            waiting += folder.folders
        if self.begun is not None:
            self._changes_seen += len(self.begun.keys() - seen.keys())
            self.begun = None
        self._changes_seen += len(self._folders.keys() - seen.keys())
        self._folders = seen
        if not self._turn:
            self._turn = [(path, name) for path, folder in seen.items() for name in folder.files]
        looked_at, self._turn = self._turn[:FILES_PER_LOOK], self._turn[FILES_PER_LOOK:]
        for path, name in looked_at:
            files = seen[path].files if path in seen else {}
            if name in files:
                times = _times(f"{path}/{name}")
                if times != files[name]:
                    files[name] = times
                    self._changes_seen += 1


class _Folder(NamedTuple):
    """A payload folder as last listed: its own times, its files' times by name, and its folders' paths."""

    times: _Times
    files: dict[str, _Times]
    folders: list[str]


def _list(path: str, times: _Times, known: dict[str, _Times]) -> _Folder:
    folder = _Folder(times, {}, [])
    if times is not None:
        for entry in _entries(path):
            if entry.is_dir(follow_symlinks=False):
                folder.folders.append(entry.path)
            else:
                folder.files[entry.name] = known[entry.name] if entry.name in known else _times(entry.path)
    return folder


def _git_paths(pointer: str) -> Iterator[str]:
    """The files of the Git directory that change with HEAD, its branch, the index, or a merge under way."""
    git_dir = pointer
    if not os.path.isdir(pointer):
        target = _first_line(pointer).removeprefix("gitdir: ")
        git_dir = os.path.join(os.path.dirname(pointer), target)
    common_dir = os.path.join(git_dir, _first_line(f"{git_dir}/commondir") or ".")
    for name in _GIT_PATHS:
        yield f"{git_dir}/{name}"
    yield f"{common_dir}/packed-refs"
    yield f"{common_dir}/reftable/tables.list"
    branch = _first_line(f"{git_dir}/HEAD").removeprefix("ref: ")
    if branch.startswith("refs/"):
        yield f"{common_dir}/{branch}"


def _first_line(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        data = os.read(descriptor, 4096) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)
    return os.fsdecode(data.partition(b"\n")[0].replace(b"\0", b""))


def _times(path: str) -> _Times:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
