"""The live payload beside HEAD's, and the records in it, each as one consistent moment (`steady.py`)."""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Final, Literal, NamedTuple, Self

from dsh_memory.errors import RepoUnavailable
from dsh_memory.records.metadata import Malformed, Record
from dsh_memory.records.outline import Outline, outline_of
from dsh_memory.repository.committed import committed_payload, parse_committed
from dsh_memory.repository.content import Answered, Content, ContentReader, Kind, RecordCache, is_record_below
from dsh_memory.repository.git import GitFailed
from dsh_memory.repository.layout import PAYLOAD, RECORD_FOLDERS, LiveFile, Scan
from dsh_memory.repository.objects import EXECUTABLE_MODE, FILE_MODE, BlobHasher, Entry
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.outlines import Outlines
from dsh_memory.repository.steady import steady

Scope = Literal["active", "archive", "all"]

#: The record folders of each scope of the contract.
SCOPES: Final[dict[Scope, tuple[str, ...]]] = {
    "active": ("handbook", "rollouts"),
    "archive": ("archive",),
    "all": RECORD_FOLDERS,
}

_IN_PROGRESS: Final = (
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)


@dataclass(frozen=True, slots=True)
class Head:
    """Where HEAD stands: `commit` is None before the first one, `branch` None where HEAD is detached."""

    commit: str | None
    branch: str | None


class IndexEntry(NamedTuple):
    """An entry of Git's index; `stage` is 0 but in a conflict, `tag` the letter of `git ls-files -v`."""

    mode: str
    blob: str
    stage: int
    tag: str


@dataclass(frozen=True, slots=True)
class PayloadView:
    """The worktree's payload and HEAD's.

    `blobs` are the ids of the live files' bytes; `dirty` are the paths whose live bytes or executable bit
    differ from HEAD's, missing and unreadable ones included. `legacy` are the records without front matter.
    `unreadable` are files and folders that could not be read.
    """

    head: Head
    files: dict[str, LiveFile]
    blobs: dict[str, str]
    committed: dict[str, Entry]
    dirty: frozenset[str]
    legacy: tuple[str, ...]
    unreadable: tuple[str, ...]

    @property
    def data_file_count(self) -> int:
        """The contract's `dataFileCount`: live payload files that are not empty."""
        return sum(live.size > 0 for live in self.files.values())


@dataclass(frozen=True, slots=True)
class Survey:
    """What status and health say of the payload; `legacy` are paths, `source` is where it was read."""

    head: Head
    data_file_count: int
    dirty: frozenset[str]
    legacy: tuple[str, ...]
    malformed: tuple[Malformed, ...]
    source: Literal["worktree", "head"]


@dataclass(frozen=True, slots=True)
class RecordSet:
    """The records of a scope and the files that are none, by path; `source` is where they were read.

    `paths` are all payload files, of every scope; `blobs` the blob ids of the files of `records`.
    """

    records: tuple[Record, ...]
    malformed: tuple[Malformed, ...]
    source: Literal["worktree", "head"]
    paths: Collection[str]
    blobs: Mapping[str, str]


def read_head(repo: Repository) -> Head:
    """Where HEAD stands, asked of two git processes; a branch outside `refs/heads/` keeps its full name."""
    try:
        symbolic = repo.git.run("symbolic-ref", "-q", "HEAD", accept=(0, 1))
        commit = repo.git.run("rev-parse", "-q", "--verify", "HEAD^{commit}", accept=(0, 1))
    except GitFailed as failure:
        message = "Git cannot say where HEAD stands. Look with: dsh-memory verify"
        raise RepoUnavailable(message, detail="head-unreadable") from failure
    branch = os.fsdecode(symbolic.removesuffix(b"\n")).removeprefix("refs/heads/")
    return Head(commit.decode("ascii").strip() or None, branch or None)


def read_index(repo: Repository) -> dict[str, list[IndexEntry]]:
    """The payload's entries in Git's index by path, through one git process; several only in a conflict."""
    entries: dict[str, list[IndexEntry]] = {}
    answer = os.fsdecode(repo.git.run("ls-files", "-s", "-v", "-z", "--", *PAYLOAD))
    for line in answer.split("\0")[:-1]:
        facts, _, path = line.partition("\t")
        tag, mode, blob, stage = facts.split(" ")
        entries.setdefault(path, []).append(IndexEntry(mode, blob, int(stage), tag))
    return entries


def in_progress(repo: Repository) -> str | None:
    """The merge, rebase, cherry-pick, revert or bisect begun in the worktree and not ended, by name."""
    for name, operation in _IN_PROGRESS:
        if os.path.lexists(os.path.join(repo.git_dir, name)):
            return operation
    return None


