"""Which records a bounded context holds, and in which order (`spec`: repository, Context). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dsh_memory.environment import parse_instant
from dsh_memory.records.metadata import Record
from dsh_memory.search.ranking import Hit, matching

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


def choose(records: Iterable[Record], tokens: Sequence[str] | None, limit: int, usage_of: UsageOf) -> list[Chosen]:
    """The records of one context answer, in its order: the best matches first selected, then ordered by usage."""
    if tokens is None:
        ordered = sorted(records, key=lambda record: usage_key(record, usage_of(record.path)))
        return [Chosen(record, None) for record in ordered[:limit]]

    def by_usage(hit: Hit) -> tuple[float, float, int, str, str]:
        return usage_key(hit.record, usage_of(hit.record.path))

    hits = sorted(matching(records, tokens), key=lambda hit: (-hit.score, by_usage(hit)))[:limit]
    return [Chosen(hit.record, hit.score) for hit in sorted(hits, key=by_usage)]


def usage_key(record: Record, usage: UsageEntry) -> tuple[float, float, int, str, str]:
    """Sort key: effective usage and last use descending (never used last), then generation, logical id, path."""
    last = parse_instant(usage.last_usage)
    return (-usage.effective, -last.timestamp() if last else 0.0, usage.generation, record.id, record.path)


def cut(text: str) -> tuple[str, bool]:
    """The text cut to `MAX_BODY_BYTES` of UTF-8 on a character boundary, and whether anything was cut."""
    data = text.encode()
    if len(data) <= MAX_BODY_BYTES:
        return text, False
    return data[:MAX_BODY_BYTES].decode("utf-8", "ignore"), True
