"""The frame around every pane: title line, tabs and footer, each one line that can be clicked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len
from textual import events
from textual.message import Message

from dsh_memory import visible
from dsh_memory.inspection import Overview
from dsh_memory_tui.commands import PANES, Command, footer, shown_key
from dsh_memory_tui.widgets.lines import Line, Piece, cut
from dsh_memory_tui.widgets.record_list import RecordList
from dsh_memory_tui.widgets.rows import Fixed
from dsh_memory_tui.wording import ATTENTION, BUSY, GOOD, OFF, ON, plural, short

PANE_TITLES = {name: name.capitalize() for name in PANES}
_LABELS_SHORT = {**PANE_TITLES, "previews": "Prev", "records": "Recs"}
_LABELS_NARROW = {
    "status": "Stat",
    "health": "Heal",
    "runs": "Runs",
    "previews": "Prev",
    "search": "Find",
    "records": "Recs",
}


class Bar(RecordList, can_focus=False):
    """One line; parts of it stand for commands and can be clicked."""

    SHOWS_PLACE = False

    class Pressed(Message):
        """A part of the line was clicked."""

        def __init__(self, command: str) -> None:
            self.command = command
            super().__init__()

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, cursor_on=False)
        self._spans: list[tuple[int, int, str]] = []

    def show_line(self, build: Callable[[int], Line]) -> None:
        """Show the line `build` makes for a width."""
        self._spans = []
        self.show(lambda width: Fixed(((None, build(width)),)))

    def show_parts(self, parts: Sequence[tuple[str | None, tuple[Piece, ...]]]) -> None:
        """Show parts from left to right, each with the command it stands for."""
        self._spans = []
        at = 0
        pieces: list[Piece] = []
        for command, part in parts:
            start = at
            at += sum(cell_len(piece.text) for piece in part)
            pieces.extend(part)
            if command is not None:
                self._spans.append((start, at, command))
        shown = Line(tuple(pieces))
        self.show(lambda _width: Fixed(((None, shown),)))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        for start, end, command in self._spans:
            if start <= event.x < end:
                self.post_message(self.Pressed(command))


def title_line(
    overview: Overview | None, *, root: str, busy: str, read_only: bool, demo: bool, width: int
) -> Line:
    """The title: the product, the root, and what holds everywhere; what has no room is left out."""
    left = (Piece(" dsh-memory", "strong"), Piece("   "), Piece(visible(root), "muted"))
    right: list[tuple[Piece, ...]] = []
    if demo:
        left = (*left[:2], Piece(visible(root), "accent"))
    if read_only:
        right.append((Piece("read-only", "attention"),))
    if busy:
        right.append((Piece(f"{BUSY} {busy}", "accent"),))
    if overview is not None:
        right.append(_switch(overview))
        right.append((Piece(plural(overview.record_count, "record")),))
        right.append(_tree_state(overview))
        right.append((Piece(short(overview.head), "muted"),))
        right.append((Piece(f"read {overview.read_at:%H:%M:%S}", "muted"),))
    least = 14 if width < 60 else 28
    while right and _cells(right) + least > width:
        right.pop(_least_needed(right))
    joined: list[Piece] = []
    for part in right:
        joined.extend((*part, Piece("    " if width >= 100 else "  ")))
    if joined:
        joined[-1] = Piece(" ")
    room = width - sum(cell_len(piece.text) for piece in joined) - 15
    return Line((*left[:2], Piece(cut(left[2].text, room), left[2].role)), tuple(joined))


def _least_needed(right: list[tuple[Piece, ...]]) -> int:
    """Which part goes first when room is short: the time, the commit, the count, then from the left."""
    for start in ("read ",):
        for index, part in enumerate(right):
            if part[0].text.startswith(start) and part[0].text != "read-only":
                return index
    return len(right) - 1


def _switch(overview: Overview) -> tuple[Piece, ...]:
    if overview.settings.enabled is None:
        return (Piece("? settings", "attention"),)
    if overview.settings.enabled:
        return (Piece(f"{ON} ", "accent"), Piece("enabled"))
    return (Piece(f"{OFF} ", "muted"), Piece("off", "muted"))


def _tree_state(overview: Overview) -> tuple[Piece, ...]:
    if overview.dirty_paths:
        return (Piece(f"{ATTENTION} ", "attention"), Piece(f"{len(overview.dirty_paths):,} unsaved"))
    return (Piece(f"{GOOD} ", "good"), Piece("clean"))


def _cells(parts: list[tuple[Piece, ...]]) -> int:
    return sum(cell_len(piece.text) for part in parts for piece in part) + 4 * len(parts)


def tab_parts(
    current: str, overview: Overview | None, keys: dict[str, str], width: int
) -> list[tuple[str | None, tuple[Piece, ...]]]:
    """The tabs: number, name, and how much waits there."""
    parts: list[tuple[str | None, tuple[Piece, ...]]] = [(None, (Piece(" "),))]
    for name in PANES:
        label = (PANE_TITLES if width >= 66 else _LABELS_SHORT if width >= 58 else _LABELS_NARROW)[name]
        chosen = name == current
        pieces = [
            Piece(f"{keys[name]} ", "accent" if chosen else "muted"),
            Piece(label, "strong" if chosen else "muted"),
        ]
        waiting = _waiting(name, overview)
        if waiting and width >= 58:
            pieces.append(Piece(f" {waiting}", "attention" if name == "health" else "accent"))
        parts.append((f"pane-{name}", tuple(pieces)))
        parts.append((None, (Piece("   " if width >= 66 else "  "),)))
    return parts


def _waiting(name: str, overview: Overview | None) -> int:
    if overview is None:
        return 0
    if name == "previews":
        return len(overview.previews)
    if name == "health":
        return sum(fact.state != "good" for fact in overview.facts)
    return 0


def footer_commands(commands: Sequence[Command], pane: str, *, read_only: bool) -> list[Command]:
    """The commands the footer names; where memory cannot be shown, those that help against that."""
    shown = list(footer(commands, pane, read_only=read_only))
    if pane != "trouble":
        return shown
    shown = [command for command in shown if command.id not in ("find", "open")]
    return shown if read_only else [c for c in commands if c.id in ("init", "refresh")] + shown


def footer_parts(shown: Sequence[Command], width: int) -> list[tuple[str | None, tuple[Piece, ...]]]:
    """The footer: keys and their words, as many as fit, the last three always."""
    parts: list[tuple[str | None, tuple[Piece, ...]]] = [(None, (Piece(" "),))]
    room = width - 2
    chosen = list(shown)
    while len(chosen) > 3 and sum(_footer_cells(command) for command in chosen) > room:
        chosen.pop(len(chosen) - 4)
    for command in chosen:
        pieces = (Piece(shown_key(command.keys[0]), "key"), Piece(f" {command.label}", "muted"))
        parts.append((command.id, pieces))
        parts.append((None, (Piece("   "),)))
    return parts


def _footer_cells(command: Command) -> int:
    return cell_len(shown_key(command.keys[0])) + 1 + cell_len(command.label) + 3
