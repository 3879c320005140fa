"""`POST /api/memory/<method>` as the DSH host serves it: a transport result outside, the contract's envelope
inside.

Statuses, codes and messages are those that a running host gives for the same request.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from dsh_memory.contract import METHODS, Method
from dsh_memory.hosts.gate import Gate, Refused
from dsh_memory.hosts.jsonrpc import BadJson, strict_json

if TYPE_CHECKING:
    from dsh_memory.service import Envelope

_MAX_BODY_BYTES = 1024 * 1024
_NAMESPACE = "memory"


class Contract(Protocol):
    """What answers the contract's methods: a MemoryService."""

    def call(self, method: str, params: object = None) -> Envelope: ...


class _TransportFailure(Exception):
    """Becomes the outer result: status 200, `ok` false."""

    def __init__(
        self, rpc_id: str, code: str, message: str, issues: list[dict[str, Any]] | None = None
    ) -> None:
        super().__init__(message)
        self.rpc_id = rpc_id
        self.error = {
            "code": code,
            "message": message,
            "details": {} if issues is None else {"issues": issues},
        }


def typert_routes(contract: Contract, gate: Gate) -> list[Route]:
    """The route of the whole `/api` prefix, over one contract and one gate."""

    async def endpoint(request: Request) -> Response:
        method = _method(request)
        if method is None:
            return PlainTextResponse("not found", status_code=404)
        try:
            gate.admit_to_all(request, "memory:write" if method.mutating else "memory:read")
        except Refused as refusal:
            challenge = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else None
            return PlainTextResponse(refusal.message, status_code=refusal.status, headers=challenge)
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            return PlainTextResponse("content type must be application/json", status_code=415)
        body = await _body(request)
        if body is None:
            return PlainTextResponse("body is too large", status_code=413, headers={"Connection": "close"})
        try:
            message = strict_json(body)
        except BadJson:
            return PlainTextResponse("body is not JSON", status_code=400)
        try:
            rpc_id, params = _request(message, method)
        except _TransportFailure as failure:
            return _answer(failure.rpc_id, {"ok": False, "error": failure.error})
        envelope = await run_in_threadpool(contract.call, method.name, params)
        return _answer(rpc_id, {"ok": True, "value": envelope})

    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return [Route("/api/{path:path}", endpoint, methods=methods)]


def _method(request: Request) -> Method | None:
    namespace, _, name = request.path_params["path"].partition("/")
    if request.method != "POST" or namespace != _NAMESPACE or "." in name:
        return None
    return METHODS.get(f"{_NAMESPACE}.{name}")


async def _body(request: Request) -> bytes | None:
    chunks = bytearray()
    try:
        async for chunk in request.stream():
            chunks += chunk
            if len(chunks) > _MAX_BODY_BYTES:
                return None
    except ClientDisconnect:
        # Nobody waits for the answer; what came so far is no JSON and is refused as such.
        return b""
    return bytes(chunks)


def _request(message: object, method: Method) -> tuple[str, dict[str, Any] | None]:
    """The rpcId and the contract's request of a client-request message, which may name this method only."""
    fields = message if isinstance(message, dict) else {}
    rpc_id = fields.get("rpcId")
    if not isinstance(rpc_id, str):
        rpc_id = "invalid-request"
    issues = _issues(fields)
    if issues:
        raise _TransportFailure(rpc_id, "bad-request", "invalid client-request message", issues)
    wire_name = method.name.replace(".", "/")
    if fields["method"] != wire_name:
        # The host's words; the client's own text goes back to it alone, as JSON.
        named, expected = json.dumps(fields["method"], ensure_ascii=False), json.dumps(wire_name)
        text = f"method {named} does not match endpoint {expected}"
        raise _TransportFailure(rpc_id, "bad-request", text, [])
    payload = fields["payload"]
    if not isinstance(payload, dict) or set(payload) != {"args"} or not isinstance(payload["args"], dict):
        text = "Remote payload must contain exactly one plain-object args field"
        raise _TransportFailure(rpc_id, "internal", text)
    return rpc_id, _params(rpc_id, payload["args"], method, wire_name)


def _issues(fields: dict[str, Any]) -> list[dict[str, Any]]:
    right = {
        "type": fields.get("type") == "client-request",
        "rpcId": isinstance(fields.get("rpcId"), str),
        "method": isinstance(fields.get("method"), str),
        "payload": "payload" in fields,
    }
    return [{"path": [key], "message": "Invalid input"} for key, good in right.items() if not good]


def _params(rpc_id: str, args: dict[str, Any], method: Method, wire_name: str) -> dict[str, Any] | None:
    unexpected = [key for key in args if method.request is None or key != "request"]
    if unexpected:
        listed = ", ".join(json.dumps(key, ensure_ascii=False) for key in unexpected)
        text = f"typert gateway: {wire_name}: args fields do not match the descriptor: unexpected {listed}"
        raise _TransportFailure(rpc_id, "internal", text)
    if method.request is None:
        return None
    params = args.get("request")
    if params is not None and not isinstance(params, dict):
        raise _TransportFailure(rpc_id, "internal", "request must be an object")
    return params or {}


def _answer(rpc_id: str, result: dict[str, Any]) -> Response:
    # ASCII: a name that is not UTF-8 travels as an escaped lone surrogate.
    content = json.dumps(
        {"type": "server-response", "rpcId": rpc_id, "result": result}, separators=(",", ":")
    )
    return Response(content, media_type="application/json", headers={"Cache-Control": "no-store"})
