"""The stamp: equal while nothing changed, another one after each kind of change, and no git process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dsh_memory.inspection import Inspector, watching
from dsh_memory.repository.git import SealedGit
from tests.support.clocks import FrozenClock
from tests.support.repositories import MemoryRepository, record

Change = Callable[[MemoryRepository], object]


@pytest.fixture
def memory(tmp_path: Path) -> MemoryRepository:
    memory = MemoryRepository.create(
        tmp_path / "memory",
        {"handbook/deep/one.md": record("user/one"), "handbook/two.md": record("user/two")},
    )
    memory.set_times()
    return memory


def rewrite_in_place(memory: MemoryRepository) -> None:
    with open(memory.path("handbook/deep/one.md"), "ab") as file:
        file.write(b"x")


def replace(memory: MemoryRepository) -> None:
    memory.write("handbook/two.tmp", "other")
    os.replace(memory.path("handbook/two.tmp"), memory.path("handbook/two.md"))


def switch_off(memory: MemoryRepository) -> None:
    home = Path(memory.environment.dsh_home)
    home.mkdir(parents=True)
    (home / "settings.yaml").write_text("memory:\n  enabled: false\n")


CHANGES: dict[str, Change] = {
    "in place": rewrite_in_place,
    "replaced": replace,
    "new file": lambda memory: memory.write("rollouts/new.md", "x"),
    "file gone": lambda memory: memory.remove("handbook/deep/one.md"),
    "new folder": lambda memory: memory.path("handbook/empty").mkdir(),
    "folder gone": lambda memory: memory.path("archive").rmdir(),
    "summary": lambda memory: memory.write("summary.md", "x"),
    "commit": lambda memory: memory.commit(),
    "branch": lambda memory: memory.git("checkout", "-q", "-b", "other"),
    "packed": lambda memory: memory.git("pack-refs", "--all"),
    "merge": lambda memory: (memory.root / ".git/MERGE_HEAD").write_text("0" * 40),
    "run": lambda memory: memory.write_run("20260820T100000Z-00a1b2c3"),
    "preview": lambda memory: memory.write_preview("20260820T110000Z-00000001", {}),
    "usage": lambda memory: memory.write(".sync/usage.json", "{}"),
    "lock": lambda memory: memory.write(".sync/operation.lock", "{}"),
    "active run": lambda memory: memory.write(".sync/active-run.json", "{}"),
    "settings": switch_off,
    "root gone": lambda memory: memory.root.rename(memory.root.with_name("elsewhere")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_kind_of_change_is_noticed(memory: MemoryRepository, name: str) -> None:
    inspector = Inspector(memory.environment, FrozenClock())
    before = inspector.stamp()
    assert inspector.stamp() == before
    CHANGES[name](memory)
    after = inspector.stamp()
    assert after != before
    assert hash(after) is not None


def test_a_new_day_is_a_change(memory: MemoryRepository) -> None:
    clock = FrozenClock()
    inspector = Inspector(memory.environment, clock)
    before = inspector.stamp()
    clock.advance(hours=1)
    assert inspector.stamp() == before
    clock.advance(days=1)
    assert inspector.stamp() != before


def test_many_files_are_looked_at_in_turns(memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "FILES_PER_LOOK", 10)
    for number in range(18):
        memory.write(f"rollouts/r{number}.md", "x")
    inspector = Inspector(memory.environment, FrozenClock())
    before = inspector.stamp()
    rewrite_in_place(memory)
    assert before != inspector.stamp() or before != inspector.stamp()


def test_a_linked_worktree_has_its_own_head(memory: MemoryRepository, tmp_path: Path) -> None:
    memory.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = MemoryRepository(tmp_path / "side")
    inspector = Inspector(side.environment, FrozenClock())
    before = inspector.stamp()
    side.commit("On the side")
    assert inspector.stamp() != before


def test_it_starts_no_process(memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **more: object) -> bytes:
        raise AssertionError("a git process was started")

    monkeypatch.setattr(SealedGit, "run", refuse)
    Inspector(memory.environment, FrozenClock()).stamp()


FILE_CHANGES: dict[str, Change] = {
    **{name: CHANGES[name] for name in ("in place", "replaced", "new file", "file gone", "summary")},
    "deep folder gone": lambda memory: shutil.rmtree(memory.path("handbook/deep")),
}


@pytest.mark.parametrize("change", FILE_CHANGES.values(), ids=FILE_CHANGES)
def test_the_first_snapshot_is_what_later_looks_compare_with(
    memory: MemoryRepository, change: Change
) -> None:
    inspector = Inspector(memory.environment, FrozenClock())
    stamp = inspector.snapshot().stamp
    change(memory)
    assert inspector.stamp() != stamp


def test_after_the_first_snapshot_nothing_has_changed(memory: MemoryRepository) -> None:
    inspector = Inspector(memory.environment, FrozenClock())
    stamp = inspector.snapshot().stamp
    assert inspector.stamp() == stamp
    assert inspector.snapshot().stamp == stamp


def test_the_first_snapshot_walks_the_payload_once(
    memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    monkeypatch.setattr(watching, "_list", lambda path, *_rest: looks.append(path))
    Inspector(memory.environment, FrozenClock()).snapshot()
    assert looks == []
