"""Driving the application in tests: start it on a fake core, wait for its workers, press keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.events import Key
from textual.message_pump import MessagePump
from textual.pilot import Pilot
from textual.worker import WorkerState

from dsh_memory_tui.app import MemoryApp
from dsh_memory_tui.core import Core
from dsh_memory_tui.panes.reading import Reader
from dsh_memory_tui.settings import Settings
from tests.tui.fakes import NOW, FakeCore

Driver = Pilot[Any]
_CHARACTERS = {
    "space": " ",
    "colon": ":",
    "slash": "/",
    "question_mark": "?",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
}


async def settle(pilot: Driver) -> None:
    """Wait until no call into the core is on its way and every message is handled."""
    app = pilot.app
    quiet = 0
    while quiet < 3:
        # Every queue has run dry up to here; no waiting for the clock, as Textual's own pause does.
        await _drained(app)
        await _drained(app.screen)
        await pilot.pause(0)
        working = any(w.state in (WorkerState.PENDING, WorkerState.RUNNING) for w in app.workers)
        resting = any(reader.resting for reader in app.screen_stack[0].query(Reader))
        mounting = not all(screen.is_mounted for screen in app.screen_stack)
        quiet = 0 if working or resting or mounting else quiet + 1


async def _drained(pump: MessagePump) -> None:
    done = asyncio.Event()
    if pump.call_later(done.set):
        await done.wait()


async def press(pilot: Driver, *keys: str) -> None:
    """Press keys one after the other, each settled before the next."""
    for key in keys:
        send(pilot, key)
        await settle(pilot)


def send(pilot: Driver, *keys: str) -> None:
    """Press keys as fast as a terminal can send them."""
    for key in keys:
        character = key if len(key) == 1 else _CHARACTERS.get(key)
        event = Key(key, character)
        event.set_sender(pilot.app)
        pilot.app.post_message(event)


@asynccontextmanager
async def running(
    core: Core | None = None,
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
