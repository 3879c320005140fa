"""`dsh-memory serve --http`: the application, its limits, and its life from bind to a graceful end."""

from __future__ import annotations

import logging
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from dsh_memory.api.app import Door, memory_routes, outside
from dsh_memory.api.limits import RateLimits
from dsh_memory.api.mcp_mount import McpMount
from dsh_memory.api.store import MemoryStore
from dsh_memory.environment import Environment, utc_now
from dsh_memory.hosts.access_log import AccessLog
from dsh_memory.hosts.fence import Fence, HostRule, is_loopback
from dsh_memory.hosts.gate import Gate
from dsh_memory.hosts.typert import typert_routes
from dsh_memory.service import MemoryService
from dsh_memory.tokens import TokenStore

#: Seconds that running requests may take after a signal; a clear of 100,000 records fits.
_GRACE_SECONDS = 30
_OPEN_FILES = 8192


class ServeRefused(Exception):
    """The server does not start: its options would open the memory, or the address cannot be bound."""


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """What `serve --http` was told; `allowed_hosts` are `host` or `host:port`."""

    host: str = "127.0.0.1"
    port: int = 8765
    allowed_hosts: tuple[str, ...] = ()
    open_reads: bool = False
    rate_limits: RateLimits = field(default_factory=RateLimits)


def application(environment: Environment, options: HttpOptions) -> Starlette:
    """The ASGI application of one memory root; raises ServeRefused."""
    try:
        rule = HostRule(options.host, options.allowed_hosts)
    except ValueError as error:
        raise ServeRefused(f"--allowed-host: {error}") from error
    tokens = TokenStore.of(environment)
    gate = Gate(tokens, open_reads=options.open_reads)
    store = MemoryStore(environment)

    door = Door(gate, options.rate_limits)
    mcp = McpMount(store, door)

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        try:
            async with mcp.running():
                yield
        finally:
            store.close()

    return Starlette(
        routes=[
            Route("/mcp", mcp),
            *memory_routes(store, door, tokens),
            *typert_routes(MemoryService(environment), gate),
        ],
        middleware=[Middleware(AccessLog), Middleware(Fence, rule=rule)],
        exception_handlers={404: outside},
        lifespan=life,
    )


def serve(environment: Environment, options: HttpOptions) -> None:
    """Serve until SIGINT or SIGTERM, then finish running requests; raises ServeRefused, TokenStoreError.

    Writes `dsh-memory: http://host:port` to stdout once the port takes connections, the access log to stderr.
    """
    has_token = any(token.active(utc_now()) for token in TokenStore.of(environment).tokens())
    # guard: no-open-network
    if not is_loopback(options.host) and (options.open_reads or not has_token):
        reason = (
            "--open-reads is for loopback"
            if options.open_reads
            else "make one first: dsh-memory token create"
        )
        raise ServeRefused(
            f"{options.host} is open to the network; every method needs a token there: {reason}"
        )
    app = application(environment, options)
    _allow_connections()
    listener = _bind(options)
    _log_to_stderr()
    config = uvicorn.Config(
        app,
        access_log=False,
        date_header=False,
        lifespan="auto",
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ws="none",
    )
    server = uvicorn.Server(config)

    def end(*_: object) -> None:
        # A signal that comes before uvicorn listens for them, and the one it raises again after the last request.
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    shown = f"[{options.host}]" if ":" in options.host else options.host
    sys.stdout.write(f"dsh-memory: http://{shown}:{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    if not has_token and not options.open_reads:
        sys.stderr.write(
            "No token yet, so every call will be refused; make one with: dsh-memory token create\n"
        )
    with listener:
        server.run(sockets=[listener])


def _allow_connections() -> None:
    """Lets the process hold many idle connections: the soft limit of open files is for programs of another kind."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _bind(options: HttpOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listener = socket.create_server((options.host, options.port), family=family)
        # asyncio does so only for sockets that name TCP as their protocol, and this one names none: without
        # it every answer waits 40 ms for the client's delayed acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, OverflowError) as error:
        raise ServeRefused(f"{options.host}:{options.port} cannot be bound: {error}") from error


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    for name, level in (("dsh_memory.access", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False
