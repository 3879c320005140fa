"""Health: each fact as word, sign and colour, worst first, with what to do next."""

from __future__ import annotations

from datetime import datetime

from textual.app import ComposeResult

from dsh_memory import visible
from dsh_memory.inspection import Fact, Overview, Snapshot
from dsh_memory_tui.panes.pane import Pane
from dsh_memory_tui.panes.status import STATE_SIGNS, Row, action_key
from dsh_memory_tui.widgets.lines import EMPTY, Line, heading, line, pad, wrap
from dsh_memory_tui.widgets.record_list import RecordList
from dsh_memory_tui.widgets.rows import Fixed
from dsh_memory_tui.wording import exact, plural

_TOPIC = 14


class HealthPane(Pane):
    """Facts and malformed records; recover from here."""

    def compose(self) -> ComposeResult:
        yield RecordList(classes="whole")

    @property
    def listing(self) -> RecordList:
        """The only list."""
        return self.query_one(RecordList)

    def show(self, snapshot: Snapshot) -> None:
        super().show(snapshot)
        self.listing.show(
            lambda width: Fixed(health_rows(snapshot.overview, self.now, width, read_only=self.read_only))
        )

    def run(self, command: str) -> None:
        kind, _, value = (self.listing.current_key or "").partition(":")
        if command == "open":
            self._open(kind, value)
        elif command == "edit":
            if kind == "record":
                self.post_message(self.EditWanted(value))
            else:
                self.post_message(self.Said("Put the cursor on a record to edit it."))
        elif command in ("migrate", "save", "recover"):
            self.post_message(self.ActWanted(command, {}))
        elif command == "copy-id":
            if kind in ("record", "run"):
                self.post_message(self.Copied(value, "path" if kind == "record" else "run id"))
            else:
                self.post_message(self.Said("There is no id on this line."))

    def on_record_list_opened(self, message: RecordList.Opened) -> None:
        kind, _, value = message.key.partition(":")
        self._open(kind, value)

    def _open(self, kind: str, value: str) -> None:
        if kind == "record":
            self.post_message(self.GoTo("records", value))
        elif kind == "run":
            self.post_message(self.GoTo("runs", value))
        elif kind == "fact" and self.snapshot is not None:
            fact = self.snapshot.overview.facts[int(value)]
            if fact.path is not None:
                self.post_message(self.GoTo("records", fact.path))
            elif fact.action in ("migrate", "save", "recover"):
                self.run(fact.action)
            elif fact.action == "open-previews":
                self.post_message(self.GoTo("previews"))
            else:
                self.post_message(self.Said("There is nothing to open here."))


def health_rows(overview: Overview, now: datetime, width: int, *, read_only: bool = False) -> tuple[Row, ...]:
    """All rows: what is wrong with its next step, the malformed records, the rest in one block."""
    # Malformed records have a table of their own right below.
    wrong = [
        (index, fact)
        for index, fact in enumerate(overview.facts)
        if fact.state != "good" and not (overview.malformed and fact.action == "open-malformed")
    ]
    malformed = _malformed(overview, width, read_only) if overview.malformed else []
    worse = any(fact.state == "bad" for _index, fact in wrong)
    rows: list[Row] = [] if worse else [*malformed]
    if wrong or not malformed:
        rows.append((None, heading("Wants attention", plural(len(wrong), "fact") if wrong else "nothing")))
        for index, fact in wrong:
            rows.extend(_wrong(index, fact, width, read_only))
        rows.append((None, EMPTY))
    if worse:
        rows.extend(malformed)
    rows.extend(_holders(overview, width))
    rows.append((None, heading("In order")))
    for index, fact in enumerate(overview.facts):
        if fact.state == "good":
            sign, role = STATE_SIGNS["good"]
            content = line(
                (f"{sign} ", role), (pad(visible(fact.topic), _TOPIC), "muted"), visible(fact.sentence)
            )
            rows.append((f"fact:{index}", content))
    return tuple(rows)


def _wrong(index: int, fact: Fact, width: int, read_only: bool) -> list[Row]:
    sign, role = STATE_SIGNS[fact.state]
    key = action_key(fact.action, read_only=read_only) if fact.action else ""
    if fact.action in ("open-malformed", "open-previews"):
        key = "↵"
    indent = " " * (_TOPIC + 2)
    room = width - len(indent) - 6
    rows: list[Row] = []
    for at, part in enumerate(wrap(visible(fact.sentence), room)):
        if at == 0:
            head = line(
                (f"{sign} ", role),
                (pad(visible(fact.topic), _TOPIC), role),
                part,
                right=[(key, "key")] if key else (),
            )
            rows.append((f"fact:{index}", head))
        else:
            rows.append((None, line(indent, part)))
    if fact.next_step:
        rows.extend((None, line(indent, (part, "muted"))) for part in wrap(visible(fact.next_step), room))
    return rows


def _malformed(overview: Overview, width: int, read_only: bool) -> list[Row]:
    count = len(overview.malformed)
    keys = "↵ opens" if read_only else "↵ opens, e edits"
    rows: list[Row] = [(None, heading("Malformed records", f"{plural(count, 'file')}, {keys}"))]
    place_width = min(44, max(18, width * 2 // 5))
    for record in overview.malformed:
        place = f"{visible(record.path)}:{record.line}" if record.line else visible(record.path)
        rows.append(
            (
                f"record:{record.path}",
                line(
                    (f"{STATE_SIGNS['bad'][0]} ", "danger"),
                    pad(place, place_width),
                    f"  {visible(record.reason)}",
                ),
            )
        )
    rows.append((None, EMPTY))
    return rows


def _holders(overview: Overview, width: int) -> list[Row]:
    """Who holds the lock and what runs, as far as anything does."""
    rows: list[Row] = []
    lock = overview.lock
    if lock is not None:
        pid = "unknown" if lock.pid is None else str(lock.pid)
        who = f"{visible(lock.operation or 'unknown')}, process {pid}, since {exact(lock.started_at)}"
        state = (
            "holds it"
            if lock.active
            else f"is gone ({visible(lock.stale_reason or 'stale')}); the next change takes it over"
        )
        rows.append((None, heading("Lock")))
        rows.append((f"run:{lock.run_id}" if lock.run_id else None, _pair("holder", who)))
        rows.append((None, _pair("state", state)))
        rows.append((None, EMPTY))
    run = overview.active_run
    if run is not None:
        rows.append((None, heading("Active run", "interrupted" if run.interrupted else "running")))
        rows.append((f"run:{run.run_id}", _pair("run", visible(run.run_id))))
        words = f"{visible(run.operation)}, phase {visible(run.phase)}, process {run.pid}, "
        words += f"since {exact(run.started_at)}"
        rows.append((None, _pair("what", words)))
        rows.append((None, EMPTY))
    if overview.interrupted_run is not None:
        row = overview.interrupted_run
        rows.append((None, heading("Interrupted run")))
        rows.append(
            (
                f"run:{row.run_id}",
                _pair(visible(row.operation), f"{visible(row.run_id)}, phase {visible(row.phase or '–')}"),
            )
        )
        rows.append((None, EMPTY))
    return rows


def _pair(label: str, words: str) -> Line:
    return line("  ", (pad(label, _TOPIC), "muted"), words)
