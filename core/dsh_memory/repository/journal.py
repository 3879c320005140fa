"""The journal: one JSON file for each run under `.sync/runs/`, append-only, read from disk.

Shapes and rules stand in `spec`: repository, "Lock, active run, journal". What happened to an earlier run
later on (rolled back, recovered) is derived from later records, never written into the earlier one.
"""

from __future__ import annotations

import heapq
import math
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from dsh_memory.environment import parse_instant
from dsh_memory.errors import RepoUnavailable, UnsafeLayout
from dsh_memory.repository.jsonfile import parse_json_object, to_json_line
from dsh_memory.repository.layout import Reader, Root
from dsh_memory.repository.watch import FolderWatch

_T = TypeVar("_T")

RUNS_FOLDER: Final = ".sync/runs"
LAST_RUN: Final = ".sync/last-run.json"
DEFAULT_LIMIT: Final = 20

#: A file changed less than this before it was read may have changed again within one tick of its clock.
SETTLED_NS: Final = 2_000_000_000

# A clear of 100,000 records names them all in 5 MB; nothing of ours is larger.
_MAX_RUN_BYTES: Final = 16 * 1024 * 1024
# A preview is journaled under its own id when it is applied, up to seven days after the id was made.
_PREVIEW_SECONDS: Final = 7 * 86400.0
_RUN_ID: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-(?:[0-9a-f]{8}|rollback|migrate-[0-9]{1,10})")
_ID_STAMP: Final = "%Y%m%dT%H%M%SZ"
_STAMP_LENGTH: Final = len("20260820T120000Z")
_SESSION_KEYS: Final = ("candidate_sessions", "processed_sessions", "skipped_sessions")
_LATER_KEYS: Final = ("recovered_run_id", "rolled_back_run_id")


def new_run_id(now: datetime) -> str:
    """A fresh run id: the second, then eight hex digits of which the first three are its milliseconds."""
    instant = now.astimezone(UTC)
    return f"{instant.strftime(_ID_STAMP)}-{instant.microsecond // 1000:03x}{secrets.token_hex(3)[:5]}"


def validate_run_id(text: object) -> bool:
    """Whether `text` has the form of a run id, ours or one of other hands; only such names build paths."""
    # guard: run-id-form
    return isinstance(text, str) and _RUN_ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One journaled run; the fields are the journal's keys, in its order.

    Times are ISO 8601 texts as written. Keys that a record of other hands lacks, or holds with a wrong type,
    are None or empty here. `extra` keeps keys unknown to the journal.
    """

    run_id: str
    operation: str = ""
    status: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    candidate_sessions: int | None = None
    processed_sessions: int | None = None
    skipped_sessions: int | None = None
    changed_paths: tuple[str, ...] = ()
    recovery_commit: str | None = None
    apply_commit: str | None = None
    error_code: str | None = None
    phase: str | None = None
    staging_digest: str | None = None
    duration_ms: int | None = None
    rejected_file_count: int | None = None
    changed_path_count: int | None = None
    recovered_run_id: str | None = None
    rolled_back_run_id: str | None = None
    schema_version: int = 1
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def started(self) -> datetime:
        """When the run started; the id's own time where the record does not say."""
        return parse_instant(self.started_at) or id_instant(self.run_id)

    def to_json(self) -> dict[str, Any]:
        """The record as the contract's object, keys in the journal's order."""
        values: dict[str, Any] = {"schema_version": self.schema_version}
        for key in _KEYS:
            value = getattr(self, key)
            if value is None and key in _LATER_KEYS:
                continue
            values[key] = list(value) if key == "changed_paths" else value
        return {**values, **self.extra}

    def to_bytes(self) -> bytes:
        """The run file: one compact line."""
        return to_json_line(self.to_json())

    def last_run_bytes(self) -> bytes:
        """The same as `.sync/last-run.json` holds it, without the session counts."""
        return to_json_line({key: value for key, value in self.to_json().items() if key not in _SESSION_KEYS})

    @classmethod
    def from_json(cls, values: Mapping[str, Any], run_id: str) -> RunRecord:
        """The record of the JSON object `values`, known as `run_id` whatever it says itself."""
        known: dict[str, Any] = {}
        for key, kind in _KINDS.items():
            value = values.get(key)
            if isinstance(value, kind) and not isinstance(value, bool):
                known[key] = value
        paths = values.get("changed_paths")
        if isinstance(paths, list):
            known["changed_paths"] = tuple(sorted(path for path in paths if isinstance(path, str)))
        known.setdefault("changed_path_count", len(known.get("changed_paths", ())))
        extra = {key: value for key, value in values.items() if key not in _KNOWN_KEYS}
        return cls(run_id=run_id, extra=extra, **known)


