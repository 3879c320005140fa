"""A terminal for tests: a program on a pseudo-terminal, and a small screen that reads what it sends."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence

_SEQUENCE = re.compile(
    rb"\x1b\[(?P<args>[0-9;?>=<$!]*)(?P<final>[A-Za-z@`~])|\x1b\](?P<osc>[^\x07\x1b]*)(?:\x07|\x1b\\)|\x1bP[^\x1b]*\x1b\\|\x1b[()][A-Z0-9]|\x1b[=>78cDEHM]"
)


class Terminal:
    """A program on a pseudo-terminal of a size; `text` is what a person would read on it."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], *, columns: int = 120, lines: int = 36
    ) -> None:
        self.columns, self.lines = columns, lines
        self.written = 0
        self.commands: list[bytes] = []
        self._cells = [[" "] * columns for _ in range(lines)]
        self._x = self._y = 0
        self._rest = b""
        self._status: int | None = None
        size = struct.pack("HHHH", lines, columns, 0, 0)
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            os.execvpe(command[0], list(command), dict(env))

    @property
    def text(self) -> str:
        """The screen as lines of text."""
        return "\n".join("".join(row).rstrip() for row in self._cells)

    def wait_for(self, words: str, seconds: float = 20.0) -> None:
        """Read until the words stand on the screen; an AssertionError with the screen after too long."""
        end = time.monotonic() + seconds
        while words not in self.text:
            if not self._read(end) and words not in self.text:
                raise AssertionError(f"{words!r} never came:\n{self.text}")

    def wait_until_gone(self, words: str, seconds: float = 20.0) -> None:
        """Read until the words are off the screen."""
        end = time.monotonic() + seconds
        while words in self.text:
            if not self._read(end) and words in self.text:
                raise AssertionError(f"{words!r} stays:\n{self.text}")

    def press(self, keys: str) -> None:
        """Send what a keyboard would send."""
        os.write(self._master, keys.encode())

    def bytes_within(self, seconds: float) -> int:
        """How much the program writes in that time."""
        before, end = self.written, time.monotonic() + seconds
        while self._read(end):
            pass
        return self.written - before

    def exit_code(self, seconds: float = 20.0) -> int:
        """Wait for the end of the program; its exit code."""
        end = time.monotonic() + seconds
        while self._status is None:
            if time.monotonic() > end:
                raise AssertionError(f"the program does not end:\n{self.text}")
            self._read(min(end, time.monotonic() + 0.1))
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def close(self) -> None:
        """End the program, if it is still there, and the terminal."""
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._master)

    def _read(self, end: float) -> bool:
        left = end - time.monotonic()
        if left <= 0 or not select.select([self._master], [], [], left)[0]:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:
            return False
        self.written += len(data)
        self._feed(data)
        return bool(data)

    def _feed(self, data: bytes) -> None:
        data = self._rest + data
        at = 0
        while at < len(data):
            if data[at] == 0x1B:
                match = _SEQUENCE.match(data, at)
                if match is None:
                    if len(data) - at < 4_096:
                        break
                    at += 1
                    continue
                self._act(match)
                at = match.end()
                continue
            end = data.find(b"\x1b", at)
            chunk = data[at:] if end < 0 else data[at:end]
            text = chunk.decode("utf-8", "ignore")
            if end < 0 and len(text.encode()) != len(chunk):
                break
            for character in text:
                self._put(character)
            at += len(chunk)
        self._rest = data[at:]

    def _act(self, match: re.Match[bytes]) -> None:
        if match["osc"] is not None:
            self.commands.append(match["osc"])
            return
        if match["final"] is None:
            return
        arguments = [int(part) if part.isdigit() else 0 for part in match["args"].split(b";")]
        final = match["final"]
        if final in (b"H", b"f"):
            self._y = max(0, (arguments[0] or 1) - 1)
            self._x = max(0, ((arguments[1] if len(arguments) > 1 else 1) or 1) - 1)
        elif final == b"J":
            self._cells = [[" "] * self.columns for _ in range(self.lines)]
        elif final == b"C":
            self._x += arguments[0] or 1
        elif final == b"n" and match["args"] == b"6":
            os.write(self._master, b"\x1b[1;1R")

    def _put(self, character: str) -> None:
        from rich.cells import cell_len

        if character == "\n":
            self._y += 1
        elif character == "\r":
            self._x = 0
        elif character >= " " and self._y < self.lines:
            width = cell_len(character)
            if self._x < self.columns:
                self._cells[self._y][self._x] = character
                if width == 2 and self._x + 1 < self.columns:
                    self._cells[self._y][self._x + 1] = ""
            self._x += width
