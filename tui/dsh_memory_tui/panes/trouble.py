"""What stands in place of the panes when the memory cannot be read at all."""

from __future__ import annotations

from textual.app import ComposeResult

from dsh_memory import visible
from dsh_memory_tui.messages import Failure
from dsh_memory_tui.panes.pane import Pane
from dsh_memory_tui.widgets.lines import EMPTY, Line, line, wrap
from dsh_memory_tui.widgets.record_list import RecordList
from dsh_memory_tui.widgets.rows import Fixed


class TroublePane(Pane):
    """The reason, and the next step; for a missing repository, the offer to create one."""

    def compose(self) -> ComposeResult:
        yield RecordList(classes="whole", cursor_on=False)

    def show_failure(self, failure: Failure, root: str, *, read_only: bool) -> None:
        """Show why nothing can be read."""
        self.query_one(RecordList).show(
            lambda width: Fixed(
                tuple((None, part) for part in trouble_lines(failure, root, width, read_only=read_only))
            )
        )


def trouble_lines(failure: Failure, root: str, width: int, *, read_only: bool) -> list[Line]:
    """The failure in lines."""
    missing = failure.code == "repo-unavailable"
    title = "There is no memory here yet" if missing else "This memory cannot be read"
    lines = [EMPTY, line((title, "strong")), line((visible(root), "accent")), EMPTY]
    lines.extend(line(part) for part in wrap(visible(failure.message), min(width, 90)))
    if failure.hint:
        lines.extend(line((part, "muted")) for part in wrap(visible(failure.hint), min(width, 90)))
    lines.append(EMPTY)
    if missing and not read_only:
        lines.append(line(("i ", "key"), "creates a memory repository at this place"))
    lines.append(line(("r ", "key"), "looks again"))
    lines.append(line(("q ", "key"), "leaves; dsh-memory --demo opens a sample instead"))
    detail = f" ({visible(failure.detail)})" if failure.detail else ""
    lines.extend((EMPTY, line((failure.code + detail, "muted"))))
    return lines
