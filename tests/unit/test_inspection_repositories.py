"""The inspector on repositories in odd states: hostile names, edits, locks, dead runs, no commits."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from dsh_memory.errors import MemoryFailure
from dsh_memory.inspection import Fact, Inspector
from dsh_memory.repository.git import SealedGit
from dsh_memory.repository.layout import Reader
from dsh_memory.repository.lock import hold
from tests.support.clocks import FrozenClock
from tests.support.repositories import NOON, MemoryRepository, record

#: Above the largest process id that the system gives out.
NO_PROCESS = 2**22 + 1
RUN = "20260820T100000Z-00a1b2c3"
HOSTILE = (
    b"handbook/a -> b.md",
    b"handbook/new\nline\ttab.md",
    b'handbook/"quoted", x.md',
    b"handbook/caf\xe9.md",
)


@pytest.fixture
def memory(tmp_path: Path) -> MemoryRepository:
    return MemoryRepository.create(
        tmp_path / "memory",
        {
            "summary.md": "Summary.\n",
            "handbook/one.md": record("user/one", "First.\n\nSecond.\n", type="fact"),
            "handbook/two.md": record("user/two", type="fact"),
        },
    )


def inspector_of(memory: MemoryRepository) -> Inspector:
    return Inspector(memory.environment, FrozenClock())


def fact(inspector: Inspector, topic: str) -> Fact:
    return next(entry for entry in inspector.overview().facts if entry.topic == topic)


def test_hostile_names_come_through_whole(memory: MemoryRepository) -> None:
    before = memory.head
    for number, name in enumerate(HOSTILE):
        memory.write(name, record(f"x/h{number}"))
    after = memory.commit()
    memory.write_run(RUN, recovery_commit=before, apply_commit=after, changed_paths=[])
    memory.commit()
    inspector = inspector_of(memory)
    names = sorted(os.fsdecode(name) for name in HOSTILE)
    assert [change.path for change in inspector.run(RUN).files] == names
    assert set(names) <= {entry.path for entry in inspector.records()}
    for name in names:
        assert inspector.run_diff(RUN, name).new is not None
        view = inspector.record(name)
        assert view.history[0].commit == after
        assert "dirty" not in view.entry.marks


def test_edits_are_dirty_and_can_be_saved(memory: MemoryRepository) -> None:
    memory.write("handbook/one.md", record("user/one", "First.\n", type="fact"))
    memory.write("handbook/three.md", record("user/three"))
    memory.remove("handbook/two.md")
    inspector = inspector_of(memory)
    overview = inspector.overview()
    assert overview.dirty_paths == ("handbook/one.md", "handbook/three.md", "handbook/two.md")
    assert ("attention", "save") in [(need.state, need.action) for need in overview.needs]
    assert fact(inspector, "payload").sentence == "3 files edited and not saved"
    assert "dirty" in inspector.record("handbook/one.md").entry.marks
    plan = inspector.save_plan()
    assert [(change.kind, change.path, change.added, change.removed) for change in plan.files] == [
        ("M", "handbook/one.md", 0, 2),
        ("A", "handbook/three.md", 6, 0),
        ("D", "handbook/two.md", 0, 7),
    ]
    clear = inspector.clear_plan()
    assert clear.recovery_commit is None
    assert len(clear.git_words) == 2
    assert "3 unsaved files" in clear.what[1]


def test_a_dirty_payload_refuses_a_rollback_and_a_preview(memory: MemoryRepository) -> None:
    before = memory.head
    memory.write("handbook/two.md", record("user/two", "Changed.\n", type="fact"))
    memory.write_run(
        RUN, recovery_commit=before, apply_commit=memory.commit(), changed_paths=["handbook/two.md"]
    )
    memory.commit()
    memory.write_preview("20260820T110000Z-00000001", {"handbook/one.md": None})
    inspector = inspector_of(memory)
    assert inspector.run(RUN).refusal is None
    assert inspector.preview("20260820T110000Z-00000001").refusal is None
    memory.write("handbook/extra.md", record("user/extra"))
    run, preview = inspector.run(RUN).refusal, inspector.preview("20260820T110000Z-00000001").refusal
    assert run is not None and (run.code, run.detail) == ("rollback-conflict", "dirty-payload")
    assert preview is not None and preview.code == "live-memory-changed"


def test_everything_that_would_refuse_a_preview_is_told_at_once(memory: MemoryRepository) -> None:
    secret = "ghp_" + "a1B2" * 9
    memory.write_preview(
        "20260820T110000Z-00000001",
        {
            "handbook/bad.md": "---\nschema_version: 1\nid: X\n---\n",
            "handbook/copy.md": record("user/two"),
            "handbook/key.md": record("user/key", f"token {secret}\n"),
            "handbook/large.md": record("user/large", "x" * (1024 * 1024)),
            "handbook/one.md": "no header any more\n",
        },
    )
    memory.write(".sync/previews/20260820T110000Z-00000001/staging/foreign.txt", "x")
    memory.write(".sync/previews/20260820T110000Z-00000001/staging/README.md", "changed")
    view = inspector_of(memory).preview("20260820T110000Z-00000001")
    assert {(warning.kind, warning.path) for warning in view.warnings} == {
        ("staging-invalid", "foreign.txt"),
        ("staging-invalid", "README.md"),
        ("invalid-id", "handbook/bad.md"),
        ("duplicate-id", "handbook/copy.md"),
        ("secret-detected", "handbook/key.md"),
        ("file-too-large", "handbook/large.md"),
        ("front-matter-lost", "handbook/one.md"),
        ("shrinks", "handbook/one.md"),
    }
    assert [warning.blocking for warning in view.warnings] == [True] * 6 + [False] * 2
    assert all(secret not in warning.sentence for warning in view.warnings)
    assert view.refusal is not None
    assert view.refusal.code == "preview-apply-failed"


def test_the_claims_of_a_preview_are_not_believed(memory: MemoryRepository) -> None:
    memory.write_preview(
        "20260820T110000Z-00000001", {"handbook/one.md": None}, changed_paths=["handbook/two.md"]
    )
    inspector = inspector_of(memory)
    assert inspector.overview().previews[0].changed_paths == ("handbook/one.md",)
    with pytest.raises(MemoryFailure):
        inspector.preview_diff("20260820T110000Z-00000001", "handbook/two.md")


def test_a_broken_preview_is_a_fact(memory: MemoryRepository) -> None:
    memory.write(".sync/previews/20260820T110000Z-00000001/preview.json", "{")
    assert fact(inspector_of(memory), "previews").state == "attention"


def test_duplicate_ids_are_told(memory: MemoryRepository) -> None:
    memory.write("archive/two.md", record("user/two"))
    assert "2 records share the id user/two" in fact(inspector_of(memory), "ids").sentence


def test_before_the_first_commit(tmp_path: Path) -> None:
    inspector = inspector_of(MemoryRepository.unborn(tmp_path / "memory"))
    snapshot = inspector.snapshot()
    assert snapshot.overview.head is None
    assert snapshot.overview.history.recoverable is False
    assert snapshot.records == ()
    assert fact(inspector, "branch").state == "attention"
    refusal = inspector.clear_plan().refusal
    assert refusal is not None and refusal.detail == "unborn-head"


def test_a_detached_head_refuses_every_plan(memory: MemoryRepository) -> None:
    memory.write("handbook/legacy.md", "No header.\n")
    memory.commit()
    memory.git("checkout", "-q", "--detach")
    inspector = inspector_of(memory)
    refusals = [inspector.clear_plan().refusal, inspector.migrate_plan().refusal]
    assert [(refusal.code, refusal.detail) for refusal in refusals if refusal] == [
        ("clear-failed", "detached-head"),
        ("migration-failed", "detached-head"),
    ]
    assert inspector.overview().branch is None


def test_the_live_holder_of_the_lock_refuses_plans(memory: MemoryRepository) -> None:
    inspector = inspector_of(memory)
    with memory.open() as repo, hold(repo.root, "sync", RUN, FrozenClock()):
        lock = inspector.overview().lock
        refusal = inspector.clear_plan().refusal
        held = fact(inspector, "lock")
    assert lock is not None
    assert (lock.operation, lock.pid, lock.run_id, lock.active) == ("sync", os.getpid(), RUN, True)
    assert refusal is not None and refusal.code == "operation-in-progress"
    assert held.sentence == f"held by sync, process {os.getpid()}"
    assert inspector.clear_plan().refusal is None


def test_a_lock_whose_holder_died_is_no_obstacle(memory: MemoryRepository) -> None:
    holder = {"operation": "sync", "pid": NO_PROCESS, "runId": RUN, "startedAt": "2026-08-20T11:59:59Z"}
    memory.write(".sync/operation.lock", json.dumps(holder))
    inspector = inspector_of(memory)
    lock = inspector.overview().lock
    assert lock is not None and not lock.active and lock.stale_reason
    assert fact(inspector, "lock").state == "good"
    assert inspector.clear_plan().refusal is None


def dead_run(memory: MemoryRepository, **more: object) -> None:
    run = {
        "schema_version": 1,
        "run_id": RUN,
        "operation": "sync",
        "status": "running",
        "phase": "applying",
        "pid": NO_PROCESS,
        "started_at": "2026-08-20T10:00:00Z",
        **more,
    }
    memory.write(".sync/active-run.json", json.dumps(run))


@pytest.mark.parametrize(
    ("target", "direction"), [("head", "forward"), ("older", "forward"), ("gone", "back")]
)
def test_where_a_dead_run_will_go(memory: MemoryRepository, target: str, direction: str) -> None:
    commits = {"older": memory.head, "head": memory.commit("Another"), "gone": "0" * 39 + "1"}
    dead_run(memory, head_commit=memory.head, recovery_commit=memory.head, target_commit=commits[target])
    inspector = inspector_of(memory)
    plan = inspector.recover_plan()
    assert (plan.run_id, plan.direction) == (RUN, direction)
    assert plan.refusal is None
    assert inspector.overview().needs[0].action == "recover"
    interrupted = fact(inspector, "interrupted")
    assert interrupted.state == "bad"
    assert RUN in interrupted.sentence and "phase applying" in interrupted.sentence
    migrate = inspector.migrate_plan().refusal
    assert migrate is not None and migrate.code == "interrupted-run"


def test_a_dead_run_of_other_hands_is_journaled_only(memory: MemoryRepository) -> None:
    dead_run(memory)
    assert inspector_of(memory).recover_plan().direction == "journal-only"


def test_a_dead_run_with_a_forged_target_starts_no_git(memory: MemoryRepository) -> None:
    dead_run(memory, target_commit="--output=/tmp/x")
    assert inspector_of(memory).recover_plan().direction == "journal-only"


def test_an_old_lock_of_git_is_told_and_can_be_cleared_away(memory: MemoryRepository) -> None:
    lock = memory.path(".git/index.lock")
    lock.write_bytes(b"")
    young, old = NOON - timedelta(seconds=5), NOON - timedelta(minutes=5)
    os.utime(lock, (young.timestamp(), young.timestamp()))
    inspector = inspector_of(memory)
    assert "leftovers" not in [entry.topic for entry in inspector.overview().facts]
    os.utime(lock, (old.timestamp(), old.timestamp()))
    assert fact(inspector, "leftovers").path == ".git/index.lock"
    plan = inspector.recover_plan()
    assert plan.refusal is None
    assert plan.what == ("What dead processes left behind is cleared away: 1 thing.",)


def test_a_run_without_its_commits_cannot_be_rolled_back(memory: MemoryRepository) -> None:
    memory.write_run(
        RUN, recovery_commit="0" * 40, apply_commit="--output=/tmp/x", changed_paths=["handbook/one.md"]
    )
    view = inspector_of(memory).run(RUN)
    assert view.files_known is False
    assert view.files == ()
    assert view.refusal is not None and view.refusal.detail == "commit-missing"


def test_a_broken_run_file_is_told(memory: MemoryRepository) -> None:
    memory.write(f".sync/runs/{RUN}.json", "[]")
    journal = fact(inspector_of(memory), "journal")
    assert (journal.state, journal.path) == ("bad", f".sync/runs/{RUN}.json")


def test_broken_settings_and_usage_do_not_hide_the_rest(memory: MemoryRepository) -> None:
    memory.write(".sync/usage.json", "{")
    home = Path(memory.environment.dsh_home)
    home.mkdir(parents=True)
    (home / "settings.yaml").write_text("memory: [\n")
    inspector = inspector_of(memory)
    assert inspector.overview().settings.enabled is None
    assert fact(inspector, "settings").state == "bad"
    assert fact(inspector, "usage").state == "attention"
    assert len(inspector.records()) == 2


def test_switched_off_is_a_fact_with_a_next_step(memory: MemoryRepository) -> None:
    home = Path(memory.environment.dsh_home)
    home.mkdir(parents=True)
    (home / "settings.yaml").write_text("memory:\n  enabled: false\n")
    settings = fact(inspector_of(memory), "settings")
    assert (settings.state, settings.action) == ("attention", "enable")


def test_an_open_root_is_told(memory: MemoryRepository) -> None:
    memory.root.chmod(0o755)
    assert "mode 755" in fact(inspector_of(memory), "root").sentence


def test_a_root_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    memory = MemoryRepository(tmp_path / "nowhere")
    inspector = inspector_of(memory)
    inspector.stamp()
    with pytest.raises(MemoryFailure) as caught:
        inspector.snapshot()
    assert caught.value.detail == "root-missing"


def test_processes_and_reads_do_not_grow_with_the_records(
    memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned: list[str] = []
    read: list[str] = []
    run, read_file = SealedGit.run, Reader.read

    def counting_run(git: SealedGit, *arguments: str, **more: object) -> bytes:
        spawned.append(arguments[0])
        return run(git, *arguments, **more)  # type: ignore[arg-type]

    def counting_read(reader: Reader, path: str, limit: int) -> bytes:
        read.append(path)
        return read_file(reader, path, limit)

    monkeypatch.setattr(SealedGit, "run", counting_run)
    monkeypatch.setattr(Reader, "read", counting_read)
    counts = []
    for number in range(2):
        for item in range(40 * number):
            memory.write(f"rollouts/r{item}.md", record(f"r/r{item}"))
        memory.commit(at=NOON + timedelta(minutes=number))
        memory.set_times()
        # What changed within the last two seconds is read again, in case it changes once more.
        monkeypatch.setattr("dsh_memory.repository.content.SETTLED_NS", -(10**18))
        inspector = inspector_of(memory)
        spawned.clear()
        read.clear()
        inspector.snapshot()
        payload = [path for path in read if not path.startswith(".sync")]
        assert sorted(payload) == sorted(set(payload))
        counts.append(len(spawned))
        spawned.clear()
        read.clear()
        inspector.snapshot()
        assert [path for path in read if not path.startswith(".sync")] == []
        counts.append(len(spawned))
    assert counts[0] == counts[2] <= 7
    assert counts[1] == counts[3] <= 3
