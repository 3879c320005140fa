"""Topics: records of one type and namespace, and which of them is in force (the contract's rule)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Literal

from dsh_memory.records.metadata import STATUSES, Record, is_expired

Outcome = Literal["wins", "loses", "out"]
_RANK = {status: rank for rank, status in enumerate(STATUSES)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one record of a topic, and the rule that decided it, in words."""

    record: Record
    outcome: Outcome
    rule: str

    @property
    def wins(self) -> bool:
        """Whether this record is the one in force."""
        return self.outcome == "wins"


@dataclass(frozen=True, slots=True)
class Topic:
    """All records of one key, best first and expired last; `winner` is None when every one has expired."""

    key: str
    winner: Record | None
    verdicts: tuple[Verdict, ...]


def topic_key(record: Record) -> str | None:
    """The contract's conflict key, type and namespace: `fact:project`, or `fact:` alone; None if legacy."""
    if record.metadata is None:
        return None
    namespace, slash, _ = record.metadata.id.partition("/")
    return f"{record.metadata.type}:{namespace if slash else ''}"


def topics(records: Iterable[Record], today: date) -> tuple[Topic, ...]:
    """Group records into topics, ordered by key; legacy records belong to none."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        key = topic_key(record)
        if key is not None:
            groups.setdefault(key, []).append(record)
    return tuple(_decide_group(key, groups[key], today) for key in sorted(groups))


def decide(records: Iterable[Record], today: date) -> Topic:
    """Decide one topic on a UTC day: status precedence, then newest `updated_at`, then smallest id.

    Raises ValueError unless all records share one topic key.
    """
    members = list(records)
    keys = {topic_key(record) for record in members}
    key = keys.pop() if len(keys) == 1 else None
    if key is None:
        raise ValueError("the records do not share one topic")
    return _decide_group(key, members, today)


def _decide_group(key: str, members: list[Record], today: date) -> Topic:
    # Stable sorts from the least to the most significant rule; the path settles duplicate ids.
    ranked = sorted(members, key=lambda record: (record.id, record.path))
    ranked.sort(key=lambda record: record.updated_at or "", reverse=True)
    ranked.sort(key=_status_rank)
    live = [record for record in ranked if not is_expired(record, today)]
    out = [record for record in ranked if is_expired(record, today)]
    verdicts: list[Verdict] = []
    if live:
        rule = _why_first(live[0], live[1]) if len(live) > 1 else _why_alone(len(out))
        verdicts.append(Verdict(live[0], "wins", rule))
        verdicts.extend(Verdict(record, "loses", _why_behind(record, live[0])) for record in live[1:])
    verdicts.extend(Verdict(record, "out", f"expired {_expiry(record)}") for record in out)
    return Topic(key, live[0] if live else None, tuple(verdicts))


def _status_rank(record: Record) -> int:
    return _RANK[_status(record)]


def _status(record: Record) -> str:
    return "active" if record.metadata is None else record.metadata.status


def _expiry(record: Record) -> str | None:
    return None if record.metadata is None else record.metadata.expires_at


def _why_alone(expired: int) -> str:
    return "the only record that has not expired" if expired else "the only record"


def _why_first(first: Record, second: Record) -> str:
    if _status(first) != _status(second):
        return f"{_status(first)} before {_status(second)}"
    if first.updated_at != second.updated_at:
        return f"newest: {first.updated_at} over {second.updated_at or 'no date'}"
    if first.id != second.id:
        return f"smallest id: {first.id} before {second.id}"
    return f"same id, first path: {first.path} before {second.path}"


def _why_behind(record: Record, winner: Record) -> str:
    if _status(record) != _status(winner):
        return f"status: {_status(record)} after {_status(winner)}"
    if record.updated_at != winner.updated_at:
        return f"older: {record.updated_at or 'no date'} under {winner.updated_at}"
    if record.id != winner.id:
        return f"id: {record.id} after {winner.id}"
    return f"same id, later path: {record.path} after {winner.path}"
