"""Many on one memory: processes that are killed at random (`crowd.py`), and all doors at once
(`many_doors.py`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from dsh_memory.environment import Environment
from tests.reliability import actor
from tests.reliability.crowd import stress
from tests.reliability.doors import CliDoor, Door, HttpDoor, McpDoor, ServiceDoor, StdioDoor
from tests.reliability.invariants import assert_sound
from tests.reliability.many_doors import crowd_through_all_doors
from tests.support.repositories import MemoryRepository, record


def test_four_processes_lose_nothing(memory: MemoryRepository) -> None:
    figures = stress(memory, processes=4, seconds=4, kills_a_second=2)
    assert figures.losses == ()
    assert figures.tried > 5


@pytest.mark.slow
def test_eight_processes_for_half_a_minute_lose_nothing(memory: MemoryRepository) -> None:
    figures = stress(memory, processes=8, seconds=30, kills_a_second=3)
    assert figures.losses == ()
    assert figures.tried > 5


@pytest.mark.slow
def test_all_doors_at_once_lose_nothing_and_show_no_half_state(memory: MemoryRepository) -> None:
    crowd, losses = crowd_through_all_doors(memory, seconds=10)
    assert losses == []
    assert len(crowd.acknowledged) > 5 and crowd.reads > 50


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ServiceDoor, CliDoor, StdioDoor, HttpDoor, McpDoor])
@pytest.mark.parametrize("point", ["looked", "moved"])
def test_a_stopped_holder_keeps_writers_out_and_readers_in(
    memory: MemoryRepository, kind: Callable[[Environment], Door], point: str
) -> None:
    memory.write("handbook/a.md", record("a", "quokka\n"))
    memory.commit()
    holder = actor.start(memory.root, "clear", pause_at=[point, 1])
    assert holder.stdout is not None
    assert holder.stdout.readline() == "paused\n"
    os.kill(holder.pid, signal.SIGSTOP)
    door = kind(memory.environment)
    try:
        # Before the branch moves the old memory is true, afterwards the new one.
        assert door.call("search", {"query": "quokka"})["value"]["count"] == (1 if point == "looked" else 0)
        if isinstance(door, McpDoor):
            refused = door.tool("remember", {"content": "x", "path": "p"})
            assert refused["isError"] and "operation_in_progress" in refused["content"][0]["text"]
        else:
            refused = door.call("clear", {"confirmation": "DELETE_MEMORY"})
            assert refused["error"]["code"] == "operation-in-progress"
    finally:
        os.kill(holder.pid, signal.SIGCONT)
        door.close()
    output, _ = holder.communicate("\n", timeout=60)
    assert '"value"' in output
    assert_sound(memory)
