"""Which records a bounded context holds, and in which order (`spec`: repository, Context). Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Protocol

from dsh_memory.environment import parse_instant
from dsh_memory.records.metadata import Record
from dsh_memory.search.index import Candidate, Corpus, Group

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


class Usage(Protocol):
    """What is known of all records: the paths of those that were ever used, and the entry of each record."""

    @property
    def records(self) -> Collection[str]: ...
    def of(self, path: str) -> UsageEntry: ...


@dataclass(frozen=True, slots=True)
class Chosen:
    """A record of the answer; `score` is None where there was no query."""

    record: Record
    score: int | None


def choose(corpus: Corpus, tokens: Sequence[str] | None, limit: int, usage: Usage) -> list[Chosen]:
    """The records of one context answer, in its order: the best matches first selected, then ordered by usage."""

    def key(candidate: Candidate) -> tuple[float, float, int, str, str]:
        return usage_key(candidate, usage.of(candidate.path))

    def best(group: Group, wanted: int) -> list[Candidate]:
        # Records never used differ in id and path alone: of many, only the first by these can be among the best.
        return nsmallest(wanted, group.first(wanted, usage.records), key=key)

    if tokens is None:
        return [Chosen(found.get(), None) for found in best(corpus.everything(), limit)]
    chosen: list[tuple[int, Candidate]] = []
    for score, group in corpus.groups(tokens):
        chosen += [(score, found) for found in best(group, limit - len(chosen))]
        if len(chosen) == limit:
            break
    chosen.sort(key=lambda pair: key(pair[1]))
    return [Chosen(found.get(), score) for score, found in chosen]


def usage_key(candidate: Candidate, usage: UsageEntry) -> tuple[float, float, int, str, str]:
    """Sort key: effective usage and last use descending (never used last), then generation, logical id, path."""
    last = None if usage.last_usage is None else parse_instant(usage.last_usage)
    last_seconds = 0.0 if last is None else -last.timestamp()
    return (-usage.effective, last_seconds, usage.generation, candidate.id, candidate.path)


def cut(text: str) -> tuple[str, bool]:
    """The text cut to `MAX_BODY_BYTES` of UTF-8 on a character boundary, and whether anything was cut."""
    data = text.encode()
    if len(data) <= MAX_BODY_BYTES:
        return text, False
    return data[:MAX_BODY_BYTES].decode("utf-8", "ignore"), True
