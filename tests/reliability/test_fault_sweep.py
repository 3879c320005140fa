"""A sample of the fault sweep (`sweep_faults.py`); every fault is tried by `python -m tests.reliability --long`."""

from __future__ import annotations

import pytest

from tests.reliability import sweep_faults
from tests.reliability.operations import OPERATIONS
from tests.reliability.sweeping import learned_operations, tried
from tests.reliability.tracing import needs_strace


@pytest.mark.slow
@needs_strace
@pytest.mark.parametrize("name", OPERATIONS)
def test_no_refused_call_loses_anything(name: str) -> None:
    with learned_operations([name]) as [facts]:
        figures = tried(sweep_faults.some_faults(facts), sweep_faults.attempt)
    assert figures.losses == ()
    assert figures.tried > 0


@pytest.mark.slow
@needs_strace
def test_a_full_disk_loses_nothing() -> None:
    if not sweep_faults.can_mount():
        pytest.skip("a small file system cannot be mounted here (that takes root)")
    assert sweep_faults.full_figures(long=False).losses == ()
