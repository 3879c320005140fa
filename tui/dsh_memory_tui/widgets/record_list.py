"""A list that draws only the lines on the screen, and whose cursor stays on its row when the list changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dsh_memory_tui import commands
from dsh_memory_tui.themes import role_style
from dsh_memory_tui.widgets.lines import Line, fit
from dsh_memory_tui.widgets.rows import Fixed, Rows
from dsh_memory_tui.widgets.strips import difference, look_alike

#: The most lines of the mark that shows the place in a long list: longer ones cost a terminal more than they tell.
MARK_LINES = 4


class RecordList(ScrollView, can_focus=True):
    """Lines with a cursor (a list) or without (`cursor_on=False`, a text to read)."""

    BINDINGS: ClassVar[list[BindingType]] = [*commands.bindings(commands.COMMANDS, lists=True)]
    ALLOW_SELECT = False
    #: Whether the last cell of each line shows the place in the whole. It is drawn with the lines: a bar of
    #: its own would be sent to the terminal whole with every change of length.
    SHOWS_PLACE: ClassVar[bool] = True

    class Moved(Message):
        """The cursor is on another row, or the list changed under it."""

        def __init__(self, sender: RecordList, key: str | None) -> None:
            self.sender = sender
            self.key = key
            super().__init__()

        @property
        def control(self) -> RecordList:
            return self.sender

    class Opened(Message):
        """A row was opened, by enter or a double click."""

        def __init__(self, sender: RecordList, key: str) -> None:
            self.sender = sender
            self.key = key
            super().__init__()

        @property
        def control(self) -> RecordList:
            return self.sender

    def __init__(self, *, id: str | None = None, cursor_on: bool = True, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.cursor_on = cursor_on
        self.cursor = 0
        self.rows: Rows = Fixed()
        self._build: Callable[[int], Rows] = lambda _width: Fixed()
        self._strips: dict[int, Strip] = {}
        self._shown: dict[int, Strip] = {}
        self._styles_of: dict[str, Style] = {}

    # -- what is shown -------------------------------------------------------------------------------------

    @property
    def current_key(self) -> str | None:
        """The key of the row under the cursor."""
        return self.rows.key(self.cursor) if self.cursor_on and 0 <= self.cursor < len(self.rows) else None

    def show(self, build: Callable[[int], Rows], *, top: bool = False) -> None:
        """Show the rows `build` makes for a width; the cursor stays on its key, `top` starts anew."""
        key, old_cursor = self.current_key, self.cursor
        above = self.cursor * self.rows.height - self.scroll_offset.y
        self._build = build
        self._rebuild()
        if top:
            self.cursor = 0
            self.scroll_to(y=0, animate=False)
        else:
            found = self._find(key) if key is not None else None
            self.cursor = found if found is not None else min(old_cursor, max(0, len(self.rows) - 1))
            if found is not None and found != old_cursor:
                self.scroll_to(y=max(0, found * self.rows.height - above), animate=False)
        self._skip_to_selectable(1)
        self._repaint_changes()
        if top or self.current_key != key:
            self.post_message(self.Moved(self, self.current_key))

    def select(self, key: str) -> bool:
        """Put the cursor on a key; False when the list has no such row."""
        index = self._find(key)
        if index is None:
            return False
        self._move_to(index)
        return True

    def go_to_line(self, y: int, *, context: int = 2) -> None:
        """Scroll a text so that line `y` stands near the top."""
        self.scroll_to(y=max(0, y - context), animate=False)

    # -- keys and mouse ------------------------------------------------------------------------------------

    def action_run(self, command: str) -> None:
        """Carry out a command of the list."""
        page = max(1, self.scrollable_content_region.height // self.rows.height - 1)
        step = {"down": 1, "up": -1, "page-down": page, "page-up": -page}.get(command)
        if not self.cursor_on:
            lines = len(self.rows) * self.rows.height
            target = {"first": 0, "last": lines}.get(command, self.scroll_offset.y + (step or 0))
            self.scroll_to(y=target, animate=False)
        elif step is not None:
            self._move_to(self.cursor + step, direction=1 if step > 0 else -1)
        else:
            self._move_to(
                0 if command == "first" else len(self.rows) - 1, direction=1 if command == "first" else -1
            )

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if not self.cursor_on:
            return
        index = (event.y + self.scroll_offset.y) // self.rows.height
        if 0 <= index < len(self.rows) and self.rows.key(index) is not None:
            self._move_to(index)
            key = self.current_key
            if event.chain == 2 and key is not None:
                self.post_message(self.Opened(self, key))

    # -- drawing -------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        at = y + self.scroll_offset.y
        strip = self._strips.get(at)
        if strip is None:
            strip = self._strips[at] = self._draw_line(at)
        if self.SHOWS_PLACE:
            strip = self._with_place_mark(strip, y)
        self._shown[y] = strip
        return strip

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles_of.clear()
        self._strips.clear()
        self._shown.clear()

    def on_resize(self) -> None:
        key = self.current_key
        self._rebuild()
        found = self._find(key) if key is not None else None
        if found is not None:
            self.cursor = found
        self._strips.clear()
        self._shown.clear()
        self._scroll_to_cursor()
        self.refresh()

    def on_focus(self) -> None:
        self._repaint_row(self.cursor)

    def on_blur(self) -> None:
        self._repaint_row(self.cursor)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if len(self._strips) > 2_000:
            self._strips.clear()

    @property
    def _width(self) -> int:
        """Cells of a line's text."""
        return max(0, self.scrollable_content_region.width - (1 if self.SHOWS_PLACE else 0))

    def _rebuild(self) -> None:
        self.rows = self._build(self._width)
        lines = len(self.rows) * self.rows.height
        if self.styles.is_auto_height:
            self.virtual_size = Size(self._width, lines)
            return
        # The reactive would lay the screen out and paint the whole widget; only scrolling needs this number.
        height = self.scrollable_content_region.height
        size = Size(self._width, max(lines, height))
        self.set_reactive(ScrollView.virtual_size, size)
        self.scroll_y = self.validate_scroll_y(self.scroll_y)

    def _draw_line(self, at: int) -> Strip:
        width = self._width
        index, part = divmod(at, self.rows.height)
        if index >= len(self.rows):
            return Strip.blank(width, self.rich_style)
        lines = self.rows.draw(index, width)
        content = lines[part] if part < len(lines) else Line()
        base = self.rich_style
        if content.fill is not None:
            base += self._style(content.fill)
        under_cursor = self.cursor_on and index == self.cursor and self.rows.key(index) is not None
        plain = base
        if under_cursor:
            base += self._style("cursor" if self.has_focus else "cursor-away")
        segments: list[Segment] = []
        style, role = base, "text"
        left = content.cursor_cells if under_cursor and content.cursor_cells is not None else width
        pieces = fit(content, width)
        for piece, following in zip(pieces, (*pieces[1:], None), strict=True):
            own = (base if left > 0 else plain) + self._style(piece.role)
            # Blanks show no letters: in the colours of what stands before them the terminal is sent no new ones.
            # Between two texts of one colour they stay apart: in a picture each text then has its own place.
            between = following is not None and following.role == role
            if between or not (piece.text.isspace() and look_alike(style, own)):
                style, role = own, piece.role
            segments.append(Segment(piece.text, style))
            left -= cell_len(piece.text)
        return Strip(segments).adjust_cell_length(width, base if left > 0 else plain).simplify()

    def _with_place_mark(self, strip: Strip, y: int) -> Strip:
        mark, segments = self._place_mark(y), list(strip)
        last = segments[-1].style if segments else None
        if mark.text == " " and last is not None and mark.style is not None and look_alike(last, mark.style):
            mark = Segment(" ", last)
        return Strip([*segments, mark]).simplify()

    def _place_mark(self, y: int) -> Segment:
        lines, height = len(self.rows) * self.rows.height, self.scrollable_content_region.height
        blank = Segment(" ", self.rich_style)
        if lines <= height:
            return blank
        size = max(1, min(MARK_LINES, height * height // lines))
        top = round(self.scroll_offset.y / (lines - height) * (height - size))
        return Segment("▐", self.rich_style + self._style("rule")) if top <= y < top + size else blank

    def _style(self, role: str) -> Style:
        style = self._styles_of.get(role)
        if style is None:
            app = self.app
            style = self._styles_of[role] = role_style(role, app.theme_variables, ansi=app.native_ansi_color)
        return style

    def _repaint_changes(self) -> None:
        """Repaint the visible lines that differ from what stands there, and only those."""
        self._strips = {}
        width = self.scrollable_content_region.width
        for y in range(self.scrollable_content_region.height):
            before, after = self._shown.get(y), self.render_line(y)
            if before is None:
                self.refresh(Region(0, y, width, 1))
            elif before != after:
                start, end = difference(before, after)
                self.refresh(Region(start, y, end - start, 1))

    def _repaint_row(self, index: int) -> None:
        height = self.rows.height
        for at in range(index * height, index * height + height):
            self._strips.pop(at, None)
        self.refresh(Region(0, index * height - self.scroll_offset.y, self.size.width, height))

    def _find(self, key: str | None) -> int | None:
        if key is None:
            return None
        if 0 <= self.cursor < len(self.rows) and self.rows.key(self.cursor) == key:
            return self.cursor
        return next((index for index in range(len(self.rows)) if self.rows.key(index) == key), None)

    def _move_to(self, index: int, direction: int = 1) -> None:
        before = self.cursor
        self.cursor = max(0, min(index, len(self.rows) - 1))
        self._skip_to_selectable(direction)
        if self.current_key is None:
            self.cursor = before
        self._scroll_to_cursor()
        if self.cursor != before:
            self._repaint_row(before)
            self._repaint_row(self.cursor)
            self.post_message(self.Moved(self, self.current_key))

    def _skip_to_selectable(self, direction: int) -> None:
        if not self.cursor_on:
            return
        for way in (direction, -direction):
            index = self.cursor
            while 0 <= index < len(self.rows):
                if self.rows.key(index) is not None:
                    self.cursor = index
                    return
                index += way

    def _scroll_to_cursor(self) -> None:
        height = self.rows.height
        top, visible = self.scroll_offset.y, self.scrollable_content_region.height
        if not self.cursor_on or visible <= 0:
            return
        first = self.cursor * height
        # The lines above the first row (a heading) come into sight with it.
        if (
            not any(self.rows.key(index) is not None for index in range(min(self.cursor, 4)))
            and self.cursor < 4
        ):
            first = 0
        if first < top:
            self.scroll_to(y=first, animate=False)
        elif self.cursor * height + height > top + visible:
            self.scroll_to(y=self.cursor * height + height - visible, animate=False)
