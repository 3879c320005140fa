"""Hostile surroundings: configuration, environment, half-done merges, refusing disks. Old state or new, and
a code."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dsh_memory.environment import utc_now
from dsh_memory.errors import MemoryFailure
from dsh_memory.repository.clearing import clear
from dsh_memory.repository.editing import save
from dsh_memory.repository.migration import migrate_legacy
from dsh_memory.repository.mutation import recover
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.preview_runs import apply_preview, discard_preview
from dsh_memory.repository.rollback import rollback
from tests.reliability import actor
from tests.reliability.invariants import assert_clean, assert_sound
from tests.support.clocks import FrozenClock
from tests.support.repositories import MemoryRepository, record

PREVIEW = "20260820T110000Z-a1b2c3d4"


@pytest.fixture
def filled(memory: MemoryRepository) -> MemoryRepository:
    memory.write_all({"handbook/a.md": record("a"), "handbook/b.md": record("b"), "rollouts/old.md": "old\n"})
    memory.commit("Some memory")
    return memory


@pytest.fixture
def repo(filled: MemoryRepository) -> Iterator[Repository]:
    with filled.open() as opened:
        yield opened


def round_trip(memory: MemoryRepository, repo: Repository, clock: FrozenClock) -> None:
    """Every change once, and the memory back to where it was."""
    before = memory.live_payload()
    rollback(repo, clock, clear(repo, clock)["runId"])
    assert memory.live_payload() == before
    memory.write_preview(PREVIEW, {"handbook/a.md": record("a", "new\n"), "handbook/b.md": None})
    apply_preview(repo, clock, PREVIEW)
    rollback(repo, clock, PREVIEW)
    rollback(repo, clock, migrate_legacy(repo, clock)["runId"])
    assert memory.live_payload() == before
    assert_clean(memory)
    assert_sound(memory)


@pytest.mark.parametrize(
    "settings",
    [
        {"commit.gpgSign": "true", "user.signingKey": "none", "gpg.program": "false"},
        {"user.useConfigOnly": "true"},
        {"core.autocrlf": "true", "core.safecrlf": "true"},
        {"core.autocrlf": "input"},
        {"core.fsmonitor": "false-hook", "core.untrackedCache": "true"},
        {
            "diff.noprefix": "true",
            "diff.external": "false",
            "color.ui": "always",
            "log.showSignature": "true",
        },
        {"status.showUntrackedFiles": "no", "core.quotePath": "false", "status.short": "true"},
        {"index.version": "4"},
        {"core.splitIndex": "true"},
        {"fastimport.unpackLimit": "0"},
        {"core.logAllRefUpdates": "false"},
        {"core.fileMode": "false"},
    ],
    ids=lambda settings: ",".join(settings),
)
def test_configuration_of_the_repository_changes_nothing(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, settings: dict[str, str]
) -> None:
    for key, value in settings.items():
        filled.git("config", key, value)
    round_trip(filled, repo, clock)


def test_failing_hooks_are_not_run(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, tmp_path: Path
) -> None:
    hooks = filled.root / ".git" / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "commit-msg", "reference-transaction", "post-index-change", "post-commit"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
        (hooks / name).chmod(0o755)
    # The test's own git runs hooks, too: only the program's calls are looked at.
    clear(repo, clock)
    assert not (tmp_path / "ran").exists()


def test_filters_and_line_ending_attributes_are_not_applied(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, tmp_path: Path
) -> None:
    filled.git("config", "filter.spy.clean", f"touch {tmp_path}/ran; cat")
    filled.git("config", "filter.spy.smudge", f"touch {tmp_path}/ran; tr a-z A-Z")
    filled.write(".gitattributes", "*.md text eol=crlf filter=spy\n")
    filled.write("handbook/crlf.md", b"one\r\ntwo\r\n")
    filled.write("handbook/lf.md", b"one\ntwo\n")
    before = filled.live_payload()
    rollback(repo, clock, clear(repo, clock)["runId"])
    assert filled.live_payload() == before
    assert save(repo, clock)["status"] == "no_change"
    assert not (tmp_path / "ran").exists()


def test_callers_environment_reaches_no_git(
    filled: MemoryRepository,
    repo: Repository,
    clock: FrozenClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = MemoryRepository.create(tmp_path / "other")
    head = other.head
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.root))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.root / ".git" / "index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.root / ".git" / "objects"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.bare")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    monkeypatch.setenv("GIT_SSH_COMMAND", f"touch {tmp_path}/ran")
    clear(repo, clock)
    assert not (tmp_path / "trace").exists() and not (tmp_path / "ran").exists()
    assert other.head == head
    assert_clean(filled)


@pytest.mark.parametrize("home", [None, "/", ""])
def test_missing_home_is_no_obstacle(
    filled: MemoryRepository,
    repo: Repository,
    clock: FrozenClock,
    monkeypatch: pytest.MonkeyPatch,
    home: str | None,
) -> None:
    if home is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", home)
    clear(repo, clock)
    assert_clean(filled)


# --- repositories whose branch is not ours to move ----------------------------------------------


def detach(memory: MemoryRepository) -> None:
    memory.git("checkout", "-q", "--detach")


def unbear(memory: MemoryRepository) -> None:
    memory.git("symbolic-ref", "HEAD", "refs/heads/nothing-yet")


def begin_merge(memory: MemoryRepository) -> None:
    memory.git("checkout", "-q", "-b", "side")
    memory.write("handbook/a.md", "theirs\n")
    memory.commit("Theirs")
    memory.git("checkout", "-q", "main")
    memory.write("handbook/a.md", "ours\n")
    memory.commit("Ours")
    with pytest.raises(AssertionError, match="ended with 1"):
        memory.git("merge", "-q", "side")


def begin_rebase(memory: MemoryRepository) -> None:
    (memory.root / ".git" / "rebase-merge").mkdir()


def pick(memory: MemoryRepository) -> None:
    (memory.root / ".git" / "CHERRY_PICK_HEAD").write_text(memory.head)


@pytest.mark.parametrize(
    ("make", "detail"),
    [
        (detach, "detached-head"),
        (unbear, "unborn-head"),
        (begin_merge, "merge-in-progress"),
        (begin_rebase, "rebase-in-progress"),
        (pick, "cherry-pick-in-progress"),
    ],
)
def test_repository_that_is_not_ready_refuses_every_change(
    filled: MemoryRepository, clock: FrozenClock, make: Callable[[MemoryRepository], None], detail: str
) -> None:
    filled.write_preview(PREVIEW, {"handbook/a.md": None})
    filled.write_run("20260820T100000Z-00000001", recovery_commit=filled.head, apply_commit=filled.head)
    make(filled)
    live = filled.live_payload()
    refs = filled.git("for-each-ref")
    codes = {}
    with filled.open() as repo:
        calls: dict[str, Callable[[], object]] = {
            "clear-failed": lambda: clear(repo, clock),
            "rollback-failed": lambda: rollback(repo, clock, "20260820T100000Z-00000001"),
            "preview-apply-failed": lambda: apply_preview(repo, clock, PREVIEW),
            "migration-failed": lambda: migrate_legacy(repo, clock),
            "repo-unavailable": lambda: save(repo, clock),
        }
        for code, call in calls.items():
            with pytest.raises(MemoryFailure) as refused:
                call()
            codes[code] = (refused.value.code, refused.value.detail)
        assert codes == {code: (code, detail) for code in calls}
        assert filled.live_payload() == live and filled.git("for-each-ref") == refs
        assert discard_preview(repo, clock, PREVIEW)["removed"] is True


def test_refusing_ref_update_changes_nothing(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock
) -> None:
    live, head = filled.live_payload(), filled.head
    lock = filled.root / ".git" / "refs" / "heads" / "main.lock"
    lock.write_bytes(b"")
    with pytest.raises(MemoryFailure) as refused:
        clear(repo, clock)
    assert refused.value.code == "commit-failed"
    lock.unlink()
    assert (filled.live_payload(), filled.head) == (live, head)
    assert_sound(filled)
    clear(repo, clock)


@pytest.mark.parametrize("place", [".sync/runs", ".sync/last-run.json"])
def test_odd_things_at_the_journals_places_refuse_before_anything_moves(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, tmp_path: Path, place: str
) -> None:
    filled.path(place).symlink_to(tmp_path)
    live, head = filled.live_payload(), filled.head
    with pytest.raises(MemoryFailure) as refused:
        clear(repo, clock)
    assert refused.value.code == "unsafe-layout"
    assert (filled.live_payload(), filled.head) == (live, head)
    assert sorted(os.listdir(tmp_path)) == sorted(
        name for name in os.listdir(tmp_path) if name != "last-run.json"
    )


@pytest.mark.parametrize("kind", ["symlink", "folder-link", "fifo", "hard-link", "nested-git"])
def test_unsafe_layout_refuses_and_touches_nothing_outside(
    filled: MemoryRepository, repo: Repository, clock: FrozenClock, tmp_path: Path, kind: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.md").write_text("kept\n")
    place = filled.path("handbook/odd.md")
    if kind == "symlink":
        place.symlink_to(outside / "kept.md")
    elif kind == "folder-link":
        filled.path("handbook/odd").symlink_to(outside)
    elif kind == "fifo":
        os.mkfifo(place)
    elif kind == "hard-link":
        os.link(outside / "kept.md", place)
    else:
        filled.path("handbook/sub/.git").mkdir(parents=True)
    head = filled.head
    for call in (lambda: clear(repo, clock), lambda: migrate_legacy(repo, clock), lambda: save(repo, clock)):
        with pytest.raises(MemoryFailure) as refused:
            call()
        assert refused.value.code == "unsafe-layout"
    assert filled.head == head and (outside / "kept.md").read_text() == "kept\n"
    assert_no_traces(filled)


def assert_no_traces(memory: MemoryRepository) -> None:
    assert not list((memory.root / ".git" / "dsh-memory").glob("*"))
    assert (
        not memory.path(".sync/operation.lock").exists() and not memory.path(".sync/active-run.json").exists()
    )


# --- disks that refuse --------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 100, 300, 1000, 4000, 20_000])
@pytest.mark.parametrize("operation", ["clear", "apply", "migrate"])
def test_files_that_cannot_grow_leave_the_old_state_or_the_new(
    filled: MemoryRepository, operation: str, limit: int
) -> None:
    # EFBIG for us, SIGXFSZ for git: a full disk for one process and its children.
    filled.write("handbook/large.md", os.urandom(9000).hex())
    filled.write("handbook/dirty.md", "in no commit\n")
    if operation == "apply":
        filled.commit("All of it")
        filled.write_preview(
            PREVIEW, {"handbook/n.md": "x" * 15_000, "handbook/a.md": None}, created_at=utc_now()
        )
    old = filled.live_payload()
    argument = PREVIEW if operation == "apply" else None
    status, answer = actor.run(filled.root, operation, argument, file_size_limit=limit)
    assert status in (0, -signal.SIGXFSZ), answer
    with filled.open() as repo:
        recover(repo, utc_now)
    if "value" not in answer:
        assert filled.live_payload() == old
        assert "value" in actor.run(filled.root, operation, argument)[1], "a retry works"
    assert filled.live_payload() != old
    assert_clean(filled)
    assert_sound(filled)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    if os.getuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place]).returncode:
        pytest.skip("a file system of its own can be mounted by root alone")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.parametrize("free_kib", [0, 4, 12, 40, 100])
def test_full_disk_leaves_the_old_state_or_the_new(
    small_disk: Path, clock: FrozenClock, free_kib: int
) -> None:
    memory = MemoryRepository.create(
        small_disk / "memory", {f"handbook/n{number}.md": record(f"n{number}") for number in range(10)}
    )
    memory.write("handbook/dirty.md", "in no commit\n")
    old = memory.live_payload()
    with (small_disk / "ballast").open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(bytes(4096))
        except OSError:
            ballast.truncate(max(0, ballast.tell() - free_kib * 1024))
    with memory.open() as repo:
        try:
            clear(repo, clock)
            cleared = True
        except MemoryFailure as refused:
            assert refused.code in ("clear-failed", "checkpoint-failed", "commit-failed")
            cleared = False
        (small_disk / "ballast").unlink()
        recover(repo, clock)
        assert memory.live_payload() == ({"summary.md": b""} if cleared else old)
        if not cleared:
            clear(repo, clock)
    assert_clean(memory)
    assert_sound(memory)


def test_read_only_root_answers_with_a_code(filled: MemoryRepository) -> None:
    if os.getuid():
        pytest.skip("dropping rights takes root")
    for folder, _, names in os.walk(filled.root.parent.parent):
        os.chmod(folder, 0o755)
        for name in names:
            os.chmod(os.path.join(folder, name), 0o644)
    for parent in filled.root.parents:
        if "pytest" in str(parent):
            os.chmod(parent, 0o755)
    filled.git("config", "--add", "safe.directory", "*")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setuid(65534)
            with filled.open() as repo:
                clear(repo, utc_now)
        except MemoryFailure as refused:
            code = 0 if refused.code in ("clear-failed", "repo-unavailable") else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert_sound(filled)
