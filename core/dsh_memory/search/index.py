"""The index of a whole memory: exact answers from a segment, and plainly from the records that changed since.

A segment is built in the background and never changed; what it does not hold is scored by `ranking` as if there were no
index, so an answer never waits for one and never differs from plain reading.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from dsh_memory.records.metadata import Record, hidden_from, is_shown
from dsh_memory.search import bits
from dsh_memory.search.ranking import Hit, matching, rank, search_text, telling, tie_key
from dsh_memory.search.segment import Document, Segment
from dsh_memory.search.segment_file import load, save

#: Below this many records, scoring them all takes less than a screen's frame.
WORTH_INDEXING = 500
# A larger share of changed records than this is scored more slowly than a new segment is worth.
_STALE_SHARE = 0.05
_FILE_NAME = "segment-1"


class Candidate(NamedTuple):
    """A record that may be answered, by what it is ordered by; `get` reads it whole."""

    path: str
    id: str
    get: Callable[[], Record]


@dataclass(frozen=True, slots=True)
class Group:
    """Records of a corpus that nothing has put in an order yet: `members` of its segment, and `others`."""

    corpus: Corpus
    members: int
    others: Sequence[Record]

    def __iter__(self) -> Iterator[Candidate]:
        yield from map(_candidate, self.others)
        yield from map(self._candidate_of, bits.numbers(self.members))

    def first(self, limit: int, apart: Iterable[str]) -> Iterator[Candidate]:
        """All records whose paths are among `apart`, and of the rest at least the first `limit` by id and path."""
        yield from map(_candidate, self.others)
        if self.corpus.segment is not None:
            numbers = self.corpus.segment.first_by_id(self.members, limit, apart)
            yield from map(self._candidate_of, numbers)

    def _candidate_of(self, document: int) -> Candidate:
        segment = self.corpus.segment
        assert segment is not None  # noqa: S101
        return Candidate(
            segment.paths[document], segment.ids[document], lambda: self.corpus.record_of(document)
        )


@dataclass(frozen=True, slots=True)
class Corpus:
    """The records of one moment that can match: of the folders wanted, not expired.

    `live` are the documents of `segment` among them, and `record_of` gives the record of one; `others` are those that
    the segment does not hold.
    """

    segment: Segment | None
    live: int
    record_of: Callable[[int], Record]
    others: Sequence[Record]

    def rank(self, tokens: Sequence[str], limit: int) -> tuple[int, list[Hit]]:
        """The number of all matches and the best `limit` of them, exactly as `ranking.rank` has them."""
        count, hits = rank(self.others, tokens, limit)
        if self.segment is None:
            return count, hits
        in_segment, matches = self.segment.best(tokens, self.live, limit)
        tie_tokens = telling(tokens)
        found: list[tuple[tuple[int, float, int, str], Callable[[], Hit]]] = []
        for hit in hits:
            key = tie_key(hit.record.path, hit.record.text.lower(), tie_tokens)
            found.append(((-hit.score, *key), lambda hit=hit: hit))  # type: ignore[misc]
        for match in matches:
            path = self.segment.paths[match.document]
            found.append(
                (
                    (-match.score, -match.relevance, match.words, path),
                    lambda match=match: Hit(self.record_of(match.document), match.score),  # type: ignore[misc]
                )
            )
        found.sort(key=lambda pair: pair[0])
        return count + in_segment, [get() for _, get in found[:limit]]

    def groups(self, tokens: Sequence[str]) -> Iterator[tuple[int, Group]]:
        """All matches, those of one score together, highest score first."""
        others: dict[int, list[Record]] = {}
        for hit in matching(self.others, tokens):
            others.setdefault(hit.score, []).append(hit.record)
        members = {} if self.segment is None else dict(self.segment.groups(tokens, self.live))
        for score in sorted(others.keys() | members.keys(), reverse=True):
            yield score, Group(self, members.get(score, 0), others.get(score, ()))

    def everything(self) -> Group:
        """All records."""
        return Group(self, self.live, self.others)


class RecordIndex:
    """Keeps the segment of one root up to date; safe to use from several threads.

    `folder` is where it is kept between processes, `start` runs a job later (without it, in a thread of its own).
    """

    def __init__(
        self, folder: str | None = None, start: Callable[[Callable[[], None]], None] | None = None
    ) -> None:
        self._file = None if folder is None else os.path.join(folder, _FILE_NAME)
        self._start = start or _in_thread
        self._lock = threading.Lock()
        self._building = False
        self._asked = False
        self._fresh: Sequence[Record] | None = None
        self._corpora: dict[tuple[str, ...], tuple[Sequence[Record], date, Segment | None, Corpus]] = {}
        self._segment: Segment | None = None if self._file is None else load(self._file)

    @property
    def segment(self) -> Segment | None:
        """The segment there is, which may be of an earlier state of the memory."""
        return self._segment

    def corpus(
        self, records: Sequence[Record], blobs: Mapping[str, str], folders: tuple[str, ...], today: date
    ) -> Corpus:
        """What can match on that day: `records` are all of the memory, of which those below `folders` are wanted.

        `blobs` are the blob ids of their files. The very same sequence as last time means that nothing has changed.
        """
        segment = self._segment
        known = self._corpora.get(folders)
        if known is not None and known[0] is records and known[1:3] == (today, segment):
            corpus = known[3]
        else:
            corpus = _corpus(segment, records, blobs, folders, today)
            self._corpora[folders] = (records, today, segment, corpus)
        # A process that asks once does not pay for a segment.
        if self._asked and len(records) >= WORTH_INDEXING and self._is_stale(segment, records, blobs):
            self._build_later(records, blobs)
        self._asked = True
        return corpus

    def build(self, records: Iterable[Record], blobs: Mapping[str, str]) -> None:
        """Make the segment anew from these records, and keep it."""
        self._segment = segment = Segment.build(
            Document(
                blobs[record.path],
                record.path,
                search_text(record),
                record.id,
                hidden_from(record),
            )
            for record in records
        )
        if self._file is not None:
            save(segment, self._file)

    def is_worth_building(self, records: Sequence[Record], blobs: Mapping[str, str]) -> bool:
        """Whether a new segment would answer much faster than the one there is."""
        return len(records) >= WORTH_INDEXING and self._is_stale(self._segment, records, blobs)

    def _is_stale(self, segment: Segment | None, records: Sequence[Record], blobs: Mapping[str, str]) -> bool:
        if segment is None:
            return True
        if self._fresh is records:
            return False
        held = segment.numbers
        missing = sum((record.path, blobs[record.path]) not in held for record in records)
        stale = missing + max(0, segment.size - len(records)) > _STALE_SHARE * len(records)
        if not stale:
            self._fresh = records
        return stale

    def _build_later(self, records: Sequence[Record], blobs: Mapping[str, str]) -> None:
        with self._lock:
            if self._building:
                return
            self._building = True

        def job() -> None:
            try:
                self.build(records, blobs)
            finally:
                self._building = False

        self._start(job)


def kept_corpus(
    segment: Segment,
    files: Mapping[str, str],
    folders: tuple[str, ...],
    today: date,
    read: Callable[[str], Record | None],
) -> Corpus | None:
    """What can match of the record files given as path -> blob id, without reading those that the segment holds.

    `read` reads one file: None where it is no record. None where so much has changed that all had better be read.
    """
    live: list[int] = []
    others: list[Record] = []
    changed = [path for path, blob in files.items() if (path, blob) not in segment.numbers]
    if len(changed) > max(WORTH_INDEXING, _STALE_SHARE * len(files)):
        return None
    for path, blob in files.items():
        number = segment.numbers.get((path, blob))
        if number is not None and path.partition("/")[0] in folders:
            expires_at = segment.expiries[number]
            if expires_at is None or expires_at > today.isoformat():
                live.append(number)
    for path in changed:
        record = read(path)
        if record is not None and path.partition("/")[0] in folders and is_shown(record, today):
            others.append(record)

    def record_of(document: int) -> Record:
        record = read(segment.paths[document])
        if record is None:
            raise LookupError(segment.paths[document])
        return record

    return Corpus(segment, bits.from_numbers(live, segment.size), record_of, others)


def _corpus(
    segment: Segment | None,
    records: Iterable[Record],
    blobs: Mapping[str, str],
    folders: tuple[str, ...],
    today: date,
) -> Corpus:
    wanted = [
        record for record in records if record.path.partition("/")[0] in folders and is_shown(record, today)
    ]
    record_of: dict[int, Record] = {}
    if segment is None:
        return Corpus(None, 0, record_of.__getitem__, wanted)
    others = []
    for record in wanted:
        number = segment.numbers.get((record.path, blobs[record.path]))
        if number is None:
            others.append(record)
        else:
            record_of[number] = record
    return Corpus(segment, bits.from_numbers(record_of, segment.size), record_of.__getitem__, others)


def _candidate(record: Record) -> Candidate:
    return Candidate(record.path, record.id, lambda: record)


def _in_thread(job: Callable[[], None]) -> None:
    threading.Thread(target=job, name="dsh-memory-index", daemon=True).start()
