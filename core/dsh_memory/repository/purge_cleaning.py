"""What is left of a purge once no ref names the record: done by itself, or by whoever comes after its death."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from typing import Final

from dsh_memory.records.metadata import Record, read_record
from dsh_memory.repository.descriptors import remove_tree
from dsh_memory.repository.git import WritingGit
from dsh_memory.repository.maintenance import excluded, sweep
from dsh_memory.repository.objects import BlobHasher
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.previews import PREVIEWS_FOLDER

#: Beside the runs' own folders, under the Git directory: what a purge has still to clean up.
PENDING_NAME: Final = "dsh-memory-purge.json"
REWRITING_NAME: Final = "dsh-memory-rewriting"
_OLD_HEADS: Final = ("ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "AUTO_MERGE", "REBASE_HEAD")


def finish_purge(repo: Repository) -> bool:
    """Clean up after a purge whose process died; whether there was one. The caller holds the operation
    lock.
    """
    path = os.path.join(repo.common_dir, PENDING_NAME)
    shutil.rmtree(os.path.join(repo.common_dir, REWRITING_NAME), ignore_errors=True)
    try:
        with open(path, encoding="utf-8") as file:
            pending = json.load(file)
    except (FileNotFoundError, ValueError):
        return False
    git = repo.writing()
    if _is_in_history(git, frozenset(pending["blobs"])):
        # The process died before any ref moved: nothing was erased; the record stays until asked again.
        os.unlink(path)
        return False
    clean(repo, git, frozenset(pending["blobs"]), pending["record_id"])
    return True


def clean(repo: Repository, git: WritingGit, unwanted: frozenset[str], record_id: str) -> list[str]:
    """Remove what still holds the blobs though no ref does; the blobs that are there in spite of it.

    Raises OperationInProgress where the objects are being packed and that does not end.
    """
    with excluded(repo.common_dir):
        return _clean(repo, git, unwanted, record_id)


def _clean(repo: Repository, git: WritingGit, unwanted: frozenset[str], record_id: str) -> list[str]:
    _drop_previews(repo, unwanted, record_id)
    for name in _OLD_HEADS:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(repo.git_dir, name))
    git.run("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    for name in ("commit-graph", "commit-graphs", "multi-pack-index"):
        path = os.path.join(repo.common_dir, "objects", "info" if name.startswith("commit") else "pack", name)
        with suppress(FileNotFoundError):
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    # A killed repack leaves a whole pack under a name that Git's own pruning does not know.
    sweep(repo.common_dir, older_than=0)
    git.run("repack", "-a", "-d", "-q")
    git.run("prune", "--expire=now")
    shutil.rmtree(repo.environment.cache_dir, ignore_errors=True)
    left = _present(git, unwanted)
    if not left:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(repo.common_dir, PENDING_NAME))
    return left


def _is_in_history(git: WritingGit, blobs: frozenset[str]) -> bool:
    named = git.run("rev-list", "--all", "--objects", "--no-object-names").decode("ascii").split()
    return not blobs.isdisjoint(named)


def _present(git: WritingGit, blobs: frozenset[str]) -> list[str]:
    if not blobs:
        return []
    answer = git.run(
        "cat-file", "--batch-check", stdin="".join(f"{blob}\n" for blob in sorted(blobs)).encode()
    )
    return [line.split()[0].decode() for line in answer.splitlines() if not line.endswith(b" missing")]


def _drop_previews(repo: Repository, unwanted: frozenset[str], record_id: str) -> None:
    """Previews stage the whole payload, so that each that has the record goes."""
    hasher = BlobHasher(repo.object_format)
    try:
        with repo.root.folder(PREVIEWS_FOLDER) as folder:
            names = os.listdir(folder)
    except FileNotFoundError:
        return
    for name in names:
        if _holds(os.path.join(repo.root.path, PREVIEWS_FOLDER, name), hasher, unwanted, record_id):
            remove_tree(repo.root, f"{PREVIEWS_FOLDER}/{name}")


def _holds(folder: str, hasher: BlobHasher, unwanted: frozenset[str], record_id: str) -> bool:
    for where, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(where, name), "rb", opener=_no_link) as file:
                data = file.read()
            record = read_record(f"handbook/{name}", data) if name.endswith(".md") else None
            if hasher.of(data) in unwanted or (isinstance(record, Record) and record.id == record_id):
                return True
    return False


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
