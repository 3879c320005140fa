"""What a long-lived writer remembers between small writes, so that each asks Git only about what is new.

Nothing here is believed longer than the file it was read from stays the same; that the branch has not moved is
for Git itself to say, when it moves it.
"""

from __future__ import annotations

import os
from typing import Final

from dsh_memory.repository.descriptors import READ_FLAGS
from dsh_memory.repository.failures import TransactionFailed
from dsh_memory.repository.git import SealedGit
from dsh_memory.repository.index_file import IndexFile
from dsh_memory.repository.objects import Settings, is_object_id, read_settings
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.trees import TreeMemo

_BRANCHES: Final = "refs/heads/"
_LARGEST_REF: Final = 4096
#: Words of a config that make other files part of it.
_OTHER_FILES: Final = (b"include", b"worktreeconfig")

_Mark = tuple[int, int, int, int]


class WriteMemo:
    """Trees, index and settings of one repository; for one writer at a time."""

    def __init__(self) -> None:
        self.trees = TreeMemo()
        self._index: tuple[_Mark, IndexFile] | None = None
        self._settings: tuple[_Mark, Settings, tuple[str, ...]] | None = None

    def settings(self, repo: Repository, git: SealedGit) -> Settings:
        """The repository's settings; filters that its config names are off for this `git` from here on."""
        path = os.path.join(repo.common_dir, "config")
        mark = _mark(path)
        if self._settings is not None and self._settings[0] == mark:
            git.overrides = self._settings[2]
            return self._settings[1]
        settings = read_settings(git)
        text = _read(path)
        alone = text is not None and not any(word in text.lower() for word in _OTHER_FILES)
        self._settings = (mark, settings, git.overrides) if mark is not None and alone else None
        return settings

    def index(self, repo: Repository) -> IndexFile | None:
        """Git's index as it is; None where there is none, or one that only Git understands."""
        path = os.path.join(repo.git_dir, "index")
        mark = _mark(path)
        if mark is None:
            return None
        if self._index is None or self._index[0] != mark:
            data = _read(path)
            index = None if data is None else IndexFile.parse(data, repo.object_format, mark[2])
            self._index = None if index is None or mark != _mark(path) else (mark, index)
        return None if self._index is None else self._index[1]

    def keep_index(self, repo: Repository, index: IndexFile) -> None:
        """Remember what was just put in place; the caller holds Git's index lock."""
        mark = _mark(os.path.join(repo.git_dir, "index"))
        self._index = None if mark is None else (mark, index)


def head_and_branch(repo: Repository) -> tuple[str, str]:
    """HEAD's commit and its branch, from Git's own files where they are plain, else asked of one git process.

    Raises TransactionFailed for a HEAD that nothing can be written to.
    """
    ref = (_read(os.path.join(repo.git_dir, "HEAD"), _LARGEST_REF) or b"").removeprefix(b"ref: ")
    name = os.fsdecode(ref.removesuffix(b"\n"))
    if name.startswith(_BRANCHES) and {"", ".", ".."}.isdisjoint(name.split("/")) and name.isprintable():
        commit = (_read(os.path.join(repo.common_dir, name), _LARGEST_REF) or b"").decode("latin-1").strip()
        if is_object_id(commit, repo.object_format):
            return commit, name.removeprefix(_BRANCHES)
    answer = repo.git.run("rev-parse", "HEAD", "--symbolic-full-name", "HEAD", accept=(0, 128))
    commit, _, name = os.fsdecode(answer).strip().partition("\n")
    if not name:
        raise TransactionFailed("ready", "unborn-head", "The repository has no commit yet.")
    if not name.startswith(_BRANCHES):
        raise TransactionFailed(
            "ready", "detached-head", "HEAD is detached: no branch would keep the change."
        )
    return commit, name.removeprefix(_BRANCHES)


def _mark(path: str) -> _Mark | None:
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read(path: str, most: int = -1) -> bytes | None:
    """A plain file's bytes; None where there is none."""
    try:
        with os.fdopen(os.open(path, READ_FLAGS), "rb") as file:
            return file.read(most)
    except OSError:
        return None
