"""HEAD and the branch's file, torn: Git's own log of their moves tells where they stood.

Nothing here asks Git for the repository, which does not open without HEAD.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import Final

from dsh_memory.environment import Environment
from dsh_memory.repository.descriptors import CREATE_FLAGS
from dsh_memory.repository.git import GitFailed, SealedGit
from dsh_memory.repository.journal import new_run_id
from dsh_memory.repository.layout import Root
from dsh_memory.repository.lock import Clock, hold, write_all

_HEAD: Final = ".git/HEAD"
_BRANCHES: Final = "refs/heads/"
_SYMBOLIC: Final = re.compile(rb"ref: (refs/[^\0\n]+)\n?")
_OBJECT_ID: Final = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?\n?")
_LOGGED: Final = re.compile(rb"^[0-9a-f]{40,64} ([0-9a-f]{40,64}) ", re.MULTILINE)
_MAX_BYTES: Final = 16 * 1024 * 1024


def torn_refs(environment: Environment) -> list[str]:
    """The files of HEAD and its branch that hold no ref; raises as `Root`."""
    with Root(environment.memory_root) as root:
        status = root.lstat(".git")
        # A linked worktree has its HEAD elsewhere; Git says what is wrong there.
        if status is None or not stat.S_ISDIR(status.st_mode):
            return []
        head = _read(root, _HEAD)
        named = None if head is None else _SYMBOLIC.fullmatch(head)
        # A branch lies below refs/heads: what is cut off before that was not written so.
        if (
            head is not None
            and not (named and named[1].startswith(b"refs/heads/"))
            and not _OBJECT_ID.fullmatch(head)
        ):
            return [_HEAD]
        branch = None if named is None else f".git/{os.fsdecode(named[1])}"
        value = None if branch is None else _read(root, branch)
        torn = value is not None and not _SYMBOLIC.fullmatch(value) and not _OBJECT_ID.fullmatch(value)
        return [branch] if torn and branch is not None else []


def mend_refs(environment: Environment, clock: Clock) -> list[str]:
    """Writes HEAD, then its branch, anew where they are torn and the log tells; the files mended.

    Raises OperationInProgress or UnsafeLayout.
    """
    mended: list[str] = []
    with (
        Root(environment.memory_root) as root,
        hold(root, "recover", new_run_id(clock()), clock),
    ):
        # HEAD first: only then it is known which branch is meant.
        for _ in range(2):
            for path in torn_refs(environment):
                value = _logged_branch(root) if path == _HEAD else _logged_commit(root, path)
                if value is not None:
                    _replace(root, path, value)
                    mended.append(path)
    return mended


def _logged_branch(root: Root) -> bytes | None:
    """What HEAD has to say: the one branch whose last move is HEAD's own."""
    last = _moves(root, ".git/logs/HEAD")[-1:]
    found = [name for name in _branches(root) if last and _moves(root, f".git/logs/{name}")[-1:] == last]
    return b"ref: %b\n" % os.fsencode(found[0]) if len(found) == 1 else None


def _logged_commit(root: Root, path: str) -> bytes | None:
    """The newest commit of the branch's log that Git still has."""
    git = SealedGit(root.path)
    for commit in reversed(_moves(root, path.replace(".git/", ".git/logs/", 1))):
        try:
            git.run("cat-file", "-e", f"{commit.decode('ascii')}^{{tree}}")
        except GitFailed:
            continue
        return commit + b"\n"
    return None


def _moves(root: Root, log: str) -> list[bytes]:
    return _LOGGED.findall(_read(root, log) or b"")


def _branches(root: Root) -> Iterator[str]:
    logs = os.path.join(root.path, ".git", "logs")
    for folder, _, names in os.walk(os.path.join(logs, _BRANCHES)):
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), logs)


def _read(root: Root, path: str) -> bytes | None:
    try:
        return root.read(path, _MAX_BYTES)
    except FileNotFoundError:
        return None


def _replace(root: Root, path: str, data: bytes) -> None:
    parent, _, name = path.rpartition("/")
    temporary = f"{name}.dsh-memory-{os.getpid()}"
    with root.folder(parent) as folder:
        descriptor = os.open(temporary, CREATE_FLAGS, 0o600, dir_fd=folder)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
