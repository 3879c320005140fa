"""A person's edits: saved as a run, written one by one, and never at the cost of another text."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dsh_memory.errors import ChangeRefused, MemoryFailure, PreviewFailure
from dsh_memory.repository.editing import save, write_paths
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.rollback import rollback
from tests.reliability.invariants import assert_clean, assert_sound, committed_payload, subjects, survives
from tests.reliability.test_clear_and_rollback import at_phase
from tests.support.clocks import FrozenClock
from tests.support.repositories import MemoryRepository, record

OLD = record("a")


@pytest.fixture
def filled(memory: MemoryRepository) -> MemoryRepository:
    memory.write_all({"handbook/a.md": OLD, "handbook/b.md": record("b")})
    memory.commit("Some memory")
    return memory


@pytest.fixture
def repo(filled: MemoryRepository) -> Iterator[Repository]:
    with filled.open() as opened:
        yield opened


def test_save_commits_what_editors_left_and_rolls_back(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    before = filled.live_payload()
    head = filled.head
    filled.write("handbook/a.md", record("a", "edited\n"))
    filled.write("handbook/new.md", record("new"))
    filled.remove("handbook/b.md")
    live = filled.live_payload()
    status = filled.path("handbook/a.md").stat()
    value = save(repo, clock, "Why I did it")
    assert value["status"] == "applied" and value["recoveryCommit"] == head
    assert value["changedPaths"] == ["handbook/a.md", "handbook/b.md", "handbook/new.md"]
    assert filled.path("handbook/a.md").stat().st_mtime_ns == status.st_mtime_ns
    assert filled.live_payload() == live
    message = filled.git("log", "-1", "--format=%B", value["applyCommit"]).decode().strip()
    assert message == f"DPSK memory write: {value['runId']}\n\nWhy I did it"
    run = json.loads(filled.path(f".sync/runs/{value['runId']}.json").read_text())
    assert (run["operation"], run["status"]) == ("write", "applied")
    assert_clean(filled)
    assert_sound(filled)
    rollback(repo, clock, value["runId"])
    assert filled.live_payload() == before


def test_save_without_edits_changes_nothing(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    head = filled.head
    assert save(repo, clock)["status"] == "no_change"
    assert filled.head == head
    assert_sound(filled)


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        (record("No Id"), "invalid-id", 3),
        (record("b"), "duplicate-id", None),
        ("key: AKIAQ3EGRT5W7YHNMJKL\n", "secret-detected", 1),
        (b"\xff", "binary-file", 1),
    ],
)
def test_save_names_the_file_that_breaks_a_rule(
    filled: MemoryRepository,
    repo: Repository,
    clock: FrozenClock,
    text: str | bytes,
    code: str,
    line: int | None,
) -> None:
    filled.write("handbook/a.md", text)
    head, live = filled.head, filled.live_payload()
    with pytest.raises(ChangeRefused) as refused:
        save(repo, clock)
    assert (refused.value.code, refused.value.path, refused.value.line) == (code, "handbook/a.md", line)
    assert (filled.head, filled.live_payload()) == (head, live)
    assert_sound(filled)


def test_edit_while_it_is_saved_is_refused_and_not_committed_unseen(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.write("handbook/a.md", record("a", "seen\n"))
    head = filled.head
    at_phase(monkeypatch, "looked", lambda: filled.write("handbook/a.md", record("a", "later\n")))
    with pytest.raises(PreviewFailure) as refused:
        save(repo, clock)
    assert refused.value.code == "live-memory-changed"
    assert filled.head == head and filled.path("handbook/a.md").read_text() == record("a", "later\n")
    assert_sound(filled)


def test_save_has_no_limit_of_size(filled: MemoryRepository, repo: Repository, clock: FrozenClock) -> None:
    filled.write_all({f"handbook/n{number}.md": "x" * 120_000 for number in range(60)})
    assert len(save(repo, clock)["changedPaths"]) == 60


def test_write_touches_its_own_path_alone(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    filled.write("handbook/b.md", "dirty, and nobody's business\n")
    filled.write("handbook/other.md", "untracked\n")
    value = write_paths(
        repo,
        clock,
        {"handbook/a.md": record("a", "new\n").encode()},
        expected={"handbook/a.md": OLD.encode()},
    )
    assert value["changedPaths"] == ["handbook/a.md"]
    committed = committed_payload(filled)
    assert committed["handbook/a.md"] == record("a", "new\n").encode()
    assert committed["handbook/b.md"] == record("b").encode() and "handbook/other.md" not in committed
    assert filled.live_payload()["handbook/b.md"] == b"dirty, and nobody's business\n"
    status = filled.git("status", "--porcelain", "handbook").decode().splitlines()
    assert status == [" M handbook/b.md", "?? handbook/other.md"]
    assert_sound(filled)


def test_write_keeps_the_dirty_text_that_it_replaces(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    dirty = record("a", "not committed\n").encode()
    filled.write("handbook/a.md", dirty)
    value = write_paths(repo, clock, {"handbook/a.md": b"third text\n"}, expected={"handbook/a.md": dirty})
    assert survives(filled, dirty)
    assert committed_payload(filled, value["recoveryCommit"])["handbook/a.md"] == dirty
    assert_clean(filled)


def test_write_over_a_changed_file_is_refused_and_both_texts_stay(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    filled.write("handbook/a.md", "their text\n")
    with pytest.raises(PreviewFailure) as refused:
        write_paths(repo, clock, {"handbook/a.md": b"mine\n"}, expected={"handbook/a.md": OLD.encode()})
    assert (refused.value.code, refused.value.detail) == ("live-memory-changed", "handbook/a.md")
    assert filled.path("handbook/a.md").read_text() == "their text\n"
    with pytest.raises(PreviewFailure):
        write_paths(repo, clock, {"handbook/new.md": b"mine\n"}, expected={"handbook/new.md": b"was here\n"})
    assert_sound(filled)


def test_write_makes_and_deletes_files(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    text = record("deep").encode()
    write_paths(repo, clock, {"handbook/x/y/deep.md": text}, expected={})
    path = filled.path("handbook/x/y/deep.md")
    assert path.read_bytes() == text and path.stat().st_mode & 0o777 == 0o600
    assert filled.path("handbook/x").stat().st_mode & 0o777 == 0o700
    write_paths(repo, clock, {"handbook/x/y/deep.md": None}, expected={"handbook/x/y/deep.md": text})
    assert not filled.path("handbook/x").exists()
    assert subjects(filled, 1)[0].startswith("DPSK memory journal: ")
    assert_clean(filled)
    assert_sound(filled)


@pytest.mark.parametrize(
    "path",
    [
        *("../x.md", "/etc/x.md", "handbook/../../x.md", "handbook/./x.md", "handbook//x.md", "handbook/"),
        *(".git/config", "handbook/.git/config", "handbook/.GIT/x", "handbook/git~1/x", "handbook/.git ./x"),
        *(
            ".sync/x.json",
            "README.md",
            "x.md",
            "summary.md/x",
            "handbook",
            "handbook/C:\\x.md",
            "handbook/a\0b",
        ),
        *("handbook/a.md/x.md", "handbook/" + "n" * 300),
    ],
)
def test_paths_outside_the_payload_are_refused(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, path: str
) -> None:
    head, live = filled.head, filled.live_payload()
    with pytest.raises(MemoryFailure) as refused:
        write_paths(repo, clock, {path: b"text\n"}, expected={})
    assert refused.value.code == "staging-invalid"
    assert (filled.head, filled.live_payload()) == (head, live)
    assert_sound(filled)


def test_path_with_two_dots_inside_a_name_is_accepted(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    write_paths(repo, clock, {"handbook/v1..v2.md": b"text\n"}, expected={})
    assert filled.path("handbook/v1..v2.md").read_text() == "text\n"
