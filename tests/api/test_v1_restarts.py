"""A server that is killed and started again between any two calls answers as one that never was."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dsh_memory.api.endpoints import ENDPOINTS
from tests.api.processes import ServerProcess
from tests.support.repositories import MemoryRepository

#: What may differ from run to run: ids that the server chose, commits, instants, and what follows from them.
_VOLATILE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{40}\b"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"
)
_PLAIN = {"path": "projects/alpha", "scope": "s1"}

Call = tuple[str, str, dict[str, Any], str | None]

#: Method, path (`{name}` is an id that an earlier call gave), arguments, and the name for the id of the answer.
CALLS: tuple[Call, ...] = (
    ("POST", "/remember", {**_PLAIN, "content": "The build runs on the blue machine."}, "blue"),
    (
        "POST",
        "/remember",
        {**_PLAIN, "content": "Deploys are on Tuesday.", "semantic_key": "deploy"},
        "deploy",
    ),
    ("POST", "/remember", {**_PLAIN, "content": "Deploys are on Friday.", "semantic_key": "deploy"}, None),
    ("POST", "/memories", {**_PLAIN, "content": "Stored as it is.", "memory_id": "own/id"}, None),
    ("POST", "/memories", {**_PLAIN, "content": "Once.", "idempotency_key": "k1"}, "once"),
    ("POST", "/memories", {**_PLAIN, "content": "Once.", "idempotency_key": "k1"}, None),
    ("POST", "/memories", {**_PLAIN, "content": "Twice.", "idempotency_key": "k1"}, None),
    ("GET", "/memories/search", {"query": "which machine builds", "explain": "true"}, None),
    ("GET", "/recall", {"query": "deploys", "scope": "s1"}, None),
    ("POST", "/recall/context", {"query": "deploy machine"}, None),
    ("GET", "/memories/stats", {}, None),
    ("PATCH", "/memories/{blue}", {"content": "The build runs on the green machine."}, None),
    ("PATCH", "/memories/{blue}", {"content": "Lost race.", "expected_version": 1}, None),
    ("GET", "/memories/{blue}", {}, None),
    ("GET", "/memories/{blue}/explain", {"query": "machine"}, None),
    ("GET", "/memories/{deploy}/versions", {}, None),
    ("POST", "/memories/{blue}/usage", {"action": "cited"}, None),
    ("POST", "/memories/{blue}/usage", {}, None),
    ("POST", "/memories/export", {}, None),
    ("POST", "/memories/import", {"jsonl": '{"id":"imported/one","content":"From afar.","path":"p"}'}, None),
    ("POST", "/memories/{blue}/forget", {"reason": "no longer"}, None),
    ("GET", "/memories/{blue}", {}, None),
    ("POST", "/memories/{blue}/restore", {}, None),
    ("DELETE", "/memories/own/id", {"mode": "soft_delete"}, None),
    ("GET", "/memories", {"limit": "10"}, None),
    ("POST", "/reminders", {"content": "Call back.", "due_at": "2031-01-01T10:00:00Z"}, "reminder"),
    ("GET", "/reminders", {}, None),
    ("POST", "/reminders/{reminder}/complete", {"note": "done"}, None),
    ("GET", "/reminders", {"item_status": "%"}, None),
    ("POST", "/decisions", {"context": "Blue or green?", "options": ["blue", "green"]}, "decision"),
    ("POST", "/decisions/{decision}/resolve", {"resolution": "green"}, None),
    ("GET", "/decisions", {"item_status": "resolved"}, None),
    ("POST", "/update_state", {"current_task": "build", "next_action": "test"}, "state"),
    ("POST", "/timeline/events", {"content": "Began.", "event_type": "start"}, None),
    ("POST", "/timeline/events", {"content": "Once only.", "idempotency_key": "k2"}, None),
    ("POST", "/timeline/events", {"content": "Once only.", "idempotency_key": "k2"}, None),
    ("GET", "/timeline", {}, None),
    ("POST", "/restart/snapshot", {"label": "before lunch"}, "snapshot"),
    ("POST", "/update_state", {"current_task": "something else"}, None),
    ("POST", "/restart/restore", {"snapshot_id": "{snapshot}"}, None),
    ("GET", "/memories/{state}", {}, None),
    ("GET", "/timeline", {}, None),
    ("POST", "/memories/{once}/forget", {"mode": "redact", "idempotency_key": "k3"}, None),
    ("POST", "/memories/{once}/forget", {"mode": "redact", "idempotency_key": "k3"}, None),
    ("POST", "/memories/{deploy}/forget", {"mode": "hard_delete", "idempotency_key": "k4"}, None),
    ("POST", "/memories/{deploy}/forget", {"mode": "hard_delete", "idempotency_key": "k4"}, None),
    ("GET", "/memories/{deploy}", {}, None),
    ("GET", "/memories/search", {"query": "deploys machine friday"}, None),
    ("GET", "/memories/stats", {}, None),
)


def test_the_script_asks_every_endpoint() -> None:
    def shape(path: str) -> str:
        return re.sub(r"\{[^}]*\}|own/id", "*", path)

    assert {(each.method, shape(each.path)) for each in ENDPOINTS} == {
        (method, shape(path)) for method, path, _, _ in CALLS
    }


@pytest.mark.slow
def test_a_kill_between_any_two_calls_changes_no_answer(tmp_path: Path) -> None:
    found = []
    for name in ("steady", "killed"):
        memory = MemoryRepository.create(tmp_path / name / "memory")
        with ServerProcess(memory) as server:
            found.append(answers(server, restart=name == "killed"))
        assert memory.git("fsck", "--strict") is not None
    for call, steady, killed in zip(CALLS, *found, strict=True):
        assert killed == steady, call


def answers(server: ServerProcess, *, restart: bool) -> list[tuple[int, str]]:
    """Status and comparable text of every call's answer."""
    ids: dict[str, str] = {}
    names: dict[str, str] = {}
    found: list[tuple[int, str]] = []
    for method, path, arguments, name in CALLS:
        given = {
            key: value.format(**ids) if isinstance(value, str) and value.startswith("{snap") else value
            for key, value in arguments.items()
        }
        options = {"params" if method in ("GET", "DELETE") else "json": given}
        answer = server.client.request(method, "/v1" + path.format(**ids), **options)  # type: ignore[arg-type]
        if name is not None:
            ids[name] = answer.json()["id"]
        found.append((answer.status_code, comparable(answer.json(), names)))
        if restart:
            server.restart()
    return found


def comparable(value: object, names: dict[str, str]) -> str:
    """A value as text, in which what may differ is named by the order in which it first came."""

    def named(match: re.Match[str]) -> str:
        text = match.group()
        if "T" in text or " " in text:
            return "<instant>"
        return names.setdefault(text, f"<id {len(names)}>")

    def plain(each: Any) -> Any:
        if isinstance(each, dict) and "jsonl" in each:
            # In the order of ids, which the server chose.
            lines = [json.loads(line) for line in each["jsonl"].splitlines()]
            return {**each, "jsonl": plain(sorted(lines, key=lambda line: str(line["content"])))}
        if isinstance(each, dict):
            return {key: plain(item) for key, item in each.items() if key != "request_id"}
        if isinstance(each, list):
            return [plain(item) for item in each]
        # Recency counts in milliseconds.
        return round(each, 2) if isinstance(each, float) else each

    return _VOLATILE.sub(named, repr(plain(value)))
