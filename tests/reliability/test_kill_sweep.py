"""A sample of the kill sweep (`sweep_kills.py`); every point is tried by `python -m tests.reliability --long`."""

from __future__ import annotations

import pytest

from tests.reliability.operations import OPERATIONS
from tests.reliability.sweep_kills import SHORT_GIT_KILLS, SHORT_GROUP_KILLS, attempt, git_kills, group_kills
from tests.reliability.sweeping import learned_operations, sample, tried
from tests.reliability.tracing import needs_strace


@pytest.mark.slow
@needs_strace
@pytest.mark.parametrize("name", OPERATIONS)
def test_no_death_loses_anything(name: str) -> None:
    with learned_operations([name]) as [facts]:
        kills = [*sample(group_kills(facts), SHORT_GROUP_KILLS), *sample(git_kills(facts), SHORT_GIT_KILLS)]
        figures = tried(kills, attempt)
    assert figures.losses == ()
    assert figures.tried > 0
