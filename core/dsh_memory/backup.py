"""Backups: the whole repository as one Git bundle with a manifest beside it (`spec`: repository, Backup).

A bundle is made and unpacked in a private folder beside its destination and takes its name in one step: a
failure leaves nothing behind, and what stood there before stays.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from dsh_memory.environment import Environment, format_instant
from dsh_memory.errors import BackupFailure, ContextFailure
from dsh_memory.repository.creation import init
from dsh_memory.repository.git import OWN_IDENTITY, GitFailed, SealedGit, WritingGit
from dsh_memory.repository.jsonfile import parse_json_object
from dsh_memory.repository.layout import OPERATIONAL, PAYLOAD
from dsh_memory.repository.objects import FILE_MODES, is_object_id
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.usage import MAX_USAGE_BYTES, USAGE_NAME, read_usage
from dsh_memory.repository.view import payload_view
from dsh_memory.repository.watermark import WATERMARK, set_mtime
from dsh_memory.text import visible

SCHEMA_VERSION: Final = 1
MANIFEST_SUFFIX: Final = ".json"
_BRANCH: Final = "refs/heads/main"
_MAX_MANIFEST_BYTES: Final = 64 * 1024 * 1024
_SIGNATURES: Final = (b"# v2 git bundle\n", b"# v3 git bundle\n")
_PRIVATE_PREFIX: Final = ".dsh-memory-backup-"
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHECKED_FOR_LINKS: Final = (*PAYLOAD, *OPERATIONAL, "README.md", "scripts")


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """What a bundle holds; the payload is HEAD's. `usage` is the sidecar that Git does not have."""

    exported_at: str
    head: str
    commit_count: int
    payload_files: tuple[str, ...]
    payload_size_bytes: int
    usage: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The manifest's JSON object."""
        return {
            "schema_version": SCHEMA_VERSION,
            "exported_at": self.exported_at,
            "head": self.head,
            "commit_count": self.commit_count,
            "payload_files": list(self.payload_files),
            "payload_size_bytes": self.payload_size_bytes,
            "usage": self.usage,
        }


@dataclass(frozen=True, slots=True)
class Export:
    """A backup that was made, or with `dry_run` would be; `uncommitted` are live edits that it does not
    hold.
    """

    bundle: str
    manifest: BackupManifest
    uncommitted: tuple[str, ...]
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Import:
    """A backup that was restored, or with `dry_run` could be; `described` says whether a manifest stood
    beside it.
    """

    target: str
    manifest: BackupManifest
    described: bool
    dry_run: bool


def export_backup(environment: Environment, bundle: str, now: datetime, *, dry_run: bool = False) -> Export:
    """Writes the bundle and its manifest, both 0600; `bundle` is absolute.

    Raises BackupFailure, RepoUnavailable, UnsafeLayout.
    """
    with Repository.open(environment) as repo:
        _check_destination(environment, bundle)
        if repo.git.run("rev-parse", "--is-shallow-repository").strip() != b"false":
            raise BackupFailure(
                "backup-failed", "The repository is shallow: its history is not all here.", detail="shallow"
            )
        view = payload_view(repo)
        if view.head.commit is None:
            raise BackupFailure("backup-failed", "The repository has no commit yet.", detail="unborn-head")
        manifest = replace(
            _describe(repo.git, view.head.commit), exported_at=format_instant(now), usage=_usage(repo)
        )
        if not dry_run:
            with _failing(), _private_folder(os.path.dirname(bundle)) as folder:
                _write_bundle(repo, folder, bundle, manifest)
        return Export(bundle, manifest, tuple(sorted(view.dirty)), dry_run)


def import_backup(bundle: str, target: str, *, dry_run: bool = False) -> Import:
    """Restores a bundle as a complete memory at `target`, which must not exist; both paths are absolute.

    All is checked before the target appears. Raises BackupFailure.
    """
    # guard: import-never-overwrites
    if os.path.lexists(target):
        raise BackupFailure("backup-target-exists", f"{target} exists already.")
    described = _read_manifest(bundle)
    _check_bundle_file(bundle)
    with _failing(), _private_folder(os.path.dirname(target)) as folder:
        restored = os.path.join(folder, "memory")
        os.mkdir(restored, 0o700)
        manifest = _restore(bundle, restored, described)
        if not dry_run:
            _take_name(restored, target)
        return Import(target, manifest, described is not None, dry_run)


