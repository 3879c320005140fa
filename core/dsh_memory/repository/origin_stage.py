"""What an unfinished clear of the JavaScript origin leaves: the whole payload, moved into a folder beside it.

The origin renames the payload's entries into `.dpsk-memory-clear-<hex>`, commits, and deletes that folder.
If it dies between, all of memory looks gone (`origin-faults.md` 13). Where the commit was made, recovery
finishes the clear; else each file goes back to its place, or beside it where another text stands there by
now.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress

from dsh_memory.errors import UnsafeLayout
from dsh_memory.repository.descriptors import READ_FLAGS, Folders, remove_tree, rename_exclusive
from dsh_memory.repository.git import GitFailed
from dsh_memory.repository.layout import PAYLOAD, Reader, Root, open_folder
from dsh_memory.repository.objects import BlobHasher, payload_of
from dsh_memory.repository.opening import Repository

_STAGE = re.compile(r"\.dpsk-memory-clear-[0-9a-f]{4,64}")


def find_stage_folders(root: Root) -> list[str]:
    """The names of such folders in the root, for health to show and recovery to empty."""
    return sorted(
        name for name in os.listdir(root.descriptor) if _STAGE.fullmatch(name) and _is_folder(root, name)
    )


def settle_stage_folder(repo: Repository, name: str) -> list[str]:
    """Finishes the clear or puts every file back where it belongs; the paths put back.

    Raises UnsafeLayout for links and special files in it, OSError for what the system refuses.
    """
    if _was_committed(repo, name):
        remove_tree(repo.root, name)
        return []
    restored: list[str] = []
    with Folders(repo.root) as folders:
        stage = open_folder(repo.root.descriptor, name, name)
        try:
            for entry in sorted(set(os.listdir(stage)) & set(PAYLOAD)):
                _restore(folders, stage, name, entry, entry, restored)
        finally:
            os.close(stage)
        folders.flush()
    # What is no payload is not ours to delete: then the folder stays, and health goes on showing it.
    with suppress(OSError):
        os.rmdir(name, dir_fd=repo.root.descriptor)
    return restored


def _was_committed(repo: Repository, name: str) -> bool:
    """Whether HEAD is the clear's commit, so that its parent holds every file of the folder."""
    empty = BlobHasher(repo.object_format).of(b"")
    try:
        if any(entry.blob != empty for entry in payload_of(repo.git, "HEAD").values()):
            return False
        before = payload_of(repo.git, "HEAD^")
    except GitFailed:
        return False
    with repo.root.below(name) as stage, Reader(stage) as reader:
        return all(
            path in before
            and BlobHasher(repo.object_format).of(reader.read(path, file.size)) == before[path].blob
            for path, file in stage.scan().files.items()
        )


def _restore(folders: Folders, above: int, stage: str, name: str, path: str, restored: list[str]) -> None:
    status = os.stat(name, dir_fd=above, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        folder = open_folder(above, name, path)
        try:
            for entry in sorted(os.listdir(folder)):
                _restore(folders, folder, stage, entry, f"{path}/{entry}", restored)
        finally:
            os.close(folder)
        folders.get(path, create=True)
        os.rmdir(name, dir_fd=above)
        return
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeLayout(
            "A link or special file stands in an unfinished clear's folder.", detail=f"no-file: {path}"
        )
    aside = path if "/" in path else f"archive/{path}"
    for place in (path, f"{aside}.restored-{stage[-8:]}"):
        parent, _, target = place.rpartition("/")
        target_folder = folders.get(parent, create=True)
        folders.changed(parent)
        _remove_if_empty(target_folder, target)
        if rename_exclusive(above, name, target_folder, target):
            restored.append(place)
            return
        if _same_content(above, name, target_folder, target):
            os.unlink(name, dir_fd=above)
            return


def _remove_if_empty(folder: int, name: str) -> None:
    """Makes room where an empty file stands: the origin's clear leaves one in the summary's place."""
    with suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and status.st_size == 0:
            os.unlink(name, dir_fd=folder)


def _same_content(folder: int, name: str, other_folder: int, other: str) -> bool:
    contents = []
    for place, entry in ((folder, name), (other_folder, other)):
        try:
            with os.fdopen(os.open(entry, READ_FLAGS, dir_fd=place), "rb") as file:
                contents.append(file.read())
        except OSError:
            return False
    return contents[0] == contents[1]


def _is_folder(root: Root, name: str) -> bool:
    status = root.lstat(name)
    return status is not None and stat.S_ISDIR(status.st_mode)
