"""Runs: what changed memory, when, how it ended, and the way back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from textual.app import ComposeResult

from dsh_memory import visible
from dsh_memory.inspection import FileChange, RunRow, RunView, Snapshot
from dsh_memory_tui.core import SNAPSHOT_RUNS
from dsh_memory_tui.messages import DiffRead, RunRead, RunsRead
from dsh_memory_tui.panes.pane import SplitPane
from dsh_memory_tui.panes.status import RUN_SIGNS
from dsh_memory_tui.widgets.diff_view import DiffView, file_row
from dsh_memory_tui.widgets.lines import EMPTY, Line, heading, line, pad, pad_left, rule, wrap
from dsh_memory_tui.widgets.record_list import RecordList
from dsh_memory_tui.widgets.record_view import labelled
from dsh_memory_tui.widgets.rows import Drawn
from dsh_memory_tui.wording import UNDONE, age, changes, milliseconds, plural, short

NO_RUNS = "No run is journaled yet. A sync, an edit (e), a save (s) or a clear makes the first one."
OLDER = "… older runs: ↵ reads them all"
NOTHING_FITS = "No run fits the filter. f changes it."


@dataclass(frozen=True, slots=True)
class FileOf:
    """A file row under an opened run."""

    run_id: str
    change: FileChange


class RunsPane(SplitPane):
    """The journal, newest first; enter opens a run's files, `R` rolls it back where that can be done."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.operation: str | None = None
        self.status: str | None = None
        self._rows: tuple[RunRow, ...] | None = None
        self._all = False
        self._open_run: str | None = None
        self._views: dict[str, RunView] = {}
        self._wanted_file: int | None = None

    def compose(self) -> ComposeResult:
        yield RecordList(classes="list")
        yield DiffView()

    @property
    def diff_view(self) -> DiffView:
        """The summary or diff beside the list."""
        return self.query_one(DiffView)

    @property
    def detail(self) -> RecordList:
        return self.diff_view

    def show(self, snapshot: Snapshot) -> None:
        super().show(snapshot)
        self._views.clear()
        self._ask_rows()
        self._show_list()
        self._read_current(again=True)

    def select(self, key: str) -> None:
        self.operation = self.status = self._rows = None
        self._show_list()
        self.listing.select(key)

    def filter(self, operation: str | None, status: str | None) -> None:
        """Show runs of one operation, one status, or all."""
        self.operation, self.status = operation, status
        self._open_run = self._rows = None
        self._ask_rows()
        self._show_list(top=True)
        self._read_current()

    @property
    def choices(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The operations and statuses there are."""
        runs = self.snapshot.runs if self.snapshot is not None else ()
        if self._all and self._rows is not None:
            runs = self._rows
        return tuple(sorted({run.operation for run in runs})), tuple(sorted({run.status for run in runs}))

    def run(self, command: str) -> None:
        run_id, path = self._current()
        if command == "open":
            self._open(run_id, path)
        elif command == "layout":
            self.post_message(self.Said(self.diff_view.other_layout()))
        elif command in ("next-hunk", "previous-hunk"):
            if not self.diff_view.to_hunk(1 if command == "next-hunk" else -1):
                self.post_message(self.Said("No further change this way; n goes to the next file."))
        elif run_id is None:
            self.post_message(self.Said("There is no run under the cursor."))
        elif command == "rollback":
            self.post_message(self.ActWanted("rollback", {"runId": run_id}))
        elif command == "copy-id":
            self.post_message(self.Copied(path or run_id, "path" if path else "run id"))
        elif command == "copy-body":
            what = "diff" if self.diff_view.diff is not None else "run as text"
            self.post_message(self.Copied(self.diff_view.as_text(), what))
        elif command in ("next", "previous"):
            self._step_file(run_id, path, 1 if command == "next" else -1)

    def on_record_list_moved(self, message: RecordList.Moved) -> None:
        if message.sender is self.listing:
            self._read_current()

    def on_record_list_opened(self, message: RecordList.Opened) -> None:
        self._open(*self._current())

    def on_runs_read(self, message: RunsRead) -> None:
        if (message.operation, message.status) != (self.operation, self.status):
            return
        if message.failure is not None:
            self.post_message(self.Said(f"{message.failure.code}: {message.failure.message}"))
            return
        self._rows = message.rows
        self._show_list()

    def on_run_read(self, message: RunRead) -> None:
        if message.view is not None:
            self._views[message.run_id] = message.view
            if message.run_id == self._open_run:
                self._show_list()
            if self._wanted_file is not None:
                self._to_file(message.view, self._wanted_file)
        run_id, path = self._current()
        if run_id != message.run_id or path is not None:
            return
        if message.view is None:
            failure = message.failure
            words = f"{failure.code}: {failure.message}" if failure else ""
            self.diff_view.show_lines(
                lambda width: tuple(line((part, "muted")) for part in wrap(visible(words), width)), top=True
            )
        else:
            view, now = message.view, self.now
            self.diff_view.show_lines(lambda width: run_lines(view, now, width), top=False)

    def on_diff_read(self, message: DiffRead) -> None:
        if self._current() == (message.owner, message.path) and message.diff is not None:
            top = self.diff_view.diff is None or self.diff_view.diff.path != message.path
            self.diff_view.show_diff(message.diff, top=top)

    def _current(self) -> tuple[str | None, str | None]:
        """The run under the cursor, and the file of it, if the cursor is on one."""
        key = self.listing.current_key
        if key is None or key == OLDER:
            return None, None
        run_id, _, path = key.partition("\n")
        return run_id, path or None

    def _ask_rows(self) -> None:
        """Ask for all runs that fit, where the snapshot may not hold them."""
        if self._all or ((self.operation or self.status) and self._older_runs):
            self.gateway.runs(self.operation, self.status, self)

    @property
    def _older_runs(self) -> bool:
        """Whether the journal may hold runs that the snapshot does not."""
        return self.snapshot is not None and len(self.snapshot.runs) >= SNAPSHOT_RUNS

    def _open(self, run_id: str | None, path: str | None) -> None:
        if self.listing.current_key == OLDER:
            self._all = True
            self._ask_rows()
            self.post_message(self.Said("Reading the whole journal."))
            return
        if run_id is None:
            return
        if path is not None or self.list_only:
            self.open_detail()
            return
        self._open_run = None if self._open_run == run_id else run_id
        self._show_list()
        if self._open_run and run_id not in self._views:
            self.gateway.run(run_id, self)

    def _step_file(self, run_id: str, path: str | None, step: int) -> None:
        view = self._views.get(run_id)
        self._open_run = run_id
        if view is None:
            self._wanted_file = 0
            self.gateway.run(run_id, self)
            return
        paths = [change.path for change in view.files]
        at = paths.index(path) + step if path in paths else (0 if step > 0 else len(paths) - 1)
        self._to_file(view, at)

    def _to_file(self, view: RunView, at: int) -> None:
        self._wanted_file = None
        self._show_list()
        if not view.files:
            self.post_message(self.Said("This run changed no file."))
        elif 0 <= at < len(view.files):
            self.listing.select(f"{view.row.run_id}\n{view.files[at].path}")
        else:
            self.post_message(self.Said("That was the last file." if at > 0 else "That was the first file."))

    def _read_current(self, *, again: bool = False) -> None:
        run_id, path = self._current()
        if run_id is None:
            self.diff_view.show_lines(lambda _width: (), top=True)
        elif path is not None:
            self.gateway.run_diff(run_id, path, self)
        elif run_id in self._views and not again:
            view, now = self._views[run_id], self.now
            self.diff_view.show_lines(lambda width: run_lines(view, now, width), top=True)
        else:
            self.gateway.run(run_id, self)

    def _show_list(self, *, top: bool = False) -> None:
        if self.snapshot is None:
            return
        items: list[RunRow | FileOf | str] = []
        if self.operation or self.status:
            items.append(f"only {self.operation or self.status}   f changes")
        for run in self.snapshot.runs if self._rows is None else self._rows:
            if (self.operation and run.operation != self.operation) or (
                self.status and run.status != self.status
            ):
                continue
            items.append(run)
            if run.run_id == self._open_run and run.run_id in self._views:
                items.extend(FileOf(run.run_id, change) for change in self._views[run.run_id].files)
        if self._older_runs and self._rows is None:
            items.append(OLDER)
        if not any(isinstance(item, RunRow) for item in items):
            self.show_empty(NOTHING_FITS if self.snapshot.runs else NO_RUNS)
            return
        now = self.now
        rows: Drawn[RunRow | FileOf | str] = Drawn(
            items, _key, lambda item, width: (_draw(item, now, width),)
        )
        self.listing.show(lambda _width: rows, top=top)


def _key(item: RunRow | FileOf | str) -> str | None:
    if isinstance(item, str):
        return item if item == OLDER else None
    return f"{item.run_id}\n{item.change.path}" if isinstance(item, FileOf) else item.run_id


def _draw(item: RunRow | FileOf | str, now: datetime, width: int) -> Line:
    if isinstance(item, str):
        return line((item, "accent"))
    if isinstance(item, FileOf):
        return file_row(item.change.path, item.change.kind, changes(item.change.added, item.change.removed))
    sign, role = RUN_SIGNS.get(item.status, ("·", "muted"))
    words = visible(item.status.replace("_", " "))
    if item.rolled_back_by:
        sign, role, words = UNDONE, "muted", "undone"
    detail = visible(item.error_code) if item.error_code else plural(item.changed_path_count, "file")
    return line(
        (pad(age(item.started_at, now), 11), "muted"),
        pad(visible(item.operation), 9),
        (f"{sign} ", role),
        (pad(words, 12), "danger" if item.status == "failed" else "text" if role != "muted" else "muted"),
        right=[
            (detail if item.error_code else pad_left(detail, 9), "danger" if item.error_code else "text"),
            ("  " + pad(short(item.apply_commit), 7) if width >= 54 and item.apply_commit else "", "muted"),
        ],
    )


def run_lines(view: RunView, now: datetime, width: int) -> tuple[Line, ...]:
    """One run, whole: how it ended, whether it can be undone, what it changed, every field of the journal."""
    row = view.row
    sign, role = RUN_SIGNS.get(row.status, ("·", "muted"))
    lines = [
        line((f"{visible(row.operation)} ", "strong"), (visible(row.run_id), "text")),
        line(
            (f"{sign} {visible(row.status.replace('_', ' '))}", role),
            (f"  phase {visible(row.phase)}" if row.phase else "", "muted"),
            (f"  {milliseconds(row.duration_ms)}  {age(row.started_at, now)}", "muted"),
        ),
    ]
    for words in _relations(row):
        lines.append(line((words, "accent")))
    lines.append(rule(width))
    if view.refusal is None:
        lines.append(line(("R ", "key"), "rolls this run back by a new commit"))
    else:
        newer = f" ({plural(view.newer_writes, 'newer write')})" if view.newer_writes else ""
        lines.extend(
            line((part, "muted"))
            for part in wrap(f"Cannot be rolled back: {visible(view.refusal.sentence)}{newer}", width)
        )
    lines.append(EMPTY)
    lines.append(
        heading(
            "Files", plural(len(view.files), "file") + ("" if view.files_known else ", its commits are gone")
        )
    )
    lines.extend(file_row(f.path, f.kind, changes(f.added, f.removed), indent="") for f in view.files[:500])
    if len(view.files) > 500:
        lines.append(line((f"… and {len(view.files) - 500:,} more; ↵ lists them all", "muted")))
    lines.extend((EMPTY, heading("Journal", "as written")))
    for name, value in view.journal:
        if name == "changed_paths":
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.extend(labelled(visible(name).replace("_", " ")[:24], visible(text), width, 20))
    return tuple(lines)


def _relations(row: RunRow) -> list[str]:
    words = []
    if row.rolled_back_by:
        words.append(f"{UNDONE} undone by {visible(row.rolled_back_by)}")
    if row.recovered_by:
        words.append(f"recovered by {visible(row.recovered_by)}")
    if row.undoes:
        words.append(f"{UNDONE} undid {visible(row.undoes)}")
    if row.recovers:
        words.append(f"recovered {visible(row.recovers)}")
    return words
