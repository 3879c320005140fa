"""Previews: what a sync would change, file by file, for a reviewer to apply or discard."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from textual.app import ComposeResult

from dsh_memory import visible
from dsh_memory.inspection import FileChange, PreviewRow, PreviewView, Snapshot
from dsh_memory_tui.messages import DiffRead, PreviewRead
from dsh_memory_tui.panes.pane import SplitPane
from dsh_memory_tui.widgets.diff_view import DiffView, file_row
from dsh_memory_tui.widgets.lines import EMPTY, Line, heading, line, rule, wrap
from dsh_memory_tui.widgets.record_list import RecordList
from dsh_memory_tui.widgets.record_view import labelled
from dsh_memory_tui.widgets.rows import Drawn
from dsh_memory_tui.wording import ATTENTION, BAD, CLOSED, GOOD, OPEN, age, changes, duration, exact, plural

EMPTY_WORDS = (
    "No preview waits. dsh-memory sync --preview makes one: a change to look at before it is applied."
)


@dataclass(frozen=True, slots=True)
class FileOf:
    """A file row under the current preview."""

    preview_id: str
    change: FileChange
    sign: str
    """`!` or `✗` where a warning names the file."""


class PreviewsPane(SplitPane):
    """Pending previews, the files of the one under the cursor, and their diffs."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._views: dict[str, PreviewView] = {}
        self._current_id: str | None = None

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
        self._show_list()
        self._read_current(again=True)

    def run(self, command: str) -> None:
        preview_id, path = self._current()
        if command == "layout":
            self.post_message(self.Said(self.diff_view.other_layout()))
        elif command in ("next-hunk", "previous-hunk"):
            if not self.diff_view.to_hunk(1 if command == "next-hunk" else -1):
                self.post_message(self.Said("No further change this way; n goes to the next file."))
        elif preview_id is None:
            self.post_message(self.Said("No preview waits."))
        elif command == "open":
            self.open_detail()
        elif command in ("apply", "discard"):
            self.post_message(self.ActWanted(command, {"previewId": preview_id}))
        elif command == "copy-id":
            self.post_message(self.Copied(path or preview_id, "path" if path else "preview id"))
        elif command == "copy-body":
            what = "diff" if self.diff_view.diff is not None else "preview as text"
            self.post_message(self.Copied(self.diff_view.as_text(), what))
        elif command in ("next", "previous"):
            self._step_file(preview_id, path, 1 if command == "next" else -1)

    def on_record_list_moved(self, message: RecordList.Moved) -> None:
        if message.sender is self.listing:
            self._read_current()

    def on_record_list_opened(self, message: RecordList.Opened) -> None:
        self.open_detail()

    def on_preview_read(self, message: PreviewRead) -> None:
        if message.view is not None:
            self._views[message.preview_id] = message.view
            self._show_list()
        preview_id, path = self._current()
        if preview_id != message.preview_id or path is not None:
            return
        if message.view is None:
            failure = message.failure
            words = f"{failure.code}: {failure.message}" if failure else ""
            self.diff_view.show_lines(
                lambda width: tuple(line((part, "muted")) for part in wrap(visible(words), width)), top=True
            )
        else:
            view, now = message.view, self.now
            self.diff_view.show_lines(lambda width: preview_lines(view, now, width), top=False)

    def on_diff_read(self, message: DiffRead) -> None:
        if self._current() != (message.owner, message.path) or message.diff is None:
            return
        view = self._views.get(message.owner)
        notes = [w for w in (view.warnings if view else ()) if w.path == message.path]
        note = tuple(
            line(
                (f"{BAD if w.blocking else ATTENTION} ", "danger" if w.blocking else "attention"),
                visible(w.sentence),
            )
            for w in notes
        )
        top = self.diff_view.diff is None or self.diff_view.diff.path != message.path
        self.diff_view.show_diff(message.diff, note, top=top)

    def _current(self) -> tuple[str | None, str | None]:
        key = self.listing.current_key
        if key is None:
            return None, None
        preview_id, _, path = key.partition("\n")
        return preview_id, path or None

    def _step_file(self, preview_id: str, path: str | None, step: int) -> None:
        view = self._views.get(preview_id)
        if view is None:
            return
        paths = [change.path for change in view.files]
        at = paths.index(path) + step if path in paths else (0 if step > 0 else len(paths) - 1)
        if 0 <= at < len(paths):
            self.listing.select(f"{preview_id}\n{paths[at]}")
        else:
            self.post_message(
                self.Said("That was the last file." if step > 0 else "That was the first file.")
            )

    def _read_current(self, *, again: bool = False) -> None:
        preview_id, path = self._current()
        if preview_id is None:
            self.diff_view.show_lines(lambda _width: (), top=True)
            return
        if preview_id != self._current_id:
            self._current_id = preview_id
            self._show_list()
        if path is not None:
            self.gateway.preview_diff(preview_id, path, self)
        if preview_id not in self._views or again:
            self.gateway.preview(preview_id, self)
        elif path is None:
            view, now = self._views[preview_id], self.now
            self.diff_view.show_lines(lambda width: preview_lines(view, now, width), top=True)

    def _show_list(self) -> None:
        if self.snapshot is None:
            return
        items: list[PreviewRow | FileOf] = []
        previews = self.snapshot.overview.previews
        if self._current_id not in {preview.preview_id for preview in previews}:
            self._current_id = None
        for preview in previews:
            items.append(preview)
            if preview.preview_id == self._current_id and preview.preview_id in self._views:
                view = self._views[preview.preview_id]
                items.extend(
                    FileOf(preview.preview_id, change, _sign(view, change.path)) for change in view.files
                )
        if not items:
            self.show_empty(EMPTY_WORDS)
            return
        now, opened = self.now, self._current_id
        rows: Drawn[PreviewRow | FileOf] = Drawn(
            items, _key, lambda item, width: (_draw(item, now, opened, width),)
        )
        self.listing.show(lambda _width: rows)


