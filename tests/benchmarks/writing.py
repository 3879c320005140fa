"""Changes: each beside the same change made by git on a copy of the same memory, with and without its flushes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from dsh_memory import Environment, MemoryService
from dsh_memory.repository.journal import new_run_id
from tests.benchmarks.alternatives import git
from tests.benchmarks.measuring import Row, Timed, timed
from tests.support.repositories import MemoryRepository

_FILES = 100
_RECORDS = ("handbook", "rollouts", "archive")
#: What our own transactions ask of Git, so that both sides wait for the disk; and what git does by itself.
_FLUSHES = (("", ()), (", flushed", ("-c", "core.fsync=all")))


def writing_rows(root: Path, size: int) -> list[Row]:
    """A saved change of 100 files, the same by a preview, the migration of all legacy records, clear, its rollback."""
    copy = root.parent / "copy"
    _copy(root, copy)
    service = MemoryService(Environment(dsh_home=str(root.parent / "home"), memory_root=str(copy)))
    service.status()
    changed = sorted((copy / "handbook").rglob("*.md"))[:_FILES]
    runs: list[str] = []

    def edit() -> None:
        for path in changed:
            path.write_bytes(path.read_bytes() + b"One more line.\n")

    def preview() -> None:
        now = datetime.now(UTC)
        runs.append(new_run_id(now))
        edited = {str(path.relative_to(copy)): path.read_bytes() + b"Reviewed.\n" for path in changed}
        MemoryRepository(copy).write_preview(runs[-1], edited, created_at=now)

    def clear() -> None:
        value = _done(service.clear("DELETE_MEMORY"))["value"]
        assert isinstance(value, dict)
        runs.append(str(value["runId"]))

    edits, removals, returns = _by_git(root, _edit), _by_git(root, _remove), _by_git(root, _return)
    ours = timed(lambda: _done(service.save()), repeat=3, before=edit)
    rows = [*_rows(size, f"save {len(changed)} files", ours, edits)]
    ours = timed(lambda: _done(service.apply_preview(runs[-1])), repeat=3, before=preview)
    rows += _rows(size, f"applyPreview, {len(changed)} files", ours, edits)
    ours = timed(lambda: _done(service.migrate_legacy(dry_run=False)), repeat=1)
    rows += _rows(size, "migrate", ours, {})
    rows += _rows(size, "clear", timed(clear, repeat=1), removals)
    ours = timed(lambda: _done(service.rollback(runs[-1], "ROLLBACK_MEMORY")), repeat=1)
    rows += _rows(size, "rollback of the clear", ours, returns)
    shutil.rmtree(copy)
    return rows


def _by_git(
    root: Path, change: Callable[[Path, tuple[str, ...]], Iterator[tuple[str, Timed]]]
) -> dict[str, Timed]:
    """How long git takes for the change, by what is counted."""
    found: dict[str, Timed] = {}
    for words, options in _FLUSHES:
        copy = root.parent / "by-git"
        _copy(root, copy)
        git(copy, "status")
        found.update({f"{name}{words}": time for name, time in change(copy, options)})
        shutil.rmtree(copy)
    return found


def _edit(copy: Path, options: tuple[str, ...]) -> Iterator[tuple[str, Timed]]:
    for path in sorted((copy / "handbook").rglob("*.md"))[:_FILES]:
        path.write_bytes(path.read_bytes() + b"One more line.\n")
    yield "git add -A && git commit", timed(lambda: _commit(copy, options), repeat=1)


def _remove(copy: Path, options: tuple[str, ...]) -> Iterator[tuple[str, Timed]]:
    def remove() -> None:
        for folder in _RECORDS:
            shutil.rmtree(copy / folder)

    removed = timed(remove, repeat=1)
    committed = timed(lambda: _commit(copy, options), repeat=1)
    yield "git add -A && git commit, files gone before", committed
    both = Timed(removed.p50 + committed.p50, removed.p95 + committed.p95, 0)
    yield "rm -r && git add -A && git commit", both


def _return(copy: Path, options: tuple[str, ...]) -> Iterator[tuple[str, Timed]]:
    git(copy, "rm", "-r", "-q", *_RECORDS)
    git(copy, "commit", "-q", "-m", "gone")
    yield "git revert", timed(lambda: git(copy, *options, "revert", "--no-edit", "HEAD"), repeat=1)


def _copy(root: Path, copy: Path) -> None:
    # On the disk: to delete a file that never got there costs a file system next to nothing.
    shutil.copytree(root, copy, symlinks=True)
    os.sync()


def _commit(copy: Path, options: tuple[str, ...]) -> None:
    git(copy, *options, "add", "-A")
    git(copy, *options, "commit", "-q", "-m", "change")


def _done(envelope: object) -> dict[str, object]:
    assert isinstance(envelope, dict) and envelope["ok"], envelope
    return envelope


def _rows(size: int, what: str, ours: Timed, beside: dict[str, Timed]) -> Iterator[Row]:
    for name, theirs in beside.items() or [("", None)]:
        yield Row(
            size, what, ours.p50, ours.p95, ours.processes, name, None if theirs is None else theirs.p50
        )
