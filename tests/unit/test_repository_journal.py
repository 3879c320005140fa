"""The journal on disk: forms, filters, order, and what later records say of earlier ones."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dsh_memory.errors import RepoUnavailable, UnsafeLayout
from dsh_memory.repository import journal as journal_room
from dsh_memory.repository.journal import (
    Journal,
    JournalMemo,
    RunRecord,
    id_instant,
    new_run_id,
    validate_run_id,
)
from dsh_memory.repository.layout import Reader, Root
from tests.support.privileges import as_nobody, give_to_nobody
from tests.support.repositories import NOON, MemoryRepository

KEYS = [
    "schema_version",
    "run_id",
    "operation",
    "status",
    "started_at",
    "finished_at",
    "candidate_sessions",
    "processed_sessions",
    "skipped_sessions",
    "changed_paths",
    "recovery_commit",
    "apply_commit",
    "error_code",
    "phase",
    "staging_digest",
    "duration_ms",
    "rejected_file_count",
    "changed_path_count",
]


def run_id(hours: int) -> str:
    return f"{(NOON + timedelta(hours=hours)).strftime('%Y%m%dT%H%M%SZ')}-{hours:08x}"


@pytest.fixture
def journal(memory: MemoryRepository) -> Journal:
    return Journal(Root(str(memory.root)))


@pytest.fixture
def files_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the journal's files, as they are read."""
    read: list[str] = []
    original = journal_room._read_object

    def recording(reader: Reader, path: str) -> dict[str, Any] | None:
        read.append(path)
        return original(reader, path)

    monkeypatch.setattr(journal_room, "_read_object", recording)
    return read


def ids(runs: list[RunRecord]) -> list[str]:
    return [run.run_id for run in runs]


# --- one record ------------------------------------------------------------------------------------------


def test_a_record_is_one_compact_line_in_the_journals_order() -> None:
    run = RunRecord(run_id=run_id(0), operation="write", status="applied", changed_paths=("a", "b"))
    data = run.to_bytes()
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert b": " not in data
    assert list(json.loads(data)) == KEYS
    assert list(json.loads(run.last_run_bytes())) == [key for key in KEYS if not key.endswith("_sessions")]


def test_later_keys_stand_last_and_only_where_they_apply() -> None:
    recover = RunRecord(run_id=run_id(0), operation="recover", recovered_run_id=run_id(1))
    assert list(json.loads(recover.to_bytes()))[len(KEYS) :] == ["recovered_run_id"]
    rollback = RunRecord(run_id=run_id(0), operation="rollback", rolled_back_run_id=run_id(1))
    assert list(json.loads(rollback.to_bytes()))[len(KEYS) :] == ["rolled_back_run_id"]


def test_a_record_survives_being_written_and_read() -> None:
    run = RunRecord(
        run_id=run_id(0),
        operation="sync",
        status="applied",
        started_at="2026-08-20T12:00:00.123Z",
        candidate_sessions=2,
        changed_paths=("handbook/記憶.md", "handbook/" + os.fsdecode(b"\xe9.md")),
        changed_path_count=2,
        extra={"later": {"key": [1]}},
    )
    assert RunRecord.from_json(json.loads(run.to_bytes()), run.run_id) == run
    assert "記憶".encode() in run.to_bytes()
    assert rb"\udce9.md" in run.to_bytes()


def test_what_other_hands_wrote_oddly_becomes_nothing() -> None:
    odd = {"changed_paths": 5, "duration_ms": True, "apply_commit": 7, "phase": None, "operation": ["x"]}
    run = RunRecord.from_json({**odd, "run_id": "other"}, run_id(0))
    assert (run.run_id, run.operation, run.changed_paths, run.changed_path_count) == (run_id(0), "", (), 0)
    assert (run.duration_ms, run.apply_commit, run.phase) == (None, None, None)
    mixed = RunRecord.from_json({"changed_paths": ["b", 1, "a", None]}, run_id(0))
    assert (mixed.changed_paths, mixed.changed_path_count) == (("a", "b"), 2)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("20260820T120000Z-a1b2c3d4", True),
        ("20260820T120000Z-rollback", True),
        ("20260820T120000Z-migrate-4711", True),
        ("20260820T120000Z-A1B2C3D4", False),
        ("20260820T120000Z-a1b2c3d4\n", False),
        ("20260820T120000Z-a1b2c3d45", False),
        ("２0260820T120000Z-a1b2c3d4", False),
        ("../../etc/passwd", False),
        ("20260820T120000Z-migrate-", False),
        ("", False),
        (None, False),
        (20260820, False),
    ],
)
def test_run_id_form(text: object, valid: bool) -> None:
    assert validate_run_id(text) is valid


