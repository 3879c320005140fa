"""Texts to read over a pane: its keys, and what this session did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from dsh_memory_tui.commands import LIST, Command, shown_key
from dsh_memory_tui.dialogs.dialog import Dialog, Reading
from dsh_memory_tui.frame import PANE_TITLES, Bar
from dsh_memory_tui.widgets.lines import EMPTY, Line, Piece, heading, line, pad
from dsh_memory_tui.widgets.rows import Fixed

#: What each pane is for, in one sentence.
PURPOSES = {
    "status": "What needs you, what is there, and what happened last.",
    "health": "Whether all is well, worst first, and the next step for what is not.",
    "runs": "Every change of memory: what it did, whether it can be undone, and its diff.",
    "previews": "Changes that wait for a decision: read the diff, then apply or discard.",
    "search": "Full-text search over ids, tags, types and bodies, as you type.",
    "records": "Everything remembered, by folder, with marks for what is not as it should be.",
}


class TextDialog(Dialog[None]):
    """Lines to read; esc, q or enter closes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "leave", "close"),
        ("enter", "leave", "close"),
        ("question_mark", "leave", "close"),
    ]

    def __init__(self, title: str, lines: Sequence[Line]) -> None:
        super().__init__()
        self._heading = title
        self._text = tuple(lines)

    def frame(self) -> ComposeResult:
        yield Bar(id="dialog-title")
        yield Reading()
        yield Bar(id="dialog-note")

    def on_mount(self) -> None:
        title = line((self._heading, "strong"))
        self.query_one("#dialog-title", Bar).show(lambda _width: Fixed(((None, title),)))
        self.query_one(Reading).show(lambda _width: Fixed(tuple((None, part) for part in self._text)))
        self.query_one("#dialog-note", Bar).show_parts([(None, (Piece("esc closes, j k scroll", "muted"),))])
        self.query_one(Reading).focus()


def help_lines(commands: Sequence[Command], pane: str, *, read_only: bool) -> list[Line]:
    """The keys of a pane: its own first, then those of every pane, then those of lists."""
    lines = [line(PURPOSES[pane]), EMPTY]
    if read_only:
        lines.extend(
            (line(("Read-only: everything that would change memory is switched off.", "attention")), EMPTY)
        )
    own = [c for c in commands if pane in c.panes and c.keys]
    everywhere = [c for c in commands if not c.panes and c.keys and not c.id.startswith("pane-")]
    lists = [c for c in commands if LIST in c.panes and c.keys]
    for title, group in ((PANE_TITLES[pane], own), ("Everywhere", everywhere), ("Lists and texts", lists)):
        lines.append(heading(title))
        if title == "Everywhere":
            lines.append(line(("  " + pad("1 … 6", 14), "key"), "Go to a pane"))
        for command in group:
            off = read_only and command.act
            keys = " ".join(shown_key(key) for key in command.keys)
            note = "   off: read-only" if off else ""
            lines.append(
                line(
                    ("  " + pad(keys, 14), "muted" if off else "key"),
                    (command.help, "muted" if off else "text"),
                    (note, "muted"),
                )
            )
        lines.append(EMPTY)
    return lines[:-1]
