"""What an unfinished clear of the JavaScript origin leaves: the whole payload, moved into a folder beside it.

The origin first renames the payload's entries into `.dpsk-memory-clear-<hex>` and deletes that folder at the
end. If it dies between, all of memory looks gone (`origin-faults.md` 13). Each file goes back to its place;
where another stands there by now with other content, it is set beside it under a name that says what it is.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress

from dsh_memory.errors import UnsafeLayout
from dsh_memory.repository.descriptors import READ_FLAGS, Folders, rename_exclusive
from dsh_memory.repository.layout import PAYLOAD, Root, open_folder

_STAGE = re.compile(r"\.dpsk-memory-clear-[0-9a-f]{4,64}")


def find_stage_folders(root: Root) -> list[str]:
    """The names of such folders in the root, for health to show and recovery to empty."""
    return sorted(
        name for name in os.listdir(root.descriptor) if _STAGE.fullmatch(name) and _is_folder(root, name)
    )


def restore_stage_folder(root: Root, name: str) -> list[str]:
    """Puts every file of the folder back where it belongs, and removes the folder; the paths put back.

    Raises UnsafeLayout for links and special files in it, OSError for what the system refuses.
    """
    restored: list[str] = []
    with Folders(root) as folders:
        stage = open_folder(root.descriptor, name, name)
        try:
            for entry in sorted(set(os.listdir(stage)) & set(PAYLOAD)):
                _restore(folders, stage, name, entry, entry, restored)
        finally:
            os.close(stage)
        folders.flush()
    # What is no payload is not ours to delete: then the folder stays, and health goes on showing it.
    with suppress(OSError):
        os.rmdir(name, dir_fd=root.descriptor)
    return restored


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
    for place in (path, f"{path}.restored-{stage[-8:]}"):
        parent, _, target = place.rpartition("/")
        target_folder = folders.get(parent, create=True)
        folders.changed(parent)
        if rename_exclusive(above, name, target_folder, target):
            restored.append(place)
            return
        if _same_content(above, name, target_folder, target):
            os.unlink(name, dir_fd=above)
            return


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
