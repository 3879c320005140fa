"""Packing beside the changes: bounded, losing nothing, whenever it is killed, and never in an erasure's way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from dsh_memory.errors import OperationInProgress
from dsh_memory.repository import maintenance
from dsh_memory.repository.clearing import clear
from dsh_memory.repository.editing import write_paths
from dsh_memory.repository.git import GitFailed
from dsh_memory.repository.purge import purge
from dsh_memory.repository.rollback import rollback
from tests.support.clocks import FrozenClock
from tests.support.repositories import MemoryRepository, record

COMMAND = [sys.executable, "-m", "dsh_memory.repository.maintenance"]


def objects(memory: MemoryRepository) -> set[str]:
    """The ids of all objects that there are, whoever names them."""
    listed = memory.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return set(listed.decode().split())


def loose(memory: MemoryRepository) -> int:
    return sum(len(files) for folder, _, files in os.walk(memory.root / ".git/objects") if folder[-3] == "/")


def write_runs(memory: MemoryRepository, clock: FrozenClock, first: int, count: int) -> None:
    with memory.open() as repo:
        for number in range(first, first + count):
            path = f"handbook/n{number % 7}.md"
            held = memory.path(path).read_bytes() if memory.path(path).exists() else None
            text = record(f"project/n{number % 7}", f"Version {number}.\n").encode()
            write_paths(repo, clock, {path: text}, expected={path: held})


def wait_for_maintenance() -> None:
    for thread in threading.enumerate():
        if thread.name == "dsh-memory-maintenance":
            thread.join(60)


@pytest.fixture
def busy(memory: MemoryRepository, clock: FrozenClock) -> MemoryRepository:
    """A memory with some runs and an object that nothing names."""
    write_runs(memory, clock, 0, 12)
    memory.git("hash-object", "-w", "--stdin", stdin=b"nobody names me\n")
    return memory


def test_it_loses_nothing_and_leaves_little(busy: MemoryRepository, clock: FrozenClock) -> None:
    before, reflog = objects(busy), busy.git("reflog")
    assert loose(busy) > 50
    with busy.open() as repo:
        assert maintenance.maintain(repo.common_dir)
        assert loose(busy) == 0
        assert objects(busy) == before
        assert busy.git("reflog") == reflog
        busy.git("fsck", "--strict")
        busy.git("commit-graph", "verify")
        cleared = clear(repo, clock)
        rollback(repo, clock, cleared["runId"])
    assert busy.path("handbook/n1.md").read_text().endswith("Version 8.\n")


def test_changes_start_it_when_it_is_due(
    memory: MemoryRepository, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_runs(memory, clock, 0, 6)
    wait_for_maintenance()
    untouched = loose(memory)
    monkeypatch.setattr(maintenance, "LOOSE_LIMIT", -1)
    for number in range(6, 9):
        write_runs(memory, clock, number, 1)
        wait_for_maintenance()
        assert loose(memory) == 0
    packs = [name for name in os.listdir(memory.root / ".git/objects/pack") if name.endswith(".pack")]
    assert untouched > 30 and len(packs) <= 3
    memory.git("fsck", "--strict")


def test_packs_are_counted_too(memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    with memory.open() as repo:
        memory.git("repack", "-d", "-q")
        assert not maintenance.is_due(repo.common_dir)
        monkeypatch.setattr(maintenance, "PACK_LIMIT", 0)
        assert maintenance.is_due(repo.common_dir)
        (memory.root / ".git/objects/info/alternates").write_text("/nowhere\n")
        assert not maintenance.is_due(repo.common_dir)


@pytest.mark.parametrize("steps", [1, 2, 4, 8, 14, 20])
def test_killed_anywhere_it_does_no_harm(busy: MemoryRepository, clock: FrozenClock, steps: int) -> None:
    before = objects(busy)
    command = [*COMMAND, str(busy.root / ".git")]
    process = subprocess.Popen(command, start_new_session=True)
    begun = busy.root / ".git/dsh-memory-maintenance.lock"
    while not begun.exists() and process.poll() is None:
        time.sleep(0.001)
    time.sleep(steps * 0.004)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert objects(busy) == before
    busy.git("fsck", "--strict")
    write_runs(busy, clock, 20, 1)
    subprocess.run(command, check=True, timeout=60)
    assert loose(busy) == 0 and before < objects(busy)
    busy.git("fsck", "--strict")


def test_two_at_once_are_one(busy: MemoryRepository) -> None:
    with busy.open() as repo, maintenance.excluded(repo.common_dir):
        assert not maintenance.maintain(repo.common_dir)
    assert loose(busy) > 50


def test_git_keeps_the_lock_when_its_parent_dies(busy: MemoryRepository, tmp_path: Path) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text('#!/bin/sh\necho $$ > "$0.pid"\nexec sleep 60\n')
    slow.chmod(0o755)
    environment = {**os.environ, "PATH": f"{slow.parent}:{os.environ['PATH']}"}
    process = subprocess.Popen([*COMMAND, str(busy.root / ".git")], env=environment)
    started = Path(f"{slow}.pid")
    while not (started.exists() and started.read_text().strip()):
        time.sleep(0.001)
    process.kill()
    process.wait()
    with busy.open() as repo:
        assert not maintenance.maintain(repo.common_dir)
        os.kill(int(started.read_text()), signal.SIGKILL)
        deadline = time.monotonic() + 10
        while not maintenance.maintain(repo.common_dir):
            assert time.monotonic() < deadline
    assert loose(busy) == 0


def test_after_a_failure_it_pauses(busy: MemoryRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "LOOSE_LIMIT", -1)
    busy.git("config", "pack.window", "no number")
    with busy.open() as repo:
        assert maintenance.is_due(repo.common_dir)
        with pytest.raises(GitFailed):
            maintenance.maintain(repo.common_dir)
        assert not maintenance.is_due(repo.common_dir)
        busy.git("config", "pack.window", "10")
        assert maintenance.maintain(repo.common_dir)
        assert maintenance.is_due(repo.common_dir)


def test_a_damaged_object_is_left_as_evidence(busy: MemoryRepository) -> None:
    victim = next(path for path in (busy.root / ".git/objects").glob("??/*"))
    victim.chmod(0o600)
    victim.write_bytes(b"no object")
    with busy.open() as repo, suppress(GitFailed):
        maintenance.maintain(repo.common_dir)
    assert victim.read_bytes() == b"no object"
    assert loose(busy) == 1


def test_an_erasure_takes_the_bytes_out_of_packs(memory: MemoryRepository, clock: FrozenClock) -> None:
    memory.write("handbook/secret.md", record("project/secret", "The password is swordfish.\n"))
    memory.commit()
    gone = memory.git("rev-parse", "HEAD:handbook/secret.md").decode().strip()
    write_runs(memory, clock, 0, 5)
    with memory.open() as repo:
        maintenance.maintain(repo.common_dir)
        assert gone in objects(memory)
        # What a repack leaves that is killed before its last step.
        pack = next((memory.root / ".git/objects/pack").glob("*.pack"))
        left = pack.with_name(f".tmp-4711-{pack.name}")
        left.write_bytes(pack.read_bytes())
        assert purge(repo, clock, "project/secret").purged
    assert gone not in objects(memory)
    assert not left.exists()
    memory.git("fsck", "--strict")


def test_an_erasure_waits_for_packing_to_end(
    busy: MemoryRepository, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_WAIT_SECONDS", 0.1)
    with busy.open() as repo:
        gone = busy.git("rev-parse", "HEAD:handbook/n1.md").decode().strip()
        with maintenance.excluded(repo.common_dir):
            assert not purge(repo, clock, "project/n1").purged
            with pytest.raises(OperationInProgress):
                write_runs(busy, clock, 100, 1)
        write_runs(busy, clock, 100, 1)
    assert gone not in objects(busy)
