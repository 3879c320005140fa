"""Record files as rows of a list, and the figures over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from dsh_memory.inspection.values import (
    Count,
    DueRecord,
    MalformedRecord,
    Mark,
    RecordEntry,
    UsageFact,
    UsedRecord,
)
from dsh_memory.records import Malformed
from dsh_memory.records.metadata import STATUSES, TYPES, has_ended
from dsh_memory.records.outline import Outline
from dsh_memory.repository.layout import RECORD_FOLDERS

#: A date this near is worth a word.
SOON_DAYS: Final = 30

NEVER_USED: Final = UsageFact(usage_count=0, prior_usage_count=0, generation=1, last_usage=None)

_MOST_USED: Final = 10


@dataclass(frozen=True, slots=True)
class Figures:
    """The overview's counts and short lists over all record files."""

    by_folder: tuple[Count, ...]
    by_type: tuple[Count, ...]
    by_status: tuple[Count, ...]
    legacy_count: int
    malformed: tuple[MalformedRecord, ...]
    expired_count: int
    expiring: tuple[DueRecord, ...]
    due_for_review: tuple[DueRecord, ...]
    most_used: tuple[UsedRecord, ...]
    duplicate_ids: tuple[tuple[str, int], ...]


class EntryMemo:
    """Rows that were made before, by what they were made from."""

    def __init__(self) -> None:
        self._day: date | None = None
        self._rows: dict[str, tuple[Outline | Malformed, UsageFact, bool, RecordEntry]] = {}

    def entries(
        self,
        items: Iterable[Outline | Malformed],
        usage: Mapping[str, UsageFact],
        today: date,
        dirty_paths: Collection[str],
    ) -> tuple[RecordEntry, ...]:
        """All rows, in the files' order; those of unchanged files are the same objects again."""
        before = self._rows if self._day == today else {}
        self._day, self._rows = today, {}
        for item in items:
            used, dirty = usage.get(item.path, NEVER_USED), item.path in dirty_paths
            known = before.get(item.path)
            if known is None or known[0] != item or known[1] != used or known[2] is not dirty:
                known = item, used, dirty, entry_of(item, usage, today, dirty_paths)
            self._rows[item.path] = known
        return tuple(row[3] for row in self._rows.values())


def entry_of(
    item: Outline | Malformed, usage: Mapping[str, UsageFact], today: date, dirty_paths: Collection[str]
) -> RecordEntry:
    """The row of one record file."""
    marks = _marks(item, today)
    if item.path in dirty_paths:
        marks += ("dirty",)
    used = usage.get(item.path, NEVER_USED)
    if isinstance(item, Malformed):
        name = item.path.rpartition("/")[2]
        return RecordEntry(
            item.path, None, name, None, None, None, marks, item.size, used.usage_count, used.last_usage
        )
    return RecordEntry(
        item.path,
        item.id,
        item.title,
        item.type,
        item.status,
        item.updated_at,
        marks,
        item.size,
        used.usage_count,
        used.last_usage,
    )


def malformed_record(item: Malformed) -> MalformedRecord:
    """The same as a value of this room."""
    return MalformedRecord(item.path, item.code, item.line, item.message, item.size)


def figures(items: Iterable[Outline | Malformed], usage: Mapping[str, UsageFact], today: date) -> Figures:
    """Counts and short lists over all record files, in one pass."""
    folders: Counter[str] = Counter()
    types: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    ids: Counter[str] = Counter()
    malformed: list[MalformedRecord] = []
    expiring: list[DueRecord] = []
    due_for_review: list[DueRecord] = []
    used: list[UsedRecord] = []
    legacy = expired = 0
    soon = _soon(today)
    for item in items:
        folders[item.path.partition("/")[0]] += 1
        if isinstance(item, Malformed):
            malformed.append(malformed_record(item))
            continue
        count = usage.get(item.path, NEVER_USED)
        if count.usage_count:
            used.append(UsedRecord(item.path, item.id, count.usage_count, count.last_usage))
        if item.status is None or item.type is None:
            legacy += 1
            continue
        ids[item.id] += 1
        types[item.type] += 1
        statuses[item.status] += 1
        if item.expires_at is not None and item.expires_at <= soon:
            expired += has_ended(item.expires_at, today)
            expiring.append(_due(item, item.expires_at, today))
        if item.review_after is not None and item.review_after <= soon:
            due_for_review.append(_due(item, item.review_after, today))
    return Figures(
        by_folder=tuple(Count(name, folders[name]) for name in RECORD_FOLDERS),
        by_type=tuple(Count(name, types[name]) for name in TYPES if types[name]),
        by_status=tuple(Count(name, statuses[name]) for name in STATUSES if statuses[name]),
        legacy_count=legacy,
        malformed=tuple(malformed),
        expired_count=expired,
        expiring=tuple(sorted(expiring, key=_by_date)),
        due_for_review=tuple(sorted(due_for_review, key=_by_date)),
        most_used=tuple(sorted(used, key=lambda entry: (-entry.usage_count, entry.path))[:_MOST_USED]),
        duplicate_ids=tuple((name, count) for name, count in sorted(ids.items()) if count > 1),
    )


def _marks(item: Outline | Malformed, today: date) -> tuple[Mark, ...]:
    if isinstance(item, Malformed):
        return ("malformed",)
    if item.is_legacy:
        return ("legacy",)
    marks: tuple[Mark, ...] = ()
    if has_ended(item.expires_at, today):
        marks += ("expired",)
    elif item.expires_at is not None and item.expires_at <= _soon(today):
        marks += ("expiring",)
    if item.review_after is not None and item.review_after <= today.isoformat():
        marks += ("review",)
    if item.conflicted:
        marks += ("conflicted",)
    return marks


def _soon(today: date) -> str:
    return (min(today, date.max - timedelta(days=SOON_DAYS)) + timedelta(days=SOON_DAYS)).isoformat()


def _due(record: Outline, day: str, today: date) -> DueRecord:
    return DueRecord(record.path, record.id, record.title, day, (date.fromisoformat(day) - today).days)


def _by_date(due: DueRecord) -> tuple[str, str]:
    return due.date, due.path
