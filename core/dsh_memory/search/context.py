"""Which records a bounded context holds, and in which order (`spec`: repository, Context). Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Protocol

from dsh_memory.environment import parse_instant
from dsh_memory.records.metadata import Record
from dsh_memory.search.index import Corpus
from dsh_memory.search.ranking import Hit

#: A returned body holds at most this many bytes of UTF-8.
MAX_BODY_BYTES = 4096


class UsageEntry(Protocol):
    """What the usage sidecar knows of a record; `effective` and `generation` are 0 and 1 for one never used."""

    @property
    def effective(self) -> float: ...
    @property
    def last_usage(self) -> str | None: ...
    @property
    def generation(self) -> int: ...


UsageOf = Callable[[str], UsageEntry]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A record of the answer; `score` is None where there was no query."""

    record: Record
    score: int | None


def choose(corpus: Corpus, tokens: Sequence[str] | None, limit: int, usage_of: UsageOf) -> list[Chosen]:
    """The records of one context answer, in its order: the best matches first selected, then ordered by usage."""

    def key(record: Record) -> tuple[float, float, int, str, str]:
        return usage_key(record, usage_of(record.path))

    if tokens is None:
        return [Chosen(record, None) for record in nsmallest(limit, corpus.records(), key=key)]
    chosen: list[Hit] = []
    for hits in corpus.groups(tokens):
        chosen += nsmallest(limit - len(chosen), hits, key=lambda hit: key(hit.record))
        if len(chosen) == limit:
            break
    return [Chosen(hit.record, hit.score) for hit in sorted(chosen, key=lambda hit: key(hit.record))]


def usage_key(record: Record, usage: UsageEntry) -> tuple[float, float, int, str, str]:
    """Sort key: effective usage and last use descending (never used last), then generation, logical id, path."""
    if usage.last_usage is None:
        return (-usage.effective, 0.0, usage.generation, record.id, record.path)
    last = parse_instant(usage.last_usage)
    return (-usage.effective, -last.timestamp() if last else 0.0, usage.generation, record.id, record.path)


def cut(text: str) -> tuple[str, bool]:
    """The text cut to `MAX_BODY_BYTES` of UTF-8 on a character boundary, and whether anything was cut."""
    data = text.encode()
    if len(data) <= MAX_BODY_BYTES:
        return text, False
    return data[:MAX_BODY_BYTES].decode("utf-8", "ignore"), True
