"""Creating a memory repository, or restoring what an existing one lacks (`spec`: repository, Roots).

Nothing is ever deleted or replaced. What a creation that died left is finished by the next one: each file
appears whole, and the first commit comes last.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dsh_memory.environment import Environment, utc_now
from dsh_memory.errors import RepoUnavailable, UnsafeLayout
from dsh_memory.repository.descriptors import CREATE_FLAGS, rename_exclusive
from dsh_memory.repository.git import OWN_IDENTITY, GitFailed, WritingGit
from dsh_memory.repository.layout import PAYLOAD, RECORD_FOLDERS, SUMMARY, Root, open_folder
from dsh_memory.repository.lock import SYNC_FOLDER, write_all
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.usage import exclude_from_git
from dsh_memory.repository.usage_turns import temporary_name
from dsh_memory.repository.view import read_head

FIRST_COMMIT_MESSAGE: Final = "Initialize DPSK memory repository"
SYNC_GITIGNORE: Final = f"{SYNC_FOLDER}/.gitignore"
#: What lies in `.sync` and is never committed, as that file's patterns.
SYNC_IGNORED: Final = (
    "operation.lock",
    "active-run.json",
    "previews/",
    "usage.json",
    "usage.lock/",
    ".usage.*.tmp",
)

_README: Final = b"""# Agent memory

What coding agents remember across sessions, kept by `dsh-memory` as Markdown in this Git repository.

- `summary.md` is the way in: a short map of what is known.
- `handbook/` holds what stays true: preferences, facts, decisions, procedures.
- `rollouts/` holds what single sessions left.
- `archive/` holds what no longer counts but is worth keeping.

