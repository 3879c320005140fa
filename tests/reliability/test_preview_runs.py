"""Previews applied and discarded: all of the change or none of it, and nothing that changed meanwhile is
lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from dsh_memory.errors import PreviewFailure
from dsh_memory.repository.clearing import clear
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.preview_runs import apply_preview, discard_preview
from dsh_memory.repository.rollback import rollback
from tests.reliability.invariants import assert_clean, assert_sound, committed_payload, subjects
from tests.reliability.test_clear_and_rollback import at_phase
from tests.support.clocks import FrozenClock
from tests.support.repositories import MemoryRepository, record

PREVIEW = "20260820T110000Z-a1b2c3d4"
FILES = {
    "summary.md": "# Summary\n",
    "handbook/a.md": record("a"),
    "handbook/b.md": record("b"),
    "archive/old.md": record("old"),
}


@pytest.fixture
def filled(memory: MemoryRepository) -> MemoryRepository:
    memory.write_all(FILES)
    memory.commit("Some memory")
    return memory


@pytest.fixture
def repo(filled: MemoryRepository) -> Iterator[Repository]:
    with filled.open() as opened:
        yield opened


def failure(repo: Repository, clock: FrozenClock, preview_id: object = PREVIEW) -> tuple[str, str | None]:
    with pytest.raises(PreviewFailure) as refused:
        apply_preview(repo, clock, preview_id)
    return refused.value.code, refused.value.detail


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"handbook/b.md": None}, id="deletion only"),
        pytest.param({"handbook/b.md": None, "archive/b.md": FILES["handbook/b.md"]}, id="move"),
        pytest.param({"handbook/a.md": None, "handbook/a.md/part.md": record("part")}, id="file to folder"),
        pytest.param({"handbook/one, two.md": record("one"), 'handbook/"q".md': record("q")}, id="names"),
        pytest.param({"handbook/a.md": record("a", "new\n"), "rollouts/n.md": "legacy\n"}, id="edit and add"),
        pytest.param({name: None for name in FILES if name != "summary.md"}, id="all gone"),
    ],
)
def test_apply_makes_the_memory_the_previewed_one(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, changes: dict[str, str | None]
) -> None:
    before = filled.live_payload()
    head = filled.head
    filled.write_preview(PREVIEW, changes)
    value = apply_preview(repo, clock, PREVIEW)
    expected = {name: data for name, data in before.items() if name not in changes}
    expected |= {name: text.encode() for name, text in changes.items() if text is not None}
    assert filled.live_payload() == expected
    assert value["status"] == "applied" and value["previewId"] == PREVIEW and value["journaled"] is True
    assert value["changed_paths"] == sorted(changes)
    assert value["recovery_commit"] == head
    assert subjects(filled, 2) == [f"DPSK memory journal: {PREVIEW}", f"DPSK memory sync applied: {PREVIEW}"]
    assert not filled.path(f".sync/previews/{PREVIEW}").exists()
    run = json.loads(filled.path(f".sync/runs/{PREVIEW}.json").read_text())
    assert (run["operation"], run["status"], run["candidate_sessions"]) == ("preview", "applied", 1)
    assert_clean(filled)
    assert_sound(filled)
    rollback(repo, clock, PREVIEW)
    assert filled.live_payload() == before
    assert_clean(filled)


def test_folder_becomes_a_file(filled: MemoryRepository, repo: Repository, clock: FrozenClock) -> None:
    filled.write("handbook/x/one.md", record("one"))
    filled.commit("A folder")
    filled.write_preview(PREVIEW, {"handbook/x/one.md": None, "handbook/x": "now a file\n"})
    apply_preview(repo, clock, PREVIEW)
    assert filled.path("handbook/x").read_text() == "now a file\n"
    assert_clean(filled)
    assert_sound(filled)


def test_apply_touches_only_what_changes(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    filled.path("handbook/a.md").chmod(0o640)
    filled.write_preview(PREVIEW, {"handbook/a.md": record("a", "new\n")})
    before = {name: filled.path(name).stat() for name in FILES}
    apply_preview(repo, clock, PREVIEW)
    for name, status in before.items():
        now = filled.path(name).stat()
        same = (now.st_ino, now.st_mtime_ns) == (status.st_ino, status.st_mtime_ns)
        assert same == (name != "handbook/a.md"), name
    assert filled.path("handbook/a.md").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("edited", ["handbook/a.md", "handbook/b.md", "handbook/new.md"])
def test_edit_since_the_preview_is_never_reverted(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, edited: str
) -> None:
    filled.write_preview(PREVIEW, {"handbook/a.md": record("a", "new\n")})
    filled.write(edited, "user line 2\n")
    live = filled.live_payload()
    assert failure(repo, clock)[0] == "live-memory-changed"
    filled.commit("The edit, committed")
    assert failure(repo, clock)[0] == "live-memory-changed"
    assert filled.live_payload() == live
    assert filled.path(f".sync/previews/{PREVIEW}").exists()
    assert_sound(filled)


def test_edit_after_the_branch_moved_stays_in_place(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = record("a", "new\n")
    filled.write_preview(PREVIEW, {"handbook/a.md": new})
    at_phase(monkeypatch, "moved", lambda: filled.write("handbook/a.md", "user line 2\n"))
    apply_preview(repo, clock, PREVIEW)
    assert filled.path("handbook/a.md").read_text() == "user line 2\n"
    assert committed_payload(filled)["handbook/a.md"] == new.encode()
    assert_sound(filled)


def test_journal_commits_in_between_are_no_change(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    filled.write_preview(PREVIEW, {"handbook/a.md": record("a", "new\n")})
    cleared = clear(repo, clock)
    rollback(repo, clock, cleared["runId"])
    assert apply_preview(repo, clock, PREVIEW)["status"] == "applied"


def test_preview_that_changes_nothing_is_consumed_and_journaled(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    filled.write_preview(PREVIEW, {})
    live = filled.live_payload()
    value = apply_preview(repo, clock, PREVIEW)
    assert (value["status"], value["apply_commit"], value["changed_paths"]) == ("no_change", None, [])
    assert not filled.path(f".sync/previews/{PREVIEW}").exists()
    assert json.loads(filled.path(".sync/last-run.json").read_text())["status"] == "no_change"
    assert filled.live_payload() == live
    assert_sound(filled)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"handbook/n.md": b"---\nschema_version: 1\nid: n\n---\n\xff"}, "binary-file"),
        ({"handbook/n.md": "nul\0"}, "binary-file"),
        ({"handbook/n.txt": b"\xe9"}, "binary-file"),
        ({"handbook/n.md": "x" * (1024 * 1024 + 1)}, "file-too-large"),
        ({f"handbook/n{number}.md": "x\n" for number in range(51)}, "too-many-files"),
        ({f"handbook/n{number}.md": "x" * 1_000_000 for number in range(6)}, "change-too-large"),
        ({"handbook/n.md": "---\nid: n\n---\n"}, "invalid-schema-version"),
        ({"handbook/n.md": record("Not An Id")}, "invalid-id"),
        ({"handbook/n.md": record("n", created_at="2026-02-30")}, "invalid-metadata"),
        ({"handbook/n.md": record("a")}, "duplicate-id"),
        ({"handbook/n.md": record("n"), "handbook/m.md": record("n")}, "duplicate-id"),
        ({"handbook/n.md": record("n", "ghp_" + "a1B2c3D4e5" * 3 + "a1B2c3\n")}, "secret-detected"),
    ],
)
def test_change_that_breaks_a_rule_is_journaled_and_not_applied(
    filled: MemoryRepository,
    repo: Repository,
    clock: FrozenClock,
    changes: dict[str, str | bytes | None],
    code: str,
) -> None:
    filled.write_preview(PREVIEW, changes)
    live = filled.live_payload()
    assert failure(repo, clock) == ("preview-apply-failed", code)
    run = json.loads(filled.path(f".sync/runs/{PREVIEW}.json").read_text())
    assert (run["status"], run["error_code"]) == ("failed", code)
    assert filled.live_payload() == live
    assert filled.path(f".sync/previews/{PREVIEW}").exists()
    assert_clean(filled)
    assert_sound(filled)


def test_secret_never_becomes_a_git_object(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    secret = record("n", "ghp_" + "a1B2c3D4e5" * 3 + "a1B2c3\n").encode()
    filled.write_preview(PREVIEW, {"handbook/n.md": secret})
    failure(repo, clock)
    blob = filled.git("hash-object", "--stdin", stdin=secret).decode().strip()
    with pytest.raises(AssertionError):
        filled.git("cat-file", "-e", blob)


@pytest.mark.parametrize("name", ["README.md", "scripts/run.sh", ".sync/runs/x.json", "summary.md/x"])
def test_staging_beside_the_payload_is_refused(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, name: str
) -> None:
    filled.write_preview(PREVIEW, {"handbook/a.md": record("a", "new\n")})
    if name == "summary.md/x":
        filled.remove(f".sync/previews/{PREVIEW}/staging/summary.md")
    filled.write(f".sync/previews/{PREVIEW}/staging/{name}", "foreign\n")
    code, detail = failure(repo, clock)
    assert code == "preview-apply-failed" and detail in ("staging-invalid", "unsafe-layout")
    assert_clean(filled)


def test_linked_file_in_the_staging_is_not_read(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    filled.write_preview(PREVIEW, {})
    filled.path(f".sync/previews/{PREVIEW}/staging/handbook/n.md").symlink_to("/etc/passwd")
    assert failure(repo, clock) == ("preview-apply-failed", "unsafe-layout")
    assert_clean(filled)


def test_faults_that_were_there_before_do_not_block(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    filled.write("handbook/broken.md", b"---\nid: \xff\n---\n")
    filled.write("handbook/large.txt", b"x" * 2_000_000)
    filled.write("handbook/twin1.md", record("twin"))
    filled.write("handbook/twin2.md", record("twin"))
    filled.commit("Faults of old")
    filled.write_preview(PREVIEW, {"handbook/a.md": record("a", "new\n")})
    assert apply_preview(repo, clock, PREVIEW)["status"] == "applied"


def test_expired_preview_can_only_be_discarded(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    filled.write_preview(PREVIEW, {"handbook/a.md": None})
    clock.advance(days=7)
    assert failure(repo, clock)[0] == "preview-expired"
    assert discard_preview(repo, clock, PREVIEW) == {"removed": True, "previewId": PREVIEW}
    assert failure(repo, clock)[0] == "preview-not-found"


@pytest.mark.parametrize("preview_id", ["", "x", "../runs", "20260820T110000Z-rollback", None, 7])
def test_what_is_no_preview_id_is_not_found(repo: Repository, clock: FrozenClock, preview_id: object) -> None:
    assert failure(repo, clock, preview_id)[0] == "preview-not-found"
    with pytest.raises(PreviewFailure) as refused:
        discard_preview(repo, clock, preview_id)
    assert refused.value.code == "preview-not-found"


def test_journaled_id_is_not_applied_twice(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    filled.write_preview(PREVIEW, {"handbook/a.md": None})
    filled.write_run(PREVIEW, operation="preview")
    assert failure(repo, clock) == ("preview-apply-failed", "run-exists")


def test_discard_removes_the_preview_alone(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    other = "20260820T110001Z-a1b2c3d4"
    filled.write_preview(PREVIEW, {"handbook/a.md": None})
    filled.write_preview(other, {"handbook/b.md": None})
    head, live = filled.head, filled.live_payload()
    discard_preview(repo, clock, PREVIEW)
    assert not filled.path(f".sync/previews/{PREVIEW}").exists()
    assert filled.path(f".sync/previews/{other}/preview.json").exists()
    assert (filled.head, filled.live_payload()) == (head, live)
    assert_sound(filled)


def test_discard_follows_no_link(filled: MemoryRepository, repo: Repository, clock: FrozenClock) -> None:
    filled.write_preview(PREVIEW, {})
    outside = filled.root.parent / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    filled.path(f".sync/previews/{PREVIEW}/staging/handbook/link").symlink_to(outside)
    discard_preview(repo, clock, PREVIEW)
    assert (outside / "kept.txt").exists()


def test_discard_and_apply_at_once_are_one_or_the_other(filled: MemoryRepository, clock: FrozenClock) -> None:
    before = filled.live_payload()
    for number in range(6):
        preview_id = f"20260820T1100{number:02}Z-a1b2c3d4"
        filled.write_preview(preview_id, {"handbook/a.md": record("a", f"{number}\n")})
        outcomes: dict[str, str] = {}

        def act(
            name: str, call: object, preview_id: str = preview_id, outcomes: dict[str, str] = outcomes
        ) -> None:
            with filled.open() as repo:
                try:
                    call(repo, clock, preview_id)  # type: ignore[operator]
                    outcomes[name] = "done"
                except PreviewFailure as refused:
                    outcomes[name] = refused.code

        threads = [
            threading.Thread(target=act, args=("apply", apply_preview)),
            threading.Thread(target=act, args=("discard", discard_preview)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes.values()) == ["done", "preview-not-found"]
        applied = outcomes["apply"] == "done"
        assert (filled.live_payload() != before) == applied
        before = filled.live_payload()
    assert_clean(filled)
    assert_sound(filled)