_KEYS: Final = tuple(
    entry.name for entry in fields(RunRecord) if entry.name not in ("schema_version", "extra")
)
_KNOWN_KEYS: Final = frozenset((*_KEYS, "schema_version"))
_INTEGERS: Final = (
    *_SESSION_KEYS,
    "duration_ms",
    "rejected_file_count",
    "changed_path_count",
    "schema_version",
)
_KINDS: Final[dict[str, type]] = {
    key: int if key in _INTEGERS else str for key in _KNOWN_KEYS if key not in ("run_id", "changed_paths")
}


def id_instant(run_id: str) -> datetime:
    """The second that a run id names; the epoch where it is no real instant."""
    text = run_id[:_STAMP_LENGTH]
    try:
        return datetime(
            int(text[0:4]),
            int(text[4:6]),
            int(text[6:8]),
            int(text[9:11]),
            int(text[11:13]),
            int(text[13:15]),
            tzinfo=UTC,
        )
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class JournalState:
    """What the journal as a whole says.

    `broken` are the ids whose file is no JSON object. `interrupted` is the newest interrupted run that no
    recover record names. `rolled_back` are the ids that a rollback record names.
    """

    broken: tuple[str, ...]
    interrupted: RunRecord | None
    rolled_back: frozenset[str]

    @property
    def readable(self) -> bool:
        """The contract's `journalReadable`."""
        return not self.broken


class _Facts(NamedTuple):
    """What is remembered of a run file, and the file it was read from."""

    stamp: tuple[int, int, int, int]
    read_at_ns: int
    readable: bool
    started: float
    operation: object
    status: object
    recovered_run_id: object
    rolled_back_run_id: object

    def holds_for(self, stamp: tuple[int, int, int, int]) -> bool:
        """Whether a file with that stamp is the one read; one changed just before the reading may differ."""
        return self.stamp == stamp and self.read_at_ns - stamp[-1] > SETTLED_NS

    def fits(self, operation: str | None, status: str | None, started_from: float) -> bool:
        """Whether the run is readable, passes both filters, and started no earlier than that."""
        return (
            self.readable
            and operation in (None, self.operation)
            and status in (None, self.status)
            and self.started >= started_from
        )


class JournalMemo:
    """What a long-lived process remembers of run files, so that each unchanged file is parsed once.

    As long as no run file changes, the answers themselves are kept.
    """

    def __init__(self) -> None:
        self.facts: dict[str, _Facts] = {}
        self._answers: dict[object, object] = {}
        self._looks = 0
        self._watch = FolderWatch()
        self._lock = threading.Lock()

    def answer(self, question: object, root: Root, read: Callable[[], _T]) -> _T:
        """What `read` answers to the question; the answer known, where the folder of run files is as it was."""
        with self._lock:
            self._looks += 1
            # A process that asks once does not pay for a watch.
            if self._looks == 1 or not self._is_unchanged(root):
                self._answers.clear()
            if question not in self._answers:
                self._answers[question] = read()
            return self._answers[question]  # type: ignore[return-value]

    def _is_unchanged(self, root: Root) -> bool:
        try:
            with root.folder(RUNS_FOLDER) as descriptor:
                return self._watch.is_unchanged(descriptor, root.path)
        except OSError:
            return False

    def forget_others(self, names: list[str]) -> None:
        """Drop what is remembered of files that are gone."""
        if len(self.facts) > len(names):
            present = set(names)
            self.facts = {key: facts for key, facts in self.facts.items() if f"{key}.json" in present}


