"""Fixtures for all tests: nothing of the developer's machine reaches them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.clocks import FrozenClock
from tests.support.isolation import isolated_variables
from tests.support.repositories import MemoryRepository

# The option that writes the screens' pictures anew has to be known before the tests are collected.
pytest_plugins = ["tests.tui.screenshots"]

# Property tests draw the same examples in every run, so that a failure belongs to the change that shows it.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own, and none of the caller's variables that Git or we read; the home."""
    home = tmp_path / "home"
    home.mkdir()
    variables = isolated_variables(home)
    for name in set(os.environ) - set(variables):
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return home


@pytest.fixture
def clock() -> FrozenClock:
    """A clock at noon of 2026-08-20 UTC."""
    return FrozenClock()


@pytest.fixture
def memory(tmp_path: Path) -> MemoryRepository:
    """A memory repository with the usual skeleton and no records, one commit old."""
    return MemoryRepository.create(
        tmp_path / "dsh-home" / "storages" / "memory", dsh_home=tmp_path / "dsh-home"
    )


@pytest.fixture
def open_tmp() -> Iterator[Path]:
    """A folder that a process without root's powers can reach, unlike `tmp_path`."""
    folder = Path(tempfile.mkdtemp(prefix="dsh-memory-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
