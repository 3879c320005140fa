"""Tokens and rights at the HTTP door, and what the access log says of them."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from dsh_memory.contract import METHODS
from tests.api.doors import Door, message

READS = [name.removeprefix("memory.") for name, method in METHODS.items() if not method.mutating]
WRITES = [name.removeprefix("memory.") for name, method in METHODS.items() if method.mutating]


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


async def status_of(door: Door, method: str, query: str = "", **headers: str) -> int:
    async with door.client(**headers) as client:
        reply = await client.post(f"/api/memory/{method}{query}", json=message(method))
    assert len(door.contract.calls) == (1 if reply.status_code == 200 else 0)
    door.contract.calls.clear()
    return reply.status_code


def test_the_table_says_what_writes() -> None:
    assert WRITES == ["setEnabled", "migrateLegacy", "clear", "rollback", "applyPreview", "discardPreview"]


@pytest.mark.parametrize("method", READS + WRITES)
async def test_each_method_asks_for_its_own_right(door: Door, method: str) -> None:
    reading, writing = door.token("memory:read"), door.token("memory:write")
    expected = (200, 403) if method in READS else (403, 200)
    assert await status_of(door, method) == 401
    assert (
        await status_of(door, method, x_api_key=reading),
        await status_of(door, method, x_api_key=writing),
    ) == expected
    assert await status_of(door, method, authorization=f"bearer {door.token()}") == 200


@pytest.mark.parametrize(
    "restriction", [{"buckets": ["b"]}, {"scopes": ["s"]}, {"path_prefixes": ["p"]}, {"team": "t"}]
)
async def test_a_token_bound_to_a_part_reaches_no_method_without_filters(
    door: Door, restriction: dict[str, object]
) -> None:
    bound = door.token(**restriction)
    assert {await status_of(door, method, x_api_key=bound) for method in READS + WRITES} == {403}


async def test_a_temporary_agent_reads_only(door: Door) -> None:
    token = door.token(temporary_agent=True)
    assert await status_of(door, "status", x_api_key=token) == 200
    assert {await status_of(door, method, x_api_key=token) for method in WRITES} == {403}


async def test_what_is_no_good_token_is_refused(door: Door) -> None:
    token = door.token()
    store_id = token.split("_")[1]
    for headers, expected in (
        ({"authorization": f"Basic {token}"}, 401),
        ({"authorization": token}, 401),
        ({"x_api_key": ""}, 403),
        ({"x_api_key": token[:-1]}, 403),
        ({"x_api_key": f"dshm_{store_id}_{'A' * 43}"}, 403),
        ({"authorization": "Bearer " + "x" * 5000}, 403),
    ):
        assert await status_of(door, "status", **headers) == expected
    door.tokens.revoke(store_id)
    assert await status_of(door, "status", x_api_key=token) == 403


async def test_a_missing_token_is_challenged(door: Door) -> None:
    async with door.client() as client:
        reply = await client.post("/api/memory/status", json=message("status"))
    assert reply.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("name", ["api_key", "token", "access_token", "API_KEY", "key", "Authorization"])
async def test_a_key_in_the_address_is_refused_even_beside_a_good_one(door: Door, name: str) -> None:
    token = door.token()
    assert await status_of(door, "status", f"?{name}={token}") == 401
    assert await status_of(door, "status", f"?{name}={token}", x_api_key=token) == 401


async def test_a_broken_store_lets_nobody_in(door: Door, tmp_path: Path) -> None:
    token = door.token()
    os.chmod(tmp_path / "state" / "tokens.json", 0o644)
    assert await status_of(door, "status", x_api_key=token) == 503


async def test_open_reads_open_reads_for_local_callers_only(tmp_path: Path) -> None:
    door = Door(tmp_path, allowed=("memory.example",), open_reads=True)
    assert {await status_of(door, method) for method in READS} == {200}
    assert {await status_of(door, method) for method in WRITES} == {401}
    # a proxy on this machine forwards its client's Host
    assert await status_of(door, "status", host="memory.example") == 401
    # a wrong token is not quietly taken for none
    assert await status_of(door, "status", x_api_key="x") == 403


async def test_no_token_and_no_text_reach_a_log(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token, bad = door.token(), door.token()[:-1] + "~"
    body = message("search", request={"query": "private words"})
    async with door.client() as client:
        for headers in ({"x-api-key": token}, {"authorization": f"Bearer {bad}"}, {}):
            await client.post("/api/memory/search", json=body, headers=headers)
        await client.post(f"/api/memory/search?api_key={token}", json=body)
        await client.post(f"/api/memory/{token}", json=body)
    lines = [record.getMessage() for record in caplog.records if record.name == "dsh_memory.access"]
    assert [json.loads(line)["status"] for line in lines] == [200, 403, 401, 401, 404]
    assert json.loads(lines[0]) == {
        "time": "2026-08-20T12:00:00.000Z",
        "client": "127.0.0.1",
        "token": token.split("_")[1],
        "method": "POST",
        "path": "/api/memory/search",
        "status": 200,
        "ms": json.loads(lines[0])["ms"],
    }
    secrets = [text.split("_", 2)[2] for text in (token, bad)]
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith("http")]
    assert not [word for word in (*secrets, "private words", "api_key") if word in "\n".join(ours)]
