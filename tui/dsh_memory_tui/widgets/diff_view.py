"""The detail of a run or a preview: its summary, or the diff of one of its files in either layout."""

from __future__ import annotations

from collections.abc import Callable

from dsh_memory import visible
from dsh_memory.inspection import FileDiff
from dsh_memory_tui.widgets.diff import side_by_side, unified
from dsh_memory_tui.widgets.lines import Line, heading, line, rule
from dsh_memory_tui.widgets.record_list import RecordList
from dsh_memory_tui.widgets.rows import Fixed

#: Side by side needs this many cells; under it the diff stays unified.
LEAST_FOR_SIDES = 64


class DiffView(RecordList):
    """Shows lines that a pane makes, or a diff it was given."""

    def __init__(self) -> None:
        super().__init__(classes="detail", cursor_on=False)
        self.diff: FileDiff | None = None
        self.sides = False
        self._note: tuple[Line, ...] = ()
        self._starts: list[int] = []

    def show_lines(self, build: Callable[[int], tuple[Line, ...]], *, top: bool) -> None:
        """Show a summary."""
        self.diff = None
        self._starts = []
        self.show(lambda width: Fixed(tuple((None, content) for content in build(width))), top=top)

    def show_diff(self, diff: FileDiff, note: tuple[Line, ...] = (), *, top: bool) -> None:
        """Show both sides of a file, under a line of what a reviewer should know."""
        self.diff = diff
        self._note = note
        self.show(self._diff_rows, top=top)

    def other_layout(self) -> str:
        """Change between unified and side by side; a word about it."""
        self.sides = not self.sides
        if self.diff is not None:
            self.show(self._diff_rows, top=True)
        if self.sides and self.scrollable_content_region.width < LEAST_FOR_SIDES:
            return f"Side by side from {LEAST_FOR_SIDES} cells on; here it stays unified."
        return "Side by side." if self.sides else "Unified."

    def to_hunk(self, step: int) -> bool:
        """Scroll to the next (1) or the last (-1) change; False when there is none that way."""
        here = self.scroll_offset.y + 2
        if step > 0:
            target = next((start for start in self._starts if start > here), None)
        else:
            target = next((start for start in reversed(self._starts) if start < here), None)
        if target is None:
            return False
        self.go_to_line(target)
        return True

    def as_text(self) -> str:
        """The diff as a patch for the clipboard."""
        import difflib

        if self.diff is None:
            return (
                "\n".join(content.text for _key, content in self.rows.rows)
                if isinstance(self.rows, Fixed)
                else ""
            )
        diff = self.diff
        lines = difflib.unified_diff(
            (diff.old or "").splitlines(),
            (diff.new or "").splitlines(),
            f"a/{diff.path}",
            f"b/{diff.path}",
            lineterm="",
        )
        return "\n".join(lines) + "\n"

    def _diff_rows(self, width: int) -> Fixed:
        diff = self.diff
        if diff is None:
            return Fixed()
        head = [heading(visible(diff.path), KIND_WORDS[diff.kind]), *self._note, rule(width)]
        split = self.sides and width >= LEAST_FOR_SIDES
        lines, starts = side_by_side(diff, width) if split else unified(diff, width)
        self._starts = [start + len(head) for start in starts]
        return Fixed(tuple((None, content) for content in (*head, *lines)))


KIND_WORDS = {"A": "added", "M": "modified", "D": "deleted"}
KIND_ROLES = {"A": "added", "M": "text", "D": "removed"}


def file_row(path: str, kind: str, counts: str, *, indent: str = "  ", warning: str = "") -> Line:
    """A changed file in a list: kind, path, line counts, a warning sign where a reviewer should look."""
    right = [(f"{warning} ", "attention"), (counts, "muted")] if warning else [(counts, "muted")]
    return line(indent, (f"{kind} ", KIND_ROLES.get(kind, "text")), visible(path), right=right)
