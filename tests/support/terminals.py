"""A child process on a real pseudo-terminal, driven by what it has written so far."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Self

_WAIT_SECONDS = 30.0


class TerminalProcess:
    """A process whose standard input and error are a terminal, and whose standard output is a pipe."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._terminal, child_end = pty.openpty()
        self._process = subprocess.Popen(
            command,
            stdin=child_end,
            stderr=child_end,
            stdout=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )
        os.close(child_end)
        self.screen = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
        os.close(self._terminal)

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def interrupt(self) -> None:
        """What ctrl+c does to the process in front."""
        self._process.send_signal(signal.SIGINT)

    def expect(self, text: str) -> None:
        """Read what the process writes until `text` is among it; only what comes later counts next time."""
        wanted = text.encode()
        while wanted not in self.screen:
            piece = self._read()
            assert piece, f"the process ended without {text!r}: {self.screen!r}"
            self.screen += piece
        self.screen = self.screen.partition(wanted)[2]

    def end(self) -> tuple[int, bytes, bytes]:
        """Wait for the end; exit code, standard output, and the rest of what the terminal was sent."""
        while piece := self._read():
            self.screen += piece
        output, _ = self._process.communicate(timeout=_WAIT_SECONDS)
        return self._process.returncode, output, self.screen

    def _read(self) -> bytes:
        ready, _, _ = select.select([self._terminal], [], [], _WAIT_SECONDS)
        assert ready, f"nothing came within {_WAIT_SECONDS} s after {self.screen!r}"
        try:
            return os.read(self._terminal, 65536)
        except OSError:
            # How Linux says that nobody holds the other end any more.
            return b""
