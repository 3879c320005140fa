"""Search as the memory API answers it: rights first, then rank, then filters; every score can be explained.

A score is BM25 plus small documented parts, each a share of it: what changed lately, what its client called
important, what is being worked on, and a third of a neighbour's in the same rollout.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dsh_memory.api.catalogue import Catalogue
from dsh_memory.api.values import Caller, Filter, Memory

_NEIGHBOUR: Final = 1 / 3
_RECENCY: Final = 0.05
_HALF_LIFE_DAYS: Final = 90
_IMPORTANCE: Final = 0.1
_WORKING: Final = 0.25


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked; `threshold` is on similarity, `candidate_count` how many are ranked before filters."""

    text: str
    wanted: Filter
    limit: int = 5
    threshold: float | None = None
    candidate_count: int | None = None
    prefer_working: bool = False
    knowledge: bool = True


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a score."""

    bm25: float
    recency: float
    importance: float
    working: float
    neighbours: float

    @property
    def total(self) -> float:
        """The score."""
        return self.bm25 + self.recency + self.importance + self.working + self.neighbours


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that matched; `similarity` is the score as a share of the best possible one, 0 to 1."""

    memory: Memory
    parts: Parts
    similarity: float
    words: int

    @property
    def score(self) -> float:
        """The score, as shown."""
        return round(self.parts.total, 6)


@dataclass(frozen=True, slots=True)
class Found:
    """The best matches, and what became of the other candidates; `coverage` is the share of the query's
    words that some result holds.
    """

    hits: tuple[Hit, ...]
    coverage: float
    candidates: int
    filtered: int


def search(catalogue: Catalogue, caller: Caller, query: Query, now: datetime) -> Found:
    """The best `limit` matches among what the caller may see; hold the catalogue's lock."""
    index = catalogue.index
    matches = index.match(query.text)
    ranked = sorted(
        _hits(catalogue, caller, query, matches.scores, matches.best_possible, matches.found_words),
        key=lambda hit: (-hit.score, hit.memory.id),
    )
    passes = query.wanted.matcher()
    hits: list[Hit] = []
    filtered = candidates = 0
    for hit in ranked:
        # Without a window of the client's own, filters never hide a match that is there.
        if len(hits) == query.limit or (candidates == query.candidate_count):
            break
        candidates += 1
        memory = hit.memory
        if (
            not passes(memory)
            or memory.is_expired(now)
            or (not query.knowledge and not memory.api_written)
            or (query.threshold is not None and hit.similarity < query.threshold)
        ):
            filtered += 1
            continue
        hits.append(hit)
    seen = 0
    for hit in hits:
        seen |= hit.words
    coverage = seen.bit_count() / matches.words if matches.words else 0.0
    return Found(tuple(hits), round(coverage, 4), candidates, filtered)


def _hits(
    catalogue: Catalogue,
    caller: Caller,
    query: Query,
    scores: dict[str, float],
    best_possible: float,
    found_words: dict[str, int],
) -> Iterator[Hit]:
    index = catalogue.index
    newest = index.newest
    lent: dict[str, float] = {}
    for file, points in scores.items():
        if not caller.may_see(index.memory(file)):
            continue
        for neighbour in index.neighbours(file):
            lent[neighbour] = max(lent.get(neighbour, 0.0), points * _NEIGHBOUR)
    for file in {**scores, **lent}:
        memory = index.memory(file)
        # guard: recall-within-rights
        if memory.is_gone or not caller.may_see(memory):
            continue
        points, neighbours = scores.get(file, 0.0), lent.get(file, 0.0)
        base = points + neighbours
        importance = 0.5 if memory.importance is None else memory.importance
        working = query.prefer_working and (memory.memory_type == "working" or memory.kind == "state")
        parts = Parts(
            bm25=round(points, 6),
            recency=round(base * _RECENCY * _freshness(memory.updated_at, newest), 6),
            importance=round(base * _IMPORTANCE * (importance - 0.5), 6),
            working=round(base * _WORKING, 6) if working else 0.0,
            neighbours=round(neighbours, 6),
        )
        similarity = min(1.0, parts.total / best_possible) if best_possible > 0 else 0.0
        yield Hit(memory, parts, round(similarity, 6), found_words.get(file, 0))


def _freshness(updated: str | None, newest: str) -> float:
    """1 for the newest memory of the repository, half of it for one ninety days older; no clock is asked."""
    if not updated or not newest:
        return 0.0
    try:
        days = (datetime.fromisoformat(newest[:10]) - datetime.fromisoformat(updated[:10])).days
    except ValueError:
        return 0.0
    return float(0.5 ** (max(0, days) / _HALF_LIFE_DAYS))
