"""Session logs of the DSH host: finding those that are due, and reading their events in constant memory.

A log is JSON lines inside concatenated zstd frames, the last of which may be cut (`spec`: dsh-host,
Session logs).
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from dsh_memory.errors import SessionFailure

IDLE_SECONDS: Final = 3600
LOG_NAME: Final = "session.jsonl.zstd"
MAX_LINE_BYTES: Final = 4 * 1024 * 1024

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
# A zstd block of a few bytes may unfold to 128 KiB: small pieces in keep what comes out bounded.
_PIECE_BYTES: Final = 256
_PLAIN_PIECE_BYTES: Final = 64 * 1024
_MAX_WINDOW_BYTES: Final = 128 * 1024 * 1024
_NANOSECONDS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A session log on disk; `mtime_ns` is its last write."""

    path: str
    size: int
    mtime_ns: int


@dataclass(slots=True)
class ReadingNotes:
    """What a reader of a log had to leave out; filled while the events are read."""

    truncated: bool = False
    long_lines: int = 0
    unreadable_lines: int = 0

    def sentences(self) -> list[str]:
        """The same for a person, nothing where all was read."""
        said = []
        if self.truncated:
            said.append("the last frame is cut; what it still held was used")
        if self.long_lines:
            said.append(f"{self.long_lines} lines over {MAX_LINE_BYTES // 1024 // 1024} MiB were left out")
        if self.unreadable_lines:
            said.append(f"{self.unreadable_lines} lines are no JSON objects and were left out")
        return said


@dataclass(slots=True)
class SessionLog:
    """One log being read: iterate over `events()`, then look at `notes`."""

    stream: BinaryIO
    name: str
    notes: ReadingNotes = field(default_factory=ReadingNotes)

    def events(self) -> Iterator[dict[str, object]]:
        """Every JSON object of the log, in order.

        Raises SessionFailure (`session-unreadable`, `session-corrupt`, `session-empty`).
        """
        found = False
        for line in self._lines():
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
            if isinstance(event, dict):
                found = True
                yield event
            else:
                self.notes.unreadable_lines += 1
        if not found:
            raise SessionFailure("session-empty", f"{self.name} holds no session.")

    def _lines(self) -> Iterator[bytes]:
        pending = bytearray()
        too_long = False
        for piece in self._pieces():
            # Only a line feed ends a line: U+2028 inside a JSON text is text.
            *whole, rest = piece.split(b"\n")
            for part in whole:
                pending += part
                if too_long or len(pending) > MAX_LINE_BYTES:
                    self.notes.long_lines += 1
                elif pending.strip():
                    yield bytes(pending)
                pending.clear()
                too_long = False
            pending += rest
            if len(pending) > MAX_LINE_BYTES:
                too_long = True
                pending.clear()
        if too_long:
            self.notes.long_lines += 1
        elif pending.strip() and not (self.notes.truncated and not _is_json(pending)):
            yield bytes(pending)

    def _pieces(self) -> Iterator[bytes]:
        head = self._read(len(_ZSTD_MAGIC))
        if head == _ZSTD_MAGIC:
            yield from self._unpacked(head)
        elif self.name.endswith((".zst", ".zstd")) and head:
            raise SessionFailure("session-corrupt", f"{self.name} is not a zstd file.")
        else:
            while head:
                yield head
                head = self._read(_PLAIN_PIECE_BYTES)

    def _unpacked(self, packed: bytes) -> Iterator[bytes]:
        import zstandard

        unpacker = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
        frame = unpacker.decompressobj()
        begun = False
        while packed:
            try:
                piece = frame.decompress(packed)
            except zstandard.ZstdError as error:
                raise SessionFailure("session-corrupt", f"{self.name} is damaged: {error}.") from None
            begun = True
            if piece:
                yield piece
            if frame.eof:
                packed = frame.unused_data
                frame = unpacker.decompressobj()
                begun = False
                if packed:
                    continue
            packed = self._read(_PIECE_BYTES)
        self.notes.truncated = begun

    def _read(self, size: int) -> bytes:
        try:
            return self.stream.read(size)
        except OSError as error:
            raise SessionFailure(
                "session-unreadable", f"{self.name} cannot be read: {error.strerror}."
            ) from None


def open_session(path: str) -> SessionLog:
    """The log at `path`; raises SessionFailure where there is no readable plain file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise SessionFailure("session-unreadable", f"{path} cannot be opened: {error.strerror}.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SessionFailure("session-unreadable", f"{path} is no plain file.")
    return SessionLog(os.fdopen(descriptor, "rb"), path)


def due_sessions(dsh_home: str, after: int, until: int) -> list[SessionFile]:
    """The session logs last written after `after` and not after `until` (Unix seconds), oldest first.

    No link is followed; what cannot be listed is no session.
    """
    found = [
        session
        for project in _folders(os.path.join(dsh_home, "sessions"))
        for folder in _folders(project)
        if (session := _session(os.path.join(folder, LOG_NAME))) is not None
        and after * _NANOSECONDS < session.mtime_ns <= until * _NANOSECONDS
    ]
    return sorted(found, key=lambda session: (session.mtime_ns, session.path))


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _session(path: str) -> SessionFile | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return SessionFile(path, status.st_size, status.st_mtime_ns)


def _is_json(line: bytes | bytearray) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
