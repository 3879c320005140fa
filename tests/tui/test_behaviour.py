"""How the screen behaves: it follows changes, keeps the cursor, says what is wrong, and waits for nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from textual.widgets import ContentSwitcher, Input

from dsh_memory.errors import RepoUnavailable, UnsafeLayout
from dsh_memory_tui import clipboard, settings
from dsh_memory_tui.core import SNAPSHOT_RUNS
from dsh_memory_tui.dialogs import confirm
from dsh_memory_tui.dialogs.chooser import ChooserDialog
from dsh_memory_tui.dialogs.confirm import ConfirmDialog
from dsh_memory_tui.dialogs.dialog import Reading
from dsh_memory_tui.panes.records import RecordsPane
from dsh_memory_tui.panes.runs import RunsPane
from dsh_memory_tui.panes.search import SearchPane
from dsh_memory_tui.widgets.record_list import RecordList
from tests.tui.driving import Driver, press, running, send, settle
from tests.tui.fakes import ENTRIES, HEAD, FakeCore, empty_looks, entry


def shown(widget: RecordList) -> str:
    return "\n".join(widget.render_line(y).text.rstrip() for y in range(widget.size.height))


async def changed_outside(pilot: Driver, core: FakeCore) -> None:
    core.looks.change()
    pilot.app.gateway.watch()  # type: ignore[attr-defined]
    await settle(pilot)
    await settle(pilot)


async def test_a_change_outside_is_followed_and_the_cursor_stays(core: FakeCore) -> None:
    async with running(core, pane="records") as (app, pilot):
        pane = app.query_one(RecordsPane)
        await press(pilot, "j", "j", "j")
        key = pane.listing.current_key
        new = entry("handbook/a-new-one.md", "project/a-new-one")
        core.looks.entries = (new, *ENTRIES)
        await changed_outside(pilot, core)
        assert pane.listing.current_key == key
        assert "project/a-new-one" in shown(pane.listing)


async def test_the_cursor_stays_near_when_its_record_goes(core: FakeCore) -> None:
    async with running(core, pane="records") as (app, pilot):
        pane = app.query_one(RecordsPane)
        await press(pilot, "j", "j")
        cursor, gone = pane.listing.cursor, pane.listing.current_key
        core.looks.entries = tuple(e for e in ENTRIES if e.path != gone)
        await changed_outside(pilot, core)
        assert pane.listing.cursor == cursor
        assert pane.reader.path == pane.listing.current_key != gone


async def test_what_did_not_change_is_not_painted_again(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(core, pane="records") as (app, pilot):
        painted: list[str] = []
        refresh = RecordList.refresh

        def counted(self: RecordList, *regions: object, **options: object) -> object:
            if regions or options.get("repaint", True):
                painted.append(str(self.id or self.classes))
            return refresh(self, *regions, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(RecordList, "refresh", counted)
        app.refresh_all()
        await settle(pilot)
        assert [name for name in painted if name not in ("title",)] == []


async def test_nothing_is_read_while_nothing_changes(core: FakeCore) -> None:
    async with running(core) as (app, pilot):
        for _ in range(3):
            app.gateway.watch()
            await settle(pilot)
        assert core.looks.snapshots == 1


async def test_the_screen_watches_by_itself(core: FakeCore) -> None:
    async with running(core, watch_seconds=0.01) as (_app, pilot):
        core.looks.change()
        for _ in range(500):
            if core.looks.snapshots > 1:
                break
            await pilot.pause(0.01)
        assert core.looks.snapshots == 2


async def test_keys_work_while_the_core_is_busy(core: FakeCore) -> None:
    async with running(core, pane="records") as (app, pilot):
        core.looks.hold = threading.Event()
        app.refresh_all()
        pane = app.query_one(RecordsPane)
        before = pane.listing.cursor
        send(pilot, "j")
        await pilot.pause()
        assert pane.listing.cursor == before + 1
        core.looks.hold.set()
        await settle(pilot)


@pytest.mark.parametrize(
    "failure",
    [
        RepoUnavailable("The memory root does not exist.", detail="missing"),
        UnsafeLayout("handbook is a symbolic link.", detail="handbook"),
    ],
    ids=lambda failure: failure.code,
)
async def test_a_memory_that_cannot_be_read_says_why_and_comes_back(
    failure: RepoUnavailable, core: FakeCore
) -> None:
    async with running(core) as (app, pilot):
        core.looks.failure = failure
        await changed_outside(pilot, core)
        switcher = app.query_one(ContentSwitcher)
        assert switcher.current == "trouble"
        text = shown(app.pane.query_one(RecordList))
        assert failure.code in text and failure.message in text
        core.looks.failure = None
        await press(pilot, "r")
        assert switcher.current == "status"


async def test_init_is_offered_where_there_is_no_repository(core: FakeCore) -> None:
    core.looks.failure = RepoUnavailable("The memory root does not exist.", detail="missing")
    async with running(core) as (app, pilot):
        assert "i creates" in shown(app.pane.query_one(RecordList))
        core.looks.failure = None
        await press(pilot, "i")
        assert [act.kind for act in core.acts] == ["init"]
        assert app.query_one(ContentSwitcher).current == "status"


async def test_a_lock_held_elsewhere_is_named(core: FakeCore) -> None:
    core.act_error = {"code": "operation-in-progress", "message": "sync, process 12345, holds the lock."}
    async with running(core) as (app, pilot):
        await press(pilot, "space")
        assert "process 12345" in app.screen.text  # type: ignore[attr-defined]


async def test_search_follows_the_typing_and_the_newest_query_wins(core: FakeCore) -> None:
    async with running(core, pane="search") as (app, pilot):
        send(pilot, *"codegen")
        await settle(pilot)
        pane = app.query_one(SearchPane)
        assert core.searches[-1] == ("codegen", "active")
        assert "project/codegen" in shown(pane.listing)
        await press(pilot, "ctrl+t")
        assert core.searches[-1] == ("codegen", "archive")
        await press(pilot, "down", "j")
        assert pane.listing.has_focus and pane.listing.cursor == 1
        await press(pilot, "slash", *(["backspace"] * 7))
        assert "Type to search" in shown(pane.listing)


async def test_a_query_from_a_decomposing_keyboard_is_composed(core: FakeCore) -> None:
    async with running(core, pane="search") as (app, pilot):
        app.query_one("#query", Input).value = "cafe\u0301"
        await settle(pilot)
        assert core.searches[-1] == ("caf\u00e9", "active")


async def test_a_sign_alone_is_no_query(core: FakeCore) -> None:
    async with running(core, pane="search") as (app, pilot):
        app.query_one("#query", Input).value = "'; --"
        await settle(pilot)
        assert core.searches == []
        assert "needs a letter or a number" in shown(app.query_one(SearchPane).listing)


async def test_no_match_says_where_it_looked(core: FakeCore) -> None:
    async with running(core, pane="search") as (app, pilot):
        app.query_one("#query", Input).value = "nothing"
        await settle(pilot)
        assert "No match in active records" in shown(app.query_one(SearchPane).listing)


async def test_runs_can_be_filtered(core: FakeCore) -> None:
    async with running(core, pane="runs") as (app, pilot):
        pane = app.query_one(RunsPane)
        await press(pilot, "f", *"failed", "enter")
        assert pane.status == "failed"
        assert "too-many-files" in shown(pane.listing) and "migrate" not in shown(pane.listing)
        await press(pilot, "f", *"all", "enter")
        assert "migrate" in shown(pane.listing)


def _many_runs(core: FakeCore) -> None:
    newest = core.looks.runs_rows[0]
    core.looks.runs_rows = (
        *(newest._replace(run_id=f"run-{number}", operation="clear") for number in range(SNAPSHOT_RUNS)),
        newest._replace(run_id="the-oldest", operation="migrate"),
    )


async def test_the_whole_journal_is_read_when_asked_for(core: FakeCore) -> None:
    _many_runs(core)
    async with running(core, pane="runs") as (app, pilot):
        pane = app.query_one(RunsPane)
        await press(pilot, "G")
        assert "older runs" in shown(pane.listing)
        await press(pilot, "enter", "G")
        assert pane.listing.current_key == "the-oldest"
        await changed_outside(pilot, core)
        assert pane.listing.current_key == "the-oldest"


async def test_a_filter_finds_runs_that_no_refresh_brings(core: FakeCore) -> None:
    _many_runs(core)
    async with running(core, pane="runs") as (app, pilot):
        pane = app.query_one(RunsPane)
        pane.filter("migrate", None)
        await settle(pilot)
        assert pane.listing.current_key == "the-oldest"
        assert "older runs" not in shown(pane.listing)


async def test_a_version_is_chosen_shown_and_restored(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirm, "ARM_SECONDS", 0.0)
    async with running(core, pane="records") as (app, pilot):
        path = app.query_one(RecordsPane).listing.current_key
        await press(pilot, "v")
        options = shown(app.screen.query_one("#options", RecordList))
        assert "as it is now" in options and "v2 rest, claude" in options and "it was removed" in options
        await press(pilot, "enter")
        assert isinstance(app.screen, ChooserDialog), "the version of now is nothing to restore"
        await press(pilot, "down", "enter")
        assert isinstance(app.screen, ConfirmDialog)
        assert "spaces" in shown(app.screen.query_one(Reading))
        await press(pilot, "tab", "enter")
        [act] = core.acts
        assert (act.kind, act.expected_head) == ("restore", HEAD)
        assert act.params == {"path": path, "commit": "7c" * 20}
        assert "Restored" in next(iter(app._notifications)).message


async def test_read_only_shows_versions_and_restores_none(core: FakeCore) -> None:
    async with running(core, pane="records", read_only=True) as (app, pilot):
        await press(pilot, "v", "down", "enter")
        assert isinstance(app.screen, ChooserDialog)
        assert "read-only" in shown(app.screen.query_one("#options", RecordList))
        assert core.acts == []


@pytest.mark.parametrize("size", [(60, 20), (120, 36)], ids=["small", "full"])
async def test_enter_goes_in_and_esc_comes_back(size: tuple[int, int], core: FakeCore) -> None:
    async with running(core, pane="records", size=size) as (app, pilot):
        pane = app.query_one(RecordsPane)
        await press(pilot, "enter")
        assert pane.detail.has_focus and pane.detail.display
        await press(pilot, "escape")
        assert pane.listing.has_focus
        assert pane.detail.display == (size[0] > 60)


async def test_needs_lead_to_where_they_are_met(core: FakeCore) -> None:
    async with running(core) as (app, pilot):
        await press(pilot, "enter")
        assert app.pane_name == "health"
        await press(pilot, "1", "j", "enter")
        assert app.pane_name == "previews"
        await press(pilot, "1", "j", "j", "enter")
        assert app.pane_name == "records"
        assert "only" not in app.query_one(RecordsPane).classes
        await press(pilot, "escape")


async def test_an_empty_memory_says_what_fills_it(core: FakeCore) -> None:
    empty_looks(core.looks)
    async with running(core) as (app, pilot):
        for key, words in (("3", "No run is journaled"), ("4", "No preview waits"), ("6", "No records yet")):
            await press(pilot, key)
            assert words in shown(app.pane.query(RecordList).first())


async def test_copying_says_what_it_did(core: FakeCore, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(core, pane="records") as (app, pilot):
        app.query_one(RecordsPane).select("handbook/codegen.md")
        await press(pilot, "y")
        assert app.clipboard == "project/codegen"
        assert list(app._notifications)[-1].message.startswith("Sent the id to the terminal")
        monkeypatch.setattr(clipboard, "copy_by_tool", lambda _text: True)
        await press(pilot, "c")
        assert list(app._notifications)[-1].message == "Copied the citation."


async def test_resizing_live_through_every_shape(core: FakeCore) -> None:
    async with running(core, pane="records") as (app, pilot):
        for size in ((80, 24), (60, 20), (20, 5), (1, 1), (7, 3), (45, 11), (200, 50), (120, 36)):
            await pilot.resize_terminal(*size)
            for key in ("1", "3", "4", "5", "6"):
                app.go_to({"1": "status", "3": "runs", "4": "previews", "5": "search", "6": "records"}[key])
            await settle(pilot)
        assert app.query_one(RecordsPane).listing.current_key is not None


async def test_the_theme_goes_round_and_is_kept(core: FakeCore, tmp_path: Path) -> None:
    path = str(tmp_path / "config" / "tui.toml")
    async with running(core, settings_path=path) as (app, pilot):
        await press(pilot, "T")
        assert app.theme == "light" and settings.load(path).theme == "light"
        light = app.query_one("#title").render_line(0)  # type: ignore[attr-defined]
        await press(pilot, "T")
        assert app.theme == "terminal" and app.query_one("#title").render_line(0) != light  # type: ignore[attr-defined]
        await press(pilot, "T")
        assert app.theme == "dark"


async def test_no_colour_is_still_readable(core: FakeCore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(core) as (app, _pilot):
        svg = app.export_screenshot()
        colours = {rest.split(";")[0].strip() for rest in svg.split("fill: ")[1:]}
        shades = [colour for colour in colours if colour.startswith("#") and len(colour) == 7]
        assert shades and all(c[1:3] == c[3:5] == c[5:7] for c in shades)


async def test_record_ids_may_look_like_anything(core: FakeCore) -> None:
    odd = ("1abc", "project/codegen", "project/codegen", "#x", "a b", "")
    core.looks.entries = tuple(entry(f"handbook/{n}.md", id) for n, id in enumerate(odd))
    async with running(core, pane="records") as (app, pilot):
        await press(pilot, "j", "j", "j", "j")
        assert app.query_one(RecordsPane).listing.current_key == "handbook/4.md"


async def test_the_session_log_says_what_was_done(core: FakeCore) -> None:
    async with running(core) as (app, pilot):
        await press(pilot, "C", "enter")
        core.looks.overview = core.looks.overview._replace(branch="main")
        await press(pilot, "L")
        assert "cancelled, nothing was done" in shown(app.screen.query_one("#lines", RecordList))
