"""Changes: each beside `git add -A && git commit` of the same change on a copy of the same memory."""

from __future__ import annotations

import shutil
from pathlib import Path

from dsh_memory import Environment, MemoryService
from tests.benchmarks.alternatives import git
from tests.benchmarks.measuring import Row, Timed, timed

_FILES = 100


def writing_rows(root: Path, size: int) -> list[Row]:
    """Clear, its rollback, a saved change of 100 files, and the migration of all legacy records."""
    copy = root.parent / "copy"
    shutil.copytree(root, copy, symlinks=True)
    service = MemoryService(Environment(dsh_home=str(root.parent / "home"), memory_root=str(copy)))
    service.status()
    changed = sorted((copy / "handbook").rglob("*.md"))[:_FILES]

    def edit() -> None:
        for path in changed:
            path.write_bytes(path.read_bytes() + b"One more line.\n")

    def run_of(envelope: dict[str, object]) -> str:
        value = envelope["value"]
        assert isinstance(value, dict), envelope
        return str(value["runId"])

    runs: list[str] = []
    by_git = _commit_time(root, edit_of=len(changed))
    rows = [
        _row(
            size,
            f"save {len(changed)} files",
            timed(lambda: _done(service.save()), repeat=3, before=edit),
            by_git,
        ),
        _row(size, "migrate", timed(lambda: _done(service.migrate_legacy(dry_run=False)), repeat=1), None),
        _row(
            size,
            "clear",
            timed(lambda: runs.append(run_of(_done(service.clear("DELETE_MEMORY")))), repeat=1),
            _commit_time(root, edit_of=None),
        ),
        _row(
            size,
            "rollback of the clear",
            timed(lambda: _done(service.rollback(runs[-1], "ROLLBACK_MEMORY")), repeat=1),
            None,
        ),
    ]
    shutil.rmtree(copy)
    return rows


def _commit_time(root: Path, *, edit_of: int | None) -> Timed:
    copy = root.parent / "by-git"
    shutil.copytree(root, copy, symlinks=True)
    git(copy, "status")
    for path in sorted((copy / "handbook").rglob("*.md"))[:edit_of] if edit_of else []:
        path.write_bytes(path.read_bytes() + b"One more line.\n")
    if edit_of is None:
        for folder in ("handbook", "rollouts", "archive"):
            shutil.rmtree(copy / folder)

    def commit() -> None:
        git(copy, "add", "-A")
        git(copy, "commit", "-q", "-m", "change")

    found = timed(commit, repeat=1)
    shutil.rmtree(copy)
    return found


def _done(envelope: object) -> dict[str, object]:
    assert isinstance(envelope, dict) and envelope["ok"], envelope
    return envelope


def _row(size: int, what: str, ours: Timed, theirs: Timed | None) -> Row:
    beside = "" if theirs is None else "git add -A && git commit"
    return Row(size, what, ours.p50, ours.p95, ours.processes, beside, None if theirs is None else theirs.p50)
