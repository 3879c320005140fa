"""A `serve --http` process of its own, which a test may kill and start again at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import httpx

from dsh_memory.tokens import TokenStore
from tests.support.repositories import MemoryRepository

_MAIN = "import sys; from dsh_memory.cli import main; sys.exit(main())"


class ServerProcess:
    """The server of one memory, or none between `kill` and `start`; use it in a `with` statement."""

    def __init__(self, memory: MemoryRepository) -> None:
        environment = memory.environment
        self._command = [
            *(
                sys.executable,
                "-c",
                _MAIN,
                "--root",
                environment.memory_root,
                "--dsh-home",
                environment.dsh_home,
            ),
            *("serve", "--http", "--port", "0", "--rate-limits", "off"),
        ]
        rights = [f"memory:{right}" for right in ("read", "write", "delete", "restore")]
        self._token = TokenStore.of(environment).create("agent-x", rights)[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.client = httpx.Client()

    def __enter__(self) -> ServerProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()

    def start(self) -> None:
        """Starts it and waits until it takes connections."""
        self._process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        url = line.removeprefix("dsh-memory: ").strip()
        assert url.startswith("http://"), line
        self.client = httpx.Client(base_url=url, headers={"X-API-Key": self._token}, timeout=60)

    def kill(self) -> None:
        """Ends it as a loss of power would, without a word."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends it as a service manager would."""
        assert self._end(signal.SIGTERM) == 0

    def restart(self) -> None:
        """Killed, and there again."""
        self.kill()
        self.start()

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None and self._process.stdout is not None
        self.client.close()
        self._process.send_signal(number)
        code = self._process.wait(60)
        self._process.stdout.close()
        self._process = None
        return code
