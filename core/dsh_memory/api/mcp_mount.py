"""`/mcp` beside the other routes: the SDK, which takes most of a second to load, comes with a client's first call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup, TaskStatus
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from dsh_memory.api.app import Door
from dsh_memory.api.failures import ApiFailure
from dsh_memory.api.store import MemoryStore
from dsh_memory.api.wire import refuse

if TYPE_CHECKING:
    from dsh_memory.api.mcp import AsyncContext


class McpMount:
    """The ASGI application of `/mcp`: no call reaches the SDK, or loads it, without a token that may read."""

    def __init__(self, store: MemoryStore, door: Door) -> None:
        self._store = store
        self._door = door
        self._tasks: TaskGroup | None = None
        self._starting = anyio.Lock()
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # guard: mcp-needs-a-token
        try:
            self._door.admit(Request(scope), "memory:read")
        except ApiFailure as failure:
            await refuse(failure)(scope, receive, send)
            return
        app = await self._loaded()
        await app(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """What has to be entered for as long as calls may come."""
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    async def _loaded(self) -> ASGIApp:
        async with self._starting:
            if self._app is None:
                if self._tasks is None:
                    raise RuntimeError("a call came while the application does not run")
                self._app = await self._tasks.start(self._serve)
            return self._app

    async def _serve(self, *, task_status: TaskStatus[ASGIApp]) -> None:
        app, context = await run_in_threadpool(self._load)
        # Entered and left by one task, as the SDK's own tasks need it.
        async with context:
            task_status.started(app)
            await anyio.sleep_forever()

    def _load(self) -> tuple[ASGIApp, AsyncContext]:
        from dsh_memory.api.mcp import http_application

        return http_application(self._store, self._door)
