"""Which sessions a sync is about: the watermark's arithmetic, and their transcripts for the agent."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dsh_memory.errors import SessionFailure, SyncFailure
from dsh_memory.repository.journal import Journal
from dsh_memory.repository.layout import Root
from dsh_memory.repository.watermark import WatermarkInvalid, read_watermark
from dsh_memory.sync.sessions import IDLE_SECONDS, SessionFile, due_sessions, open_session
from dsh_memory.sync.transcript import transcript

_TRANSCRIPT_BYTES: Final = 1024 * 1024
_NAME: Final = re.compile("[^A-Za-z0-9-]+")


@dataclass(frozen=True, slots=True)
class Window:
    """The sessions last written after `after` and not after `until` are due (Unix seconds).

    `until` is the next watermark. `after` is None for the first sync, which skips what there was before it.
    """

    after: int | None
    until: int
    notes: tuple[str, ...] = ()

    def sessions(self, dsh_home: str) -> list[SessionFile]:
        """The sessions that are due, oldest first."""
        return [] if self.after is None else due_sessions(dsh_home, self.after, self.until)


def window_of(root: Root, start: datetime) -> Window:
    """The window of a sync that starts now; raises SyncFailure for a watermark that is no number.

    Whole seconds on both ends, so that a session is due in exactly one of two windows that follow each
    other. A watermark from the future is a clock that was wrong then: the journal says where to go on.
    """
    until = int(start.timestamp()) - IDLE_SECONDS
    try:
        after = read_watermark(root)
    except WatermarkInvalid as error:
        message = f"Nothing was done, since {error}."
        raise SyncFailure("sync-failed", message, detail="watermark-invalid") from None
    if after is None:
        return Window(None, until, ("The first sync: older sessions are skipped.",))
    if after <= start.timestamp():
        # A clock that went back a little must not move the watermark back: nothing is read twice.
        return Window(after, max(after, until))
    earlier = _last_sync_before(root, start)
    if earlier is None:
        return Window(None, until, ("The watermark lies in the future and no sync is known: starting anew.",))
    return Window(
        earlier, max(earlier, until), ("The watermark lies in the future; the journal was asked instead.",)
    )


def _last_sync_before(root: Root, start: datetime) -> int | None:
    for run in Journal(root).runs(limit=1000, operation="sync"):
        if run.status in ("applied", "no_change") and run.started <= start:
            return int(run.started.timestamp()) - IDLE_SECONDS
    return None


@dataclass(frozen=True, slots=True)
class Submission:
    """What the agent is given: sessions `processed`, sessions `skipped` because they cannot be read, and
    why.
    """

    processed: int
    skipped: int
    notes: tuple[str, ...]


def write_transcripts(sessions: Sequence[SessionFile], folder: str) -> Submission:
    """Writes one transcript for each session to `folder`; one that is damaged is skipped and said."""
    notes: list[str] = []
    skipped = 0
    for number, session in enumerate(sessions, 1):
        name = os.path.basename(os.path.dirname(session.path))
        try:
            notes += [f"{name}: {note}" for note in _write_transcript(session, folder, number, name)]
        except SessionFailure as failure:
            skipped += 1
            notes.append(f"{name} was skipped: {failure.message}")
    return Submission(len(sessions) - skipped, skipped, tuple(notes))


def _write_transcript(session: SessionFile, folder: str, number: int, name: str) -> list[str]:
    log = open_session(session.path)
    path = os.path.join(folder, f"{number:04d}-{_NAME.sub('-', name)[:80]}.md")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    notes: list[str] = []
    try:
        with log.stream, os.fdopen(descriptor, "wb") as file:
            for paragraph in transcript(log.events()):
                if file.tell() > _TRANSCRIPT_BYTES:
                    file.write(b"[The rest of this session is left out.]\n")
                    notes.append("only its first MiB of transcript was given to the agent")
                    break
                file.write(paragraph.encode())
    except SessionFailure:
        os.unlink(path)
        raise
    return [*notes, *log.notes.sentences()]