class Journal:
    """The run files below one root; files that are no run file by their name do not count."""

    def __init__(self, root: Root, memo: JournalMemo | None = None) -> None:
        self._root = root
        self._memo = memo or JournalMemo()

    def runs(
        self, limit: int = DEFAULT_LIMIT, *, operation: str | None = None, status: str | None = None
    ) -> list[RunRecord]:
        """The newest `limit` runs that fit both filters, by start, then id, descending.

        Reads no more files than that takes. Raises RepoUnavailable where the folder cannot be read.
        """
        asked = (limit, operation, status)
        if not all(isinstance(filtered, str | None) for filtered in asked[1:]):
            return []
        return list(self._memo.answer(asked, self._root, lambda: self._runs(limit, operation, status)))

    def _runs(self, limit: int, operation: str | None, status: str | None) -> list[RunRecord]:
        newest: list[tuple[float, str, RunRecord]] = []
        oldest_start = -math.inf
        with self._files() as files:
            for run_id in files.newest_first():
                # Only a preview starts after its id was made, and not later than its lifetime.
                if oldest_start > -math.inf and _id_seconds(run_id) + _PREVIEW_SECONDS < oldest_start:
                    break
                record = files.record(run_id, operation, status, started_from=oldest_start)
                if record is None:
                    continue
                heapq.heappush(newest, (record.started.timestamp(), run_id, record))
                if len(newest) > limit:
                    heapq.heappop(newest)
                if len(newest) == limit:
                    oldest_start = newest[0][0]
        return [record for _, _, record in sorted(newest, key=lambda entry: entry[:2], reverse=True)]

    def find(self, run_id: object) -> RunRecord | None:
        """The run of that id, or None; also for what is not of run-id form and for a broken file."""
        if not isinstance(run_id, str) or not validate_run_id(run_id):
            return None
        with Reader(self._root) as reader:
            try:
                values = _read_object(reader, f"{RUNS_FOLDER}/{run_id}.json")
            except FileNotFoundError:
                return None
        return None if values is None else RunRecord.from_json(values, run_id)

    def last_run(self) -> RunRecord | None:
        """The run of `.sync/last-run.json`; the newest journaled one where that file is missing or broken."""
        with Reader(self._root) as reader:
            try:
                values = _read_object(reader, LAST_RUN)
            except FileNotFoundError:
                values = None
        if values is not None and isinstance(values.get("run_id"), str):
            return RunRecord.from_json(values, values["run_id"])
        return next(iter(self.runs(limit=1)), None)

    def state(self) -> JournalState:
        """What the journal as a whole says; reads every run file that is not remembered."""
        return self._memo.answer("state", self._root, self._state)

    def _state(self) -> JournalState:
        broken: list[str] = []
        interrupted: list[tuple[float, str]] = []
        recovered: set[object] = set()
        rolled_back: set[str] = set()
        with self._files() as files:
            for run_id in files.newest_first():
                facts = files.facts(run_id)
                if facts is None:
                    continue
                if not facts.readable:
                    broken.append(run_id)
                if facts.status == "interrupted":
                    interrupted.append((facts.started, run_id))
                if facts.operation == "recover":
                    recovered.add(facts.recovered_run_id)
                if facts.operation == "rollback" and isinstance(facts.rolled_back_run_id, str):
                    rolled_back.add(facts.rolled_back_run_id)
        unresolved = [entry for entry in interrupted if entry[1] not in recovered]
        newest = self.find(max(unresolved)[1]) if unresolved else None
        return JournalState(tuple(broken), newest, frozenset(rolled_back))

    @contextmanager
    def _files(self) -> Iterator[_RunFiles]:
        with ExitStack() as stack:
            reader = stack.enter_context(Reader(self._root))
            try:
                descriptor = stack.enter_context(self._root.folder(RUNS_FOLDER))
                names = os.listdir(descriptor)
            except FileNotFoundError:
                descriptor, names = self._root.descriptor, []
            except OSError as error:
                raise RepoUnavailable(
                    f"The journal cannot be read: {error.strerror}.", detail="journal-unreadable"
                ) from error
            yield _RunFiles(descriptor, names, reader, self._memo)


