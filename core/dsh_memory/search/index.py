"""The index of a whole memory: exact answers from a segment, and plainly from the records that changed since.

A segment is built in the background and never changed; what it does not hold is scored by `ranking` as if there were no
index, so an answer never waits for one and never differs from plain reading.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from dsh_memory.records.metadata import Record, is_expired
from dsh_memory.search import bits
from dsh_memory.search.ranking import Hit, matching, rank, search_text, telling, tie_key
from dsh_memory.search.segment import Document, Segment

#: Below this many records, scoring them all takes less than a screen's frame.
WORTH_INDEXING = 500
# A larger share of changed records than this is scored more slowly than a new segment is worth.
_STALE_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Corpus:
    """The records of one moment that can match: of the folders wanted, not expired.

    `live` are the documents of `segment` among them, `record_of` their records by document number, `others` those that
    the segment does not hold.
    """

    segment: Segment | None
    live: int
    record_of: Sequence[Record | None]
    others: Sequence[Record]

    def rank(self, tokens: Sequence[str], limit: int) -> tuple[int, list[Hit]]:
        """The number of all matches and the best `limit` of them, exactly as `ranking.rank` has them."""
        count, hits = rank(self.others, tokens, limit)
        if self.segment is None:
            return count, hits
        in_segment, matches = self.segment.best(tokens, self.live, limit)
        tie_tokens = telling(tokens)
        keyed = [((-hit.score, *tie_key(hit.record.path, hit.record.text.lower(), tie_tokens)), hit) for hit in hits]
        for match in matches:
            record = self._record(match.document)
            keyed.append(((-match.score, -match.relevance, match.words, record.path), Hit(record, match.score)))
        keyed.sort(key=lambda pair: pair[0])
        return count + in_segment, [hit for _, hit in keyed[:limit]]

    def groups(self, tokens: Sequence[str]) -> Iterator[list[Hit]]:
        """All matches, those of one score together, highest score first."""
        found: dict[int, list[Hit]] = {}
        for hit in matching(self.others, tokens):
            found.setdefault(hit.score, []).append(hit)
        if self.segment is not None:
            for score, members in self.segment.groups(tokens, self.live):
                hits = found.setdefault(score, [])
                hits.extend(Hit(self._record(document), score) for document in bits.numbers(members))
        for score in sorted(found, reverse=True):
            yield found[score]

    def records(self) -> Iterator[Record]:
        """All records."""
        yield from self.others
        for document in bits.numbers(self.live):
            yield self._record(document)

    def _record(self, document: int) -> Record:
        record = self.record_of[document]
        assert record is not None, "a live document has a record"  # noqa: S101
        return record


class RecordIndex:
    """Keeps the segment of one root up to date; safe to use from several threads."""

    def __init__(self, start: Callable[[Callable[[], None]], None] | None = None) -> None:
        """`start` runs a job later; without it, in a thread of its own."""
        self._start = start or _in_thread
        self._lock = threading.Lock()
        self._segment: Segment | None = None
        self._building = False
        self._asked = False
        self._fresh: Sequence[Record] | None = None
        self._corpora: dict[tuple[str, ...], tuple[Sequence[Record], date, Segment | None, Corpus]] = {}

    def corpus(self, records: Sequence[Record], folders: tuple[str, ...], today: date) -> Corpus:
        """What can match on that day: `records` are all of the memory, of which those below `folders` are wanted.

        The very same sequence as last time means that nothing has changed.
        """
        segment = self._segment
        known = self._corpora.get(folders)
        if known is not None and known[0] is records and known[1:3] == (today, segment):
            corpus = known[3]
        else:
            corpus = _corpus(segment, records, folders, today)
            self._corpora[folders] = (records, today, segment, corpus)
        # A process that asks once does not pay for a segment.
        if self._asked and len(records) >= WORTH_INDEXING and self._is_stale(segment, records):
            self._build_later(records)
        self._asked = True
        return corpus

    def build(self, records: Iterable[Record]) -> None:
        """Make the segment anew from these records."""
        documents = (Document(record.sha256, record.path, search_text(record)) for record in records)
        self._segment = Segment.build(documents)

    def _is_stale(self, segment: Segment | None, records: Sequence[Record]) -> bool:
        if segment is None:
            return True
        if self._fresh is records:
            return False
        held = segment.numbers
        missing = sum((record.path, record.sha256) not in held for record in records)
        stale = missing + max(0, segment.size - len(records)) > _STALE_SHARE * len(records)
        if not stale:
            self._fresh = records
        return stale

    def _build_later(self, records: Sequence[Record]) -> None:
        with self._lock:
            if self._building:
                return
            self._building = True

        def job() -> None:
            try:
                self.build(records)
            finally:
                self._building = False

        self._start(job)


def _corpus(
    segment: Segment | None, records: Iterable[Record], folders: tuple[str, ...], today: date
) -> Corpus:
    wanted = [
        record for record in records if record.path.partition("/")[0] in folders and not is_expired(record, today)
    ]
    if segment is None:
        return Corpus(None, 0, (), wanted)
    record_of: list[Record | None] = [None] * segment.size
    others = []
    numbers = segment.numbers
    for record in wanted:
        number = numbers.get((record.path, record.sha256))
        if number is None:
            others.append(record)
        else:
            record_of[number] = record
    live = bits.from_numbers((number for number, record in enumerate(record_of) if record), segment.size)
    return Corpus(segment, live, record_of, others)


def _in_thread(job: Callable[[], None]) -> None:
    threading.Thread(target=job, name="dsh-memory-index", daemon=True).start()
