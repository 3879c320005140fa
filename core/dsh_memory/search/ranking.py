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
    "a an and are as at be but by for from has have how i if in into is it its no not of on or our so that the their"
    " then there these they this to was we were what when where which who why will with you your".split()
)

_WORD = re.compile(r"[^\W_]+")
_SNIPPET_BEFORE = 40
_SNIPPET_AFTER = 120
_SNIPPET_START = 160
_SATURATION = 1.2


@dataclass(frozen=True, slots=True)
class SearchText:
    """What a record is searched by, lowercased: `haystack` holds the others, one a line."""

    haystack: str
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
        return SearchText(haystack=body, id="", type="", body=body)
    parts = [metadata.id, metadata.type, *metadata.tags, metadata.created_by or "", metadata.source_hash or ""]
    head = "\n".join(parts).lower()
    return SearchText(haystack=f"{head}\n{body}", id=metadata.id, type=metadata.type, body=body)


def score(text: SearchText, tokens: Iterable[str]) -> int:
    """The contract's score: each token adds 1 in the haystack, 3 in the id, 2 as the type, 1 in the body."""
    total = 0
    for token in tokens:
        if token in text.haystack:
            total += 1 + 3 * (token in text.id) + 2 * (token == text.type) + (token in text.body)
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
    telling = sorted(set(tokens) - STOP_WORDS)
    for points in sorted(groups, reverse=True):
        wanted = limit - len(hits)
        if wanted <= 0:
            break
        # Only a group that reaches the answer needs its words counted.
        best = nsmallest(wanted, groups[points], key=lambda pair: _tie_key(pair[0], pair[1].body, telling))
        hits.extend(Hit(record, points) for record, _ in best)
    return count, hits


def matching(records: Iterable[Record], tokens: Sequence[str]) -> list[Hit]:
    """Every matching record with its score, in the order given."""
    scored = ((record, score(search_text(record), tokens)) for record in records)
    return [Hit(record, points) for record, points in scored if points]


def relevance(words: Sequence[str], telling: Iterable[str]) -> float:
    """The tie-break: sum of tf / (tf + 1.2) over the telling tokens, tf their whole-word occurrences, 3 decimals."""
    total = 0.0
    for token in telling:
        frequency = words.count(token)
        total += frequency / (frequency + _SATURATION)
    return round(total, 3)


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


def _tie_key(record: Record, body: str, telling: Sequence[str]) -> tuple[float, int, str]:
    words = _WORD.findall(body)
    return (-relevance(words, telling), len(words), record.path)


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
