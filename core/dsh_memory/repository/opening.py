"""Opening the memory repository: the root must be the top level of a Git worktree of its own."""

from __future__ import annotations

import os
import stat
from types import TracebackType
from typing import Self

from dsh_memory.environment import Environment
from dsh_memory.errors import RepoUnavailable, UnsafeLayout
from dsh_memory.repository.git import GitFailed, SealedGit, WritingGit
from dsh_memory.repository.layout import Root

_QUESTIONS = (
    "rev-parse",
    "--path-format=absolute",
    "--show-object-format",
    "--absolute-git-dir",
    "--git-common-dir",
    "--show-toplevel",
)
# Git's own words under LC_ALL=C, and the detail each becomes.
_REFUSALS = {
    "not a git repository": ("The memory root is no Git repository.", "not-a-repository"),
    "must be run in a work tree": ("The memory root is a bare repository or a Git directory.", "bare"),
}


class Repository:
    """An open memory repository; close it, or use it in a `with` statement.

    `git_dir` is this worktree's Git directory and `common_dir` the one it shares with other worktrees of
    the same repository; both are absolute. `object_format` is `sha1` or `sha256`.
    """

    def __init__(
        self,
        environment: Environment,
        root: Root,
        git: SealedGit,
        git_dir: str,
        common_dir: str,
        object_format: str,
    ) -> None:
        self.environment = environment
        self.root = root
        self.git = git
        self.git_dir = git_dir
        self.common_dir = common_dir
        self.object_format = object_format
        self._writing = WritingGit(root.path)

    @classmethod
    def open(cls, environment: Environment) -> Self:
        """The repository at the environment's memory root, asked of one git process.

        Raises UnsafeLayout for a root or `.git` that is a link (details root-symlink, git-symlink), else
        RepoUnavailable with one of the details root-missing, root-unreadable, root-newline, not-a-repository,
        bare, not-toplevel, ownership, git-refused, git-missing, git-timeout.
        """
        path = environment.memory_root
        if "\n" in path:
            raise RepoUnavailable("The path of the memory root holds a line break.", detail="root-newline")
        root = Root(path)
        try:
            _check_git_entry(root)
            git = SealedGit(path)
            object_format, git_dir, common_dir, toplevel = _ask_whole(environment, git)
            _check_toplevel(root, toplevel)
        except BaseException:
            root.close()
            raise
        return cls(environment, root, git, git_dir, common_dir, object_format)

    def writing(self) -> WritingGit:
        """Git for the writes on the same root, the same one at every call."""
        return self._writing

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the root's descriptor."""
        self.root.close()


def _check_git_entry(root: Root) -> None:
    entry = root.lstat(".git")
    # guard: git-directory-is-no-link
    if entry is not None and stat.S_ISLNK(entry.st_mode):
        raise UnsafeLayout("The Git directory of the memory root is a symbolic link.", detail="git-symlink")


def _ask_whole(environment: Environment, git: SealedGit) -> list[str]:
    try:
        return _ask(git)
    except RepoUnavailable as failure:
        from dsh_memory.repository.torn_refs import torn_refs

        if failure.detail == "not-a-repository" and torn_refs(environment):
            message = (
                "Git's record of where the memory stands is torn. Mend it with: dsh-memory verify --repair"
            )
            raise RepoUnavailable(message, detail="ref-torn") from failure
        raise


def _ask(git: SealedGit) -> list[str]:
    try:
        answer = git.run(*_QUESTIONS)
    except GitFailed as failure:
        for words, (message, detail) in _REFUSALS.items():
            if words in failure.message:
                raise RepoUnavailable(message, detail=detail) from failure
        if not os.path.isdir(git.root):
            raise RepoUnavailable("The memory root vanished.", detail="root-missing") from failure
        raise RepoUnavailable(
            f"Git refuses the memory root: {failure.message}", detail="git-refused"
        ) from failure
    lines = os.fsdecode(answer).removesuffix("\n").split("\n")
    if len(lines) != len(_QUESTIONS) - 2:
        raise RepoUnavailable("Git's answer about the memory root is not understood.", detail="git-refused")
    return lines


def _check_toplevel(root: Root, toplevel: str) -> None:
    try:
        theirs = os.stat(toplevel)
    except OSError:
        theirs = None
    ours = os.fstat(root.descriptor)
    # guard: root-is-toplevel (a subfolder of another repository, or core.worktree elsewhere)
    if theirs is None or (theirs.st_dev, theirs.st_ino) != (ours.st_dev, ours.st_ino):
        raise RepoUnavailable(
            "The memory root is not the top level of its repository.", detail="not-toplevel"
        )
