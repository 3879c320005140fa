"""No bytes of other hands crash, hang or slip through a reader (`fuzzing.py`)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.reliability.doors import StdioDoor
from tests.reliability.fuzzing import FRAMES, check_shown, every_character, faults, mutated, targets
from tests.support.repositories import MemoryRepository


@pytest.mark.parametrize("number", range(9))
def test_no_input_goes_wrong(tmp_path: Path, number: int) -> None:
    target = targets(tmp_path)[number]
    assert list(faults(target, target.short)) == []


@pytest.mark.slow
def test_no_character_there_is_acts_on_a_terminal() -> None:
    for text in every_character(long=False):
        check_shown(text, keep_newlines=False)


@pytest.mark.slow
def test_a_living_server_goes_on_after_any_frame(memory: MemoryRepository) -> None:
    chance = random.Random(9)
    door = StdioDoor(memory.environment)
    for _ in range(300):
        door.send_bytes(
            mutated(chance, FRAMES).replace(b"memory.clear", b"memory.close").replace(b"\n", b" ") + b"\n"
        )
    door.send({"jsonrpc": "2.0", "id": "the last", "method": "memory.status", "params": {}})
    answer = door.receive()
    while answer["id"] != "the last":
        answer = door.receive()
    door.close()
    assert answer["result"]["ok"] is True
