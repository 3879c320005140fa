"""The whole HTTP application on a real socket, over a real repository, in a thread of the test's process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from dsh_memory.api.limits import RateLimits
from dsh_memory.hosts.http import HttpOptions, application
from dsh_memory.tokens import TokenStore
from tests.support.repositories import MemoryRepository

#: No limits, for tests of everything else.
UNLIMITED = RateLimits({})


class Served:
    """A running server and the repository behind it."""

    def __init__(self, memory: MemoryRepository, port: int) -> None:
        self.memory = memory
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.tokens = TokenStore.of(memory.environment)
        self._clients: list[httpx.Client] = []

    def token(self, *rights: str, **restrictions: Any) -> str:
        """The text of a new token, good for reading and writing unless told otherwise."""
        names = [f"memory:{right}" for right in rights or ("read", "write")]
        return self.tokens.create("agent-x", names, **restrictions)[1]

    def client(self, token: str | None = None, **headers: str) -> httpx.Client:
        """A client with a token: a new one unless given, none for the empty text; it is closed in the end."""
        key = self.token() if token is None else token
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if key:
            named["X-API-Key"] = key
        client = httpx.Client(base_url=self.url, headers=named, timeout=30)
        self._clients.append(client)
        return client

    def close(self) -> None:
        """Close every client that was made."""
        for client in self._clients:
            client.close()


@contextmanager
def serving(
    memory: MemoryRepository, *, limits: RateLimits = UNLIMITED, open_reads: bool = False
) -> Iterator[Served]:
    """Serve until the end of the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port = listener.getsockname()[1]
        options = HttpOptions(port=port, open_reads=open_reads, rate_limits=limits)
        config = uvicorn.Config(
            application(memory.environment, options), log_config=None, access_log=False, ws="none"
        )
        server = uvicorn.Server(config)
        started = threading.Event()
        startup = server.startup

        async def note_start(sockets: list[socket.socket] | None = None) -> None:
            await startup(sockets)
            started.set()

        server.startup = note_start  # type: ignore[method-assign]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert started.wait(30)
            running = Served(memory, port)
            try:
                yield running
            finally:
                running.close()
        finally:
            server.should_exit = True
            thread.join(30)
