"""What each payload file holds: its blob id and, for a record file, the record; read once and remembered.

Blob ids are computed from the bytes, never asked of Git's index: no filter, attribute, line-ending rule or
index flag can make a changed file look unchanged.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Container, Iterable
from enum import Enum
from types import TracebackType
from typing import Final, NamedTuple, Self

from dsh_memory.records.metadata import MAX_RECORD_BYTES, Malformed, Record, oversized, read_record
from dsh_memory.repository.journal import SETTLED_NS
from dsh_memory.repository.layout import RECORD_FOLDERS, LiveFile, Reader, Root, Scan
from dsh_memory.repository.objects import BlobHasher, Entry
from dsh_memory.repository.watch import PayloadWatch

_DEFAULT_CACHE_BYTES: Final = 64 * 1024 * 1024
# What a parsed record takes beside its body, measured.
_RECORD_OVERHEAD: Final = 1024


class Kind(Enum):
    """What a payload file is to the contract; `OTHER` are summary.md and files that are no Markdown."""

    RECORD = "record"
    LEGACY = "legacy"
    MALFORMED = "malformed"
    OTHER = "other"


class Content(NamedTuple):
    """One payload file as it was read.

    `blob` is None where it was not asked for or the file cannot be read. `parsed` is the record, or why it is
    none; None for other files and where a record was not kept.
    """

    live: LiveFile
    read_at_ns: int
    blob: str | None
    kind: Kind
    parsed: Record | Malformed | None
    readable: bool = True

    def holds_for(self, live: LiveFile) -> bool:
        """Whether `live` is the file as it was read; one changed just before may have changed again."""
        return self.live == live and self.read_at_ns - max(live.mtime_ns, live.ctime_ns) > SETTLED_NS


class Answered(NamedTuple):
    """What was made of a scan; `doubtful` are the paths whose files may have changed while they were read."""

    scan: Scan
    answer: object
    doubtful: frozenset[str]

    def changed(self, scan: Scan) -> set[str]:
        """The paths that a later scan has otherwise, or that were doubtful then."""
        before, now = self.scan.files, scan.files
        changed = {path for path, live in now.items() if before.get(path) != live}
        return changed | (before.keys() - now.keys()) | self.doubtful


class RecordCache:
    """What a long-lived process remembers between calls; safe to use from several threads.

    Records are kept up to `max_bytes`; of the rest only the blob id and the kind.
    """

    def __init__(self, max_bytes: int = _DEFAULT_CACHE_BYTES) -> None:
        self.preloaded = False
        """Whether it was given what earlier processes knew."""
        self.read_anew = 0
        """How many files were read since the contents were last taken from or given to a catalog."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._contents: dict[str, Content] = {}
        self._committed: tuple[str, dict[str, Entry]] | None = None
        self._answers: dict[str, Answered] = {}
        self.last_scan: Scan | None = None
        """The payload as it was walked last."""
        self._walks = 0
        self._watch = PayloadWatch()
        self._lock = threading.Lock()

    def scan(self, root: Root) -> Scan:
        """The payload as it is now; the very same object as last time if nothing has changed.

        The first call walks: a process that asks once does not pay for a watch.
        """
        self._walks += 1
        self.last_scan = root.scan() if self._walks == 1 else self._watch.scan(root)
        return self.last_scan

    def answer(self, question: str, scan: Scan) -> object | None:
        """What was answered from exactly this scan, if nothing about it is doubtful."""
        known = self._answers.get(question)
        return known.answer if known is not None and known.scan is scan and not known.doubtful else None

    def earlier_answer(self, question: str) -> Answered | None:
        """What was answered last, whatever has changed since."""
        return self._answers.get(question)

    def remember_answer(
        self, question: str, scan: Scan, answer: object, contents: Iterable[Content], asked: Iterable[str]
    ) -> None:
        """Keep an answer that was made of these contents of the files `asked` for."""
        certain = {
            content.live.path for content in contents if content.readable and content.holds_for(content.live)
        }
        self._answers[question] = Answered(scan, answer, frozenset(asked) - certain)

    def get(self, path: str) -> Content | None:
        """What is remembered of a file."""
        return self._contents.get(path)

    def preload(self, contents: Iterable[Content]) -> None:
        """Take what earlier processes knew, where nothing is known yet."""
        with self._lock:
            self.preloaded = True
            for content in contents:
                self._contents.setdefault(content.live.path, content)

    def contents(self) -> list[Content]:
        """Everything remembered, for a catalog to keep."""
        with self._lock:
            self.read_anew = 0
            return list(self._contents.values())

    def remember(self, content: Content) -> None:
        """Keep what was read, in place of what was known."""
        with self._lock:
            self.read_anew += 1
            self._bytes -= _cost(self._contents.pop(content.live.path, None))
            cost = _cost(content)
            if self._bytes + cost > self._max_bytes:
                content, cost = content._replace(parsed=None), 0
            self._bytes += cost
            self._contents[content.live.path] = content

    def forget_others(self, paths: Container[str]) -> None:
        """Drop what is remembered of files that are gone."""
        with self._lock:
            for path in [path for path in self._contents if path not in paths]:
                self._bytes -= _cost(self._contents.pop(path))

    def committed(self, commit: str) -> dict[str, Entry] | None:
        """The payload of a commit, if it is the one remembered."""
        known = self._committed
        return known[1] if known is not None and known[0] == commit else None

    def remember_committed(self, commit: str, payload: dict[str, Entry]) -> None:
        """Keep a commit's payload in place of the one known."""
        self._committed = (commit, payload)