def payload_view(repo: Repository, cache: RecordCache | None = None) -> PayloadView:
    """The worktree's payload beside HEAD's, whoever is changing it; three git processes, one read a file.

    Raises UnsafeLayout, and RepoUnavailable where HEAD's tree cannot be read.
    """
    cache = cache or RecordCache()
    head = read_head(repo)
    committed = committed_payload(repo, head.commit, cache)
    scan = repo.root.scan()
    contents = {content.live.path: content for content in _contents(repo, cache, scan, blob=True)}
    return _view(head, committed, scan, contents)


def survey(repo: Repository, now: datetime, cache: RecordCache | None = None) -> Survey:
    """What status and health say of the payload; raises as `payload_view`."""
    cache = cache or RecordCache()

    def from_worktree() -> Survey:
        head = read_head(repo)
        scan = cache.scan(repo.root)
        known = cache.answer("survey", scan)
        if isinstance(known, Survey) and known.head == head:
            return known
        contents = list(_contents(repo, cache, scan, blob=True))
        found = _survey_live(head, committed_payload(repo, head.commit, cache), scan, contents)
        cache.remember_answer("survey", scan, found, contents, scan.files)
        return found

    def from_head() -> Survey:
        head = read_head(repo)
        committed = committed_payload(repo, head.commit, cache)
        return _survey_committed(
            repo, head, committed, parse_committed(repo, committed, RECORD_FOLDERS, cache)
        )

    return steady(repo, now, from_worktree, from_head)


def survey_with_outlines(
    repo: Repository, now: datetime, cache: RecordCache, outlines: Outlines
) -> tuple[Survey, tuple[Outline, ...]]:
    """The survey and the outlines of all records by path, of one moment; raises as `payload_view`.

    Only files whose outline is not known are parsed.
    """

    def from_worktree() -> tuple[Survey, tuple[Outline, ...]]:
        head = read_head(repo)
        committed = committed_payload(repo, head.commit, cache)
        scan = cache.scan(repo.root)
        contents = list(_contents(repo, cache, scan, blob=True))
        with ContentReader(repo.root, repo.object_format, cache) as reader:
            found = [outlines.of(content, reader) for content in contents]
        outlines.forget_others(scan.files)
        outlined = sorted(outline for outline in found if outline is not None)
        return _survey_live(head, committed, scan, contents), tuple(outlined)

    def from_head() -> tuple[Survey, tuple[Outline, ...]]:
        head = read_head(repo)
        committed = committed_payload(repo, head.commit, cache)
        parsed = parse_committed(repo, committed, RECORD_FOLDERS, cache)
        outlined = tuple(outline_of(record) for record in parsed if isinstance(record, Record))
        return _survey_committed(repo, head, committed, parsed), outlined

    return steady(repo, now, from_worktree, from_head)


def read_records(
    repo: Repository, now: datetime, scope: Scope = "all", cache: RecordCache | None = None
) -> RecordSet:
    """Every record of a scope, each file read once at most and, in the calm case, without a git process.

    Raises as `payload_view`; a file that cannot be read is malformed, one that vanishes is left out.
    """
    cache = cache or RecordCache()
    folders = SCOPES[scope]

    def from_worktree() -> RecordSet:
        scan = cache.scan(repo.root)
        known = cache.answer(scope, scan)
        if isinstance(known, RecordSet):
            return known
        asked = [path for path in scan.files if is_record_below(path, folders)]
        earlier = cache.earlier_answer(scope)
        changed = None if earlier is None else _changed_records(earlier, scan, folders)
        if earlier is None or changed is None or len(changed) >= len(asked):
            contents = list(_contents(repo, cache, scan, blob=True, record=True, among=asked))
            found = _records_live(scan, contents, folders)
        else:
            asked = [path for path in changed if path in scan.files]
            contents = list(_contents(repo, cache, scan, blob=True, record=True, among=asked))
            assert isinstance(earlier.answer, RecordSet)  # noqa: S101
            found = _updated(earlier.answer, _records_live(scan, contents, folders), changed)
        cache.remember_answer(scope, scan, found, contents, asked)
        return found

    def from_head() -> RecordSet:
        committed = committed_payload(repo, read_head(repo).commit, cache)
        return _records_committed(committed, parse_committed(repo, committed, folders, cache))

    return steady(repo, now, from_worktree, from_head)


class PayloadContents:
    """What each payload file holds, its bytes left unread where a cache knows them; use it in a `with` statement.

    `record_blobs` are the blob ids of readable record files by path, `paths` all payload files.
    """

    def __init__(self, repo: Repository, cache: RecordCache) -> None:
        scan = repo.root.scan()
        contents = list(_contents(repo, cache, scan, blob=True))
        self.paths: Collection[str] = scan.files.keys()
        self.malformed = _malformed(scan, contents)
        self.record_blobs = {
            content.live.path: content.blob
            for content in contents
            if content.kind in (Kind.RECORD, Kind.LEGACY) and content.blob is not None
        }
        self._files = scan.files
        self._reader = ContentReader(repo.root, repo.object_format, cache)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.__exit__(kind, error, trace)

    def record(self, path: str) -> Record | None:
        """The record at `path`, read now; None where none is there any more."""
        content = self._reader.read(self._files[path], blob=True, record=True)
        return content.parsed if content is not None and isinstance(content.parsed, Record) else None


