"""Driving the application in tests: start it on a fake core, wait for its workers, press keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot
from textual.worker import WorkerState

from dsh_memory_tui.app import MemoryApp
from dsh_memory_tui.panes.reading import Reader
from dsh_memory_tui.settings import Settings
from tests.tui.fakes import NOW, FakeCore

Driver = Pilot[Any]


async def settle(pilot: Driver) -> None:
    """Wait until no call into the core is on its way and every message is handled."""
    app = pilot.app
    quiet = 0
    while quiet < 2:
        await pilot.pause()
        working = any(w.state in (WorkerState.PENDING, WorkerState.RUNNING) for w in app.workers)
        resting = any(reader.resting for reader in app.screen_stack[0].query(Reader))
        quiet = 0 if working or resting else quiet + 1


async def press(pilot: Driver, *keys: str) -> None:
    """Press keys one after the other, each settled before the next."""
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


@asynccontextmanager
async def running(
    core: FakeCore | None = None,
    *,
    size: tuple[int, int] = (120, 36),
    pane: str = "status",
    theme: str = "dark",
    **options: Any,
) -> AsyncIterator[tuple[MemoryApp, Driver]]:
    """The application on a fake core with a fixed clock, its first snapshot shown."""
    clock: Callable[[], Any] = lambda: NOW  # noqa: E731
    options.setdefault("preferences", Settings(theme=theme, start_pane=pane))
    app = MemoryApp(
        core or FakeCore(), root="~/.dsh/storages/memory", clock=clock, **{"watch_seconds": None, **options}
    )
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        yield app, pilot
