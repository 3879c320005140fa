"""What a change costs: counted, so that the numbers cannot drift unseen."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dsh_memory import MemoryService
from dsh_memory.repository import git, layout
from dsh_memory.repository.clearing import clear
from dsh_memory.repository.editing import write_paths
from dsh_memory.repository.migration import migrate_legacy
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.preview_runs import apply_preview
from dsh_memory.repository.rollback import rollback
from tests.support.clocks import FrozenClock
from tests.support.repositories import MemoryRepository, record

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


# --- reads ----------------------------------------------------------------------------------------

#: How many git processes and files each read takes of a service that has been asked before: of the files none is a
#: record, but the lock's, the journal's and the usage's own.
READS: dict[tuple[str, str], tuple[object, tuple[int, int]]] = {
    ("memory.status", ""): (None, (3, 2)),
    ("memory.health", ""): (None, (3, 2)),
    ("memory.runs", ""): ({"limit": 20}, (1, 0)),
    ("memory.previews", ""): (None, (1, 0)),
    ("memory.search", ""): ({"query": "word"}, (1, 2)),
    ("memory.search", "all"): ({"query": "word5", "scope": "all"}, (1, 2)),
    ("memory.context", ""): ({"query": "word"}, (1, 3)),
    ("memory.context", "most used"): ({}, (1, 3)),
}


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Git processes and files opened for reading while it lasts."""
    counts: Counter[str] = Counter()
    run, opened = git.SealedGit.run, layout.Reader.open

    def counted_run(self: git.SealedGit, *arguments: Any, **options: Any) -> bytes:
        counts["git"] += 1
        return run(self, *arguments, **options)

    def counted_open(self: layout.Reader, path: str) -> tuple[int, int]:
        counts["files"] += 1
        return opened(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(git.SealedGit, "run", counted_run)
        patch.setattr(layout.Reader, "open", counted_open)
        yield counts


def served(
    root: Path, records: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[MemoryRepository, MemoryService]:
    """A memory of so many records and journaled runs, and a service that has answered every read before."""
    files = {
        f"handbook/f{n % 7}/n{n}.md": record(f"project/n{n}", f"A word{n} here.\n") for n in range(records)
    }
    memory = MemoryRepository.create(root, files)
    for number in range(records):
        memory.write_run(f"20260820T{number // 60:02}{number % 60:02}00Z-a1b2c3d4")
    # As if all this had been written long before it is read.
    monkeypatch.setattr("dsh_memory.repository.content.SETTLED_NS", -(10**18))
    service = MemoryService(memory.environment)
    for _ in range(4):
        for (method, _), (params, _) in READS.items():
            assert service.call(method, params)["ok"]
    for thread in threading.enumerate():
        if thread.name == "dsh-memory-index":
            thread.join()
    for (method, _), (params, _) in READS.items():
        assert service.call(method, params)["ok"]
    return memory, service


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every call walks the payload anew")
@pytest.mark.parametrize("records", [40, 700])
def test_a_warm_read_takes_as_little_of_many_records_as_of_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    _, service = served(tmp_path / "memory", records, monkeypatch)
    for (method, variant), (params, expected) in READS.items():
        with counting(monkeypatch) as counts:
            assert service.call(method, params)["ok"]
        assert (counts["git"], counts["files"]) == expected, (method, variant)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every call walks the payload anew")
def test_after_an_edit_only_the_edited_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, service = served(tmp_path / "memory", 700, monkeypatch)
    for method in ("memory.search", "memory.context", "memory.status"):
        memory.write("handbook/f3/n3.md", record("project/n3", f"A word for {method}.\n"))
        params, (processes, files) = READS[method, ""]
        with counting(monkeypatch) as counts:
            assert service.call(method, params)["ok"]
        assert (counts["git"], counts["files"]) == (processes, files + 1), method


def test_a_cold_search_reads_only_what_it_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, service = served(tmp_path / "memory", 700, monkeypatch)
    service.keep_index()
    with counting(monkeypatch) as counts:
        answer = MemoryService(memory.environment).search("word5", limit=3)
    assert answer["ok"] and len(answer["value"]["results"]) == 3
    # The three records, the active run's file and the usage's.
    assert (counts["git"], counts["files"]) == (1, 5)