def test_a_new_id_holds_its_milliseconds() -> None:
    now = datetime(2026, 8, 20, 12, 0, 0, 999_999, tzinfo=UTC)
    made = {new_run_id(now) for _ in range(50)}
    assert all(validate_run_id(made_id) and made_id.startswith("20260820T120000Z-3e7") for made_id in made)
    assert len(made) == 50
    assert id_instant(new_run_id(now)) == datetime(2026, 8, 20, 12, tzinfo=UTC)
    assert id_instant("99999999T999999Z-a1b2c3d4") == datetime(1970, 1, 1, tzinfo=UTC)


# --- lists -----------------------------------------------------------------------------------------------


def test_no_journal_is_an_empty_one(memory: MemoryRepository, journal: Journal) -> None:
    assert journal.runs() == []
    assert journal.last_run() is None
    assert journal.find(run_id(0)) is None
    assert journal.state().readable
    assert journal.state().interrupted is None


def test_filters_come_before_the_limit(memory: MemoryRepository, journal: Journal) -> None:
    for hour in range(30):
        memory.write_run(run_id(hour), operation="rollback" if hour == 2 else "sync", status="applied")
    memory.write_run(run_id(1), status="failed")
    assert ids(journal.runs()) == [run_id(hour) for hour in range(29, 9, -1)]
    assert ids(journal.runs(3)) == [run_id(29), run_id(28), run_id(27)]
    assert ids(journal.runs(20, operation="rollback")) == [run_id(2)]
    assert ids(journal.runs(20, status="failed")) == [run_id(1)]
    assert journal.runs(20, operation="sync", status="recovered") == []
    assert len(journal.runs(1000)) == 30


def test_failed_runs_that_no_commit_holds_are_there(memory: MemoryRepository, journal: Journal) -> None:
    memory.write_run(run_id(1), status="failed", error_code="duplicate-id")
    assert b"runs" in memory.git("status", "--porcelain", "-uall")
    assert journal.runs()[0].error_code == "duplicate-id"


def test_newest_is_who_started_last(memory: MemoryRepository, journal: Journal) -> None:
    memory.write_run(run_id(0), operation="preview", started_at="2026-08-26T12:00:00Z")
    for hour in range(1, 140):
        memory.write_run(run_id(hour))
    memory.write_run("20260826T115959Z-rollback", started_at="2026-08-26T11:59:59.500Z")
    memory.write_run("20260826T115959Z-migrate-4711", started_at="2026-08-26T11:59:59.501Z")
    # 139 hours after noon of the 20th is 07:00 of the 26th: the preview's id is the oldest, its start the newest.
    assert ids(journal.runs(3)) == [run_id(0), "20260826T115959Z-migrate-4711", "20260826T115959Z-rollback"]


def test_equal_starts_are_ordered_by_id(memory: MemoryRepository, journal: Journal) -> None:
    for last in "3142":
        memory.write_run(f"20260820T120000Z-0000000{last}")
    assert ids(journal.runs(2)) == ["20260820T120000Z-00000004", "20260820T120000Z-00000003"]


def test_only_the_files_that_a_question_takes_are_read(
    memory: MemoryRepository, files_read: list[str]
) -> None:
    for day in range(400):
        memory.write_run(run_id(24 * day))
    assert len(Journal(Root(str(memory.root))).runs(20)) == 20
    # Seven more: a preview's id may be as many days older than its run.
    assert len(files_read) == 27


