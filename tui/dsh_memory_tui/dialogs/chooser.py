"""A list to choose from by typing: the command palette, and the filter of the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input

from dsh_memory_tui.dialogs.dialog import Dialog
from dsh_memory_tui.frame import Bar
from dsh_memory_tui.widgets.field import Field
from dsh_memory_tui.widgets.lines import Line, Piece, line, pad
from dsh_memory_tui.widgets.record_list import RecordList
from dsh_memory_tui.widgets.rows import Drawn, Fixed


@dataclass(frozen=True, slots=True)
class Option:
    """One choice; `off` says why it cannot be taken now."""

    id: str
    label: str
    help: str
    key: str = ""
    off: str = ""


class ChooserDialog(Dialog[str]):
    """Answers with the id of the option taken, or None."""

    def __init__(self, title: str, options: Sequence[Option]) -> None:
        super().__init__()
        self._heading = title
        self._options = tuple(options)

    def frame(self) -> ComposeResult:
        yield Bar(id="dialog-title")
        with Horizontal(id="word-row"):
            yield Bar(id="word-label")
            yield Field(id="word", placeholder="type to narrow")
        yield RecordList(id="options")

    def on_mount(self) -> None:
        title = line((self._heading, "strong"), right=[("↑ ↓ choose, ↵ takes, esc closes", "muted")])
        self.query_one("#dialog-title", Bar).show(lambda _width: Fixed(((None, title),)))
        self.query_one("#word-label", Bar).show_parts([(None, (Piece("› ", "accent"),))])
        self._show("")
        self.query_one("#word").focus()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._show(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._take(self.query_one("#options", RecordList).current_key)

    @on(RecordList.Opened)
    def _opened(self, event: RecordList.Opened) -> None:
        event.stop()
        self._take(event.key)

    def on_key(self, event: events.Key) -> None:
        options = self.query_one("#options", RecordList)
        if event.key in ("up", "down") and not options.has_focus:
            event.stop()
            options.action_run(event.key)
        elif event.key == "enter" and options.has_focus:
            event.stop()
            self._take(options.current_key)

    def _take(self, key: str | None) -> None:
        option = next((option for option in self._options if option.id == key), None)
        if option is not None and not option.off:
            self.dismiss(option.id)

    def _show(self, typed: str) -> None:
        words = typed.lower().split()
        found = [o for o in self._options if all(word in f"{o.label} {o.help}".lower() for word in words)]
        found.sort(key=lambda option: not option.label.lower().startswith(typed.lower().strip()))
        if not found:
            nothing = line(("Nothing is called that.", "muted"))
            self.query_one("#options", RecordList).show(lambda _width: Fixed(((None, nothing),)), top=True)
            return
        label = max(18, *(cell_len(option.label) + 2 for option in found))
        rows = Drawn(found, lambda option: option.id, lambda option, width: (_draw(option, label, width),))
        self.query_one("#options", RecordList).show(lambda _width: rows, top=True)


def _draw(option: Option, label: int, width: int) -> Line:
    role = "muted" if option.off else "text"
    help_text = option.off or option.help
    return line(
        (pad(option.label, label), role),
        (help_text if width > 50 else "", "muted"),
        right=[(option.key, "key")] if option.key else (),
    )
