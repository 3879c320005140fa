"""What the read methods of the contract answer: an open repository in, the contract's value out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Generic, Literal, TypeVar

from dsh_memory.environment import Environment
from dsh_memory.errors import ContextFailure
from dsh_memory.records.legacy import generated_header
from dsh_memory.records.metadata import SCHEMA_VERSION, Malformed, Record
from dsh_memory.repository.catalog import keep_contents, recall_contents
from dsh_memory.repository.content import RecordCache
from dsh_memory.repository.journal import DEFAULT_LIMIT, Journal, JournalMemo, RunRecord
from dsh_memory.repository.legacy_dates import legacy_dates
from dsh_memory.repository.lock import read_active_run, read_lock
from dsh_memory.repository.objects import BlobHasher
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.previews import Preview, PreviewMemo, list_previews
from dsh_memory.repository.steady import steady
from dsh_memory.repository.usage import Hit, Usage, read_usage, record_reads
from dsh_memory.repository.view import (
    SCOPES,
    PayloadContents,
    RecordSet,
    Scope,
    Survey,
    read_head,
    read_records,
    survey,
)
from dsh_memory.search.context import choose, cut
from dsh_memory.search.index import Corpus, RecordIndex, kept_corpus
from dsh_memory.search.ranking import snippet, tokenize
from dsh_memory.search.segment import Segment

T = TypeVar("T")

_SEARCH_LIMIT = 20
_CONTEXT_LIMIT = 10


@dataclass(slots=True)
class Memo:
    """What a long-lived service keeps between calls: what was parsed of files, never an answer."""

    records: RecordCache = field(default_factory=RecordCache)
    runs: JournalMemo = field(default_factory=JournalMemo)
    previews: PreviewMemo = field(default_factory=PreviewMemo)
    index: RecordIndex | None = None
    read_all: bool = False


@dataclass(frozen=True, slots=True)
class Consulted(Generic[T]):
    """What was made of the records; how many malformed files were left out; the paths of all payload files."""

    result: T
    skipped: int
    paths: Collection[str]


@dataclass(frozen=True, slots=True)
class Call:
    """One call: the open repository, the moment it is answered for, and what is remembered."""

    repository: Repository
    now: datetime
    memo: Memo

    @property
    def environment(self) -> Environment:
        return self.repository.environment

    @property
    def journal(self) -> Journal:
        return Journal(self.repository.root, self.memo.runs)

    def survey(self) -> Survey:
        """The payload as status and health count it."""
        recall_contents(self.repository, self.memo.records)
        found = survey(self.repository, self.now, self.memo.records)
        keep_contents(self.repository, self.memo.records)
        return found

    def records(self) -> RecordSet:
        """All records, expired ones included."""
        return read_records(self.repository, self.now, "all", self.memo.records)

    def consult(self, folders: tuple[str, ...], use: Callable[[Corpus], T]) -> Consulted[T]:
        """What `use` makes of the records below `folders` that can match now."""
        today = self.now.date()
        if self.memo.index is None:
            self.memo.index = RecordIndex(self.environment.cache_dir)
            if self.memo.index.segment is not None:
                kept = self._consult_kept(self.memo.index.segment, folders, today, use)
                if kept is not None:
                    return kept
        self.memo.read_all = True
        found = self.records()
        corpus = self.memo.index.corpus(found.records, found.blobs, folders, today)
        return Consulted(use(corpus), _below(found.malformed, folders), found.paths)

    def _consult_kept(
        self, segment: Segment, folders: tuple[str, ...], today: date, use: Callable[[Corpus], T]
    ) -> Consulted[T] | None:
        """The same for a process that asks for the first time: of the files only those are read that are answered."""
        repository, cache = self.repository, self.memo.records
        recall_contents(repository, cache)

        def from_worktree() -> Consulted[T] | None:
            with PayloadContents(repository, cache) as contents:
                corpus = kept_corpus(segment, contents.record_blobs, folders, today, contents.record)
                if corpus is None:
                    return None
                return Consulted(use(corpus), _below(contents.malformed, folders), contents.paths)

        try:
            return steady(repository, self.now, from_worktree, lambda: None)
        except LookupError:
            # A file that was to be answered is gone by now: read all as it is.
            return None

    def warm(self) -> None:
        """Read all records and make the index of the scope that a search has unless told otherwise."""
        if self.memo.index is None:
            self.memo.index = RecordIndex(self.environment.cache_dir)
        self.memo.read_all = True
        self.consult(SCOPES["active"], lambda _corpus: None)

    def keep_index(self) -> None:
        """For a process about to end: leave the next one an index, where that makes it much faster."""
        if self.memo.index is None or not self.memo.read_all:
            return
        found = self.records()
        if self.memo.index.is_worth_building(found.records, found.blobs):
            self.memo.index.build(found.records, found.blobs)
        keep_contents(self.repository, self.memo.records)

    def pending_previews(self) -> tuple[Preview, ...]:
        """Pending previews, newest first."""
        return list_previews(self.repository.root, self.now, self.memo.previews).pending


def status(call: Call) -> dict[str, Any]:
    """`memory.status`"""
    payload = call.survey()
    last = call.journal.last_run()
    previews = call.pending_previews()
    return {
        "empty": payload.data_file_count == 0,
        "dataFileCount": payload.data_file_count,
        "targetDirty": bool(payload.dirty),
        "recoverable": payload.head.commit is not None,
        "schemaVersion": SCHEMA_VERSION,
        "legacyFileCount": len(payload.legacy),
        "malformedFileCount": len(payload.malformed),
        "pendingMigration": bool(payload.legacy),
        "lastRun": None if last is None else _last_run(last),
        "pendingPreview": _newest(previews),
    }


def health(call: Call) -> dict[str, Any]:
    """`memory.health`"""
    root = call.repository.root
    payload = call.survey()
    lock = read_lock(root, call.now)
    active = read_active_run(root, call.now)
    journal = call.journal.state()
    previews = call.pending_previews()
    interrupted = active is not None and active.state == "interrupted"
    return {
        "memoryRoot": call.environment.shown_root,
        "rootSafe": True,
        "gitAvailable": True,
        "dataFileCount": payload.data_file_count,
        "payloadDirty": bool(payload.dirty),
        "operationLock": None
        if lock is None
        else {
            "operation": lock.operation,
            "pid": lock.pid,
            "runId": lock.run_id,
            "startedAt": lock.started_at,
            "active": lock.active,
        },
        "activeRun": None
        if active is None
        else {
            "run_id": active.run_id,
            "operation": active.operation,
            "status": active.status,
            "phase": active.phase,
            "pid": active.pid,
            "started_at": active.started_at,
            "state": active.state,
        },
        "interruptedRun": None if journal.interrupted is None else journal.interrupted.to_json(),
        "pendingPreview": _newest(previews),
        "pendingPreviewCount": len(previews),
        "journalReadable": journal.readable,
        "needsManualRecovery": bool(payload.dirty)
        or interrupted
        or journal.interrupted is not None
        or not journal.readable,
        "malformedRecords": [_malformed(file) for file in payload.malformed],
    }


def runs(call: Call, limit: int | None, operation: object, status: object) -> dict[str, Any]:
    """`memory.runs`; a filter that is no text fits no run."""
    wanted = [value for value in (operation, status) if value is not None]
    if not all(isinstance(value, str) for value in wanted):
        return {"runs": []}
    found = call.journal.runs(
        limit or DEFAULT_LIMIT,
        operation=operation if isinstance(operation, str) else None,
        status=status if isinstance(status, str) else None,
    )
    return {"runs": [run.to_json() for run in found]}


def previews(call: Call) -> dict[str, Any]:
    """`memory.previews`"""
    return {"previews": [preview.to_json() for preview in call.pending_previews()]}


def legacy_records(call: Call) -> dict[str, Any]:
    """`memory.legacyRecords`"""
    records = _legacy_records(call)
    return {"count": len(records), "pendingMigration": bool(records), "records": records}


def migrate_legacy(call: Call, dry_run: Literal[True]) -> dict[str, Any]:
    """`memory.migrateLegacy({dryRun: true})`"""
    records = _legacy_records(call)
    return {
        "dryRun": True,
        "status": "pending" if records else "no_change",
        "legacyCount": len(records),
        "migratedCount": 0,
        "changedPaths": [record["path"] for record in records],
        "records": records,
        "recoveryCommit": None,
        "applyCommit": None,
        "journalCommit": None,
    }


def _legacy_records(call: Call) -> list[dict[str, Any]]:
    repository = call.repository
    legacy = {record.path: record for record in call.records().records if record.is_legacy}
    hasher = BlobHasher(repository.object_format)
    files = {}
    for path, record in legacy.items():
        live = repository.root.lstat(path)
        modified_ns = live.st_mtime_ns if live is not None else int(call.now.timestamp() * 1e9)
        files[path] = (hasher.of(record.body), modified_ns)
    dates = legacy_dates(repository.git, read_head(repository).commit, files)
    return [
        {
            "path": path,
            "id": record.id,
            "frontMatter": generated_header(path, *dates[path]).decode(),
            "createdAt": dates[path].created_at,
            "updatedAt": dates[path].updated_at,
            "bytes": record.size,
        }
        for path, record in legacy.items()
    ]


def search(call: Call, query: str, limit: int | None, scope: Scope | None) -> dict[str, Any]:
    """`memory.search`"""
    tokens = tokenize(query)
    wanted = limit or _SEARCH_LIMIT
    found = call.consult(SCOPES[scope or "active"], lambda corpus: corpus.rank(tokens, wanted))
    count, hits = found.result
    usage = _usage_if_readable(call)
    return {
        "query": query,
        "count": count,
        "results": [
            {
                "path": hit.record.path,
                "score": hit.score,
                "id": hit.record.id,
                "type": hit.record.type,
                "updated_at": hit.record.updated_at,
                "content_hash": hit.record.content_hash,
                "generation": usage.of(hit.record.path).generation,
                "source_rollouts": _source_rollouts(hit.record),
                "snippet": snippet(hit.record.text, tokens),
                "citation": hit.record.citation,
            }
            for hit in hits
        ],
        "skipped": found.skipped,
    }


def context(call: Call, query: str | None, limit: int | None, scope: Scope | None) -> dict[str, Any]:
    """`memory.context`; counts the returned records as used, where the sidecar can be written."""
    repository = call.repository
    usage = read_usage(repository.root)
    tokens = None if query is None else tokenize(query)
    wanted = limit or _CONTEXT_LIMIT
    found = call.consult(SCOPES[scope or "active"], lambda corpus: choose(corpus, tokens, wanted, usage))
    chosen = found.result
    read = [Hit(pick.record.path, pick.record.id, pick.record.content_hash) for pick in chosen]
    counted = (
        record_reads(repository.root, repository.common_dir, read, call.now, found.paths) if read else {}
    )
    records = []
    for pick in chosen:
        record = pick.record
        entry = usage.of(record.path) if counted is None else counted[record.path]
        content, truncated = cut(record.text)
        answer = {
            "path": record.path,
            "id": record.id,
            "type": record.type,
            "content": content,
            "truncated": truncated,
            "citation": record.citation,
            "usage_count": entry.usage_count,
            "last_usage": entry.last_usage,
            "logical_id": record.id,
            "generation": entry.generation,
            "content_hash": record.content_hash,
            "source_rollouts": _source_rollouts(record),
        }
        if pick.score is not None:
            answer["score"] = pick.score
        records.append(answer)
    return {
        "query": query,
        "count": len(records),
        "records": records,
        "usageRecorded": counted is not None,
        "skipped": found.skipped,
    }


def _usage_if_readable(call: Call) -> Usage:
    try:
        return read_usage(call.repository.root)
    except ContextFailure:
        # Only context answers `usage-invalid`; search goes on as if nothing had been counted.
        return Usage()


def _below(malformed: Iterable[Malformed], folders: tuple[str, ...]) -> int:
    return sum(file.path.partition("/")[0] in folders for file in malformed)


def _source_rollouts(record: Record) -> list[str]:
    return [] if record.metadata is None else list(record.metadata.source_rollouts)


def _last_run(run: RunRecord) -> dict[str, Any]:
    return {
        "runId": run.run_id,
        "status": run.status,
        "changedFileCount": len(run.changed_paths),
        "applyCommit": run.apply_commit,
    }


def _newest(pending: Sequence[Preview]) -> dict[str, Any] | None:
    return pending[0].to_json() if pending else None


def _malformed(file: Malformed) -> dict[str, Any]:
    return {"path": file.path, "code": file.code, "line": file.line, "message": file.message}
