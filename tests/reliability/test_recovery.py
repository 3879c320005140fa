"""Recovery: a process killed at any point leaves the old memory or the new one, and nothing to clean up by
hand."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dsh_memory.environment import utc_now
from dsh_memory.errors import MemoryFailure
from dsh_memory.repository.clearing import clear
from dsh_memory.repository.mutation import recover
from dsh_memory.repository.rollback import rollback
from dsh_memory.repository.view import read_records
from dsh_memory.repository.workspace import Workspace
from tests.reliability import actor
from tests.reliability.invariants import assert_clean, assert_sound, subjects, survives
from tests.support.repositories import MemoryRepository, record

PREVIEW = "20260820T110000Z-a1b2c3d4"


@pytest.fixture
def filled(memory: MemoryRepository) -> MemoryRepository:
    memory.write_all({f"handbook/n{number}.md": record(f"n{number}") for number in range(4)})
    memory.write("rollouts/legacy.md", "old note\n")
    memory.write("summary.md", "# Summary\n")
    memory.commit("Some memory")
    return memory


def prepare(memory: MemoryRepository, operation: str) -> object:
    """Brings the memory to where the operation has something to do; its argument."""
    match operation:
        case "clear" | "save":
            memory.write("handbook/n0.md", record("n0", "dirty\n"))
            memory.write("handbook/new.md", record("new"))
        case "rollback":
            with memory.open() as repo:
                return clear(repo, utc_now)["runId"]
        case "apply":
            changes = {
                "handbook/n1.md": None,
                "handbook/n2.md": record("n2", "new\n"),
                "handbook/x/y.md": "y\n",
            }
            memory.write_preview(PREVIEW, changes, created_at=utc_now())
            return PREVIEW
        case "write":
            return ["handbook/n0.md", record("n0"), record("n0", "written\n")]
    return None


def outcome(memory: MemoryRepository, operation: str, argument: object, copy: Path) -> dict[str, bytes]:
    """The payload that the operation makes when nothing kills it, found out on a copy."""
    shutil.copytree(memory.root, copy, symlinks=True)
    actor.act(copy, operation, argument)
    return MemoryRepository(copy).live_payload()


OPERATIONS = ("clear", "rollback", "apply", "migrate", "write", "save")
SHORT = {
    "clear": actor.PHASES,
    "apply": ("staged", "moved", "deleted", "replaced", "journal"),
    "rollback": ("moved", "replaced"),
    "write": ("moved",),
    "save": ("moved",),
    "migrate": ("replaced",),
}
CASES = [
    pytest.param(
        operation,
        phase,
        id=f"{operation}-{phase}",
        marks=() if phase in SHORT[operation] else pytest.mark.slow,
    )
    for operation in OPERATIONS
    for phase in actor.PHASES
]


@pytest.mark.parametrize(("operation", "phase"), CASES)
def test_killed_at_each_point(filled: MemoryRepository, tmp_path: Path, operation: str, phase: str) -> None:
    argument = prepare(filled, operation)
    old = filled.live_payload()
    new = outcome(filled, operation, argument, tmp_path / "copy" / "memory")
    status, _ = actor.run(filled.root, operation, argument, die_at=[phase, 1])
    if status == 0:
        assert operation in ("save", "write", "migrate") and phase in ("replaced",), (
            "the point was never reached"
        )
        return
    assert status == -signal.SIGKILL
    moved = phase not in ("looked", "built", "staged")
    with filled.open() as repo:
        # Until recovery has been, readers already see one state and not a mixture.
        seen = {found.path for found in read_records(repo, utc_now()).records}
        assert seen == {path for path in (new if moved else old) if path != "summary.md"} or not moved
        done = recover(repo, utc_now)
    assert (len(done.forward), len(done.back)) == ((1, 0) if moved else (0, 1))
    [run_id] = done.forward or done.back
    assert filled.live_payload() == (new if moved else old)
    assert all(survives(filled, data) for data in old.values())
    if moved:
        assert_clean(filled)
    assert_sound(filled)
    run = json.loads(filled.path(f".sync/runs/{run_id}.json").read_text())
    assert run["status"] == (
        {"rollback": "rolled_back"}.get(operation, "applied") if moved else "interrupted"
    )
    last = json.loads(filled.path(".sync/last-run.json").read_text())
    assert (last["operation"], last["status"], last["recovered_run_id"]) == ("recover", "recovered", run_id)
    assert subjects(filled, 1) == [f"DPSK memory recovered: {last['run_id']}"]
    assert not moved or not filled.path(f".sync/previews/{PREVIEW}").exists()
    with filled.open() as repo:
        assert recover(repo, utc_now).did_nothing
    if not moved:
        assert "value" in actor.run(filled.root, operation, argument)[1], "the same call works afterwards"
        assert filled.live_payload() == new
    elif operation != "rollback":
        with filled.open() as repo:
            rollback(repo, utc_now, run_id)
        assert_clean(filled)
    assert_sound(filled)


@pytest.mark.parametrize("phase", ["staged", "moved", "replaced"])
def test_next_change_of_any_kind_recovers_first(filled: MemoryRepository, phase: str) -> None:
    argument = prepare(filled, "apply")
    actor.run(filled.root, "apply", argument, die_at=[phase, 1])
    with filled.open() as repo:
        assert clear(repo, utc_now)["alreadyEmpty"] is False
    assert filled.live_payload() == {"summary.md": b""}
    assert_clean(filled)
    assert_sound(filled)


@pytest.mark.parametrize("phase", ["staged", "moved"])
def test_the_same_preview_can_be_applied_again_at_once(filled: MemoryRepository, phase: str) -> None:
    argument = prepare(filled, "apply")
    actor.run(filled.root, "apply", argument, die_at=[phase, 1])
    _, again = actor.run(filled.root, "apply", argument)
    if phase == "staged":
        assert again["value"]["status"] == "applied"
    else:
        assert again == {"code": "preview-not-found", "detail": None}, "it was applied by the recovery"
    assert b"new\n" in filled.live_payload()["handbook/n2.md"]
    assert_clean(filled)
    assert_sound(filled)


def test_a_change_stands_though_what_it_needed_cannot_be_put_away(
    filled: MemoryRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(workspace: Workspace) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch, filled.open() as repo:
        patch.setattr(Workspace, "remove", refuse)
        assert clear(repo, utc_now)["alreadyEmpty"] is False
    assert filled.live_payload() == {"summary.md": b""}
    with filled.open() as repo:
        assert len(recover(repo, utc_now).forward) == 1
    assert filled.live_payload() == {"summary.md": b""}
    assert_clean(filled)
    assert_sound(filled)


def test_recovery_killed_itself_is_recovered(filled: MemoryRepository) -> None:
    actor.run(filled.root, "clear", die_at=["moved", 1])
    for phase in ("index", "projected", "staged", "moved", "recovered"):
        status, _ = actor.run(filled.root, "recover", die_at=[phase, 1])
        assert status == -signal.SIGKILL, phase
    status, answer = actor.run(filled.root, "recover")
    assert status == 0, answer
    assert filled.live_payload() == {"summary.md": b""}
    assert_clean(filled)
    assert_sound(filled)


def test_edit_after_the_death_is_kept(filled: MemoryRepository) -> None:
    actor.run(filled.root, "clear", die_at=["moved", 1])
    filled.write("handbook/n0.md", "edited after the crash\n")
    filled.write("handbook/later.md", "made after the crash\n")
    with filled.open() as repo:
        done = recover(repo, utc_now)
    assert done.left == ["handbook/n0.md"]
    assert filled.live_payload() == {
        "summary.md": b"",
        "handbook/n0.md": b"edited after the crash\n",
        "handbook/later.md": b"made after the crash\n",
    }
    assert_sound(filled)


def test_commit_made_by_hand_after_the_death_is_respected(filled: MemoryRepository) -> None:
    actor.run(filled.root, "clear", die_at=["projected", 1])
    os.unlink(filled.root / ".git" / "index.lock")
    filled.write("handbook/later.md", "by hand\n")
    filled.git("add", "handbook/later.md")
    filled.git("commit", "-q", "-m", "By hand")
    with filled.open() as repo:
        assert len(recover(repo, utc_now).forward) == 1
    assert filled.live_payload() == {"summary.md": b"", "handbook/later.md": b"by hand\n"}
    assert_sound(filled)


def test_branch_set_back_by_hand_after_the_death_loses_nothing(filled: MemoryRepository) -> None:
    filled.write("handbook/dirty.md", "in no commit of mine\n")
    old = filled.live_payload()
    head = filled.head
    actor.run(filled.root, "clear", die_at=["projected", 1])
    os.unlink(filled.root / ".git" / "index.lock")
    filled.git("reset", "-q", "--hard", head)
    with filled.open() as repo:
        recover(repo, utc_now)
    assert filled.live_payload() == old
    assert_sound(filled)


def test_lost_active_run_record_is_no_obstacle(filled: MemoryRepository) -> None:
    actor.run(filled.root, "clear", die_at=["moved", 1])
    filled.remove(".sync/active-run.json")
    filled.remove(".sync/operation.lock")
    with filled.open() as repo:
        assert len(recover(repo, utc_now).forward) == 1
    assert filled.live_payload() == {"summary.md": b""}
    assert_clean(filled)
    assert_sound(filled)


@pytest.mark.parametrize("text", [b"", b"{", b'{"schema_version":1}', b"\0" * 400])
def test_torn_records_of_a_run_that_had_moved_nothing_go(filled: MemoryRepository, text: bytes) -> None:
    old = filled.live_payload()
    actor.run(filled.root, "clear", die_at=["staged", 1])
    [folder] = (filled.root / ".git" / "dsh-memory").iterdir()
    (folder / "plan.json").write_bytes(text)
    filled.write(".sync/active-run.json", text)
    with filled.open() as repo:
        recover(repo, utc_now)
    assert filled.live_payload() == old
    assert_sound(filled)


# --- Git's own locks ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["index.lock", "HEAD.lock", "packed-refs.lock", "refs/heads/main.lock", "logs/HEAD.lock"]
)
def test_lock_of_a_dead_git_process_goes_with_the_dead_run(filled: MemoryRepository, name: str) -> None:
    actor.run(filled.root, "clear", die_at=["staged", 1])
    if name == "index.lock":
        os.unlink(filled.root / ".git" / name)
    (filled.root / ".git" / name).write_bytes(b"")
    with filled.open() as repo:
        assert str(filled.root / ".git" / name) in recover(repo, utc_now).locks
    assert_sound(filled)


@pytest.mark.parametrize("age", [0, 60])
def test_lock_without_a_dead_run_goes_when_it_is_old(filled: MemoryRepository, age: int) -> None:
    lock = filled.root / ".git" / "index.lock"
    lock.write_bytes(b"")
    os.utime(lock, (lock.stat().st_mtime - age,) * 2)
    with filled.open() as repo:
        if age:
            clear(repo, utc_now)
        else:
            with pytest.raises(MemoryFailure) as refused:
                clear(repo, utc_now)
            assert (refused.value.code, refused.value.detail) == ("operation-in-progress", "index-locked")
    assert lock.exists() == (age == 0)


def test_lock_that_a_process_has_open_stays(filled: MemoryRepository) -> None:
    lock = filled.root / ".git" / "index.lock"
    lock.write_bytes(b"")
    os.utime(lock, (lock.stat().st_mtime - 60,) * 2)
    holder = subprocess.Popen(
        [sys.executable, "-c", f"f = open({str(lock)!r}); print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    with filled.open() as repo:
        with pytest.raises(MemoryFailure):
            clear(repo, utc_now)
        holder.communicate(b"\n")
        clear(repo, utc_now)
    assert_sound(filled)


def test_lock_of_a_git_process_killed_under_a_change_goes_with_the_change(
    filled: MemoryRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = filled.root / ".git" / "refs" / "heads" / "main.lock"
    shim = tmp_path / "bin" / "git"
    shim.parent.mkdir()
    shim.write_text(
        f'#!/bin/sh\ncase "$*" in *" update-ref -m "*) : > "{lock}"; kill -KILL $$;; esac\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    shim.chmod(0o700)
    with monkeypatch.context() as patch, filled.open() as repo:
        patch.setenv("PATH", f"{shim.parent}{os.pathsep}{os.environ['PATH']}")
        with pytest.raises(MemoryFailure) as refused:
            clear(repo, utc_now)
    assert refused.value.detail == "git-killed"
    assert not lock.exists()
    with filled.open() as repo:
        assert recover(repo, utc_now).did_nothing
        assert clear(repo, utc_now)["alreadyEmpty"] is False
    assert_sound(filled)


# --- the origin's unfinished clear --------------------------------------------------------------


def stage_like_the_origin(memory: MemoryRepository) -> Path:
    stage = memory.root / ".dpsk-memory-clear-0a1b2c3d"
    stage.mkdir()
    for name in ("summary.md", "handbook", "rollouts", "archive"):
        (memory.root / name).rename(stage / name)
    memory.write("summary.md", "")
    return stage


def test_clear_of_the_origin_that_died_is_undone(filled: MemoryRepository) -> None:
    filled.write("handbook/dirty.md", "in no commit\n")
    old = filled.live_payload()
    stage = stage_like_the_origin(filled)
    with filled.open() as repo:
        assert sorted(recover(repo, utc_now).restored) == sorted(old)
    assert filled.live_payload() == old
    assert not stage.exists()


def test_texts_that_took_the_places_meanwhile_stay_beside_the_old_ones(filled: MemoryRepository) -> None:
    old = filled.live_payload()
    stage_like_the_origin(filled)
    filled.write("summary.md", "written since\n")
    filled.write("handbook/n0.md", "written since\n")
    with filled.open() as repo:
        recover(repo, utc_now)
    live = filled.live_payload()
    assert live["summary.md"] == live["handbook/n0.md"] == b"written since\n"
    assert live["archive/summary.md.restored-0a1b2c3d"] == old["summary.md"]
    assert live["handbook/n0.md.restored-0a1b2c3d"] == old["handbook/n0.md"]


def test_clear_of_the_origin_that_had_committed_is_finished(filled: MemoryRepository) -> None:
    stage = stage_like_the_origin(filled)
    filled.git("add", "-A", "summary.md", "handbook", "rollouts")
    filled.git("commit", "-q", "-m", "DPSK memory cleared")
    with filled.open() as repo:
        assert recover(repo, utc_now).restored == []
    assert filled.live_payload() == {"summary.md": b""}
    assert not stage.exists()


# --- readers during a change --------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["moved", "deleted", "replaced", "projected"])
def test_readers_see_no_half_state(filled: MemoryRepository, phase: str) -> None:
    run_id = prepare(filled, "rollback")
    process = actor.start(filled.root, "rollback", run_id, pause_at=[phase, 1])
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "paused\n"
    try:
        with filled.open() as repo:
            found = read_records(repo, utc_now())
        assert len(found.records) == 5 and not found.malformed
    finally:
        process.communicate("\n")
    assert_sound(filled)