Each file is one record with a small header between `---` lines. Edit freely; `dsh-memory save` commits what
you changed, and every change an agent makes can be rolled back. `.sync/` is the program's own book-keeping.
"""
_FILTER_SCRIPT: Final = b'''#!/usr/bin/env python3
"""Print a session log as a redacted transcript; all arguments go to `dsh-memory transcript`."""

import os
import sys

try:
    os.execvp("dsh-memory", ["dsh-memory", "transcript", *sys.argv[1:]])
except FileNotFoundError:
    sys.exit("dsh-memory is not on the PATH")
'''
#: What a new memory holds; all of it 0600 but the one executable file.
FIRST_FILES: Final[dict[str, bytes]] = {
    "README.md": _README,
    SUMMARY: b"",
    ".last-sync": b"",
    "scripts/filter_session.py": _FILTER_SCRIPT,
    SYNC_GITIGNORE: "".join(f"{pattern}\n" for pattern in SYNC_IGNORED).encode(),
}
_FOLDERS: Final = (*RECORD_FOLDERS, "scripts", SYNC_FOLDER)
EXECUTABLE_FILE: Final = "scripts/filter_session.py"
_OWN_NAMES: Final = frozenset({".git", *_FOLDERS, *(path.partition("/")[0] for path in FIRST_FILES)})
#: By which a committed repository is known as a memory.
_MARKS: Final = (SUMMARY, ".last-sync", SYNC_FOLDER)
_FOLDER_MODE: Final = 0o700
# What a killed Git leaves of its own; nothing else works on a repository that has no commit yet.
_GIT_LOCKS: Final = ("index.lock", "config.lock", "HEAD.lock", "refs/heads/main.lock")


@dataclass(frozen=True, slots=True)
class InitResult:
    """Whether the repository was created, and which paths of an existing one were restored."""

    created: bool
    restored: tuple[str, ...]


def init(environment: Environment, clock: Callable[[], datetime] = utc_now) -> InitResult:
    """Create the memory repository, or restore folders, `.sync` and modes of the one there.

    A missing or empty root becomes a repository of its own, also inside another repository's worktree.
    Raises UnsafeLayout for a root that is a link, RepoUnavailable with detail not-empty for a folder of other
    things, not-a-memory for a repository of another kind, root-unwritable, or as `Repository.open`.
    """
    try:
        _make_root(environment.memory_root)
        with Root(environment.memory_root) as root, _alone(root):
            if _is_begun(environment, root):
                _create(environment, root, clock)
                return InitResult(True, ())
            with Repository.open(environment) as repo:
                return InitResult(False, _restore(repo))
    except OSError as error:
        message = f"The memory root cannot be written: {error.strerror}."
        raise RepoUnavailable(message, detail="root-unwritable") from error
    except GitFailed as failure:
        raise RepoUnavailable(str(failure), detail="git-refused") from failure


def _make_root(path: str) -> None:
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)


@contextmanager
def _alone(root: Root) -> Iterator[None]:
    """Wait until no other creation works on this root; the lock dies with its holder."""
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root.descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_begun(environment: Environment, root: Root) -> bool:
    """Whether the root is empty, or holds a creation that did not reach its first commit."""
    names = set(os.listdir(root.descriptor))
    if ".git" not in names:
        # guard: init-adopts-no-foreign-folder
        if not all(_is_empty_folder(root, name) for name in names):
            raise RepoUnavailable("The folder is not empty and is no Git repository.", detail="not-empty")
        return True
    only_own_names = names <= _OWN_NAMES
    try:
        with Repository.open(environment) as repo:
            committed = read_head(repo).commit is not None
    except RepoUnavailable as failure:
        if failure.detail != "not-a-repository" or not only_own_names:
            raise
        committed = False
    # guard: init-begins-no-second-history (a torn HEAD looks like a creation that did not reach its end)
    if not committed and _has_branches(root):
        message = "HEAD names no commit, but there are branches. Look with: dsh-memory verify"
        raise RepoUnavailable(message, detail="unborn-head")
    # guard: init-adopts-no-foreign-repository
    if not (names.intersection(_MARKS) if committed else only_own_names):
        raise RepoUnavailable("The Git repository there holds no memory.", detail="not-a-memory")
    return not committed


def _has_branches(root: Root) -> bool:
    if root.lstat(".git/packed-refs") is not None:
        return True
    heads = os.path.join(root.path, ".git", "refs", "heads")
    return any(not name.endswith(".lock") for _, _, names in os.walk(heads) for name in names)


def _is_empty_folder(root: Root, name: str) -> bool:
    if name not in _FOLDERS:
        return False
    with root.folder(name) as descriptor:
        return not os.listdir(descriptor)


def _create(environment: Environment, root: Root, clock: Callable[[], datetime]) -> None:
    git = WritingGit(environment.memory_root)
    for lock in _GIT_LOCKS:
        with suppress(FileNotFoundError):
            os.unlink(f".git/{lock}", dir_fd=root.descriptor)
    git.run("init", "-q", "-b", "main", "--template=", ".")
    _restore_folders(root)
    _restore_files(root, FIRST_FILES)
    name, _, email = OWN_IDENTITY.removesuffix(">").partition(" <")
    git.run("config", "user.name", name)
    git.run("config", "user.email", email)
    exclude_from_git(os.path.join(environment.memory_root, ".git"))
    date = f"{int(clock().timestamp())} +0000"
    git.run("add", "--force", "--", *FIRST_FILES)
    git.run(
        "commit",
        "-q",
        "-m",
        FIRST_COMMIT_MESSAGE,
        extra_environment={"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date},
    )
    _restore_modes(root)


def _restore(repo: Repository) -> tuple[str, ...]:
    # Links and special files are refused before anything is touched.
    repo.root.scan()
    folders = _restore_folders(repo.root)
    files = _restore_files(repo.root, {SYNC_GITIGNORE: FIRST_FILES[SYNC_GITIGNORE]})
    exclude_from_git(repo.common_dir)
    return (*folders, *files, *_restore_modes(repo.root))


def _restore_folders(root: Root) -> list[str]:
    restored = []
    for name in _FOLDERS:
        try:
            os.mkdir(name, 0o700, dir_fd=root.descriptor)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(name, dir_fd=root.descriptor, follow_symlinks=False).st_mode):
                raise UnsafeLayout(
                    "A link or file stands where a folder should be.", detail=f"no-folder: {name}"
                ) from None
        else:
            restored.append(f"{name}/")
    return restored


def _restore_files(root: Root, files: dict[str, bytes]) -> list[str]:
    restored = []
    with root.folder(SYNC_FOLDER) as sync:
        for path, data in files.items():
            parent, _, name = path.rpartition("/")
            with root.folder(parent) as folder:
                if _restore_file(sync, folder, name, data, 0o700 if path == EXECUTABLE_FILE else 0o600):
                    restored.append(path)
    return restored


def _restore_file(sync: int, folder: int, name: str, data: bytes, mode: int) -> bool:
    """Put a whole file in its place unless something stands there; whether it did."""
    temporary = temporary_name()
    descriptor = os.open(temporary, CREATE_FLAGS, mode, dir_fd=sync)
    try:
        os.fchmod(descriptor, mode)
        write_all(descriptor, data)
        os.fsync(descriptor)
        # guard: init-replaces-nothing
        return rename_exclusive(sync, temporary, folder, name)
    finally:
        os.close(descriptor)
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=sync)


def _restore_modes(root: Root) -> list[str]:
    """Take group's and others' permissions from all that is memory, and give the owner what is missing."""
    restored: list[str] = []
    if stat.S_IMODE(os.fstat(root.descriptor).st_mode) != _FOLDER_MODE:
        os.fchmod(root.descriptor, _FOLDER_MODE)
        restored.append("./")
    for name in sorted({*PAYLOAD, *_OWN_NAMES} - {".git"}):
        _restore_mode(root.descriptor, name, name, restored)
    return restored


def _restore_mode(parent: int, name: str, path: str, restored: list[str]) -> None:
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISREG(status.st_mode):
        wanted = 0o600 | (mode & stat.S_IXUSR)
    elif stat.S_ISDIR(status.st_mode):
        wanted = _FOLDER_MODE
    else:
        return
    if mode != wanted:
        # By name, since what its owner may not read cannot be opened; only plain files and folders come here.
        os.chmod(name, wanted, dir_fd=parent)
        restored.append(f"{path}/" if stat.S_ISDIR(status.st_mode) else path)
    if stat.S_ISDIR(status.st_mode):
        folder = open_folder(parent, name, path)
        try:
            for entry in sorted(os.listdir(folder)):
                _restore_mode(folder, entry, f"{path}/{entry}", restored)
        finally:
            os.close(folder)