class ContentReader:
    """Reads payload files, or takes from the cache what has not changed; use it in a `with` statement."""

    def __init__(self, root: Root, object_format: str, cache: RecordCache) -> None:
        self._reader = Reader(root)
        self._hasher = BlobHasher(object_format)
        self._cache = cache

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.__exit__(kind, error, trace)

    @property
    def files_read(self) -> int:
        """How many files were opened so far."""
        return self._reader.files_read

    def read(self, live: LiveFile, *, blob: bool, record: bool) -> Content | None:
        """The file's content with its blob id and its record, where asked for; None if the file is gone.

        Raises UnsafeLayout for what became a link or special file.
        """
        known = self._cache.get(live.path)
        if (
            known is not None
            and known.holds_for(live)
            and (known.blob is not None or not blob)
            and (known.parsed is not None or not record or known.kind is Kind.OTHER)
        ):
            return known
        read_at = time.time_ns()
        try:
            content = self._read(live, read_at, blob)
        except FileNotFoundError:
            return None
        except OSError as error:
            # Not remembered: permissions change without the file's own times.
            return _unreadable(live, read_at, error)
        self._cache.remember(content)
        return content

    def _read(self, live: LiveFile, read_at: int, blob: bool) -> Content:
        path = live.path
        data = b"" if live.size > MAX_RECORD_BYTES else self._reader.read(path, MAX_RECORD_BYTES)
        if live.size > MAX_RECORD_BYTES or len(data) > MAX_RECORD_BYTES:
            return self._read_oversized(live, read_at, blob)
        blob_id = self._hasher.of(data) if blob else None
        if not is_record_path(path):
            return Content(live, read_at, blob_id, Kind.OTHER, None)
        parsed = read_record(path, data)
        return Content(live, read_at, blob_id, _kind(parsed), parsed)

    def _read_oversized(self, live: LiveFile, read_at: int, blob: bool) -> Content:
        blob_id = None
        if blob:
            descriptor, _ = self._reader.open(live.path)
            try:
                blob_id = self._hasher.of_file(descriptor)
            finally:
                os.close(descriptor)
        if not is_record_path(live.path):
            return Content(live, read_at, blob_id, Kind.OTHER, None)
        return Content(live, read_at, blob_id, Kind.MALFORMED, oversized(live.path, live.size))


def is_record_path(path: str) -> bool:
    """Whether the payload file at `path` is a record file: Markdown below one of the three folders."""
    return path.endswith(".md") and path.partition("/")[0] in RECORD_FOLDERS


def is_record_below(path: str, folders: tuple[str, ...]) -> bool:
    """Whether the payload file at `path` is a record file of one of `folders`."""
    return is_record_path(path) and path.partition("/")[0] in folders


def _kind(parsed: Record | Malformed) -> Kind:
    if isinstance(parsed, Malformed):
        return Kind.MALFORMED
    return Kind.LEGACY if parsed.is_legacy else Kind.RECORD


def _unreadable(live: LiveFile, read_at: int, error: OSError) -> Content:
    if not is_record_path(live.path):
        return Content(live, read_at, None, Kind.OTHER, None, readable=False)
    message = f"the file cannot be read: {os.strerror(error.errno or 0)}"
    malformed = Malformed(live.path, "unreadable-file", None, message, live.size)
    return Content(live, read_at, None, Kind.MALFORMED, malformed, readable=False)


def _cost(content: Content | None) -> int:
    if content is None or not isinstance(content.parsed, Record):
        return 0
    return len(content.parsed.body) + _RECORD_OVERHEAD
