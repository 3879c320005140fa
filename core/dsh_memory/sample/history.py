"""Twelve weeks of the sample memory: commits, journaled runs, and the previews that wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from dsh_memory.environment import format_instant
from dsh_memory.records import generated_header
from dsh_memory.repository.creation import FIRST_COMMIT_MESSAGE
from dsh_memory.repository.git import OWN_IDENTITY
from dsh_memory.repository.journal import LAST_RUN, RUNS_FOLDER, RunRecord
from dsh_memory.repository.layout import OPERATIONAL, SUMMARY
from dsh_memory.repository.objects import FILE_MODE
from dsh_memory.repository.states import digest_of
from dsh_memory.sample.content import Draft, drafts
from dsh_memory.sample.importing import HistoryWriter
from dsh_memory.sample.story import Edit, overtaken_changes, waiting_changes

_MIRA: Final = "Mira Lindqvist <mira@lindqvist.example>"
_SYNC_LOOKS_BACK: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class PendingPreview:
    """A preview: when and on which commit and payload it was made, and the payload it proposes."""

    preview_id: str
    created_at: datetime
    head: str
    base: Mapping[str, bytes]
    staged: Mapping[str, bytes]
    sessions: int


class History:
    """Writes the sample's commits; `payload`, `other` (mode, bytes) and `previews` are what they lead to."""

    def __init__(
        self, writer: HistoryWriter, now: datetime, first_files: Mapping[str, tuple[str, bytes]]
    ) -> None:
        self._writer = writer
        self._now = now
        self._newest_session = now - timedelta(hours=3)
        self._day = self._newest_session.date()
        self.payload: dict[str, bytes] = {}
        self.other: dict[str, tuple[str, bytes]] = dict(first_files)
        self.head = ""
        self.watermark = now
        self._newest: list[Draft] = []
        self._before_clear: dict[str, bytes] = {}
        self._cleared_run = ""
        self.previews: list[PendingPreview] = []

    def write(self) -> None:
        """Writes every commit, oldest first."""
        ago = self._ago
        events: list[tuple[datetime, Callable[[datetime], None]]] = [
            (ago(days=84), self._begin),
            (self._newest_session - timedelta(days=23), self._migrate),
            (ago(days=5), self._fail),
            (ago(days=4, hours=-2), self._propose_overtaken),
            (ago(days=2, minutes=25), self._clear),
            (ago(days=2, minutes=9), self._roll_the_clear_back),
            (ago(days=1, hours=2), self._find_nothing),
            (self._newest_session, self._sync),
            (ago(minutes=65), self._propose_waiting),
        ]
        by_day: dict[int, list[Draft]] = {}
        for draft in drafts(self._day):
            by_day.setdefault(draft.day, []).append(draft)
        self._newest = by_day.pop(0)
        for day, found in by_day.items():
            # Nobody works at the same minute every day.
            instant = self._newest_session + timedelta(days=day, minutes=-(day * 37 % 240))
            events.append((instant, partial(self._remember, found)))
        for instant, event in sorted(events, key=lambda entry: entry[0]):
            event(instant)

    def _ago(self, **distance: float) -> datetime:
        return self._now - timedelta(**distance)

    def _begin(self, instant: datetime) -> None:
        self.payload[SUMMARY] = b""
        files: dict[str, tuple[str, bytes | None]] = {**self.other, SUMMARY: (FILE_MODE, b"")}
        self.head = self._writer.commit(FIRST_COMMIT_MESSAGE, OWN_IDENTITY, instant, files)

    def _remember(self, found: list[Draft], instant: datetime) -> None:
        for number, draft in enumerate(found):
            author = _MIRA if draft.written_by_hand else OWN_IDENTITY
            at = instant + timedelta(minutes=7 * number)
            self._commit_payload(_subject(draft), author, at, {draft.path: draft.text.encode()})

    def _migrate(self, instant: datetime) -> None:
        changes: dict[str, bytes | None] = {}
        for draft in drafts(self._day):
            if draft.migrated:
                day = (self._newest_session + timedelta(days=draft.day)).date().isoformat()
                changes[draft.path] = generated_header(draft.path, day, day) + self.payload[draft.path]
        run_id = _run_id(instant, "0c85d1e7")
        self._apply(run_id, "migrate", instant, changes, f"DPSK memory sync applied: {run_id}", 410)

    def _fail(self, instant: datetime) -> None:
        run_id = _run_id(instant - timedelta(hours=5), "2b1e90f4")
        self._journal(
            instant,
            RunRecord(
                run_id=run_id,
                operation="preview",
                status="failed",
                candidate_sessions=6,
                processed_sessions=6,
                skipped_sessions=0,
                error_code="too-many-files",
                phase="validating",
                rejected_file_count=61,
                changed_path_count=0,
            ),
            duration_ms=96,
        )

    def _clear(self, instant: datetime) -> None:
        changes: dict[str, bytes | None] = dict.fromkeys(self.payload, None)
        changes[SUMMARY] = b""
        self._before_clear = dict(self.payload)
        self._cleared_run = _run_id(instant, "1f37ac04")
        self._apply(self._cleared_run, "clear", instant, changes, "DPSK memory cleared", 183)

    def _roll_the_clear_back(self, instant: datetime) -> None:
        run_id = _run_id(instant, "3a9be512")
        changes: dict[str, bytes | None] = dict(self._before_clear)
        message = f"DPSK memory rollback: {self._cleared_run}"
        self._apply(run_id, "rollback", instant, changes, message, 201, rolled_back_run_id=self._cleared_run)

    def _find_nothing(self, instant: datetime) -> None:
        self._watermark(instant)
        self._journal(
            instant,
            RunRecord(
                run_id=_run_id(instant, "08f4417b"),
                operation="sync",
                status="no_change",
                candidate_sessions=1,
                processed_sessions=1,
                skipped_sessions=0,
                recovery_commit=self.head,
                phase="complete",
                rejected_file_count=0,
                changed_path_count=0,
            ),
            duration_ms=8_420,
        )

    def _sync(self, instant: datetime) -> None:
        changes: dict[str, bytes | None] = {draft.path: draft.text.encode() for draft in self._newest}
        run_id = _run_id(instant, "4d2a1b3c")
        self._watermark(instant)
        self._apply(
            run_id, "sync", instant, changes, f"DPSK memory sync applied: {run_id}", 1_234, sessions=3
        )

    def _propose_overtaken(self, instant: datetime) -> None:
        self._propose(_run_id(instant, "0b60f3e1"), instant, overtaken_changes(self._day), sessions=4)

    def _propose_waiting(self, instant: datetime) -> None:
        self._propose(_run_id(instant, "2c9a1b3d"), instant, waiting_changes(self._day), sessions=1)

    def _propose(
        self, preview_id: str, instant: datetime, changes: Mapping[str, str | Edit | None], *, sessions: int
    ) -> None:
        staged = dict(self.payload)
        for path, change in changes.items():
            if change is None:
                del staged[path]
            elif isinstance(change, str):
                staged[path] = change.encode()
            else:
                staged[path] = change(staged[path].decode()).encode()
        self.previews.append(
            PendingPreview(preview_id, instant, self.head, dict(self.payload), staged, sessions)
        )

    def _commit_payload(
        self, message: str, author: str, instant: datetime, changes: Mapping[str, bytes | None]
    ) -> None:
        self.head = self._writer.commit(
            message, author, instant, {path: (FILE_MODE, content) for path, content in changes.items()}
        )
        for path, content in changes.items():
            if content is None:
                del self.payload[path]
            else:
                self.payload[path] = content

    def _apply(
        self,
        run_id: str,
        operation: str,
        instant: datetime,
        changes: Mapping[str, bytes | None],
        message: str,
        duration_ms: int,
        *,
        sessions: int | None = None,
        rolled_back_run_id: str | None = None,
    ) -> None:
        recovery_commit = self.head
        changed = sorted(path for path, content in changes.items() if self.payload.get(path) != content)
        self._commit_payload(message, OWN_IDENTITY, instant, changes)
        record = RunRecord(
            run_id=run_id,
            operation=operation,
            status="rolled_back" if operation == "rollback" else "applied",
            candidate_sessions=sessions,
            processed_sessions=sessions,
            skipped_sessions=None if sessions is None else 0,
            changed_paths=tuple(changed),
            recovery_commit=recovery_commit,
            apply_commit=self.head,
            phase="complete",
            staging_digest=digest_of({path: self.payload[path] for path in changed if path in self.payload}),
            rejected_file_count=0,
            changed_path_count=len(changed),
            rolled_back_run_id=rolled_back_run_id,
        )
        self._journal(instant, record, duration_ms)

    def _journal(self, instant: datetime, record: RunRecord, duration_ms: int) -> None:
        finished = instant + timedelta(milliseconds=duration_ms)
        record = replace(
            record,
            started_at=format_instant(instant),
            finished_at=format_instant(finished),
            duration_ms=duration_ms,
        )
        self.other[f"{RUNS_FOLDER}/{record.run_id}.json"] = (FILE_MODE, record.to_bytes())
        self.other[LAST_RUN] = (FILE_MODE, record.last_run_bytes())
        files: dict[str, tuple[str, bytes | None]] = {
            path: entry
            for path, entry in self.other.items()
            if path in OPERATIONAL or path.startswith(".sync/")
        }
        message = f"DPSK memory journal: {record.run_id}"
        self.head = self._writer.commit(message, OWN_IDENTITY, finished, files)

    def _watermark(self, instant: datetime) -> None:
        self.watermark = instant - _SYNC_LOOKS_BACK
        self.other[".last-sync"] = (FILE_MODE, b"%d\n" % self.watermark.timestamp())


def _subject(draft: Draft) -> str:
    if draft.written_by_hand:
        return f"Note {draft.path.rpartition('/')[2].removesuffix('.md')}"
    return f"{'Remember' if draft.is_new else 'Update'} {draft.path}"


def _run_id(instant: datetime, suffix: str) -> str:
    return f"{instant.astimezone(UTC):%Y%m%dT%H%M%SZ}-{suffix}"
