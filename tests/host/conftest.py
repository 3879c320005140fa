"""The host's installation, once for all tests; where it cannot be had, its tests say so and are skipped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from dsh_memory.hosts.plugin import install
from tests.host.dsh import Home, Host, HostOutOfReach, Installation
from tests.support.repositories import MemoryRepository, record

LEGACY = "Written before there was front matter.\n"
PREVIEW_ID = "20260820T110000Z-a1b2c3d4"
#: The server's clock is the machine's own.
LIFETIME = timedelta(days=36500)


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Node and the host, kept between runs in the folder that DSH_MEMORY_TEST_HOST names."""
    kept = os.environ.get("DSH_MEMORY_TEST_HOST")
    # Parallel workers have folders beside each other.
    folder = Path(kept) if kept else tmp_path_factory.getbasetemp().parent / "dsh-host"
    try:
        return Installation.at(folder)
    except HostOutOfReach as reason:
        pytest.skip(f"no real DSH host here: {reason}")


@pytest.fixture
def home(installation: Installation, tmp_path: Path) -> Home:
    """A DSH home with the plugin installed and no memory."""
    made = Home(installation, tmp_path / "dsh-home")
    install(str(made.folder))
    return made


def fill(memory: MemoryRepository) -> MemoryRepository:
    """Two records, a legacy one and a pending preview that changes one of them."""
    memory.write("summary.md", "# What matters\n")
    decided = record("project/codegen", "We chose TypeScript for codegen.\n", type="decision")
    memory.write("handbook/codegen.md", decided)
    memory.write("handbook/tabs.md", record("user/tabs", "Tabs, not spaces.\n", type="preference"))
    memory.write("rollouts/old.md", LEGACY)
    memory.commit("Initialize DPSK memory repository")
    changed = decided.replace("TypeScript", "Python")
    memory.write_preview(PREVIEW_ID, {"handbook/codegen.md": changed}, lifetime=LIFETIME)
    return memory


@pytest.fixture
def filled(home: Home) -> MemoryRepository:
    """The memory of `home`, filled."""
    root = home.folder / "storages" / "memory"
    return fill(MemoryRepository.create(root, dsh_home=home.folder))


@pytest.fixture
def web(home: Home) -> Iterator[Callable[..., Host]]:
    """Boots `dsh web` on `home`, with more variables where they are given; ended with the test."""
    with ExitStack() as stack:
        yield lambda **more: stack.enter_context(home.web(**more))
