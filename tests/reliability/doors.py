"""The doors to one memory as other programs meet them: each a process of its own, but the service in this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import httpx

from dsh_memory.environment import Environment, utc_now
from dsh_memory.service import MemoryService

PROJECT = Path(__file__).parents[2]

#: No answer of a living door takes longer.
PATIENCE_SECONDS = 60.0

Answer = dict[str, Any]


class Door(Protocol):
    """Answers the contract's methods with its envelopes."""

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> Answer: ...

    def close(self) -> None: ...


class ServiceDoor:
    """The Python face, in this process, under a clock of the test's."""

    def __init__(self, environment: Environment, clock: Callable[[], datetime] = utc_now) -> None:
        self.service = MemoryService(environment, clock=clock)

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> Answer:
        return dict(self.service.call(f"memory.{method}", None if params is None else dict(params)))

    def close(self) -> None:
        """There is nothing to close."""


class CliDoor:
    """A new process for each call."""

    def __init__(self, environment: Environment, variables: Mapping[str, str] | None = None) -> None:
        self._command = command(environment, "call")
        self._variables = variables

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> Answer:
        words = [*self._command, f"memory.{method}"]
        done = run(words if params is None else [*words, json.dumps(params)], self._variables)
        answer: Answer = json.loads(done.stdout)
        return answer

    def close(self) -> None:
        """There is nothing to close."""


class Lines:
    """A process that answers JSON-RPC, one object a line."""

    def __init__(self, words: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
        self._number = 0
        self.process = subprocess.Popen(
            list(words),
            cwd=PROJECT,
            env=None if variables is None else dict(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def send(self, message: Mapping[str, Any]) -> None:
        """One message that waits for nothing."""
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        """Bytes as they are."""
        stream = self.process.stdin
        assert stream is not None
        stream.write(data)
        stream.flush()

    def receive(self) -> Answer:
        """The next line that is an answer, not a notification; raises EOFError at the end."""
        stream = self.process.stdout
        assert stream is not None
        watchdog = threading.Timer(PATIENCE_SECONDS, self.process.kill)
        watchdog.start()
        try:
            while line := stream.readline():
                message: Answer = json.loads(line)
                if "id" in message:
                    return message
        finally:
            watchdog.cancel()
        raise EOFError(f"the process ended with {self.process.wait()}")

    def ask(self, method: str, params: object) -> Answer:
        """The answer to one request."""
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        answer = self.receive()
        assert answer["id"] == self._number, answer
        return answer

    def close(self) -> None:
        """Ends the input, and with it the process."""
        if self.process.poll() is None:
            self.process.communicate(timeout=PATIENCE_SECONDS)


class StdioDoor(Lines):
    """The DSH host's door."""

    def __init__(self, environment: Environment, variables: Mapping[str, str] | None = None) -> None:
        super().__init__(command(environment, "serve", "--stdio"), variables)

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> Answer:
        answer = self.ask(f"memory.{method}", {} if params is None else dict(params))
        value: Answer = answer["result"]
        return value


class McpDoor(Lines):
    """An MCP client's door: tools, not the contract's methods; `call` knows those that have a tool."""

    def __init__(self, environment: Environment, variables: Mapping[str, str] | None = None) -> None:
        super().__init__(command(environment, "mcp"), variables)
        self.ask(
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        )
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def tool(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """The result of one tool: `content` and perhaps `isError`."""
        answer = self.ask("tools/call", {"name": name, "arguments": dict(arguments)})
        value: Answer = answer["result"]
        return value

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> Answer:
        result = self.tool(f"memory_{method}", {} if params is None else params)
        text = result["content"][0]["text"]
        if result.get("isError"):
            return {"ok": False, "error": {"code": text.partition(":")[0], "message": text}}
        return {"ok": True, "value": json.loads(text)}


class HttpDoor:
    """The HTTP server, with a token of its own: the contract under /api, the memory API under /v1."""

    def __init__(self, environment: Environment, variables: Mapping[str, str] | None = None) -> None:
        rights = "memory:read,memory:write,memory:restore,memory:delete"
        made = run(
            command(environment, "token", "create", "--name", "t", "--scopes", rights, "--json"), variables
        )
        token = json.loads(made.stdout)["value"]["token"]
        self.process = subprocess.Popen(
            command(environment, "serve", "--http", "--port", "0", "--rate-limits", "off"),
            cwd=PROJECT,
            env=None if variables is None else dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said.startswith("dsh-memory: http://"), said
        self.client = httpx.Client(
            base_url=said.split()[1],
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE_SECONDS,
            trust_env=False,
        )

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> Answer:
        message = {
            "type": "client-request",
            "rpcId": "r",
            "method": f"memory/{method}",
            "payload": {"args": {"request": dict(params)} if params else {}},
        }
        outer: Answer = self.client.post(f"/api/memory/{method}", json=message).json()["result"]
        assert outer["ok"], outer
        value: Answer = outer["value"]
        return value

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE_SECONDS)


def command(environment: Environment, *words: str) -> list[str]:
    """The command line of a new process on this memory."""
    places = ["--root", environment.memory_root, "--dsh-home", environment.dsh_home]
    return [sys.executable, "-m", "dsh_memory", *words[:1], *places, *words[1:]]


def run(
    words: Sequence[str], variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Runs a process to its end."""
    return subprocess.run(
        list(words),
        cwd=PROJECT,
        env=dict(os.environ if variables is None else variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )
