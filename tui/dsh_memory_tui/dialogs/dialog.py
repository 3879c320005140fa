"""What the dialogs share: a frame of one thin line, lines to read, choices to press."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from dsh_memory_tui.widgets.record_list import RecordList

Result = TypeVar("Result")

TOO_SMALL = "dsh-memory needs 40x10, this is {width}x{height}"


class Choice(Widget, can_focus=True):
    """A word to press, by enter or one click; a double click counts once at most."""

    class Pressed(Message):
        """The choice was taken."""

        def __init__(self, choice: Choice) -> None:
            self.choice = choice
            super().__init__()

        @property
        def control(self) -> Choice:
            return self.choice

    def __init__(self, label: str, *, id: str) -> None:
        super().__init__(id=id)
        self.label = label
        self.styles.width = len(label) + 4

    def render(self) -> Content:
        return Content(f"[ {self.label} ]" if self.has_focus else f"  {self.label}  ")

    def get_content_width(self, container: object, viewport: object) -> int:
        return len(self.label) + 4

    def on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.stop()
            self.post_message(self.Pressed(self))
        elif event.key in ("left", "right"):
            event.stop()
            self.screen.focus_next() if event.key == "right" else self.screen.focus_previous()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if event.chain == 1 and not self.disabled:
            self.post_message(self.Pressed(self))


class Dialog(ModalScreen[Result]):
    """A modal frame: a title, lines, choices."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "close")]

    #: Lines kept for title, note, choices and frame.
    FURNITURE = 7

    def frame(self) -> ComposeResult:
        """The widgets inside the frame."""
        yield from ()

    def compose(self) -> ComposeResult:
        with Container(id="dialog"):
            yield from self.frame()
        yield Static(id="too-small", markup=False)

    def on_resize(self, event: events.Resize) -> None:
        self.query_one("#too-small", Static).update(
            TOO_SMALL.format(width=event.size.width, height=event.size.height)
        )

    @property
    def too_small(self) -> bool:
        """Whether only the sentence is shown."""
        return self.app.size.width < 40 or self.app.size.height < 10

    def action_leave(self) -> None:
        """Close without a result."""
        self.dismiss(None)


def choices(*items: Choice) -> Horizontal:
    """The row of choices at the foot of a dialog."""
    return Horizontal(*items, id="choices")


class Reading(RecordList, can_focus=True):
    """Lines to read in a dialog, as high as they need, up to what the screen has."""

    SHOWS_PLACE = False

    def __init__(self, *, id: str = "lines") -> None:
        super().__init__(id=id, cursor_on=False)
