"""What the screen asks of the core, and the real core behind it; nothing here knows of a screen."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from dsh_memory import Environment, MemoryService
from dsh_memory.inspection import (
    Begun,
    FileDiff,
    Inspector,
    PreviewView,
    RecordView,
    RunRow,
    RunView,
    Snapshot,
    TopicView,
)
from dsh_memory_tui.ahead import Ahead

if TYPE_CHECKING:
    from dsh_memory.inspection import Plan
    from dsh_memory_tui.messages import Act


#: The newest runs that every refresh brings; older ones are read when a person asks for them.
SNAPSHOT_RUNS = 1_000


class Looks(Protocol):
    """What the screen reads; `dsh_memory.inspection.Inspector` is the real one."""

    def stamp(self) -> Hashable: ...
    def snapshot(self, run_limit: int = ...) -> Snapshot: ...
    def record(self, path: str) -> RecordView: ...
    def topic(self, path: str) -> TopicView | None: ...
    def runs(
        self, limit: int | None = ..., *, operation: str | None = ..., status: str | None = ...
    ) -> tuple[RunRow, ...]: ...
    def run(self, run_id: str) -> RunView: ...
    def run_diff(self, run_id: str, path: str) -> FileDiff: ...
    def preview(self, preview_id: str) -> PreviewView: ...
    def preview_diff(self, preview_id: str, path: str) -> FileDiff: ...
    def clear_plan(self) -> Plan: ...
    def rollback_plan(self, run_id: str) -> Plan: ...
    def apply_plan(self, preview_id: str) -> Plan: ...
    def discard_plan(self, preview_id: str) -> Plan: ...
    def migrate_plan(self) -> Plan: ...
    def recover_plan(self) -> Plan: ...
    def save_plan(self) -> Plan: ...
    def restore_plan(self, path: str, commit: str) -> Plan: ...


class Core(Protocol):
    """Everything the screen asks of the core; tests put a fake here."""

    @property
    def looks(self) -> Looks: ...

    def snapshot(self) -> Snapshot:
        """The overview and all lists, read from one state."""

    def warm(self) -> None:
        """Read what a search needs, so that the first one is as fast as any."""

    def search(self, query: str, scope: str) -> dict[str, Any]:
        """The envelope of `memory.search`."""

    def source(self, path: str) -> bytes:
        """The bytes of one payload file."""

    def act(self, act: Act) -> dict[str, Any]:
        """The envelope of a change."""


class LiveCore:
    """The real core over one environment."""

    def __init__(self, environment: Environment, clock: Callable[[], datetime]) -> None:
        self.environment = environment
        self.service = MemoryService(environment, clock=clock)
        self._inspector = Inspector(environment, clock=clock, records=self.service.records)
        self._ahead: Ahead[tuple[Snapshot, Begun | None]] | None = None

    def read_ahead(self) -> None:
        """Begin to read the first snapshot in a second process; who asks for it waits for what is left."""
        # Nothing that is made until then is garbage; looking for some costs a tenth of the start.
        gc.disable()
        self._ahead = Ahead(lambda: (self._inspector.snapshot(SNAPSHOT_RUNS), self._inspector.begun))

    @property
    def looks(self) -> Looks:
        return self._inspector

    def snapshot(self) -> Snapshot:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            first = ahead.result()
            gc.freeze()
            gc.enable()
            if first is not None:
                snapshot, begun = first
                self._inspector.continue_from(begun)
                return snapshot
        return self._inspector.snapshot(SNAPSHOT_RUNS)

    def warm(self) -> None:
        self.service.warm()

    def search(self, query: str, scope: str) -> dict[str, Any]:
        return dict(
            self.service.call("memory.search", {"query": query, "scope": scope, "limit": SEARCH_LIMIT})
        )

    def source(self, path: str) -> bytes:
        return self._inspector.source(path)

    def act(self, act: Act) -> dict[str, Any]:
        return dict(_carry_out(self.service, act))


#: Results a search shows; the count of all matches stands above them.
SEARCH_LIMIT = 200

#: The contract's method of an act, and the machine value that only a confirmed dialog adds.
_METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "clear": ("memory.clear", {"confirmation": "DELETE_MEMORY"}),
    "rollback": ("memory.rollback", {"confirmation": "ROLLBACK_MEMORY"}),
    "apply": ("memory.applyPreview", {}),
    "discard": ("memory.discardPreview", {}),
    "migrate": ("memory.migrateLegacy", {"dryRun": False}),
    "enable": ("memory.setEnabled", {}),
}


def _carry_out(service: MemoryService, act: Act) -> Any:
    if act.kind in _METHODS:
        method, machine_values = _METHODS[act.kind]
        return service.call(method, {**act.params, **machine_values}, expected_head=act.expected_head)
    if act.kind == "recover":
        return service.recover()
    if act.kind == "save":
        return service.save(act.params.get("message"), expected_head=act.expected_head)
    if act.kind == "restore":
        return service.restore_record(
            act.params["path"], act.params["commit"], expected_head=act.expected_head
        )
    if act.kind == "init":
        return service.init()
    return service.write_record(act.params["path"], act.params["old"], act.params["new"])
