"""What must hold of a memory after whatever happened to it."""

from __future__ import annotations

import json
import os
from hashlib import sha1

from tests.support.repositories import MemoryRepository


def assert_sound(memory: MemoryRepository) -> None:
    """No damage in Git, nothing left to remove by hand, and a journal that agrees with Git."""
    complaints = memory.git("fsck", "--strict", "--full").decode().splitlines()
    assert [line for line in complaints if not line.startswith("dangling ")] == []
    assert_nothing_left(memory)
    for name in memory.git("ls-tree", "--name-only", "HEAD", ".sync/runs/").decode().split():
        committed = memory.git("cat-file", "blob", f"HEAD:{name}")
        assert memory.path(name).read_bytes() == committed, name
        run = json.loads(committed)
        for key in ("recovery_commit", "apply_commit"):
            if run[key] is not None:
                memory.git("merge-base", "--is-ancestor", run[key], "HEAD")


def assert_nothing_left(memory: MemoryRepository) -> None:
    """No lock, active run, private file or private ref."""
    sync = {
        name
        for name in os.listdir(memory.root / ".sync")
        if name.startswith((".usage", "operation", "active"))
    }
    assert sync == set()
    git_dir = memory.root / ".git"
    # The lock of the maintenance is held by flock: its file stays, and is in nobody's way.
    assert {path.name for path in git_dir.rglob("*.lock")} <= {"dsh-memory-maintenance.lock"}
    assert list((git_dir / "dsh-memory").glob("*")) == []
    assert memory.git("for-each-ref", "refs/dsh-memory") == b""
    assert list(git_dir.glob("fast_import_crash_*")) == []


def assert_clean(memory: MemoryRepository) -> None:
    """Git sees no change, and the payload in HEAD's tree is the live one, to the byte and the executable
    bit."""
    assert memory.git("status", "--porcelain", "--ignored=no") == b""
    assert committed_payload(memory) == memory.live_payload()


def committed_payload(memory: MemoryRepository, commit: str = "HEAD") -> dict[str, bytes]:
    """The payload of a commit by path."""
    names = memory.git(
        "ls-tree", "-r", "-z", "--name-only", commit, "summary.md", "handbook", "rollouts", "archive"
    ).split(b"\0")[:-1]
    return {
        os.fsdecode(name): memory.git("cat-file", "blob", commit + ":" + os.fsdecode(name)) for name in names
    }


def reachable_blobs(memory: MemoryRepository) -> set[str]:
    """The ids of every blob that some ref's history holds."""
    lines = memory.git("rev-list", "--objects", "--all").decode("utf-8", "replace").splitlines()
    return {line.split(" ", 1)[0] for line in lines}


def survives(memory: MemoryRepository, data: bytes) -> bool:
    """Whether the bytes stand in the worktree's payload or in the history of some ref."""
    blob = sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return blob in reachable_blobs(memory) or data in memory.live_payload().values()


def subjects(memory: MemoryRepository, count: int = 10) -> list[str]:
    """The newest commit subjects, newest first."""
    return memory.git("log", f"-{count}", "--format=%s").decode().splitlines()
