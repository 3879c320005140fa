"""The application: frame, panes, global keys; all it knows comes from the gateway, a snapshot at a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from textual import events, on
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.timer import Timer
from textual.widgets import ContentSwitcher, Static

from dsh_memory import visible
from dsh_memory.environment import utc_now
from dsh_memory.inspection import Mark, Snapshot
from dsh_memory_tui import clipboard, menus, settings
from dsh_memory_tui.appearance import Appearance
from dsh_memory_tui.commands import PANES, Command, bindings, with_overrides
from dsh_memory_tui.core import Core
from dsh_memory_tui.dialogs.confirm import ConfirmDialog
from dsh_memory_tui.dialogs.dialog import TOO_SMALL
from dsh_memory_tui.dialogs.error import ErrorDialog
from dsh_memory_tui.doing import Doing
from dsh_memory_tui.frame import Bar, footer_commands, footer_parts, tab_parts, title_line
from dsh_memory_tui.gateway import Gateway
from dsh_memory_tui.messages import (
    Act,
    ActEnded,
    Failure,
    PlanRead,
    SnapshotFailed,
    SnapshotRead,
    SourceRead,
    StampRead,
)
from dsh_memory_tui.panes.health import HealthPane
from dsh_memory_tui.panes.pane import Pane
from dsh_memory_tui.panes.previews import PreviewsPane
from dsh_memory_tui.panes.records import RecordsPane
from dsh_memory_tui.panes.runs import RunsPane
from dsh_memory_tui.panes.search import SearchPane
from dsh_memory_tui.panes.status import StatusPane
from dsh_memory_tui.panes.trouble import TroublePane
from dsh_memory_tui.themes import themes

#: How often the screen looks whether something changed outside.
WATCH_SECONDS = 1.0
#: How long after the first screen the core gets ready for searches.
WARM_SECONDS = 1.0
#: Work that takes longer than this says so.
BUSY_SECONDS = 0.2
#: Ages are drawn anew this often; lines that stay the same are not sent.
AGE_SECONDS = 60.0


class MemoryApp(App[int]):
    """The terminal UI over one memory root."""

    CSS_PATH = "app.tcss"
    TITLE = "dsh-memory"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 (Textual's own declaration is no ClassVar for mypy)
        (0, "-tiny"),
        (40, "-narrow"),
        (70, "-medium"),
        (100, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (10, "-low"), (18, "-high")]  # noqa: RUF012

    def __init__(
        self,
        core: Core,
        *,
        root: str,
        clock: Callable[[], datetime] = utc_now,
        preferences: settings.Settings | None = None,
        settings_path: str | None = None,
        read_only: bool = False,
        demo: bool = False,
        watch_seconds: float | None = WATCH_SECONDS,
    ) -> None:
        super().__init__()
        self.preferences = preferences or settings.Settings()
        self.commands, refused = with_overrides(self.preferences.keys)
        self.problems = (*self.preferences.problems, *refused)
        self.gateway = Gateway(self, core)
        self.now = clock
        self.read_only = read_only
        self.session_log: list[tuple[datetime, str]] = []
        self._root_label = root
        self._appearance = Appearance(self, settings_path)
        self._demo = demo
        self._watch_seconds = watch_seconds
        self._snapshot: Snapshot | None = None
        self._pane = self.preferences.start_pane
        self.busy = ""
        self._busy_timer: Timer | None = None
        self._doing = Doing(self)
        self._warmed = False
        for theme in themes(self.preferences.diff):
            self.register_theme(theme)
        self.theme = self.preferences.theme
        for binding in bindings(self.commands):
            self.bind(binding.key, binding.action, description=binding.description, show=False)

    # -- the screen ----------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        with Vertical(id="frame"):
            yield Bar(id="title")
            yield Bar(id="tabs")
            with ContentSwitcher(initial=self._pane):
                yield StatusPane(id="status")
                yield HealthPane(id="health")
                yield RunsPane(id="runs")
                yield PreviewsPane(id="previews")
                yield SearchPane(id="search")
                yield RecordsPane(id="records")
                yield TroublePane(id="trouble")
            yield Bar(id="footer")
        yield Static(id="too-small", markup=False)

    def on_mount(self) -> None:
        self._show_frame()
        self.pane.start_focus()
        self.work_begins("reading")
        self.gateway.refresh()
        if self._watch_seconds is not None:
            self.set_interval(self._watch_seconds, self.gateway.watch)
            self.set_interval(AGE_SECONDS, self._draw_ages)
        for problem in self.problems:
            self.say(problem, severity="warning")

    @on(events.Resize)
    def _resized(self, event: events.Resize) -> None:
        sentence = TOO_SMALL.format(width=event.size.width, height=event.size.height)
        self.screen_stack[0].query_one("#too-small", Static).update(sentence)
        self._show_frame()

    @property
    def pane(self) -> Pane:
        """The pane that is shown."""
        switcher = self.screen_stack[0].query_one(ContentSwitcher)
        return cast(Pane, switcher.query_one(f"#{switcher.current or self._pane}"))

    @property
    def pane_name(self) -> str:
        """The name of the pane that was chosen, whether or not it can be shown."""
        return self._pane

    def say(self, text: str, *, severity: Any = "information") -> None:
        """A short word in the corner; foreign text is shown as it is."""
        self.notify(visible(text, keep_newlines=True), severity=severity, markup=False, timeout=6)

    def _show_frame(self) -> None:
        base = self.screen_stack[0]
        width = self.size.width
        overview = self._snapshot.overview if self._snapshot is not None else None
        root = overview.shown_root if overview is not None and not self._demo else self._root_label
        busy, read_only, demo = self.busy, self.read_only, self._demo
        base.query_one("#title", Bar).show_line(
            lambda cells: title_line(
                overview, root=root, busy=busy, read_only=read_only, demo=demo, width=cells or width
            )
        )
        keys = {name: self.key_of(f"pane-{name}") for name in PANES}
        base.query_one("#tabs", Bar).show_parts(tab_parts(self._pane, overview, keys, width))
        pane = "trouble" if self._in_trouble else self._pane
        shown = footer_commands(self.commands, pane, read_only=self.read_only)
        base.query_one("#footer", Bar).show_parts(footer_parts(shown, width))

    @property
    def _in_trouble(self) -> bool:
        return self.screen_stack[0].query_one(ContentSwitcher).current == "trouble"

    def key_of(self, command: str) -> str:
        """The first key of a command, as shown."""
        found = next(c for c in self.commands if c.id == command)
        return found.shown_keys.split(" ")[0] if found.keys else ""

    def _draw_ages(self) -> None:
        if self._snapshot is not None:
            self.pane.show(self._snapshot)

    # -- commands ------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A command's key works in its panes only, and never behind a dialog."""
        if action != "run" or not parameters:
            return True
        command = self._command(str(parameters[0]))
        # guard: no-second-dialog
        return command is not None and command.works_in(self._pane) and len(self.screen_stack) == 1

    def action_run(self, name: str) -> None:
        """Carry out a command by its id, wherever it was asked for."""
        command = self._command(name)
        if command is None or len(self.screen_stack) > 1:
            return
        # guard: read-only
        if command.act and self.read_only:
            self.say(
                "Read-only: nothing here changes memory. Start without --read-only to act.",
                severity="warning",
            )
            return
        simple: dict[str, Callable[[], object]] = {
            "find": self._find,
            "back": self._back,
            "refresh": self.refresh_all,
            "theme": self._appearance.next_theme,
            "diff-colours": self._appearance.other_diff_colours,
            "help": lambda: menus.open_help(self),
            "log": lambda: menus.open_log(self),
            "palette": lambda: menus.open_palette(self),
            "filter": lambda: menus.open_filter(self, self.screen_stack[0].query_one(RunsPane)),
            "init": self._init,
            "quit": lambda: self.exit(0),
        }
        if name.startswith("pane-"):
            self.go_to(name.removeprefix("pane-"))
        elif name in simple:
            simple[name]()
        elif not self._in_trouble:
            self.pane.run(name)

    def go_to(self, pane: str) -> None:
        """Show a pane."""
        self._pane = pane
        switcher = self.screen_stack[0].query_one(ContentSwitcher)
        if switcher.current != "trouble":
            switcher.current = pane
            if self._snapshot is not None:
                self.pane.show(self._snapshot)
            self.pane.start_focus()
        self._show_frame()

    def refresh_all(self) -> None:
        """Read everything again."""
        self.work_begins("reading")
        self.gateway.refresh()

    def _command(self, name: str) -> Command | None:
        return next((command for command in self.commands if command.id == name), None)

    def _find(self) -> None:
        self.go_to("search")

    def _back(self) -> None:
        pane = self.pane
        if hasattr(pane, "back"):
            pane.back()

    def _init(self) -> None:
        if not self._in_trouble:
            self.say("There is a repository already.")
            return
        self._doing.start(Act("init", {}, None, "creating"))

    # -- what the panes want -------------------------------------------------------------------------------

    def on_bar_pressed(self, message: Bar.Pressed) -> None:
        self.action_run(message.command)

    def on_pane_wanted(self, message: Pane.Wanted) -> None:
        self.action_run(message.command)

    def on_pane_go_to(self, message: Pane.GoTo) -> None:
        self.go_to(message.pane)
        if message.only is not None:
            cast(RecordsPane, self.pane).limit_to(cast(Mark, message.only))
        elif message.key is not None:
            self.pane.select(message.key)

    def on_pane_said(self, message: Pane.Said) -> None:
        self.say(message.text)

    def on_pane_copied(self, message: Pane.Copied) -> None:
        clipboard.copy(self, message.text, message.what)

    def on_pane_act_wanted(self, message: Pane.ActWanted) -> None:
        self._doing.act_wanted(message.kind, dict(message.params))

    def on_pane_versions_wanted(self, message: Pane.VersionsWanted) -> None:
        # guard: one-dialog-of-versions
        if len(self.screen_stack) == 1:
            menus.open_versions(self, message.view, self._doing.act_wanted)

    def on_pane_edit_wanted(self, message: Pane.EditWanted) -> None:
        self._doing.edit_wanted(message.path)

    # -- what the gateway answers --------------------------------------------------------------------------

    def on_snapshot_read(self, message: SnapshotRead) -> None:
        self.work_ends()
        if not self._warmed:
            # Once the first screen stands and has been looked at.
            self._warmed = True
            self.set_timer(WARM_SECONDS, self.gateway.warm)
        self._snapshot = message.snapshot
        switcher = self.screen_stack[0].query_one(ContentSwitcher)
        with self.batch_update():
            if switcher.current == "trouble":
                switcher.current = self._pane
                if len(self.screen_stack) == 1:
                    self.pane.start_focus()
            self.pane.show(message.snapshot)
            self._show_frame()
        if isinstance(self.screen, ConfirmDialog):
            self.screen.head_is(message.snapshot.overview.head)

    def on_snapshot_failed(self, message: SnapshotFailed) -> None:
        self.work_ends()
        self._snapshot = None
        base = self.screen_stack[0]
        base.query_one(TroublePane).show_failure(message.failure, self._root_label, read_only=self.read_only)
        base.query_one(ContentSwitcher).current = "trouble"
        if len(self.screen_stack) == 1:
            self.pane.start_focus()
        self._show_frame()
        if isinstance(self.screen, ConfirmDialog):
            self.screen.head_is(None)

    def on_stamp_read(self, message: StampRead) -> None:
        if message.changed:
            self.refresh_all()

    def on_source_read(self, message: SourceRead) -> None:
        self._doing.source_read(message)

    def on_plan_read(self, message: PlanRead) -> None:
        self._doing.plan_read(message)

    def on_act_ended(self, message: ActEnded) -> None:
        self.work_ends()
        self._doing.act_ended(message)
        self.gateway.refresh()

    def log_line(self, words: str) -> None:
        """Keep what was done for the session's log."""
        self.session_log.append((self.now(), words))

    def show_failure(self, title: str, failure: Failure) -> None:
        """Open the error dialog; its text goes to the clipboard when asked for."""

        def closed(text: str | None) -> None:
            if text is not None:
                clipboard.copy(self, text, "error")

        self.push_screen(ErrorDialog(title, failure), closed)

    # -- work that takes longer ----------------------------------------------------------------------------

    def work_begins(self, words: str) -> None:
        """Something was asked of the core; it is said once it takes longer."""
        if self._busy_timer is not None:
            self._busy_timer.stop()
        if self._snapshot is not None and words == "reading":
            words = f"reading {self._snapshot.overview.record_count:,} records"

        def show() -> None:
            # A timer that was stopped may have fired already.
            if self._busy_timer is not timer:
                return
            self.busy = words
            self._show_frame()

        timer = self._busy_timer = self.set_timer(BUSY_SECONDS, show)

    def work_ends(self) -> None:
        """The answer is there."""
        if self._busy_timer is not None:
            self._busy_timer.stop()
            self._busy_timer = None
        self.busy = ""
