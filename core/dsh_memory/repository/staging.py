"""A private copy of the payload for others to work on, and what they made of it.

What comes back is read once, as bytes, and everything after that (rules, preview, transaction) works on
these bytes: a process that still writes into the copy changes nothing any more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from dsh_memory.errors import ChangeRefused, UnsafeLayout
from dsh_memory.repository.allowed_secrets import read_allowed_secrets
from dsh_memory.repository.changes import (
    MAX_ADDED_FILES,
    MAX_CHANGED_BYTES,
    MAX_FILE_BYTES,
    StagedFile,
    check_change,
    is_payload_path,
)
from dsh_memory.repository.layout import PAYLOAD, RECORD_FOLDERS, LiveFile, Reader, Root
from dsh_memory.repository.objects import BlobHasher
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.previews import README, ManifestEntry
from dsh_memory.repository.view import PayloadView, read_records
from dsh_memory.text import visible

_LARGEST_README: Final = MAX_FILE_BYTES


@dataclass(frozen=True, slots=True)
class Base:
    """The live tree that a copy was made from: its view, a manifest entry for each file, README.md and
    HEAD.
    """

    view: PayloadView
    entries: Mapping[str, ManifestEntry]
    readme: bytes | None

    def is_still(self, view: PayloadView) -> str | None:
        """The first path that is no longer as the copy took it, None where all is."""
        for path in sorted({*self.view.files, *view.files}):
            ours, theirs = self.view.files.get(path), view.files.get(path)
            if ours is None or theirs is None or ours.executable != theirs.executable:
                return path
            if self.view.blobs.get(path) != view.blobs.get(path):
                return path
        return None


@dataclass(frozen=True, slots=True)
class StagedChange:
    """What a copy differs in from its base: whole files by path, None deletes; `executable` have that bit."""

    files: Mapping[str, bytes | None]
    executable: frozenset[str]

    @property
    def paths(self) -> tuple[str, ...]:
        """The changed paths, sorted."""
        return tuple(sorted(self.files))

    def beside(self, old: Mapping[str, bytes]) -> list[StagedFile]:
        """The same with the live bytes before the change, for the rules of staging."""
        return [StagedFile(path, old.get(path), self.files[path]) for path in self.paths]


def copy_payload(repo: Repository, view: PayloadView, folder: str) -> Base:
    """Copies the live payload and README.md to `folder`, an empty private folder; files 0600, folders 0700.

    Raises ChangeRefused `staging-invalid` where a file is no longer what `view` found, UnsafeLayout, OSError.
    """
    entries: dict[str, ManifestEntry] = {}
    hasher = BlobHasher(repo.object_format)
    with Reader(repo.root) as reader:
        for name in RECORD_FOLDERS:
            os.mkdir(os.path.join(folder, name), 0o700)
        for path, live in sorted(view.files.items()):
            try:
                data = reader.read(path, live.size)
            except FileNotFoundError:
                raise _moved(path) from None
            if hasher.of(data) != view.blobs.get(path):
                raise _moved(path)
            entries[path] = ManifestEntry(len(data), sha256(data).hexdigest(), live.executable)
            _write(folder, path, data, executable=live.executable)
        try:
            readme = reader.read(README, _LARGEST_README)
        except FileNotFoundError:
            readme = None
    if readme is not None:
        _write(folder, README, readme, executable=False)
    return Base(view, entries, readme)


def read_change(folder: str, base: Base) -> StagedChange:
    """What the copy in `folder` is now, against its base; at most a little over the limits is ever read.

    Raises ChangeRefused for the faults of the copy as a whole: links, foreign files, README.md, sheer size.
    """
    try:
        with Root(folder) as root:
            scan = root.scan()
            _check_frame(root, base)
            if scan.unreadable:
                raise ChangeRefused(
                    "staging-invalid", "A folder of the copy cannot be read.", path=scan.unreadable[0]
                )
            return _read_files(root, scan.files, base)
    except UnsafeLayout as error:
        raise ChangeRefused("unsafe-layout", error.message, path=error.detail) from None
    except OSError as error:
        raise ChangeRefused("staging-invalid", f"The copy cannot be read: {error.strerror}.") from None


def check_staged(
    repo: Repository, now: datetime, change: StagedChange, old: Mapping[str, bytes]
) -> list[StagedFile]:
    """Holds the change against the rules of staging, the secret scan included; the files as they were
    checked.

    `old` are the live bytes of changed files. Raises ChangeRefused for the first rule that is broken, all
    or nothing.
    """
    files = change.beside(old)
    check_change(
        files, _ids_beside(repo, now, change), allowed_secrets=read_allowed_secrets(repo.environment)
    )
    return files


def verdicts(
    repo: Repository, now: datetime, change: StagedChange, old: Mapping[str, bytes]
) -> dict[str, ChangeRefused | None]:
    """For each changed file what refuses it, taken by itself; None where nothing does."""
    elsewhere = _ids_beside(repo, now, change)
    allowed = read_allowed_secrets(repo.environment)
    found: dict[str, ChangeRefused | None] = {}
    for file in change.beside(old):
        try:
            check_change([file], elsewhere, allowed_secrets=allowed)
            found[file.path] = None
        except ChangeRefused as refused:
            found[file.path] = refused
    return found


def _ids_beside(repo: Repository, now: datetime, change: StagedChange) -> dict[str, str]:
    records = read_records(repo, now).records
    return {record.id: record.path for record in records if record.path not in change.files}


def read_old(repo: Repository, change: StagedChange, base: Base) -> dict[str, bytes]:
    """The live bytes of the changed files that the base knows; raises FileNotFoundError, UnsafeLayout,
    OSError.
    """
    with Reader(repo.root) as reader:
        return {
            path: reader.read(path, base.entries[path].size) for path in change.paths if path in base.entries
        }


def _check_frame(root: Root, base: Base) -> None:
    for name in sorted(os.listdir(root.descriptor)):
        if name not in (*PAYLOAD, README):
            raise ChangeRefused("staging-invalid", "The change adds a file that is no memory.", path=name)
    try:
        readme = root.read(README, _LARGEST_README)
    except FileNotFoundError:
        readme = None
    # guard: staged-readme-unchanged
    if readme != base.readme:
        raise ChangeRefused("staging-invalid", "The change touches README.md.", path=README)


def _read_files(root: Root, files: Mapping[str, LiveFile], base: Base) -> StagedChange:
    changed: dict[str, bytes | None] = dict.fromkeys(base.entries.keys() - files.keys())
    added = total = 0
    with Reader(root) as reader:
        for path, live in sorted(files.items()):
            if not is_payload_path(path):
                raise ChangeRefused("staging-invalid", "The change adds a file of an odd name.", path=path)
            known = base.entries.get(path)
            if _is_same(reader, live, known):
                continue
            data = reader.read(path, MAX_FILE_BYTES)
            changed[path] = data
            added += known is None
            total += len(data)
            # guard: bounded-staging (a hostile agent must not fill our memory before the rules speak)
            if added > MAX_ADDED_FILES:
                raise ChangeRefused("too-many-files", f"The change adds more than {MAX_ADDED_FILES} files.")
            if len(data) > MAX_FILE_BYTES:
                raise ChangeRefused("file-too-large", "A changed file holds more than 1 MiB.", path=path)
            if total > MAX_CHANGED_BYTES:
                raise ChangeRefused("change-too-large", "The change holds more than 5 MiB.")
    executable = frozenset(path for path in changed if path in files and files[path].executable)
    return StagedChange(changed, executable)


def _is_same(reader: Reader, live: LiveFile, known: ManifestEntry | None) -> bool:
    if known is None or known.size != live.size or known.executable != live.executable:
        return False
    data = reader.read(live.path, live.size)
    return len(data) == known.size and sha256(data).hexdigest() == known.sha256


def _write(folder: str, path: str, data: bytes, *, executable: bool) -> None:
    target = os.path.join(folder, path)
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    descriptor = os.open(
        target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700 if executable else 0o600
    )
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _moved(path: str) -> ChangeRefused:
    return ChangeRefused(
        "staging-invalid", f"{visible(path)} changed while it was copied; try again.", path=path
    )
