"""Migration: bodies to the byte, dates from Git, once and no more."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dsh_memory.environment import format_instant, utc_now
from dsh_memory.errors import InterruptedRun
from dsh_memory.repository.clearing import clear
from dsh_memory.repository.lock import ActiveRun
from dsh_memory.repository.migration import migrate_legacy
from dsh_memory.repository.mutation import recover
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.rollback import rollback
from tests.reliability.invariants import assert_clean, assert_sound, subjects
from tests.reliability.test_lock import dead_pid
from tests.support.clocks import FrozenClock
from tests.support.repositories import MemoryRepository, record

DEAD_RUN = "20260820T100000Z-0000dead"


@pytest.fixture
def repo(memory: MemoryRepository) -> Iterator[Repository]:
    with memory.open() as opened:
        yield opened


def header(memory: MemoryRepository, path: str) -> list[str]:
    return memory.path(path).read_text().split("\n\n")[0].splitlines()


def test_bodies_stay_to_the_byte_and_the_second_time_changes_nothing(
    memory: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    bodies = {
        "handbook/plain.md": b"text\n",
        "handbook/crlf.md": b"one\r\ntwo\r\n",
        "handbook/empty.md": b"",
        "handbook/no-newline.md": b"end",
        "handbook/large.md": b"x" * 2_000_000,
    }
    memory.write_all(dict(bodies))
    memory.write("handbook/done.md", record("done"))
    memory.write("handbook/latin.md", b"caf\xe9\n")
    memory.write("handbook/nul.md", b"a\0b\n")
    memory.write("handbook/colon.md", "---\nschema_version: 1\nid: colon\ncreated_by: Re: hi\n---\n")
    memory.commit("Old notes")
    value = migrate_legacy(repo, clock)
    assert value["status"] == "applied" and value["legacyCount"] == value["migratedCount"] == len(bodies)
    assert value["changedPaths"] == sorted(bodies)
    for path, data in bodies.items():
        assert memory.path(path).read_bytes().partition(b"---\n\n")[2] == data
    assert memory.path("handbook/latin.md").read_bytes() == b"caf\xe9\n"
    assert memory.path("handbook/nul.md").read_bytes() == b"a\0b\n"
    assert subjects(memory, 2) == [
        f"DPSK memory journal: {value['runId']}",
        f"DPSK memory sync applied: {value['runId']}",
    ]
    assert_clean(memory)
    assert_sound(memory)
    head = memory.head
    again = migrate_legacy(repo, clock)
    assert (again["status"], again["applyCommit"], memory.head) == ("no_change", None, head)


def test_dates_are_those_of_git(memory: MemoryRepository, repo: Repository, clock: FrozenClock) -> None:
    days = [datetime(2025, 1, day, 23, 30, tzinfo=UTC) for day in (2, 3, 4)]
    memory.write("handbook/a.md", "first\n")
    memory.commit("First", at=days[0])
    memory.write("handbook/a.md", "second\n")
    memory.commit("Second", at=days[1])
    memory.write("handbook/other.md", record("other"))
    memory.commit("Third", at=days[2])
    memory.write("handbook/dirty.md", "unknown to Git\n")
    memory.set_times(datetime(2024, 5, 6, tzinfo=UTC))
    migrate_legacy(repo, clock)
    assert header(memory, "handbook/a.md")[3:5] == ["created_at: 2025-01-02", "updated_at: 2025-01-03"]
    assert header(memory, "handbook/dirty.md")[3:5] == ["created_at: 2024-05-06", "updated_at: 2024-05-06"]


def test_clone_migrates_to_the_same_bytes(
    memory: MemoryRepository, repo: Repository, clock: FrozenClock, tmp_path: Path
) -> None:
    memory.write_all({f"handbook/n{number}.md": f"{number}\n" for number in range(5)})
    memory.commit("Notes", at=datetime(2025, 2, 3, tzinfo=UTC))
    subprocess.run(["git", "clone", "-q", str(memory.root), str(tmp_path / "clone")], check=True)
    clone = MemoryRepository(tmp_path / "clone")
    migrate_legacy(repo, clock)
    with clone.open() as opened:
        migrate_legacy(opened, clock)
    assert clone.live_payload() == memory.live_payload()


def test_limits_of_staging_do_not_bind_a_migration(
    memory: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    memory.write_all({f"handbook/n{number}.md": "x" * 120_000 for number in range(60)})
    memory.commit("A lot")
    assert migrate_legacy(repo, clock)["migratedCount"] == 60


def test_dirty_memory_gets_a_checkpoint_and_rolls_back_to_it(
    memory: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    memory.write("handbook/a.md", "uncommitted\n")
    memory.write("handbook/data.bin", b"\0\1")
    before = memory.live_payload()
    value = migrate_legacy(repo, clock)
    assert value["recoveryCommit"] != memory.git("rev-list", "--max-parents=0", "HEAD").decode().strip()
    rollback(repo, clock, value["runId"])
    assert memory.live_payload() == before
    assert_clean(memory)


def test_missing_watermark_is_no_obstacle(
    memory: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    memory.remove(".last-sync")
    memory.write("handbook/a.md", "old\n")
    memory.commit("No watermark")
    assert migrate_legacy(repo, clock)["status"] == "applied"
    assert_sound(memory)


def leave_dead_run(memory: MemoryRepository, operation: str = "sync", *, ours: bool = False) -> None:
    """What a process of other hands leaves that died while it ran."""
    run = ActiveRun(DEAD_RUN, operation, "running", "applying", dead_pid(), format_instant(utc_now()))
    content = json.loads(run.to_bytes())
    if not ours:
        for key in ("head_commit", "recovery_commit", "target_commit"):
            del content[key]
    memory.write(".sync/active-run.json", json.dumps(content))


@pytest.mark.parametrize("ours", [False, True])
def test_dead_run_stops_the_migration_until_recover(
    memory: MemoryRepository, repo: Repository, clock: FrozenClock, ours: bool
) -> None:
    memory.write("handbook/a.md", "old\n")
    leave_dead_run(memory, ours=ours)
    for _ in range(2):
        with pytest.raises(InterruptedRun) as refused:
            migrate_legacy(repo, clock)
        assert refused.value.detail == DEAD_RUN
        run = json.loads(memory.path(f".sync/runs/{DEAD_RUN}.json").read_text())
        assert run["status"] == "interrupted"
        clock.advance(seconds=1)
    assert recover(repo, clock).back == [DEAD_RUN]
    assert migrate_legacy(repo, clock)["status"] == "applied"
    assert_clean(memory)
    assert_sound(memory)


def test_another_change_resolves_the_dead_run_as_well(
    memory: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    memory.write("handbook/a.md", "old\n")
    leave_dead_run(memory)
    with pytest.raises(InterruptedRun):
        migrate_legacy(repo, clock)
    value = clear(repo, clock)
    rollback(repo, clock, value["runId"])
    assert migrate_legacy(repo, clock)["status"] == "applied"


def test_interrupted_run_of_the_journal_alone_stops_it_too(
    memory: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    memory.write("handbook/a.md", "old\n")
    memory.write_run(DEAD_RUN, status="interrupted")
    memory.write_run("20260820T100001Z-00000001", status="no_change")
    memory.commit("Journal of other hands")
    with pytest.raises(InterruptedRun):
        migrate_legacy(repo, clock)
    assert recover(repo, clock).resolved == [DEAD_RUN]
    assert recover(repo, clock).did_nothing
    assert migrate_legacy(repo, clock)["status"] == "applied"


def test_living_process_that_forgot_its_record_stops_nothing(
    memory: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    memory.write("handbook/a.md", "old\n")
    record_of_other_hands = {
        "schema_version": 1,
        "run_id": DEAD_RUN,
        "operation": "clear",
        "status": "running",
        "phase": "complete",
        "pid": os.getppid(),
        "started_at": format_instant(utc_now()),
    }
    memory.write(".sync/active-run.json", json.dumps(record_of_other_hands))
    assert migrate_legacy(repo, utc_now)["status"] == "applied"
    assert not memory.path(f".sync/runs/{DEAD_RUN}.json").exists()
    assert_sound(memory)