class _RunFiles:
    """The run files of one look at the folder."""

    def __init__(self, descriptor: int, names: list[str], reader: Reader, memo: JournalMemo) -> None:
        self._descriptor = descriptor
        self._names = names
        self._reader = reader
        self._memo = memo
        memo.forget_others(names)

    def newest_first(self) -> Iterator[str]:
        """Every run id, the newest first."""
        # Sorted before they are checked: most callers end after a few of many thousand.
        for name in sorted(self._names, reverse=True):
            run_id = name.removesuffix(".json")
            if run_id is not name and validate_run_id(run_id):
                yield run_id

    def record(
        self, run_id: str, operation: str | None, status: str | None, *, started_from: float
    ) -> RunRecord | None:
        """The run if it fits; its file is left unread where it is known beforehand that it does not.

        A file written before `started_from` (its change time says so) cannot hold a run that started later;
        a change time before the id's own instant proves nothing, that clock was wrong.
        """
        stamp = self._stamp(run_id)
        if stamp is None:
            return None
        changed_at = stamp[-1] / 1e9
        if changed_at < started_from and changed_at >= _id_seconds(run_id):
            return None
        known = self._memo.facts.get(run_id)
        if known is not None and known.holds_for(stamp) and not known.fits(operation, status, started_from):
            return None
        read = self._read(run_id, stamp)
        if read is None:
            return None
        values, facts = read
        fits = facts.fits(operation, status, started_from)
        return RunRecord.from_json(values, run_id) if fits else None

    def facts(self, run_id: str) -> _Facts | None:
        """What the run file says, from memory where the file has not changed; None where it is gone."""
        stamp = self._stamp(run_id)
        if stamp is None:
            return None
        known = self._memo.facts.get(run_id)
        if known is not None and known.holds_for(stamp):
            return known
        read = self._read(run_id, stamp)
        return None if read is None else read[1]

    def _stamp(self, run_id: str) -> tuple[int, int, int, int] | None:
        try:
            status = os.stat(f"{run_id}.json", dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def _read(self, run_id: str, stamp: tuple[int, int, int, int]) -> tuple[dict[str, Any], _Facts] | None:
        read_at = time.time_ns()
        try:
            parsed = _read_object(self._reader, f"{RUNS_FOLDER}/{run_id}.json")
        except FileNotFoundError:
            return None
        values = parsed or {}
        started = parse_instant(values.get("started_at")) or id_instant(run_id)
        facts = _Facts(
            stamp,
            read_at,
            parsed is not None,
            started.timestamp(),
            *(values.get(key) for key in ("operation", "status", *_LATER_KEYS)),
        )
        self._memo.facts[run_id] = facts
        return values, facts


def _read_object(reader: Reader, path: str) -> dict[str, Any] | None:
    try:
        return parse_json_object(reader.read(path, _MAX_RUN_BYTES))
    except FileNotFoundError:
        raise
    except (OSError, UnsafeLayout):
        # A link, a special file, or one that may not be read is a broken file; it is never followed.
        return None


@lru_cache(maxsize=1 << 14)
def _id_seconds(run_id: str) -> float:
    return id_instant(run_id).timestamp()
