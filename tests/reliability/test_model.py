"""Every operation in every order against a plain model (`modelling.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.modelling import World, check


@pytest.mark.slow
def test_the_memory_is_what_the_model_says(tmp_path: Path) -> None:
    world = World(tmp_path)
    try:
        check(world, lives=10, steps=20)
    finally:
        world.close()
    assert world.steps > 100
