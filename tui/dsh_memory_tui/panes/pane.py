"""What the panes share: a list with a detail beside, below or in place of it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message

from dsh_memory.inspection import RecordView, Snapshot
from dsh_memory_tui.gateway import Gateway
from dsh_memory_tui.widgets.lines import line, wrap
from dsh_memory_tui.widgets.record_list import RecordList
from dsh_memory_tui.widgets.rows import Fixed

if TYPE_CHECKING:
    from dsh_memory_tui.app import MemoryApp


class Pane(Container):
    """One pane: shows snapshots, answers commands, asks the app for everything that leaves the pane."""

    class Wanted(Message):
        """A command of another place is wanted, by its id."""

        def __init__(self, command: str) -> None:
            self.command = command
            super().__init__()

    class GoTo(Message):
        """Another pane is wanted, with its cursor on `key`; `only` limits a list to records with one mark."""

        def __init__(self, pane: str, key: str | None = None, only: str | None = None) -> None:
            self.pane = pane
            self.key = key
            self.only = only
            super().__init__()

    class Copied(Message):
        """Text for the clipboard, and what it is in words."""

        def __init__(self, text: str, what: str) -> None:
            self.text = text
            self.what = what
            super().__init__()

    class Said(Message):
        """A word to the person who pressed a key that does nothing here."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    class ActWanted(Message):
        """An act is wanted that needs a confirmation: its kind, and what names its object."""

        def __init__(self, kind: str, params: dict[str, object]) -> None:
            self.kind = kind
            self.params = params
            super().__init__()

    class VersionsWanted(Message):
        """The versions of a record are wanted, to restore one."""

        def __init__(self, view: RecordView) -> None:
            self.view = view
            super().__init__()

    class EditWanted(Message):
        """A record is to be opened in an editor."""

        def __init__(self, path: str) -> None:
            self.path = path
            super().__init__()

    snapshot: Snapshot | None = None

    def show(self, snapshot: Snapshot) -> None:
        """Show a new state."""
        self.snapshot = snapshot

    def run(self, command: str) -> None:
        """Carry out a command of this pane."""

    def select(self, key: str) -> None:
        """Put the cursor on something, coming from another pane."""

    @property
    def gateway(self) -> Gateway:
        """The way to the core."""
        return cast("MemoryApp", self.app).gateway

    @property
    def now(self) -> datetime:
        """The time of the screen's clock."""
        return cast("MemoryApp", self.app).now()

    @property
    def read_only(self) -> bool:
        """Whether every act is off."""
        return cast("MemoryApp", self.app).read_only

    def start_focus(self) -> None:
        """Give the focus to where work begins."""
        self.query(RecordList).first().focus()


class SplitPane(Pane):
    """A list, and a detail of what its cursor is on: beside, below or in place of it, as the width allows."""

    DETAIL_OPEN = "-detail-open"

    def compose(self) -> ComposeResult:
        yield RecordList(classes="list")
        yield RecordList(classes="detail", cursor_on=False)

    @property
    def listing(self) -> RecordList:
        """The list."""
        return self.query_one(".list", RecordList)

    @property
    def detail(self) -> RecordList:
        """The detail."""
        return self.query_one(".detail", RecordList)

    @property
    def list_only(self) -> bool:
        """Whether there is room for the list alone."""
        return self.screen.has_class("-narrow") or self.screen.has_class("-low")

    def show_empty(self, words: str) -> None:
        """Say in place of the list why it is empty, and what fills it."""
        self.listing.show(
            lambda width: Fixed(tuple((None, line((part, "muted"))) for part in wrap(words, width))), top=True
        )

    def open_detail(self) -> None:
        """Go into the detail; in its full size where there is room for one only."""
        self.add_class(self.DETAIL_OPEN)
        self.detail.focus()

    def back(self) -> bool:
        """Leave the detail; False when the list has the focus already."""
        if self.detail.has_focus or self.has_class(self.DETAIL_OPEN):
            self.remove_class(self.DETAIL_OPEN)
            self.listing.focus()
            return True
        return False
