"""What every screen looks like: on the sample memory through the real core, else on fixed values."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
from textual.pilot import Pilot

from dsh_memory.errors import RepoUnavailable
from dsh_memory.inspection import Fact
from dsh_memory_tui.app import MemoryApp
from dsh_memory_tui.dialogs import confirm
from tests.tui.driving import press, running, settle
from tests.tui.fakes import FakeCore, empty_looks
from tests.tui.hostile import make_hostile
from tests.tui.sample import SampleCore
from tests.tui.screenshots import FOLDER, Screenshots

WIDE, MIDDLE, SMALL = (120, 36), (80, 24), (60, 20)
README = Path(__file__).parents[2] / "README.md"

#: Picture -> pane, keys pressed there.
PANES: dict[str, tuple[str, tuple[str, ...]]] = {
    "status": ("status", ()),
    "health": ("health", ()),
    "runs": ("runs", ("enter", "j")),
    "previews": ("previews", ("n", "n", "n")),
    "search": ("search", tuple("codegen")),
    "records": ("records", ("j", "j", "j", "t")),
}
SHOWN = {
    "status": "dark",
    "health": "light",
    "runs": "dark",
    "previews": "light",
    "search": "dark",
    "records": "light",
}


@pytest.mark.parametrize("name", PANES)
async def test_pane_at_full_size(name: str, sample: SampleCore, screenshots: Screenshots) -> None:
    pane, keys = PANES[name]
    async with running(sample, pane=pane, theme=SHOWN[name]) as (app, pilot):
        await press(pilot, *keys)
        screenshots.check(app, f"{name}-{SHOWN[name]}")


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("size", [WIDE, MIDDLE, SMALL], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", PANES)
async def test_pane_in_every_theme_and_size(
    name: str, size: tuple[int, int], theme: str, sample: SampleCore, screenshots: Screenshots
) -> None:
    if size == WIDE and SHOWN[name] == theme:
        pytest.skip("this one is among the fast pictures")
    pane, keys = PANES[name]
    async with running(sample, pane=pane, theme=theme, size=size) as (app, pilot):
        await press(pilot, *keys)
        tail = "" if size == WIDE else f"-{size[0]}x{size[1]}"
        screenshots.check(app, f"{name}-{theme}{tail}")


async def test_side_by_side(sample: SampleCore, screenshots: Screenshots) -> None:
    async with running(sample, pane="previews") as (app, pilot):
        await press(pilot, "n", "n", "n", "d")
        await _without_toasts(app, pilot)
        screenshots.check(app, "previews-side-by-side")


async def test_preview_summary(sample: SampleCore, screenshots: Screenshots) -> None:
    async with running(sample, pane="previews") as (app, _pilot):
        screenshots.check(app, "previews-summary")


async def test_both_steps_of_clear(
    sample: SampleCore, screenshots: Screenshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirm, "ARM_SECONDS", 0.0)
    async with running(sample) as (app, pilot):
        await press(pilot, "C")
        screenshots.check(app, "clear-step-1")
        await press(pilot, "tab", "enter", "c", "l", "e", "a")
        screenshots.check(app, "clear-step-2")


async def test_both_steps_of_rollback(
    sample: SampleCore, screenshots: Screenshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirm, "ARM_SECONDS", 0.0)
    async with running(sample, pane="runs", theme="light") as (app, pilot):
        await press(pilot, "R")
        screenshots.check(app, "rollback-step-1")
        await press(pilot, "tab", "enter")
        screenshots.check(app, "rollback-step-2")


async def test_restoring_a_version(
    core: FakeCore, screenshots: Screenshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirm, "ARM_SECONDS", 0.0)
    async with running(core, pane="records") as (app, pilot):
        await press(pilot, "v")
        screenshots.check(app, "versions")
        await press(pilot, "down", "enter")
        screenshots.check(app, "restore")


async def test_help_and_palette(core: FakeCore, screenshots: Screenshots) -> None:
    async with running(core, pane="runs") as (app, pilot):
        await press(pilot, "question_mark")
        screenshots.check(app, "help")
        await press(pilot, "escape", "colon", "r", "o")
        screenshots.check(app, "palette")


@pytest.mark.parametrize("pane", ["status", "runs", "previews", "search", "records"])
async def test_empty_memory(pane: str, core: FakeCore, screenshots: Screenshots) -> None:
    empty_looks(core.looks)
    async with running(core, pane=pane, size=MIDDLE) as (app, _pilot):
        screenshots.check(app, f"empty-{pane}")


async def test_no_repository(core: FakeCore, screenshots: Screenshots) -> None:
    core.looks.failure = RepoUnavailable("The memory root does not exist.", detail="missing")
    async with running(core, size=MIDDLE) as (app, _pilot):
        screenshots.check(app, "no-repository")


async def test_loading(core: FakeCore, screenshots: Screenshots) -> None:
    core.looks.hold = threading.Event()
    app = MemoryApp(core, root="~/.dsh/storages/memory", watch_seconds=None)
    async with app.run_test(size=MIDDLE) as pilot:
        while not app.busy:
            await pilot.pause(0.05)
        screenshots.check(app, "loading")
        core.looks.hold.set()
        await settle(pilot)


async def test_error(core: FakeCore, screenshots: Screenshots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirm, "ARM_SECONDS", 0.0)
    core.act_error = {
        "code": "operation-in-progress",
        "message": "Another program holds the lock: sync, process 12345, since 15:03:58.",
        "detail": "locked",
    }
    async with running(core) as (app, pilot):
        await press(pilot, "m", "tab", "enter")
        screenshots.check(app, "error")


@pytest.mark.parametrize("pane", ["status", "health", "runs", "previews", "search", "records"])
async def test_hostile_texts(pane: str, core: FakeCore, screenshots: Screenshots) -> None:
    make_hostile(core)
    async with running(core, pane=pane) as (app, pilot):
        await press(pilot, *(("x",) if pane == "search" else ()))
        screenshots.check(app, f"hostile-{pane}")


async def test_trouble_in_health(core: FakeCore, screenshots: Screenshots) -> None:
    overview = core.looks.overview
    fact = Fact(
        "bad",
        "interrupted",
        "sync 20260820T100000Z-12345678 stopped in phase applying; its process 12345 is gone",
        "Recover it: what was begun is finished or undone, no byte is lost.",
        "recover",
        "dsh-memory recover",
    )
    core.looks.overview = overview._replace(
        facts=(fact, *overview.facts), dirty_paths=("handbook/codegen.md",)
    )
    async with running(core, pane="health", read_only=True) as (app, _pilot):
        screenshots.check(app, "health-read-only")


@pytest.mark.parametrize("size", [(30, 8), (1, 1), (39, 30)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_too_small(size: tuple[int, int], core: FakeCore) -> None:
    async with running(core, size=size) as (app, _pilot):
        shown = app.screen.query_one("#too-small")
        assert shown.display and not app.screen.query_one("#frame").display
        assert f"needs 40x10, this is {size[0]}x{size[1]}" in str(shown.render())


def test_every_picture_is_made_by_a_test_and_shown() -> None:
    made = _names_of_tests()
    kept = {path.stem for path in FOLDER.glob("*.svg")}
    assert kept == made
    shown = set(re.findall(r"screenshots/([\w-]+)\.svg", README.read_text(encoding="utf-8")))
    assert shown <= kept, "the README shows a picture that does not exist"


def _names_of_tests() -> set[str]:
    names = {
        f"{name}-{theme}{tail}"
        for name in PANES
        for theme in ("dark", "light")
        for tail in ("", "-80x24", "-60x20")
    }
    source = Path(__file__).read_text(encoding="utf-8")
    names |= set(re.findall(r'screenshots\.check\(app, "([\w-]+)"\)', source))
    names |= {f"empty-{pane}" for pane in PANES if pane != "health"}
    return names | {f"hostile-{pane}" for pane in PANES}


async def _without_toasts(app: MemoryApp, pilot: Pilot[int]) -> None:
    app.clear_notifications()
    await settle(pilot)
