"""The one table of commands: keys, footer, help, palette and README say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsh_memory_tui.commands import (
    COMMANDS,
    FOOTER_KEYS,
    FORBIDDEN_KEYS,
    LIST,
    PANES,
    bindings,
    footer,
    key_table,
    with_overrides,
)
from dsh_memory_tui.dialogs.help import help_lines
from dsh_memory_tui.settings import Settings
from tests.tui.driving import press, running
from tests.tui.fakes import FakeCore

README = Path(__file__).parents[2] / "README.md"


def test_no_key_means_two_things_in_one_pane() -> None:
    for pane in PANES:
        keys = [key for command in COMMANDS if command.works_in(pane) for key in command.keys]
        assert len(keys) == len(set(keys)), pane


def test_keys_a_terminal_cannot_tell_apart_are_not_used() -> None:
    assert not {key for command in COMMANDS for key in command.keys} & FORBIDDEN_KEYS


def test_keys_that_other_programs_take_have_a_second() -> None:
    for command in COMMANDS:
        assert not set(command.keys) <= {"ctrl+p", "ctrl+q"} or not command.keys


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("pane", PANES)
def test_the_footer_has_at_most_seven_keys_and_always_the_way_out(pane: str, read_only: bool) -> None:
    shown = footer(COMMANDS, pane, read_only=read_only)
    assert len(shown) <= FOOTER_KEYS
    assert [command.id for command in shown][-3:] == ["help", "palette", "quit"]
    assert not (read_only and any(command.act for command in shown))


@pytest.mark.parametrize("pane", PANES)
def test_help_names_every_command_of_a_pane(pane: str) -> None:
    text = "\n".join(content.text for content in help_lines(COMMANDS, pane, read_only=False))
    for command in COMMANDS:
        if command.keys and (pane in command.panes or LIST in command.panes):
            assert command.help in text


def test_every_command_is_bound_once() -> None:
    bound = {binding.action for binding in [*bindings(COMMANDS), *bindings(COMMANDS, lists=True)]}
    assert bound == {f"run('{c.id}')" for c in COMMANDS if c.keys and c.id != "other-side"}


def test_the_readme_shows_the_table() -> None:
    readme = README.read_text(encoding="utf-8")
    if "<!-- keys -->" not in readme:
        pytest.skip("the README has no key table yet")
    assert key_table() in readme


def test_overrides_change_keys_and_refuse_what_cannot_work() -> None:
    commands, refused = with_overrides({"clear": "Z", "quit": "ctrl+m", "nonsense": "x"})
    keys = {command.id: command.keys for command in commands}
    assert keys["clear"] == ("Z",)
    assert keys["quit"] == ("q", "ctrl+q")
    assert len(refused) == 2


async def test_a_key_of_ones_own_works_and_is_shown(core: FakeCore) -> None:
    async with running(core, preferences=Settings(keys={"clear": "Z"})) as (app, pilot):
        footer_text = app.query_one("#footer").render_line(0).text  # type: ignore[attr-defined]
        assert "Z clear…" in footer_text
        await press(pilot, "C")
        assert len(app.screen_stack) == 1
        await press(pilot, "Z")
        assert len(app.screen_stack) == 2


@pytest.mark.parametrize(
    "pane", ["status", *(pytest.param(pane, marks=pytest.mark.slow) for pane in PANES if pane != "status")]
)
async def test_every_key_of_the_table_answers(pane: str, core: FakeCore) -> None:
    """Each key either changes what is shown, asks the core, or says why it does nothing."""
    quiet = {"quit", "back", "open", "refresh", "edit", "other-side"}
    async with running(core, pane=pane) as (app, pilot):
        for command in COMMANDS:
            if (
                not command.keys
                or command.id in quiet
                or not (command.works_in(pane) or LIST in command.panes)
            ):
                continue
            if pane == "search":
                app.pane.query("#query").first().blur()
            before = app.export_screenshot()
            notes = len(app._notifications)
            acts = len(core.acts)
            await press(pilot, command.keys[0])
            changed = app.export_screenshot() != before
            moves_nothing = LIST in command.panes or command.id == f"pane-{pane}" or command.id == "find"
            told = len(app._notifications) > notes or len(core.acts) > acts
            assert changed or told or moves_nothing, command.id
            while len(app.screen_stack) > 1:
                await press(pilot, "escape")
            if app.pane_name != pane:
                app.go_to(pane)
                await press(pilot)
