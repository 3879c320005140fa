"""What a change costs: counted, so that the numbers cannot drift unseen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_memory.repository import git
from dsh_memory.repository.clearing import clear
from dsh_memory.repository.editing import write_paths
from dsh_memory.repository.migration import migrate_legacy
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.preview_runs import apply_preview
from dsh_memory.repository.rollback import rollback
from tests.support.clocks import FrozenClock
from tests.support.repositories import MemoryRepository

PREVIEW = "20260820T110000Z-a1b2c3d4"


def processes_for(
    memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch, act: Callable[[Repository], Any]
) -> tuple[int, Any]:
    """How many git processes the act takes after the repository is open, and what it answers."""
    spawned = 0
    original = git.SealedGit.run

    def counted(self: git.SealedGit, *arguments: Any, **options: Any) -> bytes:
        nonlocal spawned
        spawned += 1
        return original(self, *arguments, **options)

    with memory.open() as repo, monkeypatch.context() as patch:
        patch.setattr(git.SealedGit, "run", counted)
        answer = act(repo)
    return spawned, answer


def counts(root: Path, files: int, monkeypatch: pytest.MonkeyPatch, clock: FrozenClock) -> dict[str, int]:
    memory = MemoryRepository.create(root, {f"handbook/f{n % 7}/n{n}.md": f"{n}\n" for n in range(files)})
    found = {}
    found["migrate"], _ = processes_for(memory, monkeypatch, lambda repo: migrate_legacy(repo, clock))
    found["clear"], cleared = processes_for(memory, monkeypatch, lambda repo: clear(repo, clock))
    found["rollback"], _ = processes_for(
        memory, monkeypatch, lambda repo: rollback(repo, clock, cleared["runId"])
    )
    memory.write_preview(PREVIEW, {f"handbook/f{n % 7}/n{n}.md": None for n in range(files - 1)})
    found["apply"], _ = processes_for(memory, monkeypatch, lambda repo: apply_preview(repo, clock, PREVIEW))
    memory.write_all({f"handbook/dirty{n}.md": "dirty\n" for n in range(files)})
    found["clear dirty"], _ = processes_for(memory, monkeypatch, lambda repo: clear(repo, clock))
    found["write"], _ = processes_for(
        memory, monkeypatch, lambda repo: write_paths(repo, clock, {"handbook/w.md": b"w\n"}, expected={})
    )
    return found


def test_git_processes_do_not_grow_with_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: FrozenClock
) -> None:
    few = counts(tmp_path / "few", 50, monkeypatch, clock)
    many = counts(tmp_path / "many", 2000, monkeypatch, clock)
    assert few == many
    assert max(few.values()) <= 14, few