def test_a_file_written_before_the_last_of_the_list_began_stays_unread(
    memory: MemoryRepository, files_read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each was written when its run ended, which its change time says.
    starts = {run_id(hour): (NOON + timedelta(hours=hour)).timestamp() for hour in range(100)}
    for one in starts:
        memory.write_run(one)
    stamp = journal_room._RunFiles._stamp

    def as_written(files: object, name: str) -> tuple[int, int, int, int] | None:
        found = stamp(files, name)  # type: ignore[arg-type]
        return None if found is None else (*found[:3], int(starts[name] * 1e9) + 1)

    monkeypatch.setattr(journal_room._RunFiles, "_stamp", as_written)
    assert len(Journal(Root(str(memory.root))).runs(20)) == 20
    assert len(files_read) == 20


def test_a_memo_reads_an_unchanged_file_once(
    memory: MemoryRepository, files_read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for hour in range(10):
        memory.write_run(run_id(hour))
    monkeypatch.setattr(journal_room, "SETTLED_NS", -(10**18))
    memo = JournalMemo()
    root = Root(str(memory.root))
    assert Journal(root, memo).state().readable
    assert Journal(root, memo).state().readable
    assert len(files_read) == 10
    assert Journal(root, memo).runs(20, operation="rollback") == []
    assert len(files_read) == 10
    memory.path(f".sync/runs/{run_id(3)}.json").write_text("5")
    assert Journal(root, memo).state().broken == (run_id(3),)
    assert len(files_read) == 11
    for hour in range(1, 10):
        memory.remove(f".sync/runs/{run_id(hour)}.json")
    assert Journal(root, memo).state().readable
    assert list(memo.facts) == [run_id(0)]


def test_known_answers_end_with_any_change_to_a_run_file(
    memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    memo = JournalMemo()
    root = Root(str(memory.root))
    for hour in range(3):
        memory.write_run(run_id(hour), status="applied")
    path = memory.path(f".sync/runs/{run_id(1)}.json")
    for _ in range(3):
        assert ids(Journal(root, memo).runs(20)) == [run_id(2), run_id(1), run_id(0)]
    with monkeypatch.context() as patch:
        if sys.platform == "linux":
            patch.setattr(Journal, "_files", None)
        assert len(Journal(root, memo).runs(20)) == 3
    path.write_text(path.read_text().replace("applied", "failed"))
    assert ids(Journal(root, memo).runs(20, status="failed")) == [run_id(1)]
    path.rename(path.with_name("elsewhere"))
    assert ids(Journal(root, memo).runs(20)) == [run_id(2), run_id(0)]
    path.parent.rename(path.parent.with_name("put-away"))
    assert Journal(root, memo).runs(20) == []
    path.parent.with_name("put-away").rename(path.parent)
    assert len(Journal(root, memo).runs(20)) == 2
    memory.write_run(run_id(4), status="applied")
    assert ids(Journal(root, memo).runs(20)) == [run_id(4), run_id(2), run_id(0)]


def test_a_file_changed_a_moment_ago_is_not_remembered(memory: MemoryRepository) -> None:
    memo = JournalMemo()
    root = Root(str(memory.root))
    memory.write_run(run_id(0), status="applied")
    assert Journal(root, memo).state().interrupted is None
    # Same size, same inode, maybe the same tick of the clock.
    path = memory.path(f".sync/runs/{run_id(0)}.json")
    before = path.stat()
    path.write_text(path.read_text().replace('"applied"', '"failed" '))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert Journal(root, memo).runs(status="failed") != []


# --- what is broken, foreign or unsafe -------------------------------------------------------------------


def test_only_well_named_files_count(memory: MemoryRepository, journal: Journal) -> None:
    memory.write_run(run_id(0))
    for name in ("notes.txt", "note.json", f"{run_id(1)}.json.tmp", f".{run_id(1)}.json", f"{run_id(1)}"):
        memory.write(f".sync/runs/{name}", "no run")
    memory.path(".sync/runs/folder.json").mkdir()
    assert journal.state().readable
    assert ids(journal.runs()) == [run_id(0)]


@pytest.mark.parametrize(
    "content", ["", "5", "[]", "null", "{", '{"a":NaN}', "\0", '"' * 5, "[" * 100_000, b"\xff{}", "{}x"]
)
def test_a_well_named_file_that_is_no_object_makes_the_journal_unreadable(
    memory: MemoryRepository, journal: Journal, content: str | bytes
) -> None:
    memory.write_run(run_id(0))
    memory.write(f".sync/runs/{run_id(1)}.json", content)
    assert journal.state().broken == (run_id(1),)
    assert not journal.state().readable
    assert ids(journal.runs()) == [run_id(0)]
    assert journal.find(run_id(1)) is None


def a_link(path: Path) -> None:
    path.with_name("real").write_text('{"operation":"sync"}')
    path.symlink_to("real")


def a_link_to_nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


def a_folder(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [a_link, a_link_to_nowhere, a_folder, a_pipe])
def test_what_is_no_plain_file_is_broken_and_never_followed(
    memory: MemoryRepository, journal: Journal, make: Callable[[Path], None]
) -> None:
    memory.write_run(run_id(0))
    make(memory.path(f".sync/runs/{run_id(1)}.json"))
    assert journal.state().broken == (run_id(1),)
    assert ids(journal.runs()) == [run_id(0)]
    memory.remove(".sync/last-run.json")
    make(memory.path(".sync/last-run.json"))
    last = journal.last_run()
    assert last is not None
    assert last.run_id == run_id(0)


def test_a_linked_runs_folder_is_unsafe(memory: MemoryRepository, journal: Journal) -> None:
    memory.path(".sync/runs").symlink_to("/etc")
    with pytest.raises(UnsafeLayout):
        journal.runs()
    with pytest.raises(UnsafeLayout):
        journal.state()


def test_a_run_file_over_the_limit_is_broken(
    memory: MemoryRepository, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_room, "_MAX_RUN_BYTES", 1000)
    memory.write_run(run_id(0), changed_paths=["x" * 1000])
    memory.write_run(run_id(1))
    assert journal.state().broken == (run_id(0),)


def test_what_may_not_be_read(open_tmp: Path) -> None:
    memory = MemoryRepository.create(open_tmp / "memory")
    memory.write_run(run_id(0))
    memory.write_run(run_id(1))
    give_to_nobody(open_tmp)
    memory.path(f".sync/runs/{run_id(1)}.json").chmod(0)

    def read() -> tuple[tuple[str, ...], list[str]]:
        found = Journal(Root(str(memory.root)))
        return found.state().broken, ids(found.runs())

    assert as_nobody(read) == ((run_id(1),), [run_id(0)])
    memory.path(".sync/runs").chmod(0)

    def refused() -> str | None:
        with pytest.raises(RepoUnavailable) as caught:
            Journal(Root(str(memory.root))).runs()
        return caught.value.detail

    assert as_nobody(refused) == "journal-unreadable"
    memory.path(".sync/runs").chmod(0o700)


def test_last_run_is_what_its_file_says_or_the_newest(memory: MemoryRepository, journal: Journal) -> None:
    memory.write_run(run_id(2), last=False)
    memory.write_run(run_id(1))
    last = journal.last_run()
    assert last is not None
    assert last.run_id == run_id(1)
    memory.write(".sync/last-run.json", "5")
    last = journal.last_run()
    assert last is not None
    assert last.run_id == run_id(2)


# --- what later records say ------------------------------------------------------------------------------


def test_an_interrupted_run_stays_until_a_recover_record_names_it(
    memory: MemoryRepository, journal: Journal
) -> None:
    memory.write_run(run_id(0), status="interrupted")
    memory.write_run(run_id(1), status="interrupted")
    memory.write_run(run_id(2), status="no_change")
    interrupted = journal.state().interrupted
    assert interrupted is not None
    assert interrupted.run_id == run_id(1)
    memory.write_run(run_id(3), operation="recover", status="recovered", recovered_run_id=run_id(1))
    interrupted = journal.state().interrupted
    assert interrupted is not None
    assert interrupted.run_id == run_id(0)
    memory.write_run(run_id(4), operation="recover", status="recovered", recovered_run_id=run_id(0))
    assert journal.state().interrupted is None


def test_rolled_back_runs_are_those_that_rollback_records_name(
    memory: MemoryRepository, journal: Journal
) -> None:
    memory.write_run(run_id(0))
    memory.write_run(run_id(1), operation="rollback", status="rolled_back", rolled_back_run_id=run_id(0))
    memory.write_run("20260820T140000Z-rollback", operation="rollback", status="rolled_back")
    memory.write_run(run_id(3), operation="sync", rolled_back_run_id=run_id(1))
    assert journal.state().rolled_back == {run_id(0)}
    assert journal.runs(20, status="applied")[-1].status == "applied"
