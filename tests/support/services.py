"""A service that answers from a script: for tests of the faces in front of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from dsh_memory.environment import Environment
from dsh_memory.service import Envelope, MemoryService

GATE_SECONDS = 20.0


class FakeService(MemoryService):
    """Remembers its calls and answers with them, unless `answers` holds something for the method.

    `gates` hold a method back until a test opens them.
    """

    def __init__(self, environment: Environment) -> None:
        # Nothing of the real service is used but its typed methods.
        self.environment = environment
        self.gates: dict[str, threading.Event] = {}
        self.calls: list[tuple[str, object]] = []
        self.heads: list[str | None] = []
        self.answers: dict[str, Callable[[], Any]] = {}

    def call(self, method: str, params: object = None, *, expected_head: str | None = None) -> Envelope:
        self.calls.append((method, params))
        self.heads.append(expected_head)
        if gate := self.gates.get(method):
            assert gate.wait(GATE_SECONDS)
        if answer := self.answers.get(method):
            envelope: Envelope = answer()
            return envelope
        return {"ok": True, "value": {"method": method, "params": params}}

    def succeed(self, method: str, **value: object) -> None:
        """Let a method answer with this value."""
        self.answers[method] = lambda: {"ok": True, "value": value}

    def fail(self, method: str, code: str, message: str = "It did not work.", **more: str) -> None:
        """Let a method answer with this failure."""
        self.answers[method] = lambda: {"ok": False, "error": {"code": code, "message": message, **more}}

    def keep_index(self) -> None:
        """There is nothing to keep."""

    def recover(self) -> Envelope:
        return self.call("recover")

    def save(self, message: str | None = None, *, expected_head: str | None = None) -> Envelope:
        return self.call("save", message, expected_head=expected_head)

    def write_record(self, path: str, old: bytes | None, new: bytes | None) -> Envelope:
        return self.call("write_record", (path, old, new))

    def restore_record(self, path: str, commit: str, *, expected_head: str | None = None) -> Envelope:
        return self.call("restore_record", (path, commit), expected_head=expected_head)
