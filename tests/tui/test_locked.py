"""A lock that another process holds: the dialog offers nothing and says who is at work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dsh_memory import Environment
from dsh_memory.sample import create_sample
from dsh_memory_tui.core import LiveCore
from dsh_memory_tui.dialogs import confirm
from dsh_memory_tui.dialogs.confirm import ConfirmDialog
from dsh_memory_tui.dialogs.dialog import Choice, Reading
from dsh_memory_tui.dialogs.error import ErrorDialog
from tests.tui.driving import press, running
from tests.tui.fakes import NOW

_HOLDER = """
import sys
from dsh_memory import Environment
from dsh_memory.environment import utc_now
from dsh_memory.repository.lock import hold
from dsh_memory.repository.opening import Repository

with Repository.open(Environment(sys.argv[1], sys.argv[2])) as repository:
    with hold(repository.root, "sync", "20260101T000000Z-a1b2c3d4", utc_now):
        print("held", flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return create_sample(str(tmp_path / "sample"), NOW)


@contextmanager
def holding(environment: Environment) -> Iterator[int]:
    """Another process that holds the operation lock meanwhile; its id."""
    command = [sys.executable, "-c", _HOLDER, environment.dsh_home, environment.memory_root]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process.pid
        process.communicate("")


@pytest.fixture
def holder(environment: Environment) -> Iterator[int]:
    """Another process that holds the operation lock until the test is over; its id."""
    with holding(environment) as pid:
        yield pid


@pytest.mark.parametrize(("pane", "key"), [("status", "C"), ("runs", "R"), ("previews", "A")])
async def test_the_dialog_names_the_holder(
    pane: str, key: str, environment: Environment, holder: int
) -> None:
    async with running(LiveCore(environment, lambda: NOW), pane=pane) as (app, pilot):
        await press(pilot, key)
        dialog = app.screen
        assert isinstance(dialog, ConfirmDialog)
        lines = dialog.query_one(Reading)
        words = " ".join(lines.render_line(y).text.strip() for y in range(lines.size.height))
        assert f"sync, process {holder}" in words
        assert [choice.id for choice in dialog.query(Choice)] == ["cancel"]


async def test_a_lock_taken_while_the_dialog_stood_refuses_the_act(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirm, "ARM_SECONDS", 0.0)
    files = sorted(Path(environment.memory_root).glob("[har]*/**/*.md"))
    async with running(LiveCore(environment, lambda: NOW)) as (app, pilot):
        await press(pilot, "C", "tab", "enter", *"clear")
        with holding(environment):
            await press(pilot, "enter")
            assert isinstance(app.screen, ErrorDialog)
            assert "operation-in-progress" in app.screen.text and "Health names the holder" in app.screen.text
        assert sorted(Path(environment.memory_root).glob("[har]*/**/*.md")) == files
        await press(pilot, "escape", "C", "tab", "enter", *"clear", "enter")
        assert not list(Path(environment.memory_root).glob("[har]*/**/*.md")), "free again, it works"
