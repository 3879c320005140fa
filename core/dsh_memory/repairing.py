"""What `verify --repair` mends, each under the operation lock and each without losing a byte."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dsh_memory.errors import RepoUnavailable
from dsh_memory.repository.creation import SYNC_GITIGNORE, SYNC_IGNORED
from dsh_memory.repository.descriptors import CREATE_FLAGS, READ_FLAGS, Folders
from dsh_memory.repository.failures import TransactionFailed
from dsh_memory.repository.journal import LAST_RUN, Journal
from dsh_memory.repository.lock import SYNC_FOLDER, Clock, write_all
from dsh_memory.repository.mutation import answering, locked
from dsh_memory.repository.objects import read_blobs
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.torn_objects import mend_object, mendable_objects
from dsh_memory.repository.usage import USAGE_NAME
from dsh_memory.repository.usage_turns import temporary_name
from dsh_memory.repository.watermark import WATERMARK, set_mtime, watermark_bytes
from dsh_memory.sync.sessions import IDLE_SECONDS
from dsh_memory.text import visible

if TYPE_CHECKING:
    from dsh_memory.verify import Fault

_LARGEST_GITIGNORE: Final = 1024 * 1024


def repair_faults(repo: Repository, clock: Clock, faults: Iterable[Fault]) -> list[str]:
    """Mends what is repairable of the faults; one sentence for each thing done.

    Raises OperationInProgress while another program changes the memory.
    """
    subjects: dict[str, list[str]] = {}
    for fault in faults:
        if fault.repairable:
            subjects.setdefault(fault.kind, []).append(fault.subject)
    done: list[str] = []
    # Taking the lock recovers dead runs and removes dead locks: these need nothing more.
    with answering(_refusal), locked(repo, clock, "recover"):
        # In the table's order: the last run is told from the mended journal.
        for kind, repair in _REPAIRS.items():
            if kind in subjects:
                done += repair(repo, subjects[kind])
    return done


def _refusal(failure: TransactionFailed) -> RepoUnavailable:
    return RepoUnavailable(failure.message, detail=failure.detail)


def _repair_journal(repo: Repository, subjects: list[str]) -> list[str]:
    """Takes run files back from HEAD's commit, where their folder lacks them or holds them broken."""
    blobs = {}
    for line in repo.git.run("ls-tree", "-z", "--full-tree", "HEAD", *subjects).split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        blobs[os.fsdecode(path)] = facts.split()[2].decode("ascii")
    contents = read_blobs(repo.git, blobs.values())
    for name, blob in blobs.items():
        _replace(repo, name, contents[blob])
    return [f"Took {name} back from Git." for name in blobs]


def _repair_objects(repo: Repository, subjects: list[str]) -> list[str]:
    """Writes damaged objects anew from the files that have their bytes."""
    damaged = mendable_objects(repo)
    mended = [path for blob, path in damaged.items() if mend_object(repo, blob, path)]
    return [f"Wrote Git's object of {visible(path)} anew from the file." for path in mended]


def _repair_index(repo: Repository, subjects: list[str]) -> list[str]:
    """Makes Git's index anew from HEAD; what was staged and is in no file was in the broken one alone."""
    index = os.path.join(repo.git_dir, "index")
    kept = os.path.join(repo.git_dir, "index.broken")
    os.replace(index, kept)
    repo.writing().run("read-tree", "HEAD")
    repo.writing().run("update-index", "-q", "--refresh", accept=(0, 1))
    return [f"Made Git's index anew from HEAD; the broken one is {kept}."]


def _repair_last_run(repo: Repository, subjects: list[str]) -> list[str]:
    newest = next(iter(Journal(repo.root).runs(limit=1)), None)
    if newest is None:
        return []
    _replace(repo, LAST_RUN, newest.last_run_bytes())
    return [f"Wrote {LAST_RUN} anew from run {newest.run_id}."]


def _repair_usage(repo: Repository, subjects: list[str]) -> list[str]:
    kept = f".usage.{os.getpid()}.broken.tmp"
    with repo.root.folder(SYNC_FOLDER) as folder:
        os.rename(USAGE_NAME, kept, src_dir_fd=folder, dst_dir_fd=folder)
    _replace(repo, f"{SYNC_FOLDER}/{USAGE_NAME}", b'{"schema_version":1,"records":{}}\n')
    return [f"Began the counts of uses anew; the broken file is {SYNC_FOLDER}/{kept}."]


def _repair_watermark(repo: Repository, subjects: list[str]) -> list[str]:
    for run in Journal(repo.root).runs(limit=1000, operation="sync"):
        if run.status in ("applied", "no_change"):
            seconds = int(run.started.timestamp()) - IDLE_SECONDS
            _replace(repo, WATERMARK, watermark_bytes(seconds))
            set_mtime(repo.root)
            return [f"Set the watermark to that of run {run.run_id}."]
    return []


def _repair_gitignore(repo: Repository, subjects: list[str]) -> list[str]:
    """Adds the lines that are missing; a person's own stay."""
    lines: list[bytes] = []
    with suppress(FileNotFoundError):
        data = repo.root.read(SYNC_GITIGNORE, _LARGEST_GITIGNORE)
        lines = [line for line in data.splitlines() if line and b"\0" not in line]
    lines += [pattern.encode() for pattern in SYNC_IGNORED if pattern.encode() not in lines]
    _replace(repo, SYNC_GITIGNORE, b"".join(line + b"\n" for line in lines))
    return [f"Gave {SYNC_GITIGNORE} the lines that it lacked."]


def _repair_modes(repo: Repository, subjects: list[str]) -> list[str]:
    from dsh_memory.verify import walk_modes

    mended = 0
    for path, status in walk_modes(repo):
        if not stat.S_IMODE(status.st_mode) & 0o077:
            continue
        mended += 1
        if path == ".":
            os.fchmod(repo.root.descriptor, status.st_mode & 0o700)
            continue
        parent, _, name = path.rpartition("/")
        with repo.root.folder(parent) as folder:
            descriptor = os.open(name, READ_FLAGS, dir_fd=folder)
        try:
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & 0o700)
        finally:
            os.close(descriptor)
    return [f"Took the rights of others away from {mended} files and folders."]


def _told_by_lock(what: str) -> Callable[[Repository, list[str]], list[str]]:
    return lambda repo, subjects: [f"{what}: {', '.join(subjects)}."]


def _replace(repo: Repository, path: str, data: bytes) -> None:
    parent, _, name = path.rpartition("/")
    temporary = temporary_name()
    with repo.root.folder(SYNC_FOLDER) as sync:
        descriptor = os.open(temporary, CREATE_FLAGS, 0o600, dir_fd=sync)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        with Folders(repo.root) as folders:
            os.rename(temporary, name, src_dir_fd=sync, dst_dir_fd=folders.get(parent, create=True))


_REPAIRS: Final[dict[str, Callable[[Repository, list[str]], list[str]]]] = {
    "object-damaged": _repair_objects,
    "index-broken": _repair_index,
    "journal-missing": _repair_journal,
    "journal-broken": _repair_journal,
    "last-run-broken": _repair_last_run,
    "usage-invalid": _repair_usage,
    "watermark-invalid": _repair_watermark,
    "sync-gitignore-missing": _repair_gitignore,
    "mode-too-open": _repair_modes,
    "stale-lock": _told_by_lock("Removed the stale lock"),
    "interrupted-run": _told_by_lock("Recovered the interrupted run"),
    "git-lock": _told_by_lock("Looked at Git's locks, and removed those whose owner is gone"),
}
