"""`POST /api/memory/<method>`: both result layers, and every refusal, as a running DSH host answers them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsh_memory.contract import METHODS
from tests.api.doors import Door, message


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


async def post(door: Door, path: str, content: bytes | dict[str, Any], **headers: str) -> Any:
    sent = content if isinstance(content, bytes) else json.dumps(content).encode()
    named = {"content_type": "application/json", "x_api_key": door.token(), **headers}
    async with door.client(**named) as client:
        return await client.post(path, content=sent)


@pytest.mark.parametrize("name", METHODS)
async def test_every_method_of_the_contract_is_served(door: Door, name: str) -> None:
    method = name.removeprefix("memory.")
    takes_request = METHODS[name].request is not None
    args = {"request": {"limit": 3}} if takes_request else {}
    reply = await post(door, f"/api/memory/{method}", message(method, **args))
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "no-store"
    params = {"limit": 3} if takes_request else None
    envelope = {"ok": True, "value": {"method": name, "params": params}}
    assert reply.json() == {
        "type": "server-response",
        "rpcId": "r1",
        "result": {"ok": True, "value": envelope},
    }


@pytest.mark.parametrize("args", [{}, {"request": None}, {"request": {}}])
async def test_a_missing_request_is_an_empty_one(door: Door, args: dict[str, Any]) -> None:
    await post(door, "/api/memory/clear", message("clear", **args))
    assert door.contract.calls == [("memory.clear", {})]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/memory/nope", message("nope")),
        ("/api/memory/memory.status", message("status")),
        ("/api/memory/status/", message("status")),
        ("/api/memory/", message("status")),
        ("/api/other/status", message("status")),
        ("/api/", {}),
        ("/api/memory/call", message("call")),
        ("/api/memory/__class__", message("__class__")),
    ],
)
async def test_what_is_no_method_is_not_found(door: Door, path: str, body: dict[str, Any]) -> None:
    reply = await post(door, path, body)
    assert (reply.status_code, reply.text) == (404, "not found")
    assert door.contract.calls == []


@pytest.mark.parametrize("verb", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_only_post_is_served(door: Door, verb: str) -> None:
    async with door.client(x_api_key=door.token()) as client:
        assert (await client.request(verb, "/api/memory/status")).status_code == 404


@pytest.mark.parametrize("kind", ["text/plain", "", "application/jsonx", "multipart/form-data"])
async def test_another_content_type_is_refused(door: Door, kind: str) -> None:
    reply = await post(door, "/api/memory/status", message("status"), content_type=kind)
    assert (reply.status_code, reply.text) == (415, "content type must be application/json")


async def test_a_content_type_may_carry_parameters(door: Door) -> None:
    kind = "APPLICATION/JSON ; charset=utf-8"
    reply = await post(door, "/api/memory/status", message("status"), content_type=kind)
    assert reply.status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"),
        b'{"payload": NaN}',
        b'{"payload": Infinity}',
        b'{"payload": 1e999}',
        b'{"type": "client-request", "type": "x"}',
        b"[" * 100_000,
        b"9" * 10_000,
    ],
)
async def test_a_body_that_is_no_strict_json_is_refused(door: Door, body: bytes) -> None:
    reply = await post(door, "/api/memory/status", body)
    assert (reply.status_code, reply.text) == (400, "body is not JSON")


async def test_a_body_over_a_mebibyte_is_refused_unread(door: Door) -> None:
    body = json.dumps(message("search", request={"query": "x" * 1024 * 1024})).encode()
    reply = await post(door, "/api/memory/search", body)
    assert reply.status_code == 413
    assert door.contract.calls == []


@pytest.mark.parametrize(
    ("body", "rpc_id", "paths"),
    [
        ([], "invalid-request", ["type", "rpcId", "method", "payload"]),
        ({}, "invalid-request", ["type", "rpcId", "method", "payload"]),
        ({"type": "client-request", "rpcId": "", "method": "memory/status"}, "", ["payload"]),
        ({"type": "x", "rpcId": "a", "method": 5, "payload": {}}, "a", ["type", "method"]),
        ({**message("status"), "rpcId": 7}, "invalid-request", ["rpcId"]),
    ],
)
async def test_a_message_without_its_fields_is_a_bad_request(
    door: Door, body: Any, rpc_id: str, paths: list[str]
) -> None:
    reply = await post(door, "/api/memory/status", json.dumps(body).encode())
    assert reply.status_code == 200
    answer = reply.json()
    assert answer["rpcId"] == rpc_id
    error = answer["result"]["error"]
    assert (answer["result"]["ok"], error["code"]) == (False, "bad-request")
    assert error["message"] == "invalid client-request message"
    assert [issue["path"] for issue in error["details"]["issues"]] == [[path] for path in paths]


async def test_a_method_that_disagrees_with_the_path_is_a_bad_request(door: Door) -> None:
    reply = await post(
        door, "/api/memory/status", message("clear", request={"confirmation": "DELETE_MEMORY"})
    )
    assert reply.json()["result"]["error"] == {
        "code": "bad-request",
        "message": 'method "memory/clear" does not match endpoint "memory/status"',
        "details": {"issues": []},
    }
    assert door.contract.calls == []


PAYLOAD = "Remote payload must contain exactly one plain-object args field"
UNEXPECTED = "args fields do not match the descriptor: unexpected"


@pytest.mark.parametrize(
    ("method", "payload", "words"),
    [
        ("status", {}, PAYLOAD),
        ("status", None, PAYLOAD),
        ("status", {"args": []}, PAYLOAD),
        ("status", {"args": {}, "root": "/etc"}, PAYLOAD),
        ("status", {"args": {"request": {}}}, f'typert gateway: memory/status: {UNEXPECTED} "request"'),
        ("clear", {"args": {"root": "/etc"}}, f'typert gateway: memory/clear: {UNEXPECTED} "root"'),
        ("clear", {"args": {"request": 5}}, "request must be an object"),
        ("clear", {"args": {"request": ["DELETE_MEMORY"]}}, "request must be an object"),
    ],
)
async def test_arguments_that_do_not_fit_are_an_internal_failure(
    door: Door, method: str, payload: object, words: str
) -> None:
    reply = await post(door, f"/api/memory/{method}", {**message(method), "payload": payload})
    assert reply.status_code == 200
    error = {"code": "internal", "message": words, "details": {}}
    assert reply.json()["result"] == {"ok": False, "error": error}
    assert door.contract.calls == []


async def test_text_that_templates_and_loggers_know_comes_back_as_sent(door: Door) -> None:
    query = "{{x}} $& {0} %s \x1b]52;c;x\x07 \ud800"
    reply = await post(door, "/api/memory/search", message("search", request={"query": query}))
    assert reply.content.isascii()
    assert reply.json()["result"]["value"]["value"]["params"] == {"query": query}
