"""The dialogs around the commands: help, palette, the filter of runs, the log of the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dsh_memory import visible
from dsh_memory.inspection import RecordView
from dsh_memory_tui.dialogs.chooser import ChooserDialog, Option
from dsh_memory_tui.dialogs.help import TextDialog, help_lines
from dsh_memory_tui.frame import PANE_TITLES
from dsh_memory_tui.widgets.lines import line
from dsh_memory_tui.wording import age, short, who

if TYPE_CHECKING:
    from dsh_memory_tui.app import MemoryApp
    from dsh_memory_tui.panes.runs import RunsPane


def open_help(app: MemoryApp) -> None:
    """The keys of the pane that is shown."""
    lines = help_lines(app.commands, app.pane_name, read_only=app.read_only)
    app.push_screen(TextDialog(f"{PANE_TITLES[app.pane_name]}: keys", lines))


def open_log(app: MemoryApp) -> None:
    """What this session did."""
    lines = [line((f"{at:%H:%M:%S}  ", "muted"), visible(words)) for at, words in app.session_log]
    app.push_screen(TextDialog("This session", lines or [line(("Nothing was done yet.", "muted"))]))


def open_palette(app: MemoryApp) -> None:
    """Any command by its name; those that cannot be taken here say why, and stand last."""
    options = []
    for command in app.commands:
        if not command.palette:
            continue
        off = "read-only" if command.act and app.read_only else ""
        if not off and not command.works_in(app.pane_name):
            off = "in " + ", ".join(PANE_TITLES[name] for name in command.panes)
        label = f"go to {command.label}" if command.id.startswith("pane-") else command.label.rstrip("…")
        options.append(Option(command.id, label, command.help, command.shown_keys.split(" ")[0], off))
    options.sort(key=lambda option: bool(option.off))

    def taken(name: str | None) -> None:
        if name is not None:
            app.action_run(name)

    app.push_screen(ChooserDialog("Commands", options), taken)


def open_filter(app: MemoryApp, runs: RunsPane) -> None:
    """Show runs of one operation or of one status only."""
    operations, statuses = runs.choices
    options = [Option("all", "all", "every run")]
    options.extend(Option(f"operation:{name}", visible(name), "operation") for name in operations)
    options.extend(Option(f"status:{name}", visible(name), "status") for name in statuses)

    def taken(name: str | None) -> None:
        if name is None:
            return
        kind, _, value = name.partition(":")
        runs.filter(value if kind == "operation" else None, value if kind == "status" else None)

    app.push_screen(ChooserDialog("Show runs of", options), taken)


def open_versions(app: MemoryApp, view: RecordView, act: Callable[[str, dict[str, Any]], None]) -> None:
    """The versions of a record, newest first; one that is chosen is restored once its plan is confirmed."""
    options = []
    for index, commit in enumerate(view.history):
        off = "it was removed here" if commit.path is None else ""
        if index == 0 and not off and "dirty" not in view.entry.marks:
            off = "as it is now"
        if not off and app.read_only:
            off = "read-only"
        label = f"{short(commit.commit)}  {age(commit.committed_at, app.now())}"
        words = "  ".join(word for word in (off, who(commit), visible(commit.subject)) if word)
        options.append(Option(commit.commit, label, words, off=words if off else ""))
    if not options:
        app.say("No commit holds this record yet; s saves it.")
        return

    def taken(commit: str | None) -> None:
        if commit is not None:
            act("restore", {"path": view.entry.path, "commit": commit})

    app.push_screen(ChooserDialog("Restore a version", options), taken)