def _survey_live(head: Head, committed: dict[str, Entry], scan: Scan, contents: list[Content]) -> Survey:
    view = _view(head, committed, scan, {content.live.path: content for content in contents})
    return Survey(
        head,
        view.data_file_count,
        view.dirty,
        view.legacy,
        _malformed(scan, contents),
        "worktree",
    )


def _survey_committed(
    repo: Repository, head: Head, committed: dict[str, Entry], parsed: list[Record | Malformed]
) -> Survey:
    empty = BlobHasher(repo.object_format).of(b"")
    return Survey(
        head,
        sum(entry.blob != empty for entry in committed.values()),
        frozenset(),
        tuple(record.path for record in parsed if isinstance(record, Record) and record.is_legacy),
        tuple(record for record in parsed if isinstance(record, Malformed)),
        "head",
    )


def _records_live(scan: Scan, contents: list[Content], folders: tuple[str, ...]) -> RecordSet:
    records = [content.parsed for content in contents if isinstance(content.parsed, Record)]
    records.sort(key=lambda record: record.path)
    blobs = {content.live.path: content.blob for content in contents if content.blob is not None}
    return RecordSet(
        tuple(records), _malformed(scan, contents, folders), "worktree", scan.files.keys(), blobs
    )


def _changed_records(earlier: Answered, scan: Scan, folders: tuple[str, ...]) -> set[str] | None:
    """The record files to look at again since an earlier answer; None where that was made of more than files."""
    if scan.unreadable or earlier.scan.unreadable:
        return None
    return {path for path in earlier.changed(scan) if is_record_below(path, folders)}


def _updated(before: RecordSet, again: RecordSet, changed: Container[str]) -> RecordSet:
    """The records of before with those of the changed files, which `again` has, in their place."""
    records = [record for record in before.records if record.path not in changed]
    malformed = [file for file in before.malformed if file.path not in changed]
    return RecordSet(
        tuple(sorted((*records, *again.records), key=lambda record: record.path)),
        tuple(sorted((*malformed, *again.malformed), key=lambda file: file.path)),
        again.source,
        again.paths,
        {path: blob for path, blob in before.blobs.items() if path not in changed} | dict(again.blobs),
    )


def _records_committed(committed: dict[str, Entry], parsed: list[Record | Malformed]) -> RecordSet:
    return RecordSet(
        tuple(record for record in parsed if isinstance(record, Record)),
        tuple(record for record in parsed if isinstance(record, Malformed)),
        "head",
        committed.keys(),
        {path: entry.blob for path, entry in committed.items()},
    )


def _contents(
    repo: Repository,
    cache: RecordCache,
    scan: Scan,
    *,
    blob: bool = False,
    record: bool = False,
    among: Iterable[str] | None = None,
) -> Iterator[Content]:
    """The content of every payload file, or of those `among` them, with its blob id or its record where asked for."""
    cache.forget_others(scan.files)
    with ContentReader(repo.root, repo.object_format, cache) as reader:
        for path in scan.files if among is None else among:
            content = reader.read(scan.files[path], blob=blob, record=record)
            if content is not None:
                yield content


def _view(head: Head, committed: dict[str, Entry], scan: Scan, contents: dict[str, Content]) -> PayloadView:
    files = {path: content.live for path, content in contents.items()}
    blobs = {path: content.blob for path, content in contents.items() if content.blob is not None}
    dirty = committed.keys() - files.keys()
    for path, live in files.items():
        entry = committed.get(path)
        mode = EXECUTABLE_MODE if live.executable else FILE_MODE
        # guard: dirty-is-byte-true
        if entry is None or entry.blob != blobs.get(path) or entry.mode != mode:
            dirty.add(path)
    unreadable = [path for path, content in contents.items() if not content.readable]
    return PayloadView(
        head,
        files,
        blobs,
        committed,
        frozenset(dirty),
        tuple(sorted(path for path, content in contents.items() if content.kind is Kind.LEGACY)),
        tuple(sorted((*scan.unreadable, *unreadable))),
    )


def _malformed(
    scan: Scan, contents: Iterable[Content], folders: tuple[str, ...] = RECORD_FOLDERS
) -> tuple[Malformed, ...]:
    found = [content.parsed for content in contents if isinstance(content.parsed, Malformed)]
    for path in scan.unreadable:
        # What lies in a folder that cannot be read is unknown, which must not look like nothing.
        if path.partition("/")[0] in folders:
            found.append(Malformed(path, "unreadable-file", None, "the folder cannot be read", 0))
    return tuple(sorted(found, key=lambda malformed: malformed.path))
