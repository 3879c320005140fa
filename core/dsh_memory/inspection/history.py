"""What Git's history says: how far back it goes, how busy the days were, and who touched one file."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from typing import Final

from dsh_memory.inspection.values import ActivityDay, History, PathCommit
from dsh_memory.records import Record, read_record
from dsh_memory.repository.git import SealedGit
from dsh_memory.repository.layout import PAYLOAD
from dsh_memory.repository.objects import read_blobs
from dsh_memory.repository.versions import commits_of_record, instant_of

ACTIVITY_DAYS: Final = 84

_LOG: Final = ("log", "-z", "--no-show-signature", "--no-decorate", "--encoding=UTF-8")


class Past:
    """Remembers what never changes for one commit and one day, so that a refresh asks Git only once."""

    def __init__(self) -> None:
        self._history: tuple[str | None, History] | None = None
        self._activity: tuple[tuple[str | None, date], tuple[ActivityDay, ...]] | None = None
        self._git_version: str | None = None

    def history(self, git: SealedGit, head: str | None) -> History:
        """How far HEAD's history goes back."""
        if self._history is None or self._history[0] != head:
            self._history = head, history_of(git, head)
        return self._history[1]

    def activity(self, git: SealedGit, head: str | None, today: date) -> tuple[ActivityDay, ...]:
        """How busy the last twelve weeks were."""
        if self._activity is None or self._activity[0] != (head, today):
            self._activity = (head, today), activity_of(git, head, today)
        return self._activity[1]

    def git_version(self, git: SealedGit) -> str:
        """The version of the Git in use, as it names itself."""
        if self._git_version is None:
            self._git_version = git.run("version").decode().removeprefix("git version ").strip()
        return self._git_version


def history_of(git: SealedGit, head: str | None) -> History:
    """How many commits HEAD has behind it and when the first was made; one git process."""
    if head is None:
        return History(recoverable=False, first_commit_at=None, commit_count=0)
    times = [int(line.split()[0]) for line in git.run("rev-list", "--timestamp", head).splitlines()]
    return History(recoverable=True, first_commit_at=instant_of(min(times)), commit_count=len(times))


def activity_of(git: SealedGit, head: str | None, today: date) -> tuple[ActivityDay, ...]:
    """Commits that touched the payload on each UTC day of twelve weeks, oldest first; one git process."""
    first = today - timedelta(days=ACTIVITY_DAYS - 1)
    commits: Counter[date] = Counter()
    if head is not None:
        since = f"--since={first.isoformat()}T00:00:00Z"
        for text in git.run(*_LOG, since, "--format=%ct", head, "--", *PAYLOAD).split(b"\0"):
            if text.strip():
                commits[instant_of(int(text)).date()] += 1
    days = (first + timedelta(days=number) for number in range(ACTIVITY_DAYS))
    return tuple(ActivityDay(day, commits[day]) for day in days)


def commits_of_path(
    git: SealedGit, head: str | None, path: str, record_id: str | None, limit: int
) -> tuple[PathCommit, ...]:
    """The newest commits that touched one record, in the archive or out of it, newest first; one git process."""
    if head is None:
        return ()
    found = commits_of_record(git, head, path, limit)
    apart = {
        blob: place
        for each in found
        if path not in each.blobs
        for place, blob in each.blobs.items()
        if blob is not None
    }
    # Another record may have lain at its other place.
    same = {
        blob
        for blob, data in read_blobs(git, apart).items()
        if isinstance(record := read_record(apart[blob], data), Record) and record.id == record_id
    }
    return tuple(
        PathCommit(
            commit=each.commit,
            committed_at=each.committed_at,
            subject=each.subject,
            author=each.author,
            path=next((place for place, blob in each.blobs.items() if blob is not None), None),
            version=None if record_id is None else each.version_of(record_id),
            operation=each.trailer("Memory-Operation"),
            agent=each.trailer("Memory-Agent"),
            door=each.trailer("Memory-Door"),
        )
        for each in found
        if path in each.blobs or not same.isdisjoint(each.blobs.values())
    )
