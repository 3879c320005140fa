"""Whether a change brings back what was deleted before (`cases.md` 29): the same body, whatever its header
or path.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from dsh_memory.records.frontmatter import split
from dsh_memory.repository.changes import StagedFile
from dsh_memory.repository.content import is_record_path
from dsh_memory.repository.layout import RECORD_FOLDERS
from dsh_memory.repository.objects import read_blobs
from dsh_memory.repository.opening import Repository

#: So many deletions are looked back at, and so many bytes of each.
_DELETIONS: Final = 1000
_COMMITS: Final = "--max-count=2000"
_LARGEST: Final = 256 * 1024


def forgotten_again(repo: Repository, files: Iterable[StagedFile]) -> list[str]:
    """The paths whose new body is that of a record deleted earlier; three git processes at most."""
    brought = {
        path: digest
        for path, digest in (
            (file.path, _digest(file.new))
            for file in files
            if file.old is None and file.new is not None and is_record_path(file.path)
        )
        if digest is not None
    }
    if not brought:
        return []
    blobs = _deleted_blobs(repo)
    sizes = repo.git.run(
        "cat-file",
        "--batch-check=%(objectname) %(objectsize)",
        stdin="".join(f"{blob}\n" for blob in blobs).encode(),
    )
    small = [
        line.split()[0]
        for line in sizes.decode("ascii").splitlines()
        if line.split()[1].isdigit() and int(line.split()[1]) <= _LARGEST
    ]
    deleted = {_digest(data) for data in read_blobs(repo.git, small).values()}
    return sorted(path for path, digest in brought.items() if digest in deleted)


def _deleted_blobs(repo: Repository) -> list[str]:
    log = repo.git.run(
        "log",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        "--diff-filter=D",
        "--format=",
        "-z",
        _COMMITS,
        "--",
        *RECORD_FOLDERS,
    )
    found: dict[str, None] = {}
    for field in log.split(b"\0"):
        # `:100644 000000 <blob> 0000... D`, then the path as a field of its own.
        if field.lstrip(b"\n").startswith(b":"):
            found.setdefault(field.split()[2].decode("ascii"))
        if len(found) >= _DELETIONS:
            break
    return list(found)


def _digest(data: bytes) -> str | None:
    body = split(data).body if split(data).header is not None else data
    text = b" ".join(body.split())
    return sha256(text).hexdigest() if text else None
