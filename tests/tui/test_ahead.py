"""The first snapshot comes from a second process, or, where that brings none, from this one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from dsh_memory import Environment, MemoryFailure
from dsh_memory.inspection import Snapshot
from dsh_memory_tui.ahead import Ahead
from dsh_memory_tui.core import LiveCore
from tests.support.repositories import MemoryRepository, record
from tests.tui.fakes import NOW

# The program forks before it has threads; a test's process may have some.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def core(tmp_path: Path) -> LiveCore:
    memory = MemoryRepository.create(tmp_path / "memory", {"handbook/one.md": record("user/one")})
    return LiveCore(memory.environment, lambda: NOW)


def test_it_is_the_snapshot_that_this_process_would_read(core: LiveCore) -> None:
    core.read_ahead()
    ahead, here = core.snapshot(), core.snapshot()
    assert ahead.records and ahead.overview.record_count == 1
    assert (ahead.overview, ahead.records, ahead.runs) == (here.overview, here.records, here.runs)


def test_what_cannot_be_read_is_told_as_if_there_were_no_second_process(tmp_path: Path) -> None:
    core = LiveCore(Environment(str(tmp_path / "home"), str(tmp_path / "memory")), lambda: NOW)
    core.read_ahead()
    with pytest.raises(MemoryFailure) as failure:
        core.snapshot()
    assert failure.value.detail == "root-missing"


def test_a_killed_process_brings_none() -> None:
    def die() -> Snapshot:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    assert Ahead(die).result() is None


def test_a_change_after_the_reading_is_noticed(core: LiveCore, tmp_path: Path) -> None:
    core.read_ahead()
    stamp = core.snapshot().stamp
    assert core.looks.stamp() == stamp
    (tmp_path / "memory/handbook/one.md").write_text("Other words.\n")
    assert core.looks.stamp() != stamp
