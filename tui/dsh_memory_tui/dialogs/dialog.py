"""What the dialogs share: a frame of one thin line, lines to read, choices to press."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
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

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if event.chain == 1 and not self.disabled:
            self.post_message(self.Pressed(self))


class Dialog(ModalScreen[Result]):
    """A modal frame: a title, lines, choices."""

    # The focus moves before the next key is looked at, however fast it comes: by priority, in the app's own turn.
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "close"),
        Binding("tab", "move_focus(1)", priority=True),
        Binding("shift+tab", "move_focus(-1)", priority=True),
        Binding("right", "move_choice(1)", priority=True),
        Binding("left", "move_choice(-1)", priority=True),
    ]

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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Left and right go from choice to choice, and stay with a line of text."""
        return action != "move_choice" or isinstance(self.focused, Choice)

    def action_move_focus(self, step: int) -> None:
        """Give the focus to what comes next or before."""
        self.focus_next() if step > 0 else self.focus_previous()

    def action_move_choice(self, step: int) -> None:
        """Give the focus to the choice beside."""
        self.action_move_focus(step)

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