def _take_name(folder: str, target: str) -> None:
    try:
        # It replaces an empty folder, if somebody makes one meanwhile, and nothing else.
        os.rename(folder, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise BackupFailure("backup-target-exists", f"{target} exists already.") from None
        raise


def _check_destination(environment: Environment, bundle: str) -> None:
    for path in (bundle, bundle + MANIFEST_SUFFIX):
        if os.path.lexists(path):
            raise BackupFailure("backup-target-exists", f"{path} exists already.")
    root = os.path.realpath(environment.memory_root)
    folder = os.path.realpath(os.path.dirname(bundle))
    # guard: no-backup-inside-the-root
    if os.path.commonpath([root, folder]) == root:
        raise BackupFailure(
            "backup-failed", "A backup does not belong into the memory itself.", detail="inside-root"
        )
    if not os.path.isdir(folder):
        raise BackupFailure("backup-failed", f"There is no folder {folder}.", detail="no-folder")


def _write_bundle(repo: Repository, folder: str, bundle: str, manifest: BackupManifest) -> None:
    made = os.path.join(folder, "bundle")
    repo.writing().run("bundle", "create", "--quiet", made, "--all")
    described = os.path.join(folder, "manifest")
    with open(described, "w", encoding="ascii") as file:
        json.dump(manifest.to_json(), file)
        file.write("\n")
    for path in (made, described):
        os.chmod(path, 0o600)
        with open(path, "rb") as file_again:
            os.fsync(file_again.fileno())
    # The manifest first: a bundle without one is the older form, a manifest without a bundle is nothing.
    os.link(described, bundle + MANIFEST_SUFFIX)
    try:
        os.link(made, bundle)
    except OSError:
        os.unlink(bundle + MANIFEST_SUFFIX)
        raise


def _describe(git: SealedGit, commit: str) -> BackupManifest:
    listing = git.run("ls-tree", "-r", "-l", "-z", "--full-tree", commit, *PAYLOAD)
    sizes: dict[str, int] = {}
    for line in listing.split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, _, _, size = facts.decode("ascii").split()
        if mode not in FILE_MODES:
            message = f"{visible(os.fsdecode(path))} in the memory is no plain file."
            raise BackupFailure("backup-invalid", message, detail="no-plain-file")
        sizes[os.fsdecode(path)] = int(size)
    count = int(git.run("rev-list", "--count", commit))
    return BackupManifest("", commit, count, tuple(sorted(sizes)), sum(sizes.values()))


def _usage(repo: Repository) -> dict[str, Any] | None:
    try:
        read_usage(repo.root)
        return parse_json_object(repo.root.read(f".sync/{USAGE_NAME}", MAX_USAGE_BYTES))
    except (ContextFailure, FileNotFoundError):
        # A broken sidecar is not worth a backup, and no reason against one: verify names it.
        return None


def _read_manifest(bundle: str) -> BackupManifest | None:
    try:
        with open(bundle + MANIFEST_SUFFIX, "rb") as file:
            values = parse_json_object(file.read(_MAX_MANIFEST_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BackupFailure("backup-invalid", f"The manifest cannot be read: {error.strerror}.") from None
    version = None if values is None else values.get("schema_version")
    if type(version) is int and version > SCHEMA_VERSION:
        message = f"The backup has schema version {version}; this program knows {SCHEMA_VERSION}."
        raise BackupFailure("backup-invalid", message, detail="newer-schema-version")
    manifest = None if values is None or version != SCHEMA_VERSION else _parse_manifest(values)
    if manifest is None:
        raise BackupFailure(
            "backup-invalid", "The manifest beside the bundle is broken.", detail="manifest-broken"
        )
    return manifest


def _parse_manifest(values: dict[str, Any]) -> BackupManifest | None:
    head, count, size = (values.get(key) for key in ("head", "commit_count", "payload_size_bytes"))
    files, usage = values.get("payload_files"), values.get("usage")
    if (
        not isinstance(head, str)
        or type(count) is not int
        or type(size) is not int
        or not isinstance(files, list)
    ):
        return None
    return BackupManifest(
        str(values.get("exported_at")),
        head,
        count,
        tuple(str(path) for path in files),
        size,
        usage if isinstance(usage, dict) else None,
    )


def _check_bundle_file(bundle: str) -> None:
    try:
        with open(bundle, "rb") as file:
            signature = file.read(len(_SIGNATURES[0]))
    except OSError as error:
        raise BackupFailure("backup-invalid", f"{bundle} cannot be read: {error.strerror}.") from None
    if signature not in _SIGNATURES:
        raise BackupFailure("backup-invalid", f"{bundle} is no Git bundle.", detail="no-bundle")


def _restore(bundle: str, root: str, described: BackupManifest | None) -> BackupManifest:
    git = WritingGit(root)
    sha256 = _uses_sha256(bundle)
    object_format = "sha256" if sha256 else "sha1"
    git.run("init", "--quiet", "--template=", "-b", "main", f"--object-format={object_format}", root)
    try:
        git.run("bundle", "verify", "--quiet", bundle)
        git.run("bundle", "unbundle", bundle)
        heads = _heads(git, bundle, object_format)
        head = heads.pop("HEAD", None) or heads.get(_BRANCH)
        if head is None:
            raise BackupFailure("backup-invalid", "The bundle has no HEAD.", detail="no-head")
        heads[_BRANCH] = head
        git.run("update-ref", "--stdin", "-z", stdin=b"".join(_creations(heads)))
        # guard: import-verifies (a bundle cut short passes `bundle verify`, and one of a shallow clone
        # unpacks)
        git.run("fsck", "--full", "--strict", "--no-dangling", "--no-progress")
    except GitFailed as failure:
        raise BackupFailure(
            "backup-invalid", f"Git refuses the bundle: {failure.message}", detail="damaged"
        ) from None
    manifest = _describe(git, head)
    _check_against(manifest, described)
    _check_no_links(git, head)
    git.run("read-tree", "-u", "--reset", head)
    return _complete(root, manifest if described is None else described)


def _uses_sha256(bundle: str) -> bool:
    with open(bundle, "rb") as file:
        header = file.read(4096)
    return b"@object-format=sha256\n" in header.partition(b"\n\n")[0] + b"\n"


def _heads(git: SealedGit, bundle: str, object_format: str) -> dict[str, str]:
    heads: dict[str, str] = {}
    for line in git.run("bundle", "list-heads", bundle).decode("utf-8", "surrogateescape").splitlines():
        commit, _, name = line.partition(" ")
        if is_object_id(commit, object_format) and (name == "HEAD" or name.startswith("refs/")):
            heads[name] = commit
    return heads


def _creations(heads: dict[str, str]) -> Iterator[bytes]:
    for name, commit in heads.items():
        yield b"update %b\0%b\0\0" % (name.encode("utf-8", "surrogateescape"), commit.encode())


def _check_against(found: BackupManifest, described: BackupManifest | None) -> None:
    if described is None:
        return
    for what in ("head", "commit_count", "payload_files", "payload_size_bytes"):
        if getattr(found, what) != getattr(described, what):
            message = f"The bundle does not hold what its manifest says ({what})."
            raise BackupFailure("backup-invalid", message, detail=f"manifest-{what.replace('_', '-')}")


def _check_no_links(git: SealedGit, commit: str) -> None:
    # guard: import-without-links
    for line in git.run("ls-tree", "-r", "-z", "--full-tree", commit, *_CHECKED_FOR_LINKS).split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        if facts.split()[0].decode() not in FILE_MODES:
            message = f"{visible(os.fsdecode(path))} in the bundle is no plain file."
            raise BackupFailure("backup-invalid", message, detail="no-plain-file")


def _complete(root: str, manifest: BackupManifest) -> BackupManifest:
    """Gives the restored worktree its modes, its identity, and the files that Git does not keep."""
    for folder, names, files in os.walk(root):
        for name in names:
            _restrict(os.path.join(folder, name))
        for name in files:
            _restrict(os.path.join(folder, name))
    if manifest.usage is not None:
        path = os.path.join(root, ".sync", USAGE_NAME)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            json.dump(manifest.usage, file, separators=(",", ":"))
            file.write("\n")
    environment = Environment(dsh_home=os.path.dirname(root), memory_root=root)
    init(environment)
    name, _, email = OWN_IDENTITY.removesuffix(">").partition(" <")
    git = WritingGit(root)
    git.run("config", "user.name", name)
    git.run("config", "user.email", email)
    with Repository.open(environment) as repo:
        if repo.root.lstat(WATERMARK) is not None:
            set_mtime(repo.root)
    return manifest


def _restrict(path: str) -> None:
    status = os.lstat(path)
    if not stat.S_ISLNK(status.st_mode):
        os.chmod(path, status.st_mode & 0o700)


@contextmanager
def _private_folder(parent: str) -> Iterator[str]:
    """A new folder in `parent`, locked as long as it is used; those that dead processes left there go."""
    for name in os.listdir(parent):
        if name.startswith(_PRIVATE_PREFIX):
            _remove_abandoned(os.path.join(parent, name))
    while True:
        folder = tempfile.mkdtemp(prefix=_PRIVATE_PREFIX, dir=parent)
        descriptor = os.open(folder, _FOLDER_FLAGS)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Another process may have taken it for abandoned before it was locked.
        if os.path.isdir(folder):
            break
        os.close(descriptor)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _remove_abandoned(folder: str) -> None:
    try:
        descriptor = os.open(folder, _FOLDER_FLAGS)
    except OSError:
        # Gone by now, or nothing that this program made.
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        if os.fstat(descriptor).st_uid == os.geteuid():
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except GitFailed as failure:
        raise BackupFailure(
            "backup-failed", f"Git refused: {failure.message}", detail="git-refused"
        ) from failure
    except FileExistsError as error:
        raise BackupFailure(
            "backup-target-exists", f"{error.filename2 or error.filename} exists already."
        ) from None
    except OSError as error:
        raise BackupFailure(
            "backup-failed", f"The system refused: {error.strerror}.", detail="os-error"
        ) from error
