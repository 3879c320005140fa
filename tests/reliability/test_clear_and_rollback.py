"""Clearing and rolling back: what ends up in Git, what stays untouched, and what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dsh_memory.errors import ClearFailure, MemoryFailure, OperationInProgress, RollbackFailure
from dsh_memory.repository import phases
from dsh_memory.repository.clearing import clear
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.rollback import rollback
from tests.reliability.invariants import (
    assert_clean,
    assert_sound,
    committed_payload,
    subjects,
    survives,
)
from tests.support.clocks import FrozenClock
from tests.support.repositories import MemoryRepository, record

FILES = {
    "summary.md": "# Summary\n",
    "handbook/a.md": record("a"),
    "handbook/deep/er/b.md": record("b"),
    "rollouts/2026-08-20-x.md": "legacy\n",
    "archive/c.md": record("c"),
}
HOSTILE_NAMES = (
    b"handbook/one, two.md",
    b'handbook/"quoted".md',
    b"handbook/line\nbreak.md",
    b"handbook/tab\t.md",
    b"handbook/back\\slash.md",
    b"handbook/-option.md",
    b"handbook/:(top)magic.md",
    b"handbook/star*.md",
    b"handbook/latin-\xe9.md",
    "handbook/café.md".encode(),
    b"handbook/v1..v2.md",
)


@pytest.fixture
def filled(memory: MemoryRepository) -> MemoryRepository:
    memory.write_all(FILES)
    memory.commit("Some memory")
    return memory


@pytest.fixture
def repo(filled: MemoryRepository) -> Iterator[Repository]:
    with filled.open() as opened:
        yield opened


def test_clean_memory_is_cleared_above_the_head_it_had(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    head = filled.head
    value = clear(repo, clock)
    assert value["alreadyEmpty"] is False and value["clearedFileCount"] == len(FILES)
    assert value["recoveryCommit"] == head
    assert filled.git("rev-parse", f"{value['clearCommit']}^").decode().strip() == head
    assert subjects(filled, 2) == [f"DPSK memory journal: {value['runId']}", "DPSK memory cleared"]
    assert filled.live_payload() == {"summary.md": b""}
    assert all(filled.path(name).is_dir() for name in ("handbook", "rollouts", "archive"))
    assert not filled.path("handbook/deep").exists()
    assert_clean(filled)
    assert_sound(filled)


def test_dirty_memory_gets_a_checkpoint_with_untracked_and_ignored_files(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    filled.write(".gitignore", "*.draft\n")
    filled.write("handbook/a.md", record("a", "edited\n"))
    filled.write("handbook/new.md", "never added\n")
    filled.write("handbook/idea.draft", "ignored, and yet memory\n")
    filled.remove("archive/c.md")
    live = filled.live_payload()
    head = filled.head
    value = clear(repo, clock)
    assert value["clearedFileCount"] == len(live) + 1, "what HEAD alone still held counts, too"
    assert value["recoveryCommit"] != head
    assert committed_payload(filled, value["recoveryCommit"]) == live
    assert subjects(filled, 3)[1:] == ["DPSK memory cleared", "DPSK memory recovery checkpoint"]
    parents = filled.git("log", "-2", "--format=%P", value["clearCommit"]).decode().split()
    assert parents == [value["recoveryCommit"], head]
    assert filled.live_payload() == {"summary.md": b""}
    assert_sound(filled)


def test_empty_memory_is_left_alone(memory: MemoryRepository, clock: FrozenClock) -> None:
    head = memory.head
    with memory.open() as repo:
        value = clear(repo, clock)
    assert value["alreadyEmpty"] is True and value["clearedFileCount"] == 0
    assert value["recoveryCommit"] is None and value["clearCommit"] is None
    assert memory.head == head
    assert_sound(memory)


def test_memory_emptied_by_hand_is_not_empty(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    for name in FILES:
        filled.remove(name)
    value = clear(repo, clock)
    assert value["alreadyEmpty"] is False and value["clearedFileCount"] == len(FILES)
    assert committed_payload(filled) == {"summary.md": b""}
    assert all(survives(filled, text.encode()) for text in FILES.values())


def test_cleared_memory_comes_back_to_the_byte(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    for name in HOSTILE_NAMES:
        filled.write(name, b"\x00\xff bytes of " + name)
    filled.write("handbook/tool.sh", "#!/bin/sh\n", executable=True)
    filled.write("handbook/crlf.md", b"one\r\ntwo\r\n")
    before = filled.live_payload()
    cleared = clear(repo, clock)
    value = rollback(repo, clock, cleared["runId"])
    assert filled.live_payload() == before
    assert filled.path("handbook/tool.sh").stat().st_mode & 0o777 == 0o700
    assert filled.path("handbook/crlf.md").stat().st_mode & 0o777 == 0o600
    assert value["runId"] == cleared["runId"]
    assert subjects(filled, 2)[1] == f"DPSK memory rollback: {cleared['runId']}"
    assert_clean(filled)
    assert_sound(filled)


def test_rollback_is_journaled_with_the_commits_around_it(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    cleared = clear(repo, clock)
    head = filled.head
    value = rollback(repo, clock, cleared["runId"])
    run = json.loads(filled.path(f".sync/runs/{value['rollbackRunId']}.json").read_text())
    assert (run["operation"], run["status"]) == ("rollback", "rolled_back")
    assert (run["recovery_commit"], run["apply_commit"]) == (head, value["rollbackCommit"])
    assert run["rolled_back_run_id"] == cleared["runId"]
    assert run["changed_paths"] == sorted(FILES) and run["changed_path_count"] == len(FILES)
    earlier = json.loads(filled.path(f".sync/runs/{cleared['runId']}.json").read_text())
    assert earlier["status"] == "applied", "the journal is append-only"


def test_journal_files_are_compact_private_and_in_order(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    value = clear(repo, clock)
    path = filled.path(f".sync/runs/{value['runId']}.json")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes().count(b"\n") == 1
    run = json.loads(path.read_text())
    assert list(run) == [
        *("schema_version", "run_id", "operation", "status", "started_at", "finished_at"),
        *("candidate_sessions", "processed_sessions", "skipped_sessions", "changed_paths"),
        *("recovery_commit", "apply_commit", "error_code", "phase", "staging_digest", "duration_ms"),
        *("rejected_file_count", "changed_path_count"),
    ]
    assert run["phase"] == "complete" and run["candidate_sessions"] is None
    last = json.loads(filled.path(".sync/last-run.json").read_text())
    assert last == {key: value for key, value in run.items() if not key.endswith("_sessions")}


def test_second_rollback_of_a_run_is_a_conflict(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    cleared = clear(repo, clock)
    rollback(repo, clock, cleared["runId"])
    with pytest.raises(RollbackFailure) as refused:
        rollback(repo, clock, cleared["runId"])
    assert (refused.value.code, refused.value.detail) == ("rollback-conflict", "newer-writes")


def test_rollback_refuses_a_dirty_payload_and_touches_nothing(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    cleared = clear(repo, clock)
    filled.write("handbook/note.md", "not committed\n")
    filled.write("summary.md", "edited\n")
    head, live = filled.head, filled.live_payload()
    with pytest.raises(RollbackFailure) as refused:
        rollback(repo, clock, cleared["runId"])
    assert (refused.value.code, refused.value.detail) == ("rollback-conflict", "dirty-payload")
    assert (filled.head, filled.live_payload()) == (head, live)
    assert_sound(filled)


@pytest.mark.parametrize("run_id", ["", "x", "../../x", "20260820T120000Z-0000000g", None, 5])
def test_what_is_no_run_id_is_not_found(repo: Repository, clock: FrozenClock, run_id: object) -> None:
    with pytest.raises(RollbackFailure) as refused:
        rollback(repo, clock, run_id)
    assert refused.value.code == "rollback-run-not-found"


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"status": "failed"}, "not-applied"),
        ({"status": "rolled_back"}, "not-applied"),
        ({"recovery_commit": None, "apply_commit": None}, "no-commits"),
        ({"recovery_commit": "--help", "apply_commit": "--help"}, "no-commits"),
        ({"recovery_commit": "HEAD", "apply_commit": "HEAD"}, "no-commits"),
        ({"recovery_commit": "0" * 39 + "1", "apply_commit": "0" * 39 + "1"}, "commit-missing"),
    ],
)
def test_run_that_cannot_be_rolled_back_is_not_applicable(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, fields: dict[str, Any], detail: str
) -> None:
    filled.write_run("20260820T110000Z-00000001", **fields)
    with pytest.raises(RollbackFailure) as refused:
        rollback(repo, clock, "20260820T110000Z-00000001")
    assert (refused.value.code, refused.value.detail) == ("rollback-not-applicable", detail)
    assert_sound(filled)


def test_unchanged_files_are_not_rewritten(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    def looks(name: str) -> tuple[int, int, int]:
        status = filled.path(name).stat()
        return status.st_ino, status.st_mtime_ns, status.st_ctime_ns

    clear(repo, clock)
    filled.write("handbook/a.md", FILES["handbook/a.md"])
    before = looks("README.md"), looks("summary.md")
    # The summary is empty already: the second clear has no reason to touch it.
    clear(repo, clock)
    assert (looks("README.md"), looks("summary.md")) == before


def test_everything_that_is_no_memory_stays_as_it_is(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    filled.write("scripts/filter_session.py", "print()\n", executable=True)
    filled.write("README.md", "edited by hand\n")
    filled.write("foreign.txt", "staged, not committed\n")
    filled.git("add", "foreign.txt", "README.md")
    filled.write("README.md", "edited again\n")
    filled.write(".sync/notes.txt", "somebody's\n")
    filled.write("untracked.env", "SECRET=1\n")
    filled.git("branch", "other")
    other = filled.git("rev-parse", "other")
    watermark = filled.path(".last-sync").stat()
    names = ("README.md", "foreign.txt", "untracked.env", ".sync/notes.txt", "scripts/filter_session.py")
    foreign = {name: (filled.path(name).read_bytes(), filled.path(name).stat().st_mtime_ns) for name in names}
    staged = filled.git("diff", "--cached", "--raw", "--", "README.md", "foreign.txt")
    cleared = clear(repo, clock)
    rollback(repo, clock, cleared["runId"])
    assert {
        name: (filled.path(name).read_bytes(), filled.path(name).stat().st_mtime_ns) for name in names
    } == foreign
    assert filled.git("diff", "--cached", "--raw", "--", "README.md", "foreign.txt") == staged
    assert filled.git("rev-parse", "other") == other
    assert filled.path(".last-sync").stat() == watermark
    changed = filled.git("diff", "--name-only", "-z", "other", "HEAD").decode().split("\0")[:-1]
    assert all(name.startswith((".sync/runs/", ".sync/last-run.json")) for name in changed), changed


def test_staged_text_that_stands_nowhere_else_is_kept_in_the_history(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    filled.write("handbook/a.md", "staged only\n")
    filled.git("add", "handbook/a.md")
    filled.write("handbook/a.md", "in the worktree\n")
    clear(repo, clock)
    filled.git("reflog", "expire", "--expire=all", "--all")
    filled.git("gc", "-q", "--prune=now")
    assert survives(filled, b"staged only\n") and survives(filled, b"in the worktree\n")
    assert_clean(filled)
    assert_sound(filled)


def test_staged_text_is_kept_where_the_worktree_is_clean(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    filled.write("handbook/a.md", "staged only\n")
    filled.git("add", "handbook/a.md")
    filled.write("handbook/a.md", FILES["handbook/a.md"])
    value = clear(repo, clock)
    assert survives(filled, b"staged only\n")
    assert (
        committed_payload(filled, value["recoveryCommit"])["handbook/a.md"] == FILES["handbook/a.md"].encode()
    )
    assert_clean(filled)


def test_repository_of_sha256_objects_works(tmp_path: Path, clock: FrozenClock) -> None:
    memory = MemoryRepository.create(tmp_path / "sha256", FILES, object_format="sha256")
    memory.write("handbook/dirty.md", "dirty\n")
    before = memory.live_payload()
    with memory.open() as repo:
        cleared = clear(repo, clock)
        assert len(cleared["clearCommit"]) == 64
        rollback(repo, clock, cleared["runId"])
    assert memory.live_payload() == before
    assert_clean(memory)
    assert_sound(memory)


def test_linked_worktree_is_changed_alone(
    filled: MemoryRepository, tmp_path: Path, clock: FrozenClock
) -> None:
    filled.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = MemoryRepository(tmp_path / "side")
    head = filled.head
    with side.open() as repo:
        cleared = clear(repo, clock)
        assert side.live_payload() == {"summary.md": b""}
        rollback(repo, clock, cleared["runId"])
    assert_clean(side)
    assert filled.head == head
    assert_clean(filled)


@pytest.mark.parametrize("branch", ["-x", "a/b", "ünï"])
def test_branch_of_any_name_is_moved(filled: MemoryRepository, clock: FrozenClock, branch: str) -> None:
    filled.git("update-ref", f"refs/heads/{branch}", "HEAD")
    filled.git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
    main = filled.git("rev-parse", "refs/heads/main")
    with filled.open() as repo:
        clear(repo, clock)
    assert filled.git("rev-parse", "refs/heads/main") == main
    assert filled.git("symbolic-ref", "HEAD").decode().strip() == f"refs/heads/{branch}"
    assert_clean(filled)


def test_repositorys_own_identity_is_used(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    clear(repo, clock)
    assert filled.git("log", "-1", "--format=%an <%ae>|%cn <%ce>").decode().strip() == "|".join(
        ["DPSK Memory <dpsk-memory@localhost>"] * 2
    )
    filled.git("config", "user.name", "Ada <Lovelace>")
    filled.git("config", "user.email", "ada@example.org")
    filled.write("handbook/new.md", "new\n")
    clear(repo, clock)
    assert filled.git("log", "-1", "--format=%an <%ae>").decode().strip() == "Ada Lovelace <ada@example.org>"


# --- what an outside editor does meanwhile ------------------------------------------------------


def at_phase(monkeypatch: pytest.MonkeyPatch, name: str, act: Any) -> None:
    """Does `act` once, when the transaction reaches the named point."""
    pending = [act]

    def hook(reached: str) -> None:
        if reached == name and pending:
            pending.pop()()

    monkeypatch.setattr(phases, "phase_hook", hook)


def test_edit_before_the_branch_moves_refuses_the_clear(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = filled.head
    at_phase(monkeypatch, "staged", lambda: filled.write("handbook/a.md", "edited in between\n"))
    with pytest.raises(ClearFailure) as refused:
        clear(repo, clock)
    assert (refused.value.code, refused.value.detail) == ("clear-failed", "live-memory-changed")
    assert filled.head == head
    assert filled.path("handbook/a.md").read_text() == "edited in between\n"
    assert filled.path("archive/c.md").read_text() == FILES["archive/c.md"]
    assert_sound(filled)
    assert clear(repo, clock)["alreadyEmpty"] is False


def test_edit_after_the_branch_moved_is_left_in_place(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edit() -> None:
        filled.write("handbook/a.md", "edited in between\n")
        filled.write("handbook/new.md", "made in between\n")

    at_phase(monkeypatch, "moved", edit)
    clear(repo, clock)
    assert filled.live_payload() == {
        "summary.md": b"",
        "handbook/a.md": b"edited in between\n",
        "handbook/new.md": b"made in between\n",
    }
    assert_sound(filled)


def test_write_through_an_open_file_is_put_back(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled.path("handbook/a.md").open("ab") as editor:

        def write() -> None:
            editor.write(b"a late line\n")
            editor.flush()

        at_phase(monkeypatch, "projected", write)
        clear(repo, clock)
    assert filled.live_payload()["handbook/a.md"] == FILES["handbook/a.md"].encode() + b"a late line\n"
    assert_sound(filled)


def test_write_through_an_open_file_whose_place_is_taken_is_kept_in_the_history(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = b"# Summary\na late line\n"
    with filled.path("summary.md").open("ab") as editor:

        def write() -> None:
            editor.write(b"a late line\n")
            editor.flush()

        at_phase(monkeypatch, "projected", write)
        clear(repo, clock)
    assert filled.live_payload()["summary.md"] == b""
    assert survives(filled, late)
    assert_clean(filled)
    assert_sound(filled)


def test_new_file_in_the_place_of_a_returning_one_is_kept(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared = clear(repo, clock)
    at_phase(monkeypatch, "moved", lambda: filled.write("handbook/a.md", "somebody else's\n"))
    rollback(repo, clock, cleared["runId"])
    expected = {name: text.encode() for name, text in FILES.items()} | {"handbook/a.md": b"somebody else's\n"}
    assert filled.live_payload() == expected
    assert committed_payload(filled)["handbook/a.md"] == FILES["handbook/a.md"].encode()
    assert_sound(filled)


def test_folder_in_the_place_of_a_returning_file_is_kept(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared = clear(repo, clock)
    at_phase(monkeypatch, "moved", lambda: filled.write("handbook/a.md/inner.md", "somebody else's\n"))
    rollback(repo, clock, cleared["runId"])
    assert filled.live_payload()["handbook/a.md/inner.md"] == b"somebody else's\n"
    assert_sound(filled)


def test_link_in_the_place_of_a_returning_folder_is_not_followed(
    filled: MemoryRepository,
    repo: Repository,
    clock: FrozenClock,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    cleared = clear(repo, clock)
    (tmp_path / "outside").mkdir()
    at_phase(monkeypatch, "moved", lambda: filled.path("handbook/deep").symlink_to(tmp_path / "outside"))
    rollback(repo, clock, cleared["runId"])
    assert os.listdir(tmp_path / "outside") == []
    assert filled.path("handbook/a.md").read_text() == FILES["handbook/a.md"]


def test_outside_commit_in_between_refuses_the_clear(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit() -> None:
        tree = filled.git("rev-parse", "HEAD^{tree}").decode().strip()
        outside = filled.git("commit-tree", "-p", "HEAD", "-m", "Outside", tree).decode().strip()
        filled.git("update-ref", "refs/heads/main", outside)

    live = filled.live_payload()
    at_phase(monkeypatch, "staged", commit)
    with pytest.raises(ClearFailure) as refused:
        clear(repo, clock)
    assert (refused.value.code, refused.value.detail) == ("commit-failed", "head-moved")
    assert subjects(filled, 1) == ["Outside"] and filled.live_payload() == live
    assert_sound(filled)


def test_other_branch_checked_out_in_between_refuses_the_clear(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.git("branch", "other")
    heads = filled.git("for-each-ref", "refs/heads")
    at_phase(monkeypatch, "staged", lambda: filled.git("symbolic-ref", "HEAD", "refs/heads/other"))
    with pytest.raises(ClearFailure) as refused:
        clear(repo, clock)
    assert refused.value.detail == "head-moved"
    assert filled.git("for-each-ref", "refs/heads") == heads
    assert_sound(filled)


def test_git_add_cannot_interleave(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add() -> None:
        with pytest.raises(AssertionError, match=r"index\.lock"):
            filled.git("add", "-A")

    at_phase(monkeypatch, "moved", add)
    clear(repo, clock)
    assert_clean(filled)


def test_plan_for_another_head_is_refused(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    seen = filled.head
    filled.write("handbook/a.md", "newer\n")
    filled.commit("Newer")
    with pytest.raises(ClearFailure) as refused:
        clear(repo, clock, expected_head=seen)
    assert refused.value.detail == "head-moved"
    assert clear(repo, clock, expected_head=filled.head)["alreadyEmpty"] is False


def test_lock_of_another_program_refuses_both(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    from tests.reliability.test_lock import write_lock

    write_lock(filled)
    act: list[Any] = [lambda: clear(repo, clock), lambda: rollback(repo, clock, "20260820T110000Z-00000001")]
    live = filled.live_payload()
    for call in act:
        with pytest.raises(MemoryFailure) as refused:
            call()
        assert isinstance(refused.value, OperationInProgress)
    assert filled.live_payload() == live