def _sign(view: PreviewView, path: str) -> str:
    own = [warning for warning in view.warnings if warning.path == path]
    return (BAD if any(warning.blocking for warning in own) else ATTENTION) if own else ""


def _key(item: PreviewRow | FileOf) -> str:
    return f"{item.preview_id}\n{item.change.path}" if isinstance(item, FileOf) else item.preview_id


def _draw(item: PreviewRow | FileOf, now: datetime, opened: str | None, width: int) -> Line:
    if isinstance(item, FileOf):
        return file_row(
            item.change.path,
            item.change.kind,
            changes(item.change.added, item.change.removed),
            warning=item.sign,
        )
    left = item.expires_at - now
    role = "attention" if left.days < 2 else "muted"
    sign = OPEN if item.preview_id == opened else CLOSED
    return line(
        (f"{sign} ", "muted"),
        (visible(item.preview_id), "strong" if item.preview_id == opened else "text"),
        right=[
            (plural(len(item.changed_paths), "file") + "  ", "text"),
            (f"{duration(left)} left", role),
        ],
    )


def preview_lines(view: PreviewView, now: datetime, width: int) -> tuple[Line, ...]:
    """One preview in figures, with everything a reviewer should know before applying it."""
    row = view.row
    lines = [
        line((visible(row.preview_id), "strong")),
        line(
            (
                f"{plural(row.candidate_sessions or 0, 'session')} · {plural(len(view.files), 'file')} · ",
                "muted",
            ),
            (f"made {age(row.created_at, now)} · {duration(row.expires_at - now)} left", "muted"),
        ),
        rule(width),
    ]
    if view.refusal is not None:
        for index, part in enumerate(wrap(visible(view.refusal.sentence), width - 2)):
            lines.append(line((f"{BAD} " if index == 0 else "  ", "danger"), (part, "danger")))
        lines.extend(line("  ", (part, "muted")) for part in wrap(visible(view.refusal.hint), width - 2))
        lines.append(EMPTY)
    else:
        lines.extend((line(("A ", "key"), "applies it as one run   ", ("X ", "key"), "discards it"), EMPTY))
    lines.append(heading("For the reviewer", plural(len(view.warnings), "warning") if view.warnings else ""))
    if not view.warnings:
        lines.append(
            line((f"{GOOD} ", "good"), ("Nothing stands out: no deletes, no shrinking, no secret.", "muted"))
        )
    for warning in view.warnings:
        sign, role = (BAD, "danger") if warning.blocking else (ATTENTION, "attention")
        where = (
            f"{visible(warning.path)}{f':{warning.line}' if warning.line else ''}  " if warning.path else ""
        )
        for index, part in enumerate(wrap(f"{where}{visible(warning.sentence)}", width - 2)):
            lines.append(line((f"{sign} " if index == 0 else "  ", role), part))
    lines.extend((EMPTY, heading("Files", "n shows them one by one")))
    lines.extend(
        file_row(f.path, f.kind, changes(f.added, f.removed), indent="", warning=_sign(view, f.path))
        for f in view.files
    )
    lines.append(EMPTY)
    lines.extend(labelled("made", exact(row.created_at), width))
    lines.extend(labelled("expires", exact(row.expires_at), width))
    return tuple(lines)
