"""Nothing is destroyed by a slip: every way into a destructive act, and every way it must not be one."""

from __future__ import annotations

import pytest
from textual import events
from textual.widgets import Input

from dsh_memory.inspection import Refusal
from dsh_memory_tui.app import MemoryApp
from dsh_memory_tui.dialogs import confirm
from dsh_memory_tui.dialogs.confirm import ConfirmDialog
from dsh_memory_tui.dialogs.error import ErrorDialog
from tests.tui.driving import press, running, send, settle
from tests.tui.fakes import APPLY, HEAD, NEW_HEAD, RUNS, FakeCore

TWO_STEPS = {"clear": ("status", "C", "clear"), "rollback": ("runs", "R", APPLY[:7])}
ONE_STEP = {
    "apply": ("previews", "A"),
    "discard": ("previews", "X"),
    "migrate": ("status", "m"),
    "recover": ("health", "R"),
    "save": ("health", "s"),
}
ALL = {**{kind: (pane, key) for kind, (pane, key, _word) in TWO_STEPS.items()}, **ONE_STEP}


@pytest.fixture(autouse=True)
def armed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirm, "ARM_SECONDS", 0.0)


def note(app: MemoryApp) -> str:
    """What the dialog says under its lines."""
    return app.screen.query_one("#dialog-note").render_line(0).text.strip()  # type: ignore[attr-defined]


def focused(app: MemoryApp) -> str | None:
    return app.focused.id if app.focused is not None else None


@pytest.mark.parametrize("kind", ALL)
async def test_focus_is_on_cancel_and_enter_cancels(kind: str, core: FakeCore) -> None:
    pane, key = ALL[kind]
    async with running(core, pane=pane) as (app, pilot):
        await press(pilot, key)
        assert isinstance(app.screen, ConfirmDialog)
        assert focused(app) == "cancel"
        await press(pilot, "enter")
        assert len(app.screen_stack) == 1
        assert core.acts == []


async def test_tab_goes_from_choice_to_choice(core: FakeCore) -> None:
    async with running(core, pane="status") as (app, pilot):
        await press(pilot, "C", "tab")
        assert focused(app) == "continue"
        await press(pilot, "tab")
        assert focused(app) == "cancel"


@pytest.mark.parametrize("kind", TWO_STEPS)
async def test_the_whole_way_sends_one_act_bound_to_head(kind: str, core: FakeCore) -> None:
    pane, key, word = TWO_STEPS[kind]
    async with running(core, pane=pane) as (app, pilot):
        await press(pilot, key, "tab", "enter", *word, "enter")
        assert [(act.kind, act.expected_head) for act in core.acts] == [(kind, HEAD)]
        assert len(app.screen_stack) == 1
        [toast] = app._notifications
        assert "Undo: " in toast.message or kind == "rollback"


@pytest.mark.parametrize("kind", ONE_STEP)
async def test_one_step_acts_go_after_tab_and_enter(kind: str, core: FakeCore) -> None:
    pane, key = ONE_STEP[kind]
    async with running(core, pane=pane) as (_app, pilot):
        await press(pilot, key, "tab", "enter")
        assert [act.kind for act in core.acts] == [kind]


@pytest.mark.parametrize("kind", ALL)
async def test_held_enter_never_acts(kind: str, core: FakeCore) -> None:
    pane, key = ALL[kind]
    async with running(core, pane=pane) as (_app, pilot):
        await press(pilot, key, *["enter"] * 8)
        assert core.acts == []


@pytest.mark.parametrize("kind", TWO_STEPS)
async def test_held_enter_stops_at_the_word(kind: str, core: FakeCore) -> None:
    pane, key, word = TWO_STEPS[kind]
    async with running(core, pane=pane) as (app, pilot):
        await press(pilot, key, "tab", *["enter"] * 6)
        assert isinstance(app.screen, ConfirmDialog) and app.screen.step == 2
        assert note(app) == f"Not yet: the word is {word}"
        assert core.acts == []


@pytest.mark.parametrize("kind", ALL)
async def test_a_double_key_opens_one_dialog(kind: str, core: FakeCore) -> None:
    pane, key = ALL[kind]
    async with running(core, pane=pane) as (app, pilot):
        send(pilot, key, key, key, key, key)
        await settle(pilot)
        assert len(app.screen_stack) == 2
        assert core.acts == []


async def test_letters_do_nothing_in_step_one_and_say_so(core: FakeCore) -> None:
    async with running(core) as (app, pilot):
        await press(pilot, "C")
        for letter in ("y", "Y", "C", "R", "q", "space", "1"):
            await press(pilot, letter)
            assert isinstance(app.screen, ConfirmDialog) and app.screen.step == 1
            assert "does nothing here" in note(app)
        assert core.acts == []


async def test_pasted_text_does_not_count(core: FakeCore) -> None:
    async with running(core) as (app, pilot):
        await press(pilot, "C", "tab", "enter")
        app.screen.query_one("#word").post_message(events.Paste("clear"))
        await press(pilot, "enter")
        assert app.screen.query_one("#word", Input).value == ""
        assert core.acts == []
        app.copy_to_clipboard("clear")
        await press(pilot, "ctrl+v")
        assert app.screen.query_one("#word", Input).value == ""
        assert "Pasted text does not count" in note(app)


async def test_only_the_exact_word_counts(core: FakeCore) -> None:
    async with running(core) as (app, pilot):
        for typed in ("clea", "Clear", "clear ", "clearr", "550010f", ""):
            send(pilot, "C")
            await settle(pilot)
            await press(pilot, "tab", "enter")
            send(pilot, *("space" if letter == " " else letter for letter in typed), "enter")
            await settle(pilot)
            assert isinstance(app.screen, ConfirmDialog) and app.screen.step == 2
            assert app.screen.query_one("#word", Input).value == typed
            assert app.screen.query_one("#confirm").disabled
            await press(pilot, "escape")
        assert core.acts == []


