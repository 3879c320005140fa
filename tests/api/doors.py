"""An HTTP door over a contract that answers with what it was asked, and clients of it without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware

from dsh_memory.hosts.access_log import AccessLog
from dsh_memory.hosts.fence import Fence, HostRule
from dsh_memory.hosts.gate import Gate
from dsh_memory.hosts.typert import typert_routes
from dsh_memory.service import Envelope
from dsh_memory.tokens import RIGHTS, TokenStore
from tests.support.clocks import FrozenClock

HOST = "127.0.0.1:8765"


class EchoContract:
    """Answers every call with its own method and params, and remembers them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def call(self, method: str, params: object = None) -> Envelope:
        self.calls.append((method, params))
        return {"ok": True, "value": {"method": method, "params": params}}


class Door:
    """The application of `serve --http` over an EchoContract, with a token store of its own."""

    def __init__(self, folder: Path, *, allowed: tuple[str, ...] = (), open_reads: bool = False) -> None:
        self.clock = FrozenClock()
        self.contract = EchoContract()
        self.tokens = TokenStore(str(folder / "state"), clock=self.clock)
        gate = Gate(self.tokens, open_reads=open_reads)
        self.app = Starlette(
            routes=typert_routes(self.contract, gate),
            middleware=[
                Middleware(AccessLog, clock=self.clock),
                Middleware(Fence, rule=HostRule("127.0.0.1", allowed)),
            ],
        )

    def token(self, *rights: str, **restrictions: Any) -> str:
        """The text of a new token; all rights unless told otherwise."""
        return self.tokens.create("test", rights or RIGHTS, **restrictions)[1]

    def client(self, **headers: str) -> httpx.AsyncClient:
        """A client that sends these headers (`_` for `-`) with every request."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        transport = httpx.ASGITransport(self.app)
        return httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=named)


def message(method: str, *, rpc_id: str = "r1", **args: object) -> dict[str, object]:
    """The client-request message of one method; `request=` is its request object."""
    return {
        "type": "client-request",
        "rpcId": rpc_id,
        "method": f"memory/{method}",
        "payload": {"args": args},
    }
