"""Fixtures of the screen's tests: a fixed terminal, a fixed core, a sample memory made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dsh_memory.sample import create_sample
from dsh_memory_tui import gateway
from tests.tui.fakes import NOW, FakeCore
from tests.tui.sample import SampleCore


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the developer's terminal reaches the screens, and a search takes no time."""
    for name in (
        "NO_COLOR",
        "TEXTUAL",
        "TEXTUAL_THEME",
        "TEXTUAL_ANIMATIONS",
        "COLORTERM",
        "DISPLAY",
        "WAYLAND_DISPLAY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(gateway, "perf_counter", lambda: 0.0)


@pytest.fixture
def core() -> FakeCore:
    """A core of fixed values."""
    return FakeCore()


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleCore]:
    """The real core on the sample memory, read by all tests, changed by none."""
    folder: Path = tmp_path_factory.mktemp("sample")
    yield SampleCore(create_sample(str(folder / "home"), NOW))
