"""The only way from the screen to the core: every call runs in a worker thread and answers by one message."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Hashable
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

from textual.dom import DOMNode
from textual.message import Message
from textual.message_pump import MessagePump

from dsh_memory import MemoryFailure
from dsh_memory_tui.core import Core, Looks
from dsh_memory_tui.messages import (
    Act,
    ActEnded,
    DiffRead,
    Failure,
    Found,
    PlanRead,
    PreviewRead,
    RecordRead,
    RunRead,
    RunsRead,
    SnapshotFailed,
    SnapshotRead,
    SourceRead,
    StampRead,
    TopicRead,
)

if TYPE_CHECKING:
    from dsh_memory.inspection import Plan


class Gateway:
    """Runs calls in threads of one Textual node."""

    def __init__(self, node: DOMNode, core: Core) -> None:
        self._node = node
        self._core = core
        self._stamp: Hashable = None
        self._failed = False
        self._reading = 0

    def refresh(self) -> None:
        """Read everything; answers SnapshotRead or SnapshotFailed to the node."""

        def work() -> Message:
            # A snapshot brings its own stamp; where none is to be had, the next look has one to compare with.
            stamp = self._core.looks.stamp() if self._failed else None
            try:
                snapshot = self._core.snapshot()
            except MemoryFailure as failure:
                self._failed, self._stamp = True, stamp
                return SnapshotFailed(failure_of(failure))
            self._failed, self._stamp = False, snapshot.stamp
            return SnapshotRead(snapshot)

        self._reading += 1
        self._start("snapshot", work, self._node, SnapshotFailed, ended=self._read_ended)

    def watch(self) -> None:
        """Look whether anything changed since the last read; answers StampRead to the node."""
        if self._reading:
            return

        def work() -> Message:
            return StampRead(self._core.looks.stamp() != self._stamp)

        self._start("stamp", work, self._node, lambda _failure: StampRead(True))

    def warm(self) -> None:
        """Have the core read what a search needs; nobody waits for it, and a search meets what it met."""

        def work() -> None:
            with suppress(MemoryFailure):
                self._core.warm()

        self._node.run_worker(work, group="warm", thread=True)

    def record(self, path: str, to: MessagePump) -> None:
        """Read one record; answers RecordRead."""
        self._look(
            "detail",
            to,
            lambda looks: RecordRead(path, looks.record(path)),
            lambda f: RecordRead(path, None, f),
        )

    def topic(self, path: str, to: MessagePump) -> None:
        """Read the topic of a record; answers TopicRead."""
        self._look(
            "topic", to, lambda looks: TopicRead(path, looks.topic(path)), lambda _f: TopicRead(path, None)
        )

    def runs(self, operation: str | None, status: str | None, to: MessagePump) -> None:
        """Read all runs of one operation or status, however old; answers RunsRead."""
        self._look(
            "runs",
            to,
            lambda looks: RunsRead(operation, status, looks.runs(None, operation=operation, status=status)),
            lambda f: RunsRead(operation, status, (), f),
        )

    def run(self, run_id: str, to: MessagePump) -> None:
        """Read one run; answers RunRead."""
        self._look(
            "detail", to, lambda looks: RunRead(run_id, looks.run(run_id)), lambda f: RunRead(run_id, None, f)
        )

    def preview(self, preview_id: str, to: MessagePump) -> None:
        """Read one preview; answers PreviewRead."""
        self._look(
            "detail",
            to,
            lambda looks: PreviewRead(preview_id, looks.preview(preview_id)),
            lambda f: PreviewRead(preview_id, None, f),
        )

    def run_diff(self, run_id: str, path: str, to: MessagePump) -> None:
        """Read a file a run changed; answers DiffRead."""
        self._look(
            "diff",
            to,
            lambda looks: DiffRead(run_id, path, looks.run_diff(run_id, path)),
            lambda f: DiffRead(run_id, path, None, f),
        )

    def preview_diff(self, preview_id: str, path: str, to: MessagePump) -> None:
        """Read a file a preview would change; answers DiffRead."""
        self._look(
            "diff",
            to,
            lambda looks: DiffRead(preview_id, path, looks.preview_diff(preview_id, path)),
            lambda f: DiffRead(preview_id, path, None, f),
        )

    def search(self, query: str, scope: str, to: MessagePump) -> None:
        """Search; answers Found."""

        def work() -> Message:
            started = perf_counter()
            envelope = self._core.search(query, scope)
            spent = (perf_counter() - started) * 1_000
            if envelope["ok"]:
                return Found(query, scope, envelope["value"], spent)
            return Found(query, scope, None, spent, failure_of(envelope["error"]))

        self._start("search", work, to, lambda failure: Found(query, scope, None, 0, failure))

    def plan(self, kind: str, params: dict[str, Any]) -> None:
        """Ask what an act would do; answers PlanRead to the node."""

        def ask(looks: Looks) -> Message:
            target = str(params.get("runId") or params.get("previewId") or "")
            plans: dict[str, Callable[[], Plan]] = {
                "clear": looks.clear_plan,
                "rollback": lambda: looks.rollback_plan(target),
                "apply": lambda: looks.apply_plan(target),
                "discard": lambda: looks.discard_plan(target),
                "migrate": looks.migrate_plan,
                "recover": looks.recover_plan,
                "save": looks.save_plan,
                "restore": lambda: looks.restore_plan(params["path"], params["commit"]),
            }
            return PlanRead(kind, plans[kind](), params)

        self._look("plan", self._node, ask, lambda failure: PlanRead(kind, None, params, failure))

    def source(self, path: str) -> None:
        """Read a record's bytes for an editor; answers SourceRead to the node."""
        self._start(
            "source",
            lambda: SourceRead(path, self._core.source(path)),
            self._node,
            lambda failure: SourceRead(path, None, failure),
        )

    def act(self, act: Act) -> None:
        """Carry out what a person confirmed; answers ActEnded to the node. It is never cancelled half-way."""

        def work() -> Message:
            envelope = self._core.act(act)
            if envelope["ok"]:
                return ActEnded(act, envelope["value"])
            return ActEnded(act, None, failure_of(envelope["error"]))

        self._start("act", work, self._node, lambda failure: ActEnded(act, None, failure), exclusive=False)

    def _look(
        self,
        group: str,
        to: MessagePump,
        ask: Callable[[Looks], Message],
        fail: Callable[[Failure], Message],
    ) -> None:
        self._start(group, lambda: ask(self._core.looks), to, fail)

    def _read_ended(self) -> None:
        self._reading -= 1

    def _start(
        self,
        group: str,
        work: Callable[[], Message],
        to: MessagePump,
        fail: Callable[[Failure], Message],
        *,
        exclusive: bool = True,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        def run() -> None:
            try:
                message = work()
            except Exception as error:
                message = fail(failure_of(error))
            ended()
            to.post_message(message)

        self._node.run_worker(run, group=group, thread=True, exclusive=exclusive)


def failure_of(error: object) -> Failure:
    """A failure to show, from the core's exception, an envelope's error, or a fault of ours."""
    if isinstance(error, MemoryFailure):
        return Failure(error.code, error.message, error.detail, error.hint)
    if isinstance(error, dict):
        code = str(error.get("code", "unknown"))
        return Failure(code, str(error.get("message", "")), error.get("detail"), hint_for(code))
    if isinstance(error, BaseException):
        lines = "".join(traceback.format_exception(error))
        return Failure(
            "internal-error",
            f"{type(error).__name__}: {error}",
            lines,
            "This is a fault of dsh-memory; copy it with y.",
        )
    return Failure("internal-error", str(error), None, "")


def hint_for(code: str) -> str:
    """What a person can do about a code of the contract."""
    for family in MemoryFailure.__subclasses__():
        if code in family.codes:
            return family.codes[code]
    return ""