async def test_a_double_click_does_not_pass_both_steps(core: FakeCore) -> None:
    async with running(core) as (app, pilot):
        await press(pilot, "C")
        await pilot.double_click("#continue")
        await settle(pilot)
        assert isinstance(app.screen, ConfirmDialog) and app.screen.step == 2
        assert core.acts == []


async def test_a_double_click_on_one_step_acts_once(core: FakeCore) -> None:
    async with running(core, pane="previews") as (_app, pilot):
        await press(pilot, "A")
        await pilot.double_click("#continue")
        await settle(pilot)
        assert [act.kind for act in core.acts] == ["apply"]


async def test_what_was_pressed_before_the_dialog_stood_is_spent(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirm, "ARM_SECONDS", 3_600.0)
    async with running(core, pane="previews") as (app, pilot):
        await press(pilot, "A", "tab", "enter")
        assert isinstance(app.screen, ConfirmDialog)
        assert core.acts == []


@pytest.mark.parametrize("kind", ALL)
async def test_a_moved_head_voids_the_dialog(kind: str, core: FakeCore) -> None:
    pane, key = ALL[kind]
    async with running(core, pane=pane) as (app, pilot):
        await press(pilot, key)
        core.looks.overview = core.looks.overview._replace(head=NEW_HEAD)
        core.looks.change()
        app.gateway.watch()
        await settle(pilot)
        assert app.screen.query_one("#lines").render_line(0).text.strip() == "Memory changed in between."  # type: ignore[attr-defined]
        assert focused(app) == "cancel"
        await press(pilot, "tab", "enter", *"clear", "enter")
        assert core.acts == []


async def test_a_moved_head_voids_a_typed_word(core: FakeCore) -> None:
    async with running(core) as (app, pilot):
        await press(pilot, "C", "tab", "enter", *"clear")
        core.looks.overview = core.looks.overview._replace(head=NEW_HEAD)
        core.looks.change()
        app.gateway.watch()
        await settle(pilot)
        await press(pilot, "enter", "enter")
        assert core.acts == []


async def test_a_resize_takes_the_typed_word_back(core: FakeCore) -> None:
    async with running(core) as (app, pilot):
        await press(pilot, "C", "tab", "enter", *"clear")
        await pilot.resize_terminal(90, 30)
        await press(pilot, "enter")
        assert core.acts == []
        assert app.screen.query_one("#word", Input).value == ""


async def test_nothing_is_confirmed_where_nothing_can_be_read(core: FakeCore) -> None:
    async with running(core, pane="previews") as (app, pilot):
        await press(pilot, "A", "tab")
        await pilot.resize_terminal(30, 8)
        await press(pilot, "enter")
        assert core.acts == []
        assert app.screen.query_one("#too-small").display


async def test_a_refused_plan_offers_nothing_to_confirm(core: FakeCore) -> None:
    core.looks.plan_refusal = Refusal(
        "rollback-conflict", None, "Newer writes happened since.", "Save first."
    )
    async with running(core, pane="runs") as (app, pilot):
        await press(pilot, "R")
        assert isinstance(app.screen, ConfirmDialog)
        assert not app.screen.query("#continue, #confirm")
        await press(pilot, "tab", "enter")
        assert core.acts == []


async def test_esc_leaves_each_step(core: FakeCore) -> None:
    async with running(core) as (app, pilot):
        await press(pilot, "C", "escape")
        assert len(app.screen_stack) == 1
        await press(pilot, "C", "tab", "enter", "c", "escape")
        assert len(app.screen_stack) == 1
        assert core.acts == []


@pytest.mark.parametrize("kind", [*ALL, "edit", "enable"])
async def test_read_only_switches_every_act_off_and_says_so(kind: str, core: FakeCore) -> None:
    pane, key = {**ALL, "edit": ("records", "e"), "enable": ("status", "space")}[kind]
    async with running(core, pane=pane, read_only=True) as (app, pilot):
        await press(pilot, key)
        assert len(app.screen_stack) == 1
        assert core.acts == []
        assert "Read-only" in list(app._notifications)[-1].message


CODES = ("checkpoint-failed", "clear-failed", "commit-failed", "operation-in-progress", "repo-unavailable")


async def test_a_failing_act_is_told_whole_and_can_be_copied(core: FakeCore) -> None:
    async with running(core) as (app, pilot):
        for code in (*CODES, "unsafe-layout", "rollback-conflict", "a-code-of-tomorrow"):
            core.act_error = {"code": code, "message": "It did not work [/x] \x1b[31m.", "detail": "why"}
            await press(pilot, "m", "tab", "enter")
            assert isinstance(app.screen, ErrorDialog)
            assert code in app.screen.text and "It did not work" in app.screen.text
            await press(pilot, "y")
            assert code in app.clipboard
            assert "terminal" in list(app._notifications)[-1].message


async def test_a_rollback_names_its_run(core: FakeCore) -> None:
    async with running(core, pane="runs") as (_app, pilot):
        await press(pilot, "R", "tab", "enter", *APPLY[:7], "enter")
        assert core.acts[0].params == {"runId": RUNS[0].run_id}


async def test_the_focus_moves_before_the_next_key_counts(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirm, "ARM_SECONDS", 0.0)
    async with running(core, pane="status") as (app, pilot):
        await press(pilot, "C")
        send(pilot, "right", "enter")
        await settle(pilot)
        dialog = app.screen
        assert isinstance(dialog, ConfirmDialog) and dialog.step == 2
        assert core.acts == []
