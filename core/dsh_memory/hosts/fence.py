"""The browser fence of the HTTP door: which Host, Origin and Sec-Fetch-Site a request may carry.

A page that a person visits can make their browser send requests to a local server, under its own name by DNS
rebinding; Host is the one header that rebinding cannot forge. The fence is no login: tokens are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?::([0-9]{1,5}))?", re.ASCII)
_ORIGIN = re.compile(r"(https?)://(.+)", re.ASCII)
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104
_DEFAULT_PORTS = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class Authority:
    """A host with its port, in small letters; the port is None where it is the scheme's own or not given."""

    host: str
    port: str | None

    @classmethod
    def parse(cls, text: str, scheme: str = "http") -> Self | None:
        """An authority from a header's or an option's text; None where it is none."""
        match = _AUTHORITY.fullmatch(text.lower())
        if match is None:
            return None
        port = match[2]
        return cls(match[1], None if port is None or port == _DEFAULT_PORTS[scheme] else port)

    @property
    def is_loopback(self) -> bool:
        """Whether it names this machine and nothing else can."""
        return is_loopback(self.host.strip("[]"))


def is_loopback(host: str) -> bool:
    """Whether a host name or address literal is localhost, ::1 or in 127/8."""
    parts = host.split(".")
    in_127 = (
        len(parts) == 4 and parts[0] == "127" and all(part.isdecimal() and int(part) <= 255 for part in parts)
    )
    return host in ("localhost", "::1") or in_127


class HostRule:
    """The names a server may be called by: loopback ones, the bound host, and those allowed by option."""

    def __init__(self, bound_host: str, allowed: Iterable[str] = ()) -> None:
        """Raises ValueError for an allowed entry that is no `host` or `host:port`."""
        self._hosts: set[str] = set()
        self._authorities: set[Authority] = set()
        bound = f"[{bound_host}]" if ":" in bound_host else bound_host
        # A wildcard address is no name of this machine, and browsers take it for one.
        own = () if bound_host in _WILDCARDS else (bound,)
        for text in (*own, *allowed):
            authority = Authority.parse(text)
            if authority is None:
                raise ValueError(f"{text!r} is no host or host:port")
            # `:80` was given, and is not every port.
            if text.lower() == authority.host:
                self._hosts.add(authority.host)
            else:
                self._authorities.add(authority)

    def trusts(self, authority: Authority) -> bool:
        """Whether a request may name this authority; an entry without a port stands for every port."""
        return authority.is_loopback or authority.host in self._hosts or authority in self._authorities


class Fence:
    """ASGI middleware that answers 403 `forbidden` before anything else sees the request."""

    def __init__(self, app: ASGIApp, *, rule: HostRule) -> None:
        self._app = app
        self._rule = rule

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not admits(Headers(scope=scope), self._rule):
            await PlainTextResponse("forbidden", status_code=403)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def admits(headers: Headers, rule: HostRule) -> bool:
    """Whether a request with these headers comes from no other site's page."""
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    if len(hosts) != 1 or len(origins) > 1:
        return False
    host = Authority.parse(hosts[0])
    # guard: fence-host
    if host is None or not rule.trusts(host):
        return False
    # guard: fence-fetch-site
    if "cross-site" in (value.strip().lower() for value in headers.getlist("sec-fetch-site")):
        return False
    # guard: fence-origin
    return not origins or _origin(origins[0]) == host


def _origin(text: str) -> Authority | None:
    match = _ORIGIN.fullmatch(text.lower())
    return None if match is None else Authority.parse(match[2], match[1])
