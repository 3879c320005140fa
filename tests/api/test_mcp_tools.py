"""The MCP server as its clients meet it: the official client over HTTP and stdio, and what real ones send."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from dsh_memory.service import MemoryService
from tests.api.serving import Served, serving
from tests.support.repositories import MemoryRepository, record

ALL_TOOLS = [
    "remember",
    "store_memory",
    "update_memory",
    "recall",
    "search_memory",
    "recall_context",
    "explain_memory",
    "list_memory_versions",
    "memory_overview",
    "memory_stats",
    "memory_activity",
    "get_mcp_identity",
    "forget",
    "forget_memory",
    "redact_memory",
    "restore_memory",
    "create_memory_todo",
    "list_memory_todos",
    "complete_memory_todo",
    "create_pending_decision",
    "list_pending_decisions",
    "resolve_decision",
    "update_state",
    "record_event",
    "get_timeline",
    "create_restart_snapshot",
    "restore_restart_snapshot",
    "get_project_context",
    "memory_search",
    "memory_context",
    "propose_memory",
]


@pytest.fixture
def served(memory: MemoryRepository) -> Iterator[Served]:
    with serving(memory) as running:
        yield running


class Tools:
    """Calls tools over plain HTTP, as clients do that keep no session."""

    def __init__(self, served: Served, token: str | None = None, **headers: str) -> None:
        self._client = served.client(token, accept="application/json, text/event-stream", **headers)

    def rpc(self, method: str, params: dict[str, Any] | None = None, **message: Any) -> httpx.Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}, **message}
        return self._client.post("/mcp", json=body)

    def call(self, name: str, **arguments: Any) -> Any:
        """The JSON that a tool answers."""
        result = self.result(name, output_json=True, **arguments)
        assert not result.get("isError"), result
        return json.loads(result["structuredContent"]["result"])

    def result(self, name: str, **arguments: Any) -> Any:
        answer = self.rpc("tools/call", {"name": name, "arguments": arguments})
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]


@asynccontextmanager
async def http_session(served: Served) -> AsyncIterator[ClientSession]:
    headers = {"Authorization": f"Bearer {served.token()}"}
    async with (
        httpx.AsyncClient(headers=headers) as client,
        streamable_http_client(f"{served.url}/mcp", http_client=client) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        yield session


async def test_the_official_client_over_http(served: Served) -> None:
    async with http_session(served) as session:
        tools = (await session.list_tools()).tools
        assert [tool.name for tool in tools] == ALL_TOOLS
        hints = {tool.name: tool.annotations for tool in tools}
        assert hints["recall"].read_only_hint and not hints["remember"].read_only_hint
        assert hints["redact_memory"].destructive_hint and not hints["remember"].destructive_hint
        assert {prompt.name for prompt in (await session.list_prompts()).prompts} == {
            "remember",
            "recall",
            "project-context",
        }
        done = await session.call_tool("remember", {"content": "Gamma rolls out on Tuesdays", "path": "p"})
        assert not done.is_error and set(done.structured_content) == {"result"}
        found = await session.call_tool("recall", {"query": "gamma rollout"})
        assert "Gamma rolls out on Tuesdays" in found.structured_content["result"]


async def test_the_official_client_over_stdio(memory: MemoryRepository) -> None:
    arguments = ["-m", "dsh_memory", "--root", str(memory.root), "mcp"]
    parameters = StdioServerParameters(command=sys.executable, args=arguments)
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        await session.call_tool("remember", {"content": "Delta uses blue green", "path": "p"})
        found = await session.call_tool("recall_context", {"query": "delta", "output_json": True})
        value = json.loads(found.structured_content["result"])
        assert [item["content"] for item in value["items"]] == ["Delta uses blue green"]


def test_no_token_no_tools(served: Served) -> None:
    assert Tools(served, "").rpc("tools/list").status_code == 401
    assert Tools(served, "dshm_0123456789ab_" + "x" * 43).rpc("tools/list").status_code == 403


def test_a_reading_token_cannot_write(served: Served) -> None:
    reader = Tools(served, served.token("read"))
    refused = reader.result("remember", content="x", path="p")
    assert refused["isError"] and "memory_write_scope_required" in refused["structuredContent"]["result"]
    assert reader.call("recall", query="x")["results"] == []


def test_a_bound_token_sees_its_part_only(served: Served, memory: MemoryRepository) -> None:
    everything = Tools(served)
    everything.call("remember", content="Alpha secret plan", path="a", bucket="red")
    bound = Tools(served, served.token("read", "write", buckets=["blue"]))
    assert bound.call("recall", query="alpha plan")["results"] == []
    for tool, arguments in (
        ("memory_search", {"query": "alpha"}),
        ("memory_context", {}),
        ("propose_memory", {"changes": [{"path": "handbook/x.md", "content": record("x")}]}),
    ):
        assert bound.result(tool, **arguments)["isError"], tool


def test_stringified_arguments_are_read_or_named(served: Served) -> None:
    tools = Tools(served)
    tools.call("remember", content="Zeta one", path="p", metadata_json='{"tags": ["a_b"]}', importance="0.9")
    value = tools.call("recall", query="zeta", limit="5", scope=None, path_filter="%")
    assert value["results"][0]["metadata"] == {"tags": ["a_b"]} and value["results"][0]["importance"] == 0.9
    wrong = tools.result("recall", query="zeta", limit="many")
    assert wrong["isError"] and "limit" in wrong["structuredContent"]["result"]
    assert "path" in tools.result("remember", content="x")["structuredContent"]["result"]
    assert tools.result("no_such_tool")["isError"]


def test_the_life_of_a_memory(served: Served) -> None:
    tools = Tools(served, x_memory_os_agent_id="vscode")
    memory_id = tools.call("remember", content="Note about zeta", path="notes")["id"]
    assert tools.call("update_memory", memory_id=memory_id, content="Note about zeta (v2)")["version"] == 2
    explained = tools.call("explain_memory", memory_id=memory_id, query="zeta")
    assert [version["version"] for version in explained["versions"]] == [2, 1]
    assert explained["provenance"]["agent_id"] == "vscode" and explained["provenance"]["door"] == "mcp"
    assert tools.call("forget", target=memory_id)["status"] == "deleted"
    assert tools.call("recall", query="zeta")["results"] == []
    assert tools.call("restore_memory", memory_id=memory_id)["restored"] is True
    assert len(tools.call("recall", query="zeta")["results"]) == 1
    # A target that is no exact id is refused, not guessed.
    assert tools.result("forget", target=memory_id[:8])["isError"]


def test_todos_decisions_state_and_timeline(served: Served) -> None:
    tools = Tools(served)
    todo = tools.call("create_memory_todo", content="todo via mcp")
    assert [item["id"] for item in tools.call("list_memory_todos")["reminders"]] == [todo["id"]]
    assert tools.call("complete_memory_todo", todo_id=todo["id"])["item_status"] == "completed"
    assert tools.call("list_memory_todos")["reminders"] == []
    decision = tools.call(
        "create_pending_decision", context="canary or blue-green?", options='["canary", "bg"]'
    )
    assert decision["options"] == ["canary", "bg"]
    resolved = tools.call("resolve_decision", decision_id=decision["id"], resolution="canary")
    assert resolved["item_status"] == "resolved"
    assert tools.call("update_state", current_task="x")["version"] == 1
    assert tools.call("create_restart_snapshot")["status"] == "created"
    assert tools.call("restore_restart_snapshot")["status"] == "restored"
    tools.call("record_event", content="shipped", event_type="milestone")
    events = tools.call("get_timeline", event_type="milestone")["events"]
    assert [event["content"] for event in events] == ["shipped"]
    for name in (
        "memory_overview",
        "memory_stats",
        "memory_activity",
        "get_mcp_identity",
        "get_project_context",
    ):
        tools.call(name)


def test_a_proposal_waits_for_a_person(served: Served, memory: MemoryRepository) -> None:
    tools = Tools(served)
    proposed = tools.call(
        "propose_memory", changes=[{"path": "handbook/new.md", "content": record("new-one", "Proposed.\n")}]
    )
    assert not (memory.root / "handbook/new.md").exists()
    service = MemoryService(memory.environment)
    [preview] = service.previews()["value"]["previews"]  # type: ignore[typeddict-item]
    assert preview["preview_id"] == proposed["preview_id"]
    applied = service.apply_preview(proposed["preview_id"])
    assert applied["ok"], applied
    assert (memory.root / "handbook/new.md").read_text().endswith("Proposed.\n")
    for path in ("../x.md", "handbook/../../x.md", ".sync/x", "handbook/.git/x", "README.md"):
        assert tools.result("propose_memory", changes=[{"path": path, "content": "x"}])["isError"], path


def test_a_proposal_is_held_to_the_rules_of_staging(served: Served, memory: MemoryRepository) -> None:
    tools = Tools(served)
    memory.write("handbook/one.md", record("one", "One.\n"))
    dirty = tools.result("propose_memory", changes=[{"path": "handbook/two.md", "content": record("two")}])
    assert dirty["isError"] and "dsh-memory save" in str(dirty)
    memory.commit()
    refused = {
        "the id of another record": {"path": "handbook/two.md", "content": record("one")},
        "no header": {"path": "handbook/two.md", "content": "---\nid: Two\n---\n"},
        "a file as a folder": {"path": "handbook/one.md/two.md", "content": record("two")},
        "nothing to delete": {"path": "handbook/none.md", "content": None},
        "the same text": {"path": "handbook/one.md", "content": record("one", "One.\n")},
    }
    for why, change in refused.items():
        assert tools.result("propose_memory", changes=[change])["isError"], why
    previews = MemoryService(memory.environment).previews()
    assert previews["ok"] and previews["value"]["previews"] == []
    assert not memory.path(".sync/previews").exists() or not list(memory.path(".sync/previews").iterdir())


def test_protocol_corners(served: Served) -> None:
    tools = Tools(served)
    offered = tools.rpc(
        "initialize",
        {
            "protocolVersion": "totally-unsupported",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        },
    )
    assert offered.json()["result"]["protocolVersion"] != "totally-unsupported"
    silent = tools._client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/no-such-thing"})
    assert silent.status_code == 202 and silent.content == b""
    assert tools._client.post("/mcp", content=b"{not json").status_code == 400
