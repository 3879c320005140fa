"""A sample of the torn states (`sweep_torn.py`); all are tried by `python -m tests.reliability --long`."""

from __future__ import annotations

import pytest

from tests.reliability.sweep_torn import figures


@pytest.mark.slow
def test_a_torn_file_is_said_and_hides_nothing() -> None:
    found = figures(long=False)
    assert found.losses == ()
    assert found.tried > 0
