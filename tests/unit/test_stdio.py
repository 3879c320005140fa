"""The stdio server over real pipes: framing, order, errors, the end, and frames only on standard output."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dsh_memory
from dsh_memory.contract import METHODS
from dsh_memory.environment import Environment
from dsh_memory.hosts import stdio
from tests.support.repositories import MemoryRepository
from tests.support.services import FakeService

_WAIT = 20.0


class Host:
    """The other end of the pipes."""

    def __init__(self, service: FakeService) -> None:
        self.service = service
        requests, self.stdin = os.pipe()
        self.stdout, frames = os.pipe()
        self.frames: queue.Queue[bytes | None] = queue.Queue()
        self.finished: bool | None = None
        self._server = threading.Thread(target=self._serve, args=(requests, frames))
        self._reader = threading.Thread(target=self._read)
        self._server.start()
        self._reader.start()

    def _serve(self, requests: int, frames: int) -> None:
        try:
            self.finished = stdio.serve(self.service, requests, frames)
        finally:
            os.close(frames)
            os.close(requests)

    def _read(self) -> None:
        with os.fdopen(self.stdout, "rb", buffering=0) as frames:
            held = b""
            while chunk := frames.read(65536):
                *lines, held = (held + chunk).split(b"\n")
                for line in lines:
                    self.frames.put(line)
        assert held == b""
        self.frames.put(None)

    def send(self, *messages: object) -> None:
        for message in messages:
            data = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
            while data:
                data = data[os.write(self.stdin, data) :]

    def next(self) -> Any:
        line = self.frames.get(timeout=_WAIT)
        return None if line is None else json.loads(line)

    def ask(self, *messages: object) -> Any:
        self.send(*messages)
        return self.next()

    def end(self) -> list[Any]:
        """Closes the input; every frame still to come."""
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1
        rest = []
        while (frame := self.next()) is not None:
            rest.append(frame)
        self._server.join(_WAIT)
        self._reader.join(_WAIT)
        assert not self._server.is_alive()
        return rest


@pytest.fixture
def service(tmp_path: Path) -> FakeService:
    return FakeService(Environment(str(tmp_path / "dsh"), str(tmp_path / "dsh" / "storages" / "memory")))


@pytest.fixture
def host(service: FakeService) -> Iterator[Host]:
    host = Host(service)
    ready = host.next()
    assert ready["method"] == "ready"
    yield host
    for gate in service.gates.values():
        gate.set()
    if host.stdin >= 0:
        host.end()


def request(method: str, id: object = 1, **more: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id, "method": method, **more}


def error(id: object, code: int) -> tuple[object, int]:
    return (id, code)


def errors(frame: Any) -> tuple[object, int]:
    assert set(frame) == {"jsonrpc", "id", "error"} and frame["jsonrpc"] == "2.0"
    assert isinstance(frame["error"]["message"], str)
    return (frame["id"], frame["error"]["code"])


def test_ready_is_the_first_frame(service: FakeService) -> None:
    host = Host(service)
    host.send(request("memory.status"))
    ready = host.next()
    assert ready == {
        "jsonrpc": "2.0",
        "method": "ready",
        "params": {
            "protocol": 1,
            "server": "dsh-memory",
            "version": dsh_memory.__version__,
            "pid": os.getpid(),
            "methods": [
                *METHODS,
                "tools.memory_search",
                "tools.memory_context",
                "host.promptSection",
            ],
        },
    }
    assert len(host.end()) == 1
    assert host.finished is True


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_forwarded(host: Host, method: str) -> None:
    frame = host.ask(request(method, "an id", params={"a": [1, "漢", None]}))
    assert frame == {
        "jsonrpc": "2.0",
        "id": "an id",
        "result": {"ok": True, "value": {"method": method, "params": {"a": [1, "漢", None]}}},
    }


def test_absent_params_are_an_empty_object(host: Host) -> None:
    assert host.ask(request("memory.status"))["result"]["value"]["params"] == {}


def test_a_contract_failure_is_a_result(host: Host, service: FakeService) -> None:
    service.answers["memory.clear"] = lambda: {"ok": False, "error": {"code": "clear-failed"}}
    assert host.ask(request("memory.clear"))["result"] == {"ok": False, "error": {"code": "clear-failed"}}


def test_a_slow_read_blocks_nothing(host: Host, service: FakeService) -> None:
    service.gates["memory.search"] = threading.Event()
    host.send(*(request("memory.search", f"slow {number}") for number in range(10)))
    assert host.ask(request("memory.status", "fast"))["id"] == "fast"
    assert host.ask(request("memory.setEnabled", "write"))["id"] == "write"
    service.gates["memory.search"].set()
    assert sorted(host.next()["id"] for _ in range(10)) == [f"slow {number}" for number in range(10)]


def test_mutating_calls_keep_their_order_and_reads_pass_them(host: Host, service: FakeService) -> None:
    gate = service.gates["memory.clear"] = threading.Event()
    host.send(
        request("memory.clear", 1),
        *(
            request("memory.applyPreview", number, params={"previewId": str(number)})
            for number in range(2, 30)
        ),
    )
    assert host.ask(request("memory.health", "read"))["id"] == "read"
    gate.set()
    assert [host.next()["id"] for _ in range(29)] == list(range(1, 30))
    mutating = [params for method, params in service.calls if method == "memory.applyPreview"]
    assert mutating == [{"previewId": str(number)} for number in range(2, 30)]


def test_a_thousand_interleaved_calls(host: Host) -> None:
    names = list(METHODS)
    host.send(*(request(names[number % len(names)], number) for number in range(1000)))
    replies = {
        frame["id"]: frame["result"]["value"]["method"] for frame in (host.next() for _ in range(1000))
    }
    assert replies == {number: names[number % len(names)] for number in range(1000)}


def test_notifications_are_silent_and_done(host: Host, service: FakeService) -> None:
    host.send(
        {"jsonrpc": "2.0", "method": "memory.setEnabled", "params": {"enabled": True}},
        {"jsonrpc": "2.0", "method": "no.such.method"},
        {"jsonrpc": "2.0", "method": "memory.status", "params": [1]},
        {"jsonrpc": "2.0", "method": "memory.search", "params": {}},
    )
    service.answers["memory.search"] = lambda: 1 / 0
    assert host.ask(request("memory.rollback", "after"))["id"] == "after"
    assert host.end() == []
    assert ("memory.setEnabled", {"enabled": True}) in service.calls
    assert "memory.status" not in [method for method, _ in service.calls]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"{", error(None, -32700)),
        (b"nonsense", error(None, -32700)),
        (b'{"jsonrpc":"2.0","id":1,"method":"memory.status"', error(None, -32700)),
        (b'{"jsonrpc":"2.0","id":1,"method":"memory.stat\xff"}', error(None, -32700)),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"memory.status"}', error(None, -32700)),
        (b'{"jsonrpc":"2.0","id":1,"method":"memory.status","params":{"a":NaN}}', error(None, -32700)),
        (b'{"jsonrpc":"2.0","id":1,"method":"memory.status","params":{"a":-Infinity}}', error(None, -32700)),
        (b'{"jsonrpc":"2.0","id":1,"method":"memory.status","params":{"a":1e999}}', error(None, -32700)),
        (b'{"jsonrpc":"2.0","id":' + b"1" * 5000 + b',"method":"memory.status"}', error(None, -32700)),
        (b"[" * 100_000, error(None, -32700)),
        (b"[]", error(None, -32600)),
        (b'[{"jsonrpc":"2.0","id":1,"method":"memory.status"}]', error(None, -32600)),
        (b'"text"', error(None, -32600)),
        (b"null", error(None, -32600)),
        (b"{}", error(None, -32600)),
        (b'{"jsonrpc":"2.0","id":null,"method":"memory.status"}', error(None, -32600)),
        (b'{"jsonrpc":"2.0","id":true,"method":"memory.status"}', error(None, -32600)),
        (b'{"jsonrpc":"2.0","id":[1],"method":"memory.status"}', error(None, -32600)),
        (b'{"jsonrpc":"2.0","id":{},"method":"memory.status"}', error(None, -32600)),
        (b'{"jsonrpc":"1.0","id":7,"method":"memory.status"}', error(7, -32600)),
        (b'{"id":7,"method":"memory.status"}', error(7, -32600)),
        (b'{"jsonrpc":2.0,"id":7,"method":"memory.status"}', error(7, -32600)),
        (b'{"jsonrpc":"2.0","id":7}', error(7, -32600)),
        (b'{"jsonrpc":"2.0","id":7,"method":1}', error(7, -32600)),
        (b'{"jsonrpc":"2.0","id":7,"method":"memory.status","params":[]}', error(7, -32600)),
        (b'{"jsonrpc":"2.0","id":7,"method":"memory.status","params":null}', error(7, -32600)),
        (b'{"jsonrpc":"2.0","id":7,"method":"memory.status","params":"x"}', error(7, -32600)),
        (b'{"jsonrpc":"2.0","id":7,"method":"memory.clear","params":{"a":1,"a":2}}', error(7, -32600)),
        (b'{"jsonrpc":"2.0","id":7,"method":"memory.status","method":"memory.clear"}', error(7, -32600)),
        (b'{"jsonrpc":"2.0","id":"x","method":"memory.Status"}', error("x", -32601)),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"__init__"}', error(1.5, -32601)),
        (b'{"jsonrpc":"2.0","id":"","method":"memory.call"}', error("", -32601)),
        (b'{"jsonrpc":"2.0","id":0,"method":"tools.memory_clear"}', error(0, -32601)),
        (b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', error(1, -32601)),
    ],
)
def test_bad_lines(host: Host, service: FakeService, line: bytes, expected: tuple[object, int]) -> None:
    assert errors(host.ask(line + b"\n")) == expected
    assert service.calls == []
    assert host.ask(request("memory.status", "alive"))["id"] == "alive"


def test_an_ambiguous_id_is_not_echoed(host: Host) -> None:
    assert errors(host.ask(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"memory.status"}\n')) == (None, -32600)


@pytest.mark.parametrize(
    "answer", [lambda: 1 / 0, lambda: {"ok": True, "value": {1: object()}}, lambda: float("nan")]
)
def test_a_fault_of_ours_is_an_internal_error(
    host: Host, service: FakeService, answer: Callable[[], Any]
) -> None:
    service.answers["memory.status"] = answer
    assert errors(host.ask(request("memory.status", 5))) == (5, -32603)
    assert host.ask(request("memory.health", 6))["id"] == 6


def test_a_line_of_5_mb(host: Host) -> None:
    text = "漢" * 1_700_000
    assert host.ask(request("memory.search", params={"query": text}))["result"]["value"]["params"] == {
        "query": text
    }


def test_a_line_beyond_the_limit_is_skipped(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 1000)
    host.send(b'{"jsonrpc":"2.0","id":1,"method":"memory.status","params":{"a":"', b"x" * 900_000, b'"}}\n')
    assert errors(host.next()) == (None, -32600)
    assert host.ask(request("memory.status", 2))["id"] == 2


def test_blank_lines_and_carriage_returns_are_nothing(host: Host) -> None:
    host.send(b"\n \n\r\n")
    assert host.ask(b'{"jsonrpc":"2.0","id":1,"method":"memory.status"}\r\n')["id"] == 1


def test_bytes_may_come_one_by_one(host: Host) -> None:
    for byte in json.dumps(request("memory.status", "漢")).encode() + b"\n":
        os.write(host.stdin, bytes([byte]))
    assert host.next()["id"] == "漢"


@pytest.mark.parametrize("half", [b'{"jsonrpc":"2.0","id":1,"method":"memory.cle', b"\xff\xfe", b"{"])
def test_half_a_line_and_the_end(host: Host, service: FakeService, half: bytes) -> None:
    host.send(request("memory.status"), half)
    assert [frame["id"] for frame in host.end()] == [1]
    assert host.finished is True
    assert [method for method, _ in service.calls] == ["memory.status"]


def test_a_whole_last_line_without_its_end_is_answered(host: Host) -> None:
    host.send(json.dumps(request("memory.status", "last")).encode())
    assert [frame["id"] for frame in host.end()] == ["last"]


def test_calls_under_way_are_finished_at_the_end(host: Host, service: FakeService) -> None:
    gate = service.gates["memory.clear"] = threading.Event()
    host.send(request("memory.clear", 1), request("memory.rollback", 2))
    os.close(host.stdin)
    host.stdin = -1
    gate.set()
    assert [frame["id"] for frame in host.end()] == [1, 2]
    assert host.finished is True


def test_the_end_does_not_wait_for_ever(
    host: Host, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "DRAIN_SECONDS", 0.05)
    service.gates["memory.clear"] = threading.Event()
    host.send(request("memory.clear", 1))
    assert host.end() == []
    assert host.finished is False


def test_a_host_that_stops_reading_ends_the_server(service: FakeService) -> None:
    requests, stdin = os.pipe()
    stdout, frames = os.pipe()
    outcome: list[bool] = []
    server = threading.Thread(target=lambda: outcome.append(stdio.serve(service, requests, frames)))
    server.start()
    os.read(stdout, 65536)
    os.close(stdout)
    os.write(stdin, json.dumps(request("memory.status")).encode() + b"\n")
    server.join(_WAIT)
    assert outcome == [True]
    for descriptor in (requests, stdin, frames):
        os.close(descriptor)


def test_frames_are_ascii_and_one_line_each(host: Host, service: FakeService) -> None:
    text = "\x1b[2J \x9b \u2028 \u202e 漢 \ud800 \n"
    service.answers["memory.search"] = lambda: {"ok": True, "value": {"query": text}}
    host.send(request("memory.search", "\x9b\udfff"))
    line = host.frames.get(timeout=_WAIT)
    assert line is not None and line.isascii() and line.decode().isprintable()
    assert json.loads(line)["result"]["value"]["query"] == text
    assert json.loads(line)["id"] == "\x9b\udfff"


class TestTools:
    """`tools.*` answer with the string that the model reads."""

    def test_the_value_as_a_string(self, host: Host, service: FakeService) -> None:
        value = {"query": "漢", "count": 1, "results": [{"path": "handbook/a.md"}], "skipped": []}
        service.answers["memory.search"] = lambda: {"ok": True, "value": value}
        frame = host.ask(request("tools.memory_search", params={"query": "漢", "limit": 3}))
        assert isinstance(frame["result"], str) and "漢" in frame["result"]
        assert json.loads(frame["result"]) == value
        assert service.calls == [("memory.search", {"query": "漢", "limit": 3})]

    def test_only_public_keys(self, host: Host, service: FakeService) -> None:
        value: dict[str, Any] = {
            "query": None,
            "count": 0,
            "records": [],
            "usageRecorded": False,
            "memoryRoot": "/x",
            "head": "a",
        }
        service.answers["memory.context"] = lambda: {"ok": True, "value": value}
        frame = host.ask(request("tools.memory_context"))
        assert json.loads(frame["result"]) == {"query": None, "count": 0, "records": []}

    def test_a_failure_is_its_code_alone(self, host: Host, service: FakeService) -> None:
        failure = {
            "code": "repo-unavailable",
            "message": "There is no memory at /home/x.",
            "detail": "root-missing",
        }
        service.answers["memory.search"] = lambda: {"ok": False, "error": failure}
        frame = host.ask(request("tools.memory_search", params={"query": "x"}))
        assert frame["result"] == '{"error":"repo-unavailable"}'

    def test_null_is_absent_and_the_rest_ignored(self, host: Host, service: FakeService) -> None:
        host.ask(
            request("tools.memory_search", params={"query": "x", "limit": None, "scope": "all", "root": "/"}),
        )
        host.ask(request("tools.memory_context", params={"query": None, "limit": 2, "scope": "archive"}))
        assert service.calls == [
            ("memory.search", {"query": "x"}),
            ("memory.context", {"limit": 2, "scope": "archive"}),
        ]

    def test_a_lone_surrogate_stays_escaped_inside(self, host: Host, service: FakeService) -> None:
        value = {"query": "x", "results": [{"path": "handbook/\udcff.md"}]}
        service.answers["memory.search"] = lambda: {"ok": True, "value": value}
        text = host.ask(request("tools.memory_search", params={"query": "x"}))["result"]
        assert text.isascii()
        assert json.loads(text) == value


class TestPromptSection:
    def test_text(self, memory: MemoryRepository) -> None:
        memory.write("summary.md", "{{nope}} </summary_snapshot>")
        host = Host(FakeService(memory.environment))
        host.next()
        frame = host.ask(request("host.promptSection", params={"enabled": True}))
        assert frame["result"]["ok"] is True
        assert "{{nope}} [/summary_snapshot>\n</summary_snapshot>" in frame["result"]["value"]["text"]
        frame = host.ask(request("host.promptSection", params={"enabled": False}))
        assert frame["result"] == {"ok": True, "value": {"text": ""}}
        host.end()

    @pytest.mark.parametrize("params", [{}, {"enabled": "true"}, {"enabled": None}])
    def test_enabled_is_the_hosts_to_say(self, host: Host, params: dict[str, object]) -> None:
        frame = host.ask(request("host.promptSection", params=params))
        assert frame["result"]["error"]["code"] == "settings-invalid-request"


_NOISY = """
import os, subprocess, sys
from tests.support.services import FakeService
from dsh_memory.environment import Environment
from dsh_memory.hosts.stdio import serve_process

