"""Many processes on one memory, killed at random (`crowd.py`)."""

from __future__ import annotations

import pytest

from tests.reliability.crowd import stress
from tests.support.repositories import MemoryRepository


def test_four_processes_lose_nothing(memory: MemoryRepository) -> None:
    figures = stress(memory, processes=4, seconds=4, kills_a_second=2)
    assert figures.losses == ()
    assert figures.tried > 5


@pytest.mark.slow
def test_eight_processes_for_half_a_minute_lose_nothing(memory: MemoryRepository) -> None:
    figures = stress(memory, processes=8, seconds=30, kills_a_second=3)
    assert figures.losses == ()
    assert figures.tried > 5
