"""One JSON line for each HTTP request: what was asked and how it ended.

Never a body, a query string or a token.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from datetime import datetime

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dsh_memory.environment import format_instant, utc_now
from dsh_memory.tokens import TOKEN_PATTERN

_MAX_PATH = 300

_log = logging.getLogger("dsh_memory.access")


class AccessLog:
    """ASGI middleware, outermost, so that refused requests are in the log too."""

    def __init__(self, app: ASGIApp, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            line = {
                "time": format_instant(self._clock()),
                "client": scope["client"][0] if scope.get("client") else None,
                "token": scope.get("state", {}).get("token_id"),
                "method": scope["method"],
                # guard: log-no-token (somebody will put a token into a path)
                "path": TOKEN_PATTERN.sub("[token]", scope["path"])[:_MAX_PATH],
                "status": status,
                "ms": round((time.monotonic() - started) * 1000, 1),
            }
            _log.info(json.dumps(line))