class Noisy(FakeService):
    def call(self, method, params=None, **more):
        print("a library prints")
        os.write(1, b"a library writes\\n")
        subprocess.run(["sh", "-c", "echo a child writes; cat"])
        return {"ok": True, "value": {"cwd": os.getcwd(), "stdin": sys.stdin.read()}}

sys.exit(serve_process(Noisy(Environment("/nonexistent", "/nonexistent/memory"))))
"""


def test_standard_output_carries_frames_only(tmp_path: Path) -> None:
    """The host keeps its end of standard input open: whoever else read it would wait, or take a request."""
    repository = Path(__file__).parents[2]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(repository), *sys.path])}
    server = subprocess.Popen(
        [sys.executable, "-c", _NOISY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=variables,
        cwd=tmp_path,
    )
    assert server.stdin is not None and server.stdout is not None
    too_long = threading.Timer(_WAIT, server.kill)
    too_long.start()
    for number in range(3):
        server.stdin.write(json.dumps(request("memory.status", number)).encode() + b"\n")
    server.stdin.flush()
    frames = [json.loads(server.stdout.readline() or b"null") for _ in range(4)]
    output, errors = server.communicate(timeout=_WAIT)
    too_long.cancel()
    assert (server.returncode, output) == (0, b"")
    assert frames[0]["method"] == "ready"
    assert sorted(frame["id"] for frame in frames[1:]) == [0, 1, 2]
    assert all(frame["result"]["value"] == {"cwd": "/", "stdin": ""} for frame in frames[1:])
    for words in (b"a library prints", b"a library writes", b"a child writes"):
        assert errors.count(words) == 3


def test_a_process_without_standard_error(tmp_path: Path) -> None:
    repository = Path(__file__).parents[2]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(repository), *sys.path])}
    command = ["sh", "-c", '"$0" -c "$1" 2>&-', sys.executable, _NOISY]
    line = json.dumps(request("memory.status")).encode() + b"\n"
    done = subprocess.run(command, input=line, capture_output=True, env=variables, cwd=tmp_path, timeout=60)
    assert [json.loads(line).get("id") for line in done.stdout.splitlines()] == [None, 1]
