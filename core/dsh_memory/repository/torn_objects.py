"""Git objects that are damaged though a file of the worktree holds their bytes, so that they can be made again."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import suppress

from dsh_memory.errors import UnsafeLayout
from dsh_memory.repository.objects import FILE_MODES, BlobHasher
from dsh_memory.repository.opening import Repository


def mendable_objects(repo: Repository) -> dict[str, str]:
    """The blobs of HEAD's tree whose loose object is damaged, each with a file that has the blob's bytes.

    Raises GitFailed where the tree itself cannot be read.
    """
    hasher = BlobHasher(repo.object_format)
    found: dict[str, str] = {}
    for blob, path in _tracked(repo):
        if (
            blob not in found
            and _is_damaged(repo, hasher, blob)
            and _bytes_of(repo, hasher, blob, path) is not None
        ):
            found[blob] = path
    return found


def mend_object(repo: Repository, blob: str, path: str) -> bool:
    """Writes the object anew from the file; False where the file has other bytes by now. Raises GitFailed."""
    data = _bytes_of(repo, BlobHasher(repo.object_format), blob, path)
    # guard: mend-only-with-the-same-bytes
    if data is None:
        return False
    os.unlink(_loose(repo, blob))
    repo.writing().run("hash-object", "-w", "--stdin", "--no-filters", stdin=data)
    return True


def _tracked(repo: Repository) -> Iterator[tuple[str, str]]:
    for line in repo.git.run("ls-tree", "-r", "-z", "--full-tree", "HEAD").split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, _, blob = facts.decode("ascii").split()
        if mode in FILE_MODES:
            yield blob, os.fsdecode(path)


def _loose(repo: Repository, blob: str) -> str:
    return os.path.join(repo.common_dir, "objects", blob[:2], blob[2:])


def _is_damaged(repo: Repository, hasher: BlobHasher, blob: str) -> bool:
    try:
        with open(_loose(repo, blob), "rb") as file:
            content = zlib.decompress(file.read())
    except FileNotFoundError:
        # In a pack, or lost altogether, which is no torn file.
        return False
    except zlib.error:
        return True
    return hasher.of(content.partition(b"\0")[2]) != blob


def _bytes_of(repo: Repository, hasher: BlobHasher, blob: str, path: str) -> bytes | None:
    with suppress(FileNotFoundError, UnsafeLayout):
        status = repo.root.lstat(path)
        if status is not None and stat.S_ISREG(status.st_mode):
            data = repo.root.read(path, status.st_size)
            return data if hasher.of(data) == blob else None
    return None
