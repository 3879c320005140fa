"""Requests in and answers out: strict JSON, the contract's error shapes, headers of every answer."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from dsh_memory.api.failures import ApiFailure, InvalidField
from dsh_memory.api.jobs import Replay
from dsh_memory.hosts.jsonrpc import BadJson, strict_json

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
_MOST_DRAINED_BYTES: Final = 64 * 1024 * 1024
_DEEPEST: Final = 64
_UNTEXTUAL: Final = re.compile("[\0\ud800-\udfff]")
_LONGEST_KEY: Final = 256


def respond(
    content: object,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    request_id: str | None = None,
) -> Response:
    """A JSON answer that no cache may keep."""
    body = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        "utf-8", "backslashreplace"
    )
    every = {"Cache-Control": "no-store, private", "X-Request-ID": request_id or new_request_id()}
    return Response(body, status, {**every, **(headers or {})}, media_type="application/json")


def refuse(failure: ApiFailure) -> Response:
    """A refusal in the contract's shapes: 422 its own, every other one both."""
    if isinstance(failure, InvalidField):
        return respond({"detail": failure.detail}, 422, failure.headers)
    request_id = new_request_id()
    error = {"code": failure.code, "message": failure.message, "request_id": request_id}
    return respond({"error": error, "detail": failure.message}, failure.status, failure.headers, request_id)


def refuse_model(error: ValidationError, place: str) -> Response:
    """The contract's 422 of a model's complaints, without what was sent."""
    detail = [
        {"loc": [place, *each["loc"]], "msg": each["msg"], "type": each["type"]}
        for each in error.errors(include_input=False, include_url=False, include_context=False)
    ]
    return respond({"detail": detail}, 422)


def new_request_id() -> str:
    """Names one answer, so that a person can ask about it."""
    return uuid.uuid4().hex


async def read_body(request: Request) -> bytes:
    """A request's body; raises ApiFailure 413."""
    chunks = bytearray()
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            # guard: body-limit
            if size <= MAX_BODY_BYTES:
                chunks += chunk
            elif size > _MOST_DRAINED_BYTES:
                break
    except ClientDisconnect:
        # Nobody waits for the answer.
        return b""
    if size > MAX_BODY_BYTES:
        # What is left is read and dropped: a connection closed on an unread body loses the answer.
        headers = {"Connection": "close"} if size > _MOST_DRAINED_BYTES else {}
        raise ApiFailure(413, "payload_too_large", "The body is too large.", headers=headers)
    return bytes(chunks)


def parse_body(data: bytes) -> dict[str, Any]:
    """A body's JSON object; raises InvalidField for what strict JSON, or a record, cannot hold."""
    try:
        value = strict_json(data)
    except BadJson as error:
        raise InvalidField(("body",), f"The body is not JSON: {error}", "json_invalid") from error
    if not isinstance(value, dict):
        raise InvalidField(("body",), "The body must be a JSON object.", "dict_type")
    check_texts(value, "body")
    return value


def check_texts(value: object, place: str) -> None:
    """Raises InvalidField where a text holds NUL or a lone surrogate, or where values are nested absurdly."""
    waiting: list[tuple[object, tuple[str | int, ...]]] = [(value, (place,))]
    while waiting:
        each, loc = waiting.pop()
        # guard: body-depth
        if len(loc) > _DEEPEST:
            raise InvalidField((place,), "The body is nested too deeply.", "json_invalid")
        if isinstance(each, dict):
            for key, inner in each.items():
                if _UNTEXTUAL.search(key):
                    raise InvalidField(loc, "A key holds NUL or half a character.", "string_unicode")
                waiting.append((inner, (*loc, key)))
        elif isinstance(each, list):
            waiting += ((inner, (*loc, number)) for number, inner in enumerate(each))
        # guard: text-only
        elif isinstance(each, str) and _UNTEXTUAL.search(each):
            raise InvalidField(loc, "A text holds NUL or half a character.", "string_unicode")


def replay_of(request: Request, path: str, body: Mapping[str, Any]) -> Replay | None:
    """The idempotency key of a write, from either header or the body, and what it stands for."""
    key = request.headers.get("idempotency-key") or request.headers.get("x-idempotency-key")
    if key is None:
        stated = body.get("idempotency_key")
        key = stated if isinstance(stated, str) else None
    if not key:
        return None
    if len(key) > _LONGEST_KEY:
        raise ApiFailure(400, "invalid_request", f"An idempotency key has {_LONGEST_KEY} characters at most.")
    rest = {name: value for name, value in body.items() if name != "idempotency_key"}
    what = json.dumps([request.method, path, str(request.query_params), rest], sort_keys=True)
    return Replay(key, sha256(what.encode()).hexdigest())


def expected_version(request: Request) -> int | None:
    """The version of an `If-Match` header; None without one, or for `*`."""
    text = request.headers.get("if-match")
    if text is None or text.strip() == "*":
        return None
    match = re.fullmatch(r'(?:W/)?"?([0-9]{1,9})"?', text.strip())
    if match is None:
        raise ApiFailure(400, "invalid_request", "If-Match names a version, as the ETag of the memory does.")
    return int(match[1])
