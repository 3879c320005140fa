"""`verify`: everything in a memory root that can be checked against something else, and what may be mended
safely.

Looking changes nothing. What `repair` mends is provable: a journal file that Git has whole, modes that are
too open, a dead run, a broken counter of uses. Everything else is said and left to a person.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Final, Literal

from dsh_memory.environment import Environment
from dsh_memory.errors import ContextFailure, MemoryFailure, SettingsFailure, UnsafeLayout
from dsh_memory.hosts.settings import Settings
from dsh_memory.records.metadata import Record
from dsh_memory.repository.creation import SYNC_GITIGNORE, SYNC_IGNORED
from dsh_memory.repository.failures import refusal
from dsh_memory.repository.git import GitFailed
from dsh_memory.repository.git_locks import leftover_locks
from dsh_memory.repository.journal import LAST_RUN, RUNS_FOLDER, Journal, RunRecord, validate_run_id
from dsh_memory.repository.jsonfile import parse_json_object
from dsh_memory.repository.layout import RECORD_FOLDERS
from dsh_memory.repository.lock import Clock, read_active_run, read_lock
from dsh_memory.repository.objects import is_object_id
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.previews import list_previews
from dsh_memory.repository.torn_objects import mendable_objects
from dsh_memory.repository.torn_refs import mend_refs, torn_refs
from dsh_memory.repository.usage import read_usage
from dsh_memory.repository.view import in_progress, read_head, read_records
from dsh_memory.repository.watermark import WATERMARK, WatermarkInvalid, read_watermark
from dsh_memory.text import visible

Severity = Literal["error", "warning"]

_CHECK_BYTES: Final = {"sha1": 20, "sha256": 32}
_MAX_JSON_BYTES: Final = 16 * 1024 * 1024
_HASH: Final = re.compile(r"sha256:([0-9a-f]{64})")
_COMMITTED_RUN: Final = ("applied", "rolled_back", "recovered")
_MODE_CHECKED: Final = ("summary.md", ".last-sync", "README.md", ".sync", "scripts", *RECORD_FOLDERS)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is not as it should be: `kind` for machines, `subject` the path, id or commit at
    fault.
    """

    kind: str
    severity: Severity
    subject: str
    message: str
    repairable: bool = False

    def to_json(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "severity": self.severity,
            "subject": self.subject,
            "message": self.message,
            "repairable": self.repairable,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What was found, and what `repair` did about it; `ok` is whether no error is left."""

    faults: tuple[Fault, ...]
    repaired: tuple[str, ...] = ()
    checked: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not any(fault.severity == "error" for fault in self.faults)

    def to_json(self) -> dict[str, object]:
        return {
            "ok": self.ok,
            "checked": self.checked,
            "faults": [fault.to_json() for fault in self.faults],
            "repaired": list(self.repaired),
        }


def verify(environment: Environment, clock: Clock, *, repair: bool = False) -> Report:
    """Checks the whole root; raises RepoUnavailable or UnsafeLayout where there is none that can be
    opened.
    """
    torn = torn_refs(environment)
    if torn and not repair:
        # The repository does not open without them.
        return Report(tuple(_torn_ref(path) for path in torn))
    mended = (
        [f"Wrote {path} anew from Git's log of its moves." for path in mend_refs(environment, clock)]
        if torn
        else []
    )
    with Repository.open(environment) as repo:
        found, checked = _check(repo, clock())
        if not repair or not any(fault.repairable for fault in found):
            return Report(tuple(found), tuple(mended), checked)
        from dsh_memory.repairing import repair_faults

        repaired = repair_faults(repo, clock, found)
        found, checked = _check(repo, clock())
        return Report(tuple(found), (*mended, *repaired), checked)


def _torn_ref(path: str) -> Fault:
    message = "Git's record of where the memory stands is torn; Git's log of its moves may tell."
    return Fault("ref-torn", "error", visible(path), message, repairable=True)


def _check(repo: Repository, now: datetime) -> tuple[list[Fault], dict[str, int]]:
    checked: dict[str, int] = {}
    faults: list[Fault] = []
    checks: tuple[Callable[[], Iterable[Fault]], ...] = (
        lambda: _git_faults(repo),
        lambda: _object_faults(repo),
        lambda: _index_faults(repo),
        lambda: _run_faults(repo, now),
        lambda: _journal_faults(repo, checked),
        lambda: _record_faults(repo, now, checked),
        lambda: _preview_faults(repo, now, checked),
        lambda: _sidecar_faults(repo),
        lambda: _settings_faults(repo),
        lambda: _mode_faults(repo),
    )
    for check in checks:
        try:
            faults += check()
        except (GitFailed, OSError) as error:
            # What is damaged ends this check and no other.
            detail, message = refusal(error)
            faults.append(Fault("check-ended", "error", detail, visible(message)))
    return faults, checked


def _git_faults(repo: Repository) -> Iterator[Fault]:
    head = read_head(repo)
    if head.commit is None:
        yield Fault("unborn-head", "error", "HEAD", "The repository has no commit.")
    if head.branch is None:
        yield Fault(
            "detached-head", "warning", "HEAD", "HEAD is detached: nothing can be changed until a branch is."
        )
    operation = in_progress(repo)
    if operation is not None:
        yield Fault(f"{operation}-in-progress", "warning", "HEAD", f"A {operation} was begun and not ended.")
    try:
        repo.git.run("fsck", "--full", "--strict", "--no-dangling", "--no-progress")
    except GitFailed as failure:
        for line in failure.message.splitlines():
            yield Fault("git-damaged", "error", "git", visible(line))


def _object_faults(repo: Repository) -> Iterator[Fault]:
    if read_head(repo).commit is not None:
        for path in mendable_objects(repo).values():
            message = "Git's object of this file is damaged; the file itself is whole."
            yield Fault("object-damaged", "error", visible(path), message, repairable=True)


def _index_faults(repo: Repository) -> Iterator[Fault]:
    try:
        with open(os.path.join(repo.git_dir, "index"), "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return
    content, check = data[: -_CHECK_BYTES[repo.object_format]], data[-_CHECK_BYTES[repo.object_format] :]
    # Where index.skipHash is set, zeros stand in its place.
    written = hashlib.new(repo.object_format, content, usedforsecurity=False).digest()
    if not content.startswith(b"DIRC") or (any(check) and check != written):
        message = "Git's index is torn: what it holds is not what was written."
        yield Fault("index-broken", "error", ".git/index", message, repairable=True)


def _run_faults(repo: Repository, now: datetime) -> Iterator[Fault]:
    lock = read_lock(repo.root, now)
    if lock is not None and not lock.active:
        message = f"A lock stands whose holder is gone ({lock.stale_reason})."
        yield Fault("stale-lock", "warning", ".sync/operation.lock", message, repairable=True)
    run = read_active_run(repo.root, now)
    if run is not None and run.state == "interrupted":
        message = f"The process of this run died in phase {visible(run.phase)}."
        yield Fault("interrupted-run", "error", visible(run.run_id), message, repairable=True)
    elif (interrupted := Journal(repo.root).state().interrupted) is not None:
        message = "This run was interrupted, and no recovery is journaled."
        yield Fault("interrupted-run", "error", interrupted.run_id, message, repairable=True)
    if lock is None or not lock.active:
        for path in leftover_locks(repo):
            message = "One of Git's own lock files stands, and no operation of ours runs."
            yield Fault("git-lock", "warning", visible(path), message, repairable=True)


def _journal_faults(repo: Repository, checked: dict[str, int]) -> Iterator[Fault]:
    committed = _committed_run_files(repo)
    present = _run_files(repo)
    for path in sorted(committed - present):
        yield Fault(
            "journal-missing", "error", path, "Git has this run, the journal folder has not.", repairable=True
        )
    runs: list[RunRecord] = []
    for path in sorted(present):
        values = parse_json_object(_read(repo, path))
        if values is None:
            message = "This run's file is no JSON object."
            yield Fault("journal-broken", "error", path, message, repairable=path in committed)
        else:
            runs.append(RunRecord.from_json(values, path.rpartition("/")[2].removesuffix(".json")))
    checked["runs"] = len(runs)
    if runs and parse_json_object(_read(repo, LAST_RUN)) is None:
        yield Fault(
            "last-run-broken", "error", LAST_RUN, "The last run's file is missing or broken.", repairable=True
        )
    yield from _commit_faults(repo, runs)


def _commit_faults(repo: Repository, runs: Iterable[RunRecord]) -> Iterator[Fault]:
    named = [
        (run.run_id, key, commit)
        for run in runs
        if run.status in _COMMITTED_RUN
        for key, commit in (("recovery_commit", run.recovery_commit), ("apply_commit", run.apply_commit))
        if commit is not None
    ]
    if not named:
        return
    head = read_head(repo).commit
    reachable = set(repo.git.run("rev-list", head).decode("ascii").split()) if head is not None else set()
    for run_id, key, commit in named:
        if not is_object_id(commit, repo.object_format):
            yield Fault("journal-commit-invalid", "error", run_id, f"Its {key} is no commit id.")
        elif commit not in reachable:
            message = f"Its {key} {commit[:12]} is not in the history of HEAD."
            yield Fault("journal-commit-unreachable", "error", run_id, message)


def _record_faults(repo: Repository, now: datetime, checked: dict[str, int]) -> Iterator[Fault]:
    found = read_records(repo, now)
    checked["records"] = len(found.records)
    for malformed in found.malformed:
        line = "" if malformed.line is None else f" (line {malformed.line})"
        yield Fault(malformed.code, "error", visible(malformed.path), f"{visible(malformed.message)}{line}")
    paths: dict[str, list[str]] = defaultdict(list)
    for record in found.records:
        paths[record.id].append(record.path)
        if (message := _content_hash_fault(record)) is not None:
            yield Fault("content-hash-mismatch", "warning", visible(record.path), message)
    for identity, bearers in sorted(paths.items()):
        if len(bearers) > 1:
            message = (
                f"The id {visible(identity)} is also that of {', '.join(map(visible, sorted(bearers)[1:]))}."
            )
            yield Fault("duplicate-id", "error", visible(min(bearers)), message)


def _content_hash_fault(record: Record) -> str | None:
    stated = None if record.metadata is None else record.metadata.content_hash
    match = None if stated is None else _HASH.fullmatch(stated)
    if match is None:
        return None
    # Writers hash the body with or without the blank lines around it; another form than sha256 is their own.
    bodies = (record.body, record.body.strip(), record.body.strip() + b"\n", record.body.lstrip(b"\r\n"))
    if match[1] in {sha256(body).hexdigest() for body in bodies}:
        return None
    return "Its content_hash is not that of its body: it was edited since."


def _preview_faults(repo: Repository, now: datetime, checked: dict[str, int]) -> Iterator[Fault]:
    try:
        previews = list_previews(repo.root, now)
    except UnsafeLayout as error:
        yield Fault("unsafe-layout", "error", ".sync/previews", error.message)
        return
    checked["previews"] = len(previews.pending)
    for preview_id in previews.broken:
        yield Fault("preview-broken", "warning", preview_id, "This preview cannot be read; discard it.")


def _sidecar_faults(repo: Repository) -> Iterator[Fault]:
    try:
        read_usage(repo.root)
    except ContextFailure as failure:
        yield Fault("usage-invalid", "error", ".sync/usage.json", failure.message, repairable=True)
    except UnsafeLayout as error:
        yield Fault("unsafe-layout", "error", ".sync/usage.json", error.message)
    try:
        read_watermark(repo.root)
    except WatermarkInvalid as error:
        yield Fault("watermark-invalid", "error", WATERMARK, f"{error}.", repairable=True)
    except (MemoryFailure, OSError) as error:
        yield Fault("watermark-unreadable", "error", WATERMARK, str(error))
    ignored = _read(repo, SYNC_GITIGNORE).split()
    if not all(pattern.encode() in ignored for pattern in SYNC_IGNORED):
        message = "It is missing, or lacks lines: Git would take up locks and previews."
        yield Fault("sync-gitignore-missing", "warning", ".sync/.gitignore", message, repairable=True)


def _settings_faults(repo: Repository) -> Iterator[Fault]:
    try:
        Settings(repo.environment).enabled()
    except SettingsFailure as failure:
        yield Fault(failure.code, "error", "settings.yaml", failure.message)


def _mode_faults(repo: Repository) -> Iterator[Fault]:
    for path, status in walk_modes(repo):
        if stat.S_IMODE(status.st_mode) & 0o077:
            message = f"Others may use it (mode {stat.S_IMODE(status.st_mode):04o})."
            yield Fault("mode-too-open", "warning", visible(path), message, repairable=True)


def walk_modes(repo: Repository) -> Iterator[tuple[str, os.stat_result]]:
    """Every folder and plain file of ours below the root, and the root itself as `.`; no link is followed."""
    yield ".", os.fstat(repo.root.descriptor)
    pending = list(_MODE_CHECKED)
    while pending:
        path = pending.pop(0)
        status = repo.root.lstat(path)
        if status is None or not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
            continue
        yield path, status
        if stat.S_ISDIR(status.st_mode):
            with repo.root.folder(path) as descriptor:
                pending += [f"{path}/{name}" for name in sorted(os.listdir(descriptor))]


def _committed_run_files(repo: Repository) -> set[str]:
    head = read_head(repo).commit
    if head is None:
        return set()
    listing = repo.git.run("ls-tree", "-z", "--name-only", "--full-tree", head, f"{RUNS_FOLDER}/")
    return {path for name in listing.split(b"\0")[:-1] if (path := os.fsdecode(name)) and _is_run_file(path)}


def _run_files(repo: Repository) -> set[str]:
    try:
        with repo.root.folder(RUNS_FOLDER) as descriptor:
            return {path for name in os.listdir(descriptor) if _is_run_file(path := f"{RUNS_FOLDER}/{name}")}
    except FileNotFoundError:
        return set()


def _is_run_file(path: str) -> bool:
    return path.endswith(".json") and validate_run_id(path.rpartition("/")[2].removesuffix(".json"))


def _read(repo: Repository, path: str) -> bytes:
    try:
        return repo.root.read(path, _MAX_JSON_BYTES)
    except (OSError, UnsafeLayout):
        return b""
