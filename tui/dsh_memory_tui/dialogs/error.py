"""An error, whole: its code, what it says, what to do; its text can be copied."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from dsh_memory import visible
from dsh_memory_tui.dialogs.dialog import Choice, Dialog, Reading, choices
from dsh_memory_tui.frame import Bar
from dsh_memory_tui.messages import Failure
from dsh_memory_tui.widgets.lines import EMPTY, Line, Piece, line, wrap
from dsh_memory_tui.widgets.rows import Fixed


class ErrorDialog(Dialog[str]):
    """Shows a failure; answers with its text when it is to be copied, else None."""

    BINDINGS: ClassVar[list[BindingType]] = [("y", "copy", "copy")]

    def __init__(self, title: str, failure: Failure) -> None:
        super().__init__()
        self._heading = title
        self._failure = failure

    @property
    def text(self) -> str:
        """Everything shown, as it would be reported."""
        failure = self._failure
        parts = [f"{self._heading}: {failure.code}", failure.message, failure.detail or "", failure.hint]
        return "\n".join(part for part in parts if part) + "\n"

    def frame(self) -> ComposeResult:
        yield Bar(id="dialog-title")
        yield Reading()
        yield Bar(id="dialog-note")
        yield choices(Choice("Close", id="close"), Choice("Copy", id="copy"))

    def on_mount(self) -> None:
        failure = self._failure
        title = line((visible(self._heading), "strong"), right=[(visible(failure.code), "danger")])
        self.query_one("#dialog-title", Bar).show(lambda _width: Fixed(((None, title),)))
        self.query_one(Reading).show(
            lambda width: Fixed(tuple((None, part) for part in error_lines(failure, width)))
        )
        self.query_one("#dialog-note", Bar).show_parts([(None, (Piece("y copies this text", "muted"),))])
        self.query_one("#close").focus()

    @on(Choice.Pressed, "#close")
    def _close(self) -> None:
        self.dismiss(None)

    @on(Choice.Pressed, "#copy")
    def action_copy(self) -> None:
        """Close, and hand the text to the clipboard."""
        self.dismiss(self.text)


def error_lines(failure: Failure, width: int) -> list[Line]:
    """A failure in lines: the sentence, what to do, the machine's reason."""
    lines = [line(part) for part in wrap(visible(failure.message) or "No reason was given.", width)]
    if failure.hint:
        lines.append(EMPTY)
        lines.extend(line((part, "accent")) for part in wrap(visible(failure.hint), width))
    if failure.detail:
        lines.append(EMPTY)
        for source in visible(failure.detail, keep_newlines=True).split("\n"):
            lines.extend(line((part, "muted")) for part in wrap(source, width))
    return lines
