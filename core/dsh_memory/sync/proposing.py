"""Putting a change of one's own up for review: from a folder, a patch, or an edited file.

The change is made on a private copy, held against the rules of staging, and becomes a preview; the live
memory stays.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from typing import Any, Final

from dsh_memory.environment import Environment
from dsh_memory.errors import ChangeRefused, PreviewFailure, RepoUnavailable
from dsh_memory.repository.changes import MAX_FILE_BYTES, is_payload_path
from dsh_memory.repository.failures import TransactionFailed
from dsh_memory.repository.git import GitFailed, SealedGit
from dsh_memory.repository.journal import new_run_id
from dsh_memory.repository.layout import PAYLOAD, RECORD_FOLDERS, Reader, Root
from dsh_memory.repository.lock import Clock
from dsh_memory.repository.mutation import answering, locked
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.preview_creation import create_preview
from dsh_memory.repository.staging import check_staged, copy_payload, read_change, read_old
from dsh_memory.repository.view import payload_view
from dsh_memory.sync.workfolder import WorkFolder
from dsh_memory.text import visible

#: Makes the change: it is given the folder of the private copy.
Maker = Callable[[str], None]

_WRITE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_PATCH_BYTES: Final = 16 * 1024 * 1024


def propose(environment: Environment, clock: Clock, make: Maker) -> dict[str, Any] | None:
    """Lets `make` change a private copy and puts the change up; the preview's six-key object, None if
    nothing changed.

    Raises ChangeRefused, PreviewFailure, OperationInProgress, RepoUnavailable, UnsafeLayout, and what
    `make` raises.
    """
    with Repository.open(environment) as repo, WorkFolder() as folder:
        view = payload_view(repo)
        if view.dirty:
            message = (
                f"{len(view.dirty)} memory files hold edits that are in no commit: run dsh-memory save first."
            )
            raise PreviewFailure("preview-invalid-request", message, detail="dirty-payload")
        base = copy_payload(repo, view, folder.staging)
        make(folder.staging)
        change = read_change(folder.staging, base)
        if not change.files:
            return None
        check_staged(repo, clock(), change, read_old(repo, change, base))
        preview_id = new_run_id(clock())
        with answering(_refusal), locked(repo, clock, "write", preview_id):
            return create_preview(
                repo, clock(), preview_id, base, folder.staging, change, candidate_sessions=None
            )


def from_files(changes: Mapping[str, bytes | None]) -> Maker:
    """Writes single files, whole; None deletes one that is there."""

    def make(copy: str) -> None:
        for path, data in changes.items():
            # guard: proposal-stays-in-payload
            if not is_payload_path(path):
                raise ChangeRefused(
                    "staging-invalid", "The change touches a file that is no memory.", path=path
                )
            place = os.path.join(copy, path)
            try:
                if data is None:
                    os.unlink(place)
                    continue
                os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
                with open(os.open(place, _WRITE_FLAGS, 0o600), "wb") as file:
                    file.write(data)
            except FileNotFoundError as error:
                raise ChangeRefused(
                    "staging-invalid", "There is no such file to delete.", path=path
                ) from error
            except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
                message = "A file and a folder would have one name."
                raise ChangeRefused("staging-invalid", message, path=path) from error

    return make


def from_folder(source: str) -> Maker:
    """Takes the payload as it stands in another folder: summary.md and the three folders that are there.

    What the source lacks of summary.md or of a whole folder stays; what it lacks inside a folder goes.
    """

    def make(copy: str) -> None:
        with _foreign_root(source) as root:
            files = root.scan().files
            given = {name for name in PAYLOAD if root.lstat(name) is not None}
            if not given:
                message = f"{source} holds none of {', '.join(PAYLOAD)}."
                raise PreviewFailure("preview-invalid-request", message, detail="no-payload")
            for name in given.intersection(RECORD_FOLDERS):
                shutil.rmtree(os.path.join(copy, name))
                os.mkdir(os.path.join(copy, name), 0o700)
            with Reader(root) as reader:
                for path, file in files.items():
                    write_copy(copy, path, reader.read(path, MAX_FILE_BYTES), executable=file.executable)

    return make


def from_patch(patch: bytes) -> Maker:
    """Applies a unified diff, as `git diff` and `diff -u` write it (with a/ and b/ in front of the paths)."""

    def make(copy: str) -> None:
        if len(patch) > _MAX_PATCH_BYTES:
            raise ChangeRefused("change-too-large", "The patch holds more than 16 MiB.")
        try:
            # Outside a repository `git apply` patches files, and refuses paths that lead out of the folder.
            SealedGit(copy).run("apply", "--whitespace=nowarn", "-", stdin=patch)
        except GitFailed as failure:
            message = f"The patch does not fit the memory of now: {visible(failure.message)}"
            raise PreviewFailure("preview-invalid-request", message, detail="patch-does-not-apply") from None

    return make


def copied_file(copy: str, path: str) -> str:
    """Where a payload file of the copy lies, new or not, for an editor to open; raises ChangeRefused for
    other paths.
    """
    if not is_payload_path(path):
        raise ChangeRefused("staging-invalid", "That is no path of the memory's payload.", path=path)
    place = os.path.join(copy, path)
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    return place


def _foreign_root(path: str) -> Root:
    try:
        return Root(path)
    except RepoUnavailable:
        message = f"{visible(path)} is no folder that can be read."
        raise PreviewFailure("preview-invalid-request", message, detail="no-folder") from None


def write_copy(copy: str, path: str, data: bytes, *, executable: bool = False) -> None:
    """Writes one payload file of a copy, in place of what stands there; raises ChangeRefused for other
    paths.
    """
    if not is_payload_path(path):
        raise ChangeRefused("staging-invalid", "That is no path of the memory's payload.", path=path)
    target = os.path.join(copy, path)
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    mode = stat.S_IRWXU if executable else stat.S_IRUSR | stat.S_IWUSR
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(data)


def _refusal(failure: TransactionFailed) -> PreviewFailure:
    return PreviewFailure("preview-apply-failed", failure.message, detail=failure.detail)
