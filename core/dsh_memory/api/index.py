"""An inverted index in memory over the terms of all memories, and BM25 over it.

Statistics come from the records that are in it, and ties are broken by id, so that the same repository
always gives the same order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dsh_memory.api.language import query_terms, terms_of
from dsh_memory.api.values import Memory

_SATURATION: Final = 1.2
_LENGTH_WEIGHT: Final = 0.6
# What stands for a word that no record holds: a longer or a shorter word with the same start.
_RELATED_WEIGHT: Final = 0.5
_SHORTEST_RELATED: Final = 5
_PREFIX: Final = 4


@dataclass(frozen=True, slots=True)
class Matches:
    """What a query matched: BM25 by file, the best score any record could have, and which words each file
    has.
    """

    scores: dict[str, float]
    best_possible: float
    words: int
    found_words: dict[str, int]


@dataclass(slots=True)
class _Document:
    memory: Memory
    language: str
    terms: dict[str, int]
    length: int
    group: str | None


class RecallIndex:
    """Terms of memories; not safe for use from several threads without the catalogue's lock."""

    def __init__(self) -> None:
        self._documents: dict[str, _Document] = {}
        self._postings: dict[str, dict[str, int]] = {}
        self._prefixes: dict[str, set[str]] = {}
        self._languages: Counter[str] = Counter()
        self._length = 0
        self._groups: dict[str, dict[str, tuple[str, str]]] = {}
        self._ordered: dict[str, list[str]] = {}
        self._newest: str | None = None

    def __len__(self) -> int:
        return len(self._documents)

    @property
    def newest(self) -> str:
        """The last day or instant on which any memory changed; empty without memories."""
        if self._newest is None:
            dates = (document.memory.updated_at or "" for document in self._documents.values())
            self._newest = max(dates, default="")
        return self._newest

    def add(self, memory: Memory) -> None:
        """Take a memory in; its file must not be in the index."""
        place = " ".join(filter(None, (memory.path, memory.semantic_key, *memory.tags)))
        language, terms = terms_of(memory.content)
        counts = Counter(terms)
        # Where it stands counts once a word, and not as length: a long path says no more than a short one.
        for term in set(terms_of(place)[1]):
            counts[term] += 1
        document = _Document(memory, language, dict(counts), len(terms), _group_of(memory))
        self._documents[memory.file] = document
        for term, count in document.terms.items():
            postings = self._postings.get(term)
            if postings is None:
                postings = self._postings[term] = {}
                self._prefixes.setdefault(term[:_PREFIX], set()).add(term)
            postings[memory.file] = count
        self._languages[language] += 1
        self._length += document.length
        if document.group is not None:
            order = (memory.created_at or "", memory.file)
            self._groups.setdefault(document.group, {})[memory.file] = order
            self._ordered.pop(document.group, None)
        self._newest = None

    def remove(self, file: str) -> None:
        """Take a file's memory out; it need not be there."""
        document = self._documents.pop(file, None)
        if document is None:
            return
        for term in document.terms:
            postings = self._postings[term]
            del postings[file]
            if not postings:
                del self._postings[term]
                self._prefixes[term[:_PREFIX]].discard(term)
        self._languages[document.language] -= 1
        self._length -= document.length
        if document.group is not None:
            del self._groups[document.group][file]
            self._ordered.pop(document.group, None)
        self._newest = None

    @property
    def languages(self) -> list[str]:
        """The languages of the records in it."""
        return sorted(language for language, count in self._languages.items() if count > 0)

    def memory(self, file: str) -> Memory:
        """The memory of a file that is in the index."""
        return self._documents[file].memory

    def match(self, query: str) -> Matches:
        """BM25 of every record that holds a word of the query."""
        words = query_terms(query, self.languages)
        scores: dict[str, float] = {}
        found_words: dict[str, int] = {}
        best = 0.0
        for place, alternatives in enumerate(words):
            frequencies, weight = self._frequencies(alternatives)
            idf = self._idf(len(frequencies)) * weight
            best += self._idf(max(1, len(frequencies))) * (_SATURATION + 1)
            self._score(frequencies, idf, scores)
            bit = 1 << place
            for file in frequencies:
                found_words[file] = found_words.get(file, 0) | bit
        return Matches(scores, best, len(words), found_words)

    def neighbours(self, file: str) -> tuple[str, ...]:
        """The memories just before and after it in the same rollout."""
        group = self._documents[file].group
        if group is None:
            return ()
        ordered = self._ordered.get(group)
        if ordered is None:
            members = self._groups[group]
            ordered = self._ordered[group] = sorted(members, key=lambda each: members[each])
        place = ordered.index(file)
        return tuple(ordered[max(0, place - 1) : place] + ordered[place + 1 : place + 2])

    def _score(self, frequencies: dict[str, int], idf: float, scores: dict[str, float]) -> None:
        average = self._length / len(self._documents) if self._length else 1.0
        flat, slope = _SATURATION * (1 - _LENGTH_WEIGHT), _SATURATION * _LENGTH_WEIGHT / average
        gain = idf * (_SATURATION + 1)
        documents = self._documents
        for file, frequency in frequencies.items():
            points = gain * frequency / (frequency + flat + slope * documents[file].length)
            scores[file] = scores.get(file, 0.0) + points

    def _frequencies(self, alternatives: Sequence[str]) -> tuple[dict[str, int], float]:
        """How often each record holds one of a word's terms, and what such a match counts."""
        held = [postings for term in alternatives if (postings := self._postings.get(term))]
        weight = 1.0
        if not held:
            weight = _RELATED_WEIGHT
            held = [self._postings[term] for term in self._related(alternatives)]
        if len(held) == 1:
            return held[0], weight
        merged: dict[str, int] = {}
        for postings in held:
            for file, count in postings.items():
                merged[file] = max(merged.get(file, 0), count)
        return merged, weight

    def _related(self, alternatives: Sequence[str]) -> list[str]:
        return sorted(
            {
                candidate
                for term in alternatives
                if len(term) >= _SHORTEST_RELATED
                for candidate in self._prefixes.get(term[:_PREFIX], ())
                if candidate.startswith(term)
                or (len(candidate) >= _SHORTEST_RELATED and term.startswith(candidate))
            }
        )

    def _idf(self, frequency: int) -> float:
        total = len(self._documents)
        return math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))


def _group_of(memory: Memory) -> str | None:
    """What memories of the same rollout have in common; None for one that stands alone."""
    if memory.source_rollouts:
        return memory.source_rollouts[0]
    for holder in (memory.provenance, memory.metadata):
        session = holder.get("session_id")
        if isinstance(session, str) and session:
            return f"session:{session}"
    folder, _, _ = memory.file.removeprefix("archive/").rpartition("/")
    return folder if folder.startswith("rollouts/") and not memory.api_written else None
