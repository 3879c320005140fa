"""The routes of the memory API under `/v1` and `/api/v1`, and what stands beside them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, Route

from dsh_memory.api import discovery
from dsh_memory.api.endpoints import ENDPOINTS
from dsh_memory.api.failures import ApiFailure
from dsh_memory.api.limits import Limiter, RateLimits
from dsh_memory.api.models import SkillRequest
from dsh_memory.api.openapi import docs_page, document
from dsh_memory.api.operations import Asked, Endpoint, MemoryApi
from dsh_memory.api.skill import run_skill
from dsh_memory.api.store import MemoryStore, unavailable
from dsh_memory.api.values import Caller
from dsh_memory.api.wire import (
    check_texts,
    expected_version,
    parse_body,
    read_body,
    refuse,
    refuse_model,
    replay_of,
    respond,
)
from dsh_memory.errors import MemoryFailure
from dsh_memory.hosts.fence import is_loopback
from dsh_memory.hosts.gate import Gate, Refused
from dsh_memory.tokens import Token, TokenStore

PREFIXES: Final = ("/v1", "/api/v1")
_METHODS: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_LONGEST_AGENT: Final = 128
_log = logging.getLogger("dsh_memory")

Handler = Callable[[Request], Awaitable[Response]]


class Door:
    """Checks who asks before anything else looks at a request."""

    def __init__(self, gate: Gate, limits: RateLimits) -> None:
        self._gate = gate
        self._limiter = Limiter(limits)

    def admit(self, request: Request, right: str, policy: str | None = None) -> Caller:
        """The caller, who may use `right`; raises ApiFailure."""
        try:
            token = self._gate.admit(request, right)
        except Refused as refusal:
            raise _refused(refusal) from refusal
        caller = caller_of(request, token)
        if policy is not None:
            self._limiter.count(policy, caller.key)
        return caller


def memory_routes(store: MemoryStore, door: Door, tokens: TokenStore) -> list[BaseRoute]:
    """The routes of one store; an `/api` route of another door has to come after them."""
    api = MemoryApi(store)
    own: list[tuple[str, str, Handler]] = [
        (each.path, each.method, _endpoint(api, door, each)) for each in ENDPOINTS
    ]
    own += _account(api, door, tokens)
    routes: list[BaseRoute] = [
        Route(prefix + path, _guarded(handler), methods=[method])
        for prefix in PREFIXES
        for path, method, handler in own
    ]
    known = list(routes)
    routes += [
        Route(f"{prefix}{{path:path}}", _guarded(_nowhere(known)), methods=_METHODS)
        for prefix in ("/v1/", "/api/v1/")
    ]
    return [*_open(store, door), *routes]


def caller_of(request: Request, token: Token | None, door: str = "rest") -> Caller:
    """The caller of a request; its own words about itself are cut, and never more than provenance."""
    headers = request.headers
    agent = headers.get("x-memory-os-agent-id", "").strip()[:_LONGEST_AGENT]
    instance = headers.get("x-memory-os-agent-instance-id", "").strip()[:_LONGEST_AGENT]
    return Caller(token, agent or (None if token is None else token.name), instance or None, door)


async def outside(request: Request, error: Exception) -> Response:
    """The answer where no route matches: an address of ours may hold what no pattern does (a newline)."""
    if request.url.path.startswith(tuple(f"{prefix}/" for prefix in PREFIXES)):
        return refuse(ApiFailure(404, "not_found", "No such endpoint."))
    status = error.status_code if isinstance(error, HTTPException) else 404
    return PlainTextResponse("Not Found" if status == 404 else "Method Not Allowed", status)


def _endpoint(api: MemoryApi, door: Door, endpoint: Endpoint) -> Handler:
    async def handle(request: Request) -> Response:
        caller = door.admit(request, endpoint.right, endpoint.policy)
        query = body = None
        values: dict[str, Any] = {}
        if endpoint.query is not None:
            given = dict(request.query_params)
            check_texts(given, "query")
            try:
                query = endpoint.query.model_validate(given)
            except ValidationError as error:
                return refuse_model(error, "query")
        if endpoint.body is not None:
            data = await read_body(request)
            if data or endpoint.body_required:
                values = parse_body(data)
                try:
                    body = endpoint.body.model_validate(values)
                except ValidationError as error:
                    return refuse_model(error, "body")
        writes = endpoint.policy == "memory_write"
        asked = Asked(
            caller=caller,
            ids=dict(request.path_params),
            query=query,
            body=body,
            replay=replay_of(request, _below_prefix(request.url.path), values) if writes else None,
            expected_version=expected_version(request) if endpoint.method == "PATCH" else None,
        )
        answer = await run_in_threadpool(endpoint.handler, api, asked)
        version = answer.get("version") if endpoint.path.startswith("/memories/") else None
        headers = {"ETag": f'"{version}"'} if isinstance(version, int) else None
        return respond(answer, endpoint.status, headers)

    return handle


def _account(api: MemoryApi, door: Door, tokens: TokenStore) -> list[tuple[str, str, Handler]]:
    """What clients ask about their own token, and the one-door form of their skills."""

    async def validate(request: Request) -> Response:
        caller = door.admit(request, "memory:read")
        token = caller.token
        rights = ["memory:read"] if token is None else list(token.rights)
        value = {
            "status": "valid",
            "valid": True,
            "scopes": rights,
            "setup_state": "setup_completed",
            "name": None if token is None else token.name,
            "expires_at": None if token is None else token.expires_at,
            "temporary_agent": token is not None and token.temporary_agent,
        }
        return respond(value)

    async def revoke_self(request: Request) -> Response:
        caller = door.admit(request, "memory:read", "memory_write")
        if caller.token is None:
            raise ApiFailure(401, "unauthorized", "Only a token can revoke itself.")
        await run_in_threadpool(tokens.revoke, caller.token.id)
        return respond({"ok": True, "revoked": True})

    async def onboarding(_: Request) -> Response:
        return respond({"status": "ready", "setup_state": "setup_completed", "login_required": False})

    async def skill(request: Request) -> Response:
        values = parse_body(await read_body(request))
        try:
            asked = SkillRequest.model_validate(values)
        except ValidationError as error:
            return refuse_model(error, "body")
        try:
            answer = await run_in_threadpool(
                run_skill, api, asked, lambda right, policy: door.admit(request, right, policy)
            )
        except ValidationError as error:
            return refuse_model(error, "arguments")
        return respond(answer)

    async def closed(_: Request) -> Response:
        raise ApiFailure(403, "forbidden", "This server keeps no ledger and no audit log.")

    return [
        ("/auth/token/validate", "GET", validate),
        ("/auth/token/revoke-self", "POST", revoke_self),
        ("/onboarding/status", "GET", onboarding),
        ("/skill/operations", "POST", skill),
        *(
            (path, method, closed)
            for root in ("/me/ledger", "/ledger", "/audit")
            for path in (root, f"{root}/{{path:path}}")
            for method in ("GET", "POST")
        ),
    ]


def _open(store: MemoryStore, door: Door) -> list[BaseRoute]:
    """What stands outside the prefixes; none of it tells counts, paths or secrets."""

    async def health(_: Request) -> Response:
        return respond({"status": "ok", "service": discovery.SERVICE})

    async def ready(_: Request) -> Response:
        def check() -> None:
            with store.repository():
                pass

        await run_in_threadpool(check)
        return respond({"status": "ready", "service": discovery.SERVICE})

    async def describe(_: Request) -> Response:
        return respond(discovery.description())

    async def openapi(request: Request) -> Response:
        _admit_to_docs(request, door)
        return respond(document())

    async def docs(request: Request) -> Response:
        _admit_to_docs(request, door)
        return HTMLResponse(
            docs_page(), headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        )

    handlers: dict[str, Handler] = {
        "/health": health,
        "/ready": ready,
        "/.well-known/agent-discovery.json": describe,
        "/.well-known/memory-os.json": describe,
        "/openapi.json": openapi,
        "/docs": docs,
    }
    return [Route(path, _guarded(handler), methods=["GET"]) for path, handler in handlers.items()]


def _admit_to_docs(request: Request, door: Door) -> None:
    # guard: docs-on-loopback (both: a proxy on this machine forwards calls that come from elsewhere)
    host = (request.headers.get("host") or "").rpartition(":")[0] or request.headers.get("host", "")
    local = request.client is not None and is_loopback(request.client.host)
    if not local or not is_loopback(host.strip("[]").lower()):
        door.admit(request, "memory:read")


def _nowhere(known: list[BaseRoute]) -> Handler:
    async def handle(request: Request) -> Response:
        allowed = sorted(
            {
                method
                for route in known
                if isinstance(route, Route) and route.matches(request.scope)[0] is Match.PARTIAL
                for method in route.methods or ()
            }
        )
        if allowed:
            headers = {"Allow": ", ".join(allowed)}
            raise ApiFailure(405, "invalid_request", "This method is not allowed here.", headers=headers)
        raise ApiFailure(404, "not_found", "No such endpoint.")

    return handle


def _guarded(handler: Handler) -> Handler:
    """Turns every failure into an answer of the contract's shape."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except ApiFailure as failure:
            return refuse(failure)
        except MemoryFailure as failure:
            return refuse(unavailable(failure))
        except Exception:
            _log.exception("a request of the memory API failed")
            return refuse(ApiFailure(500, "internal_error", "The request could not be finished."))

    return handle


def _refused(refusal: Refused) -> ApiFailure:
    if refusal.status == 401:
        headers = {"WWW-Authenticate": "Bearer"}
        return ApiFailure(401, "unauthorized", refusal.message, headers=headers)
    if refusal.reason == "forbidden":
        return ApiFailure(403, "forbidden", "Invalid or inactive API Key")
    headers = {"Retry-After": "5"} if refusal.status == 503 else {}
    return ApiFailure(refusal.status, refusal.reason.replace("-", "_"), refusal.message, headers=headers)


def _below_prefix(path: str) -> str:
    return path.removeprefix("/api")
