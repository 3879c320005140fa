"""The usage sidecar: forms that are read, counts that are kept, and turns that are taken."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dsh_memory.environment import format_instant
from dsh_memory.errors import ContextFailure, UnsafeLayout
from dsh_memory.repository import usage_turns
from dsh_memory.repository.layout import Root
from dsh_memory.repository.usage import (
    MAX_USAGE_BYTES,
    Hit,
    Usage,
    UsageEntry,
    exclude_from_git,
    read_usage,
    record_reads,
)
from tests.support.privileges import as_nobody, give_to_nobody
from tests.support.repositories import NOON, MemoryRepository

A = "handbook/a.md"
B = "handbook/b.md"
NOW = "2026-08-20T12:00:00.000Z"


@pytest.fixture
def root(memory: MemoryRepository) -> Iterator[Root]:
    memory.write_all({A: "a", B: "b"})
    with Root(str(memory.root)) as opened:
        yield opened


def hit(path: str = A, content_hash: str = "sha256:1") -> Hit:
    return Hit(path, "an-id", content_hash)


def count(root: Root, *hits: Hit, live: tuple[str, ...] = (A, B)) -> dict[str, UsageEntry] | None:
    return record_reads(root, f"{root.path}/.git", hits or [hit()], NOON, live)


def sidecar(memory: MemoryRepository) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(memory.path(".sync/usage.json").read_bytes())
    return values


def write(memory: MemoryRepository, **records: Any) -> None:
    memory.write(".sync/usage.json", json.dumps({"schema_version": 1, "records": records}))


def other_program(memory: MemoryRepository, pid: int, started: datetime | None = None) -> Path:
    """The lock folder as the other program makes it."""
    owner = {"pid": pid, "started_at": format_instant(started or datetime.now(UTC))}
    memory.write(".sync/usage.lock/owner.json", json.dumps(owner))
    return memory.path(".sync/usage.lock")


@pytest.fixture
def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


# --- reading ---------------------------------------------------------------------------------------------


def test_no_sidecar_is_no_usage(root: Root) -> None:
    usage = read_usage(root)
    assert usage == Usage()
    assert usage.of(A) == UsageEntry()
    assert (usage.of(A).effective, usage.of(A).generation) == (0, 1)


def test_entries_of_two_fields_are_read(memory: MemoryRepository, root: Root) -> None:
    write(memory, **{A: {"usage_count": 3, "last_usage": None}, B: {"usage_count": 1, "last_usage": NOW}})
    usage = read_usage(root)
    assert (usage.of(A).usage_count, usage.of(A).last_usage, usage.of(A).content_hash) == (3, None, None)
    assert usage.of(B).last_usage == NOW


def test_effective_usage_decays_what_came_before() -> None:
    assert UsageEntry(usage_count=2, prior_usage_count=5).effective == 4.5
    assert UsageEntry(usage_count=2, prior_usage_count=5, decay_factor=0.2).effective == 3.0


@pytest.mark.parametrize(
    "content",
    [
        "",
        "5",
        "[]",
        "{",
        "{}",
        '{"schema_version":2,"records":{}}',
        '{"schema_version":true,"records":{}}',
        '{"schema_version":1}',
        '{"schema_version":1,"records":[]}',
        '{"schema_version":1,"records":{"a":5}}',
        '{"schema_version":1,"records":{"a":{}}}',
        '{"schema_version":1,"records":{"a":{"usage_count":1}}}',
        '{"schema_version":1,"records":{"a":{"usage_count":-1,"last_usage":null}}}',
        '{"schema_version":1,"records":{"a":{"usage_count":true,"last_usage":null}}}',
        '{"schema_version":1,"records":{"a":{"usage_count":1.5,"last_usage":null}}}',
        '{"schema_version":1,"records":{"a":{"usage_count":NaN,"last_usage":null}}}',
        '{"schema_version":1,"records":{"a":{"usage_count":1,"last_usage":"yesterday"}}}',
        '{"schema_version":1,"records":{"a":{"usage_count":1,"last_usage":null,"generation":0}}}',
        '{"schema_version":1,"records":{"a":{"usage_count":1,"last_usage":null,"content_hash":5}}}',
        '{"schema_version":1,"records":{"a":{"usage_count":1,"last_usage":null,"decay_factor":1e999}}}',
        "[" * 100_000,
        b"\xff",
        b'{"schema_version":1,"records":{}}' + b" " * MAX_USAGE_BYTES,
    ],
)
def test_a_broken_sidecar_is_named_and_left_alone(
    memory: MemoryRepository, root: Root, content: str | bytes
) -> None:
    path = memory.write(".sync/usage.json", content)
    before = path.read_bytes()
    for use in (lambda: read_usage(root), lambda: count(root)):
        with pytest.raises(ContextFailure) as caught:
            use()
        assert caught.value.code == "usage-invalid"
    assert path.read_bytes() == before
    assert sorted(os.listdir(memory.path(".sync"))) == [".gitignore", "usage.json"]


@pytest.mark.parametrize("target", ["usage.json", "usage.lock"])
def test_a_link_is_unsafe_and_not_followed(memory: MemoryRepository, root: Root, target: str) -> None:
    outside = memory.root.parent / "outside"
    outside.mkdir()
    (outside / "usage.json").write_text('{"schema_version":1,"records":{}}')
    memory.path(f".sync/{target}").symlink_to(outside / "usage.json" if target == "usage.json" else outside)
    with pytest.raises(UnsafeLayout):
        count(root)
    assert os.listdir(outside) == ["usage.json"]
    assert (outside / "usage.json").read_text() == '{"schema_version":1,"records":{}}'


# --- counting --------------------------------------------------------------------------------------------


def test_the_first_read(memory: MemoryRepository, root: Root) -> None:
    counted = count(root)
    entry = {
        "usage_count": 1,
        "last_usage": NOW,
        "logical_id": "an-id",
        "generation": 1,
        "content_hash": "sha256:1",
        "prior_usage_count": 0,
        "decay_factor": 0.5,
    }
    assert counted is not None
    assert list(counted[A].to_json().items()) == list(entry.items())
    assert sidecar(memory) == {"schema_version": 1, "records": {A: entry}}
    path = memory.path(".sync/usage.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert b": " not in path.read_bytes()
    assert sorted(os.listdir(path.parent)) == [".gitignore", "usage.json"]


def test_another_content_starts_a_generation(root: Root) -> None:
    for content_hash in ("sha256:1", "sha256:1", "sha256:1", "sha256:2", "sha256:2", "sha256:3"):
        counted = count(root, hit(content_hash=content_hash))
    assert counted is not None
    entry = counted[A]
    assert (entry.generation, entry.usage_count, entry.prior_usage_count) == (3, 1, 2)
    assert entry.effective == 2.0


def test_a_content_not_known_before_starts_none(memory: MemoryRepository, root: Root) -> None:
    write(memory, **{A: {"usage_count": 3, "last_usage": None}})
    counted = count(root)
    assert counted is not None
    assert (counted[A].usage_count, counted[A].generation, counted[A].content_hash) == (4, 1, "sha256:1")


def test_what_is_not_ours_is_kept_as_found(memory: MemoryRepository, root: Root) -> None:
    entry = {"usage_count": 1, "last_usage": None, "future": [1]}
    memory.write(
        ".sync/usage.json",
        json.dumps({"schema_version": 1, "records": {A: entry}, "aliases": {"x": "y"}, "more": 1}),
    )
    count(root)
    kept = sidecar(memory)
    assert (kept["aliases"], kept["more"], kept["records"][A]["future"]) == ({"x": "y"}, 1, [1])


def test_entries_of_vanished_records_go(memory: MemoryRepository, root: Root) -> None:
    count(root, hit(A), hit(B))
    count(root, hit(A), live=(A,))
    assert sidecar(memory)["records"].keys() == {A}


def test_a_write_never_crosses_the_limit(memory: MemoryRepository, root: Root) -> None:
    paths = [f"handbook/{number:05d}.md" for number in range(9000)]
    records = {
        path: {"usage_count": 1, "last_usage": format_instant(NOON + timedelta(seconds=number))}
        for number, path in enumerate(paths)
    }
    write(memory, **records)
    assert memory.path(".sync/usage.json").stat().st_size < MAX_USAGE_BYTES
    # The full entries of today are three times as long.
    assert count(root, *(hit(path) for path in paths[:20]), live=tuple(paths)) is not None
    assert memory.path(".sync/usage.json").stat().st_size <= MAX_USAGE_BYTES
    kept = sidecar(memory)["records"]
    assert set(paths[:20]) <= kept.keys()
    assert paths[-1] in kept
    # The least recently used are gone.
    assert paths[20] not in kept
    assert read_usage(root).of(paths[0]).usage_count == 2


def test_any_name(memory: MemoryRepository, root: Root) -> None:
    names = ["handbook/記憶.md", "handbook/a\tb\n.md", 'handbook/"q", x.md', os.fsdecode(b"handbook/\xe9.md")]
    assert count(root, *(hit(name) for name in names), live=tuple(names)) is not None
    assert read_usage(root).records.keys() == set(names)


def test_a_missing_sync_folder_is_made(memory: MemoryRepository, root: Root) -> None:
    shutil.rmtree(memory.path(".sync"))
    assert count(root) is not None
    assert stat.S_IMODE(memory.path(".sync").stat().st_mode) == 0o700


def test_git_never_takes_it_up(memory: MemoryRepository, root: Root) -> None:
    memory.write(".sync/.gitignore", "")
    memory.commit()
    exclude = memory.path(".git/info/exclude")
    exclude.parent.mkdir()
    exclude.write_text("*.swp")
    count(root)
    count(root)
    expected = "*.swp\n.sync/usage.json\n.sync/usage.lock/\n.sync/.usage.*.tmp\n"
    assert exclude.read_text() == expected
    assert memory.git("status", "--porcelain", "--", ".sync") == b""
    exclude.unlink()
    exclude.symlink_to(memory.path("README.md"))
    exclude_from_git(str(memory.path(".git")))
    assert memory.path("README.md").read_text() == "reference\n"


# --- what cannot be written ------------------------------------------------------------------------------


def test_a_read_only_memory_answers_without_counting(open_tmp: Path) -> None:
    memory = MemoryRepository.create(open_tmp / "memory")
    write(memory, **{A: {"usage_count": 3, "last_usage": None}})
    give_to_nobody(open_tmp)
    memory.path(".sync").chmod(0o500)

    def use() -> tuple[object, int]:
        root = Root(str(memory.root))
        return count(root), read_usage(root).of(A).usage_count

    assert as_nobody(use) == (None, 3)
    memory.path(".sync").chmod(0o700)


def test_an_unreadable_sidecar_is_invalid(open_tmp: Path) -> None:
    memory = MemoryRepository.create(open_tmp / "memory")
    write(memory)
    give_to_nobody(open_tmp)
    memory.path(".sync/usage.json").chmod(0)

    def use() -> str:
        with pytest.raises(ContextFailure) as caught:
            read_usage(Root(str(memory.root)))
        return caught.value.code

    assert as_nobody(use) == "usage-invalid"


def test_a_full_disk_leaves_the_old_sidecar(
    memory: MemoryRepository, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    count(root)
    before = memory.path(".sync/usage.json").read_bytes()

    def full(descriptor: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dsh_memory.repository.usage.write_all", full)
    assert count(root) is None
    assert memory.path(".sync/usage.json").read_bytes() == before
    assert sorted(os.listdir(memory.path(".sync"))) == [".gitignore", "usage.json"]


# --- taking turns ----------------------------------------------------------------------------------------


def _count_often(path: str, times: int) -> None:
    with Root(path) as root:
        for _ in range(times):
            assert count(root) is not None


def test_no_count_is_lost_between_processes(memory: MemoryRepository, root: Root) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_count_often, args=(root.path, 20)) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 6
    assert sidecar(memory)["records"][A]["usage_count"] == 120


def test_a_lock_of_the_other_program_is_waited_for(
    memory: MemoryRepository, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = other_program(memory, os.getppid())
    waits = iter(range(1000))

    def released(seconds: float) -> None:
        if next(waits) == 3:
            shutil.rmtree(lock)

    monkeypatch.setattr("time.sleep", released)
    assert count(root) is not None
    assert next(waits) == 4


def test_a_lock_that_stays_costs_only_the_count(
    memory: MemoryRepository, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = other_program(memory, os.getppid())
    monkeypatch.setattr(usage_turns, "_WAIT_SECONDS", 0.02)
    assert count(root) is None
    assert (lock / "owner.json").exists()
    assert not memory.path(".sync/usage.json").exists()


def test_a_dead_owners_lock_is_taken_at_once(memory: MemoryRepository, root: Root, dead_pid: int) -> None:
    other_program(memory, dead_pid)
    leftover = memory.write(f".sync/.usage.{dead_pid}.0a1b-2c.tmp", "half")
    memory.write(f".sync/.usage.{dead_pid}.0a1b-2d.tmp/owner.json", "{}")
    living = memory.write(f".sync/.usage.{os.getppid()}.0a1b-2c.tmp", "being written")
    assert count(root) is not None
    assert not leftover.exists()
    assert living.exists()
    assert set(os.listdir(leftover.parent)) == {living.name, ".gitignore", "usage.json"}


def test_a_reused_pid_is_no_owner(memory: MemoryRepository, root: Root) -> None:
    # The process that has this id now began long after the lock was made.
    other_program(memory, os.getppid(), datetime(2020, 1, 1, tzinfo=UTC))
    assert count(root) is not None


def test_a_predecessor_with_our_own_pid_is_no_owner(memory: MemoryRepository, root: Root) -> None:
    other_program(memory, os.getpid())
    assert count(root) is not None


def test_a_lock_without_an_owner_is_being_made_for_a_moment(
    memory: MemoryRepository, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = memory.path(".sync/usage.lock")
    lock.mkdir()
    monkeypatch.setattr(usage_turns, "_WAIT_SECONDS", 0.02)
    assert count(root) is None
    long_ago = (datetime.now(UTC) - timedelta(seconds=6)).timestamp()
    os.utime(lock, (long_ago, long_ago))
    assert count(root) is not None


def test_a_lock_made_anew_in_between_is_given_back(
    memory: MemoryRepository, root: Root, dead_pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = other_program(memory, dead_pid)
    judge = usage_turns._is_stale

    def then_replace(folder: int) -> bool:
        stale = judge(folder)
        if stale:
            # The other program steals first, and makes a lock of its own.
            lock.rename(lock.with_name("stolen"))
            other_program(memory, os.getppid())
        return stale

    monkeypatch.setattr(usage_turns, "_is_stale", then_replace)
    monkeypatch.setattr(usage_turns, "_WAIT_SECONDS", 0.02)
    assert count(root) is None
    assert json.loads((lock / "owner.json").read_text())["pid"] == os.getppid()


def test_one_process_held_up_does_not_hold_up_the_answer(
    memory: MemoryRepository, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_turns, "_WAIT_SECONDS", 0.02)
    with root.folder(".sync") as folder, usage_turns.turn(folder) as taken:
        assert taken
        assert count(root) is None
    assert count(root) is not None
