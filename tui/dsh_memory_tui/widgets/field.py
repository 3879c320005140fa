"""One line to type in."""

from __future__ import annotations

from textual.widgets import Input


class Field(Input):
    """One line to type in whose cursor stands still: a screen nobody touches sends nothing."""

    def __init__(self, *, id: str, placeholder: str = "") -> None:
        super().__init__(id=id, placeholder=placeholder, compact=True, select_on_focus=False)
        self.cursor_blink = False
