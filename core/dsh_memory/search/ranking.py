"""The contract's search score, exactly, and our tie-break from the record alone (`spec`: repository, Search score).

Pure: records in, hits out. Nothing is normalised but case; tokens match anywhere inside a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from dsh_memory.records.metadata import Record

#: Words that say nothing about what a record is about; they score, but do not break ties.
STOP_WORDS = frozenset(
    """
    a an and are as at be but by for from has have how i if in into is it its no not of on or our so that the their
    then there these they this to was we were what when where which who why will with you your
    """.split()  # noqa: SIM905 - one word beside the other is how such a list is read
)

_WORD = re.compile(r"[^\W_]+")
_SNIPPET_BEFORE = 40
_SNIPPET_AFTER = 120
_SNIPPET_START = 160
_SATURATION = 1.2


@dataclass(frozen=True, slots=True)
class SearchText:
    """What a record is searched by, lowercased: `head` holds id, type, tags, created_by and source_hash, one a line.

    The contract's haystack is `head` and `body` together; no token spans two of them.
    """

    head: str
    id: str
    type: str
    body: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A matching record with the contract's score (at least 1)."""

    record: Record
    score: int


def tokenize(query: str) -> tuple[str, ...]:
    """The query's tokens, lowercased, in order, repeated ones kept: its runs of Unicode letters and numbers."""
    return tuple(_WORD.findall(query.lower()))


def search_text(record: Record) -> SearchText:
    """The lowercased texts of a record; a legacy record has its body alone."""
    body = record.text.lower()
    metadata = record.metadata
    if metadata is None:
        return SearchText(head="", id="", type="", body=body)
    parts = [
        metadata.id,
        metadata.type,
        *metadata.tags,
        metadata.created_by or "",
        metadata.source_hash or "",
    ]
    return SearchText("\n".join(parts).lower(), metadata.id, metadata.type, body)


def score(text: SearchText, tokens: Iterable[str]) -> int:
    """The contract's score: each token adds 1 in the haystack, 3 in the id, 2 as the type, 1 in the body."""
    total = 0
    for token in tokens:
        in_body = token in text.body
        if in_body or token in text.head:
            total += 1 + 3 * (token in text.id) + 2 * (token == text.type) + in_body
    return total


def rank(records: Iterable[Record], tokens: Sequence[str], limit: int) -> tuple[int, list[Hit]]:
    """The number of all matches, and the best `limit` of them in the final order."""
    groups: dict[int, list[tuple[Record, SearchText]]] = {}
    count = 0
    for record in records:
        text = search_text(record)
        points = score(text, tokens)
        if points:
            count += 1
            groups.setdefault(points, []).append((record, text))
    hits: list[Hit] = []
    tie_tokens = telling(tokens)
    for points in sorted(groups, reverse=True):
        wanted = limit - len(hits)
        if wanted <= 0:
            break
        # Only a group that reaches the answer needs its words counted.
        best = nsmallest(
            wanted, groups[points], key=lambda pair: tie_key(pair[0].path, pair[1].body, tie_tokens)
        )
        hits.extend(Hit(record, points) for record, _ in best)
    return count, hits


def matching(records: Iterable[Record], tokens: Sequence[str]) -> list[Hit]:
    """Every matching record with its score, in the order given."""
    scored = ((record, score(search_text(record), tokens)) for record in records)
    return [Hit(record, points) for record, points in scored if points]


def words_of(lowered: str) -> list[str]:
    """The words of a lowercased text: its runs of letters and numbers."""
    return _WORD.findall(lowered)


def relevance(frequencies: Iterable[int]) -> float:
    """The tie-break: the sum of tf / (tf + 1.2), tf the whole-word occurrences of each telling token; 3 decimals."""
    return round(sum(frequency / (frequency + _SATURATION) for frequency in frequencies), 3)


def telling(tokens: Iterable[str]) -> list[str]:
    """The distinct tokens that break ties: all but the stop words, in one fixed order."""
    return sorted(set(tokens) - STOP_WORDS)


def snippet(body: str, tokens: Iterable[str]) -> str:
    """A short piece of the body around the first match of the first matching token, whitespace folded.

    40 characters before the match to 120 after its start, the whole match always inside; without a match the first 160.
    """
    lowered = body.lower()
    for token in tokens:
        position = lowered.find(token)
        if position >= 0:
            start, stop = position, position + len(token)
            if len(lowered) != len(body):
                start, stop = _original_span(body, start, stop)
            return _folded(body[max(0, start - _SNIPPET_BEFORE) : max(stop, start + _SNIPPET_AFTER)])
    return _folded(body[:_SNIPPET_START])


def tie_key(path: str, body: str, tokens: Sequence[str]) -> tuple[float, int, str]:
    """Sort key among equal scores: relevance descending, then fewer words in the (lowercased) body, then path."""
    words = words_of(body)
    return (-relevance(words.count(token) for token in tokens), len(words), path)


def _original_span(body: str, start: int, stop: int) -> tuple[int, int]:
    # A few letters grow when lowercased (İ); walk to the letters that the span of the lowered text came from.
    lowered_length = 0
    original_start = len(body)
    for index, letter in enumerate(body):
        if lowered_length <= start:
            original_start = index
        lowered_length += len(letter.lower())
        if lowered_length >= stop:
            return original_start, index + 1
    return original_start, len(body)


def _folded(text: str) -> str:
    return " ".join(text.split())
