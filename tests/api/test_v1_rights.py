"""Who may do what: every endpoint without a token, with the wrong one, and with every restriction."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from dsh_memory.api.endpoints import ENDPOINTS
from dsh_memory.api.operations import Endpoint
from tests.api.serving import Served, serving
from tests.support.repositories import MemoryRepository

BODIES: dict[str, dict[str, Any]] = {
    "/remember": {"content": "x", "path": "p"},
    "/memories": {"content": "x", "path": "p"},
    "/recall/context": {"query": "secret"},
    "/memories/import": {"jsonl": '{"content":"x","path":"p"}\n'},
    "/reminders": {"content": "x"},
    "/decisions": {"context": "x"},
    "/decisions/{decision_id}/resolve": {"resolution": "x"},
    "/update_state": {"content": "x"},
    "/timeline/events": {"content": "x"},
}
RESTRICTIONS: list[dict[str, Any]] = [
    {"buckets": ["blue"]},
    {"scopes": ["other"]},
    {"path_prefixes": ["elsewhere"]},
    {"team": "b-team"},
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    memory = MemoryRepository.create(tmp_path_factory.mktemp("rights") / "memory")
    with serving(memory) as running:
        yield running


@pytest.fixture(autouse=True)
def isolated() -> None:
    """The module's server keeps its state folder; nothing here reads a home."""


def send(client: httpx.Client, endpoint: Endpoint, memory_id: str = "some-id") -> httpx.Response:
    path = re.sub(r"\{\w+(?::path)?\}", memory_id, endpoint.path)
    body = BODIES.get(endpoint.path, {}) if endpoint.body is not None else None
    params = {"query": "secret"} if endpoint.path in ("/memories/search", "/recall") else None
    return client.request(endpoint.method, f"/v1{path}", params=params, json=body)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_no_token_a_wrong_token_and_the_wrong_right(served: Served, endpoint: Endpoint) -> None:
    nobody = send(served.client(""), endpoint)
    assert nobody.status_code == 401 and nobody.json()["error"]["code"] == "unauthorized"
    wrong = send(served.client("dshm_0123456789ab_" + "x" * 43), endpoint)
    assert wrong.status_code == 403 and wrong.json()["detail"] == "Invalid or inactive API Key"
    other = "write" if endpoint.right == "memory:read" else "read"
    lacking = send(served.client(served.token(other)), endpoint)
    if endpoint.right != "memory:read":
        assert lacking.status_code == 403
        assert lacking.json()["error"]["code"] == f"{endpoint.right.replace(':', '_')}_scope_required"


@pytest.mark.parametrize("restriction", RESTRICTIONS, ids=lambda restriction: next(iter(restriction)))
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_no_endpoint_widens_a_restriction(
    served: Served, endpoint: Endpoint, restriction: dict[str, Any]
) -> None:
    everything = served.client()
    place = {"bucket": "red", "scope": "mine", "team_id": "a-team", "path": "here/x"}
    memory_id = everything.post("/v1/memories", json={"content": "the secret", **place}).json()["id"]
    answer = send(served.client(served.token(**restriction)), endpoint, memory_id)
    assert answer.status_code < 500
    assert "the secret" not in answer.text
    if "{" in endpoint.path:
        assert answer.status_code == 404
    elif endpoint.policy == "memory_write" and endpoint.path != "/restart/restore":
        # A write into a part of the memory that is not the token's own.
        assert answer.status_code == 403, answer.text
    assert everything.get(f"/v1/memories/{memory_id}").json()["version"] == 1


def test_within_its_part_a_bound_token_works(served: Served) -> None:
    bound = served.client(served.token(buckets=["blue"], path_prefixes=["here"]))
    mine = bound.post("/v1/remember", json={"content": "mine", "path": "here/a", "bucket": "blue"})
    assert mine.status_code == 201
    assert bound.patch(f"/v1/memories/{mine.json()['id']}", json={"bucket": "red"}).status_code == 403
    beside = bound.post("/v1/remember", json={"content": "x", "path": "hereafter", "bucket": "blue"})
    assert beside.status_code == 403


def test_keys_in_addresses_are_refused_and_never_logged(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = served.token()
    assert served.client("").get("/v1/memories", params={"api_key": token}).status_code == 401
    assert served.client(token).get("/v1/memories").status_code == 200
    assert served.client("", authorization=f"Bearer {token}").get("/v1/memories").status_code == 200
    # The server's own access log is off (`hosts.http`); this one is ours.
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("dsh_memory")]
    assert ours and token not in "".join(ours)


def test_token_answers(served: Served) -> None:
    client = served.client()
    value = client.get("/v1/auth/token/validate").json()
    assert value["status"] == "valid" and value["scopes"] == ["memory:read", "memory:write"]
    assert value["setup_state"] == "setup_completed"
    assert client.post("/v1/auth/token/revoke-self", json={}).status_code == 200
    assert client.get("/v1/auth/token/validate").status_code == 403
    temporary = served.client(served.token("read", temporary_agent=True))
    context = temporary.post("/v1/recall/context", json={"query": "x"}).json()
    assert context["version"] == "1.0"
    assert context.keys() == {"version", "query", "budget", "items", "context_text"}


def test_what_is_open_tells_nothing(served: Served) -> None:
    anonymous = served.client("")
    for path in ("/health", "/ready", "/.well-known/agent-discovery.json", "/.well-known/memory-os.json"):
        answer = anonymous.get(path)
        assert answer.status_code == 200 and str(served.memory.root) not in answer.text, path
    discovery = anonymous.get("/.well-known/agent-discovery.json").json()
    assert discovery["service"] == "memory-os" and discovery["security"]["no_remote_code_execution"] is True
    for path in ("/v1/me/ledger/monthly-summary", "/v1/ledger", "/v1/audit", "/v1/audit/events"):
        assert anonymous.get(path).status_code == 403
    for path in ("/v1/auth/device/start", "/v1/nothing", "/api/v1/nothing"):
        answer = anonymous.post(path, json={})
        assert answer.status_code == 404 and answer.json()["error"]["code"] == "not_found"
    assert anonymous.put("/v1/memories").status_code == 405
    assert anonymous.get("/openapi.json").status_code == 200  # loopback
    abroad = anonymous.get("/openapi.json", headers={"Host": f"elsewhere:{served.port}"})
    assert abroad.status_code in (401, 403)
