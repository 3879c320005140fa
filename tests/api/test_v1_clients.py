"""What the vendor's public clients really send, against the server: nulls, extra keys, both idempotency headers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.serving import Served, serving
from tests.support.repositories import MemoryRepository

RECORDED = Path(__file__).parent.parent / "data" / "xmemo" / "client-requests.jsonl"
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: The recorder answered these on purpose with an error, or offered a login that this server has not.
_NOT_OURS = ("/auth/device/", "/v1/auth/token/revoke-self")


def requests() -> Iterator[dict[str, Any]]:
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        request = json.loads(line)
        if request["path"] != "/mcp" and not any(part in request["path"] for part in _NOT_OURS):
            yield request


@pytest.fixture
def served(memory: MemoryRepository) -> Iterator[Served]:
    with serving(memory) as running:
        yield running


def test_every_recorded_request_is_understood(served: Served) -> None:
    client = served.client()
    latest: dict[str, str] = {}
    for request in requests():
        kind = (
            "reminders"
            if "/reminders/" in request["path"]
            else "decisions"
            if "/decisions/" in request["path"]
            else "memories"
        )
        path = _ID.sub(lambda match, kind=kind: latest.get(kind, match[0]), request["path"])
        headers = {
            name: value
            for name, value in request["headers"].items()
            if name not in ("authorization", "x-api-key", "user-agent")
        }
        answer = client.request(
            request["method"], path, params=request["query"], json=request["body"], headers=headers
        )
        where = (request["client"], request["method"], path, answer.text[:200])
        assert answer.status_code < 500, where
        if request["status"] in (200, 201) and not path.startswith("/v1/skill"):
            # Some recorders said 200 where the contract says 201; a memory forgotten before is 404.
            assert answer.status_code in (200, 201, 404), where
        value = answer.json()
        if answer.status_code == 201 and path.endswith(("/remember", "/reminders", "/decisions")):
            latest[path.rpartition("/")[2].replace("remember", "memories")] = value["id"]
        if "results" in value:
            assert isinstance(value["results"], list) and 0 <= value["coverage"] <= 1
        for item in value.get("items", ()):
            assert item.keys() >= {"id", "bucket", "scope", "path", "score", "snippet"}


def test_the_skill_door(served: Served) -> None:
    client = served.client()

    def run(operation: str, **arguments: object) -> Any:
        body = {"operation": operation, "arguments": arguments}
        answer = client.post("/v1/skill/operations", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]

    assert run("doctor")["authenticated"] is True
    run("remember", content="Use pnpm in repo alpha", path="projects/alpha")
    assert len(run("search", query="pnpm", limit="5")["results"]) == 1
    run("state-save", key="active_task", content="running tests")
    assert run("state-restore", key="active_task")["content"] == "running tests"
    todo = run("todo-add", content="Add unit tests")
    assert [each["id"] for each in run("todo-list")["reminders"]] == [todo["id"]]
    assert run("todo-done", id=todo["id"])["item_status"] == "completed"
    assert client.post("/v1/skill/operations", json={"operation": "expense-add"}).status_code == 400
    anonymous = served.client("")
    assert anonymous.post("/v1/skill/operations", json={"operation": "doctor"}).json()["result"] == {
        "status": "ok",
        "authenticated": False,
        "scopes": [],
    }
    assert anonymous.post("/v1/skill/operations", json={"operation": "recall"}).status_code == 401


def test_reminders_decisions_state_and_snapshots(served: Served) -> None:
    client = served.client()
    late = client.post("/v1/reminders", json={"content": "b", "due_at": "2031-12-01T00:00:00Z"}).json()
    soon = client.post("/v1/reminders", json={"content": "a", "due_at": "2031-11-01"}).json()
    ids = [each["id"] for each in client.get("/v1/reminders").json()["reminders"]]
    assert ids == [soon["id"], late["id"]]
    due = client.get("/v1/reminders", params={"due_before": "2031-11-15"}).json()["reminders"]
    assert [each["id"] for each in due] == [soon["id"]]
    first = client.post(f"/v1/reminders/{soon['id']}/complete", json={"note": "ok"})
    again = client.post(f"/v1/reminders/{soon['id']}/complete")
    assert first.json() == again.json() and first.json()["item_status"] == "completed"
    assert client.post("/v1/reminders/nope/complete", json={}).status_code == 404

    decision = client.post("/v1/decisions", json={"context": "which?", "options": ["a", "b"]}).json()
    resolve = f"/v1/decisions/{decision['id']}/resolve"
    assert client.post(resolve, json={"resolution": "a"}).json()["item_status"] == "resolved"
    assert client.post(resolve, json={"resolution": "b"}).status_code == 409

    one = client.post(
        "/v1/update_state", json={"current_task": "ship", "ttl_seconds": 60, "scope": "s"}
    ).json()
    two = client.post("/v1/update_state", json={"current_task": "test", "scope": "s"}).json()
    assert (one["id"], one["version"], two["version"]) == (two["id"], 1, 2)
    snapshot = client.post("/v1/restart/snapshot", json={"scope": "s"}).json()
    assert snapshot["snapshot"]["state"]["current_task"] == "test"
    client.post("/v1/update_state", json={"current_task": "other", "scope": "s"})
    back = client.post("/v1/restart/restore", json={"scope": "s"}).json()
    assert back["status"] == "restored" and back["state_update"]["version"] == 4
    missing = client.post("/v1/restart/restore", json={"snapshot_id": "nope"}).json()
    assert missing["status"] == "not_found" and missing["restored"] is False


def test_export_and_import(served: Served, tmp_path: Path) -> None:
    client = served.client()
    for number in range(3):
        client.post(
            "/v1/remember", json={"content": f"note {number}", "path": "p", "metadata": {"n": number}}
        )
    page = client.post("/v1/memories/export", json={"limit": 2}).json()
    rest = client.post("/v1/memories/export", json={"cursor": page["next_cursor"]}).json()
    assert (page["count"], rest["count"], rest["next_cursor"]) == (2, 1, None)
    lines = page["jsonl"] + rest["jsonl"]
    assert client.post("/v1/memories/import", json={"jsonl": lines}).json()["unchanged"] == 3
    other = MemoryRepository.create(tmp_path / "other")
    with serving(other) as fresh:
        own = fresh.client()
        assert own.post("/v1/memories/import", json={"jsonl": lines}).json()["imported"] == 3
        assert [each["metadata"] for each in own.get("/v1/memories").json()["memories"]] == [
            json.loads(line)["metadata"]
            for line in sorted(lines.splitlines(), key=lambda line: json.loads(line)["id"])
        ]
        broken = own.post(
            "/v1/memories/import", json={"jsonl": '{"content":"x","path":"p"}\n{"content":1}\n'}
        )
        assert broken.status_code == 422 and broken.json()["detail"][0]["loc"][:3] == ["body", "jsonl", 2]
        assert own.get("/v1/memories").json()["total"] == 3
