"""The commands that change memory, as whole processes on real repositories and real terminals."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dsh_memory.environment import utc_now
from dsh_memory.repository.layout import Root
from dsh_memory.repository.lock import hold
from tests.support.repositories import MemoryRepository, record
from tests.support.terminals import TerminalProcess

_MAIN = "import sys; from dsh_memory.cli import main; sys.exit(main())"
PREVIEW = "20260820T150000Z-a1b2c3d4"


def command(memory: MemoryRepository, *arguments: str) -> list[str]:
    return [sys.executable, "-c", _MAIN, *arguments, "--root", str(memory.root)]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}


def run(memory: MemoryRepository, *arguments: str, **more: str) -> tuple[int, Any, str]:
    """Exit code, envelope, and narration of one command without a terminal."""
    done = subprocess.run(
        command(memory, *arguments, *(() if arguments[0] == "edit" else ("--json",))),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(**more),
        timeout=60,
    )
    is_json = done.stdout.startswith(b"{")
    return done.returncode, json.loads(done.stdout) if is_json else done.stdout, done.stderr.decode()


def replacing(old: str, new: str) -> str:
    """An editor that puts one text in place of another."""
    replaced = f"p.read_text().replace({old!r}, {new!r})"
    script = f"import pathlib, sys; p = pathlib.Path(sys.argv[1]); p.write_text({replaced})"
    return shlex.join([sys.executable, "-c", script])


@pytest.fixture
def filled(memory: MemoryRepository) -> MemoryRepository:
    """Three records, one of them legacy, committed."""
    memory.write_all(
        {
            "summary.md": "# Summary\n",
            "handbook/a.md": record("project/a", "one\n"),
            "rollouts/b.md": record("rollout/b", "two\n"),
            "archive/old.md": "a legacy note\n",
        }
    )
    memory.commit()
    return memory


def test_clear_and_roll_it_back_on_a_terminal(filled: MemoryRepository) -> None:
    before = filled.live_payload()
    with TerminalProcess(command(filled, "clear", "--json"), environment()) as terminal:
        terminal.expect("3 records")
        terminal.expect("[y/N] ")
        terminal.type("y\n")
        terminal.expect("Type clear to go on: ")
        terminal.type("clear\n")
        code, output, screen = terminal.end()
    assert code == 0, screen
    cleared = json.loads(output)["value"]
    assert cleared["clearedFileCount"] == 4
    assert filled.live_payload() == {"summary.md": b""}

    (run_record,) = run(filled, "runs")[1]["value"]["runs"]
    word = run_record["apply_commit"][:7]
    with TerminalProcess(
        command(filled, "rollback", run_record["run_id"], "--json"), environment()
    ) as terminal:
        terminal.expect("[y/N] ")
        terminal.type("y\n")
        terminal.expect(f"Type {word} to go on: ")
        terminal.type(f"{word}\n")
        code, output, screen = terminal.end()
    assert code == 0, screen
    assert json.loads(output)["ok"] is True
    assert filled.live_payload() == before


def test_a_dialog_is_bound_to_what_it_showed(filled: MemoryRepository) -> None:
    """Somebody commits between the plan and the word; nothing is cleared."""
    with TerminalProcess(command(filled, "clear", "--json"), environment()) as terminal:
        terminal.expect("[y/N] ")
        filled.write("handbook/new.md", record("project/new"))
        filled.commit()
        terminal.type("y\n")
        terminal.expect("Type clear to go on: ")
        terminal.type("clear\n")
        code, output, _ = terminal.end()
    assert code == 1
    assert json.loads(output)["error"]["code"] == "clear-failed"
    assert "handbook/new.md" in filled.live_payload()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["clear", "--confirm", "delete_memory"], "clear-failed"),
        (["clear", "--confirm", ""], "clear-failed"),
        (
            ["rollback", "20260820T150000Z-a1b2c3d4", "--confirm", "DELETE_MEMORY"],
            "rollback-invalid-confirmation",
        ),
        (["rollback", "20260820T150000Z-a1b2c3d4", "--confirm", "ROLLBACK_MEMORY"], "rollback-run-not-found"),
        (["rollback", "../../x", "--confirm", "ROLLBACK_MEMORY"], "rollback-run-not-found"),
        (["preview", "apply", "../staging", "--yes"], "preview-not-found"),
        (["preview", "discard", PREVIEW, "--yes"], "preview-not-found"),
    ],
)
def test_refused(filled: MemoryRepository, arguments: list[str], code: str) -> None:
    head, payload = filled.head, filled.live_payload()
    ended, envelope, narration = run(filled, *arguments)
    assert (ended, envelope["error"]["code"]) == (1, code)
    assert code in narration
    assert (filled.head, filled.live_payload()) == (head, payload)


def test_the_machine_values_do_it_without_a_terminal(filled: MemoryRepository) -> None:
    before = filled.live_payload()
    assert run(filled, "clear", "--confirm", "DELETE_MEMORY")[0] == 0
    run_id = run(filled, "runs")[1]["value"]["runs"][0]["run_id"]
    assert run(filled, "rollback", run_id, "--confirm", "ROLLBACK_MEMORY")[0] == 0
    assert filled.live_payload() == before


def test_previews(filled: MemoryRepository) -> None:
    today = datetime.now(UTC)
    for preview in (PREVIEW, "20260820T150000Z-00000000"):
        changes = {"handbook/new.md": record("project/new")}
        filled.write_preview(preview, changes, created_at=today, lifetime=timedelta(days=7))
    code, envelope, _ = run(filled, "preview", "apply", PREVIEW, "--yes")
    assert (code, envelope["value"]["changed_paths"]) == (0, ["handbook/new.md"])
    assert "handbook/new.md" in filled.live_payload()
    code, envelope, _ = run(filled, "preview", "apply", "20260820T150000Z-00000000", "--yes")
    assert (code, envelope["error"]["code"]) == (1, "live-memory-changed")
    code, envelope, _ = run(filled, "preview", "discard", "20260820T150000Z-00000000", "--yes")
    assert (code, envelope["value"]["removed"]) == (0, True)


def test_restore(filled: MemoryRepository) -> None:
    first, old = filled.head, filled.path("handbook/a.md").read_text()
    filled.write("handbook/a.md", record("project/a", "three\n"))
    filled.commit()
    code, envelope, _ = run(filled, "restore", "handbook/a.md", first, "--yes")
    assert (code, envelope["value"]["restoredCommit"]) == (0, first)
    assert filled.path("handbook/a.md").read_text() == old
    assert run(filled, "restore", "handbook/a.md", first)[0] == 2
    code, envelope, narration = run(filled, "restore", "handbook/a.md", "0" * 40, "--yes")
    assert (code, envelope["error"]["code"]) == (1, "restore-version-not-found")
    assert "erased for good" in narration


def test_migrate(filled: MemoryRepository) -> None:
    head = filled.head
    code, envelope, _ = run(filled, "migrate", "--dry-run")
    assert (code, envelope["value"]["changedPaths"], filled.head) == (0, ["archive/old.md"], head)
    code, envelope, _ = run(filled, "migrate", "--yes")
    assert (code, envelope["value"]["migratedCount"]) == (0, 1)
    assert filled.live_payload()["archive/old.md"].endswith(b"---\n\na legacy note\n")
    assert run(filled, "migrate", "--yes")[1]["value"]["status"] == "no_change"


def test_save(filled: MemoryRepository) -> None:
    filled.write("handbook/a.md", record("project/a", "edited outside\n"))
    code, envelope, _ = run(filled, "save", "--yes", "-m", "as edited")
    assert (code, envelope["value"]["status"]) == (0, "applied")
    assert b"as edited" in filled.git("log", "-3", "--format=%B")
    assert filled.git("status", "--porcelain") == b""
    assert run(filled, "save", "--yes")[1]["value"]["status"] == "no_change"


@pytest.mark.parametrize("arguments", [("recover",), ("save",), ("migrate",)])
def test_nothing_to_do_is_done(memory: MemoryRepository, arguments: tuple[str, ...]) -> None:
    head = memory.head
    assert run(memory, *arguments, "--yes")[0] == 0
    with TerminalProcess(command(memory, *arguments, "--json"), environment()) as terminal:
        code, output, screen = terminal.end()
    assert (code, screen) == (0, b"")
    assert json.loads(output)["ok"] is True
    assert memory.head == head


def test_edit(filled: MemoryRepository) -> None:
    code, output, narration = run(filled, "edit", "handbook/a.md", EDITOR=replacing("one", "three"))
    assert code == 0, narration
    assert b"applied" in output
    assert filled.live_payload()["handbook/a.md"].endswith(b"three\n")
    assert filled.git("status", "--porcelain") == b""


def test_a_broken_edit_is_refused_and_kept(filled: MemoryRepository, tmp_path: Path) -> None:
    before = filled.live_payload()
    code, _, narration = run(
        filled, "edit", "handbook/a.md", EDITOR=replacing("id: project/a", "id:_No"), TMPDIR=str(tmp_path)
    )
    assert code == 1
    kept = narration.rpartition("Your text is kept in ")[2].strip()
    with open(kept) as file:
        assert "id:_No" in file.read()
    assert filled.live_payload() == before


def test_busy(filled: MemoryRepository) -> None:
    head = filled.head
    with Root(str(filled.root)) as root, hold(root, "sync", "20260820T150000Z-a1b2c3d4", utc_now):
        for arguments in (("clear", "--confirm", "DELETE_MEMORY"), ("save", "--yes")):
            code, envelope, narration = run(filled, *arguments)
            assert (code, envelope["error"]["code"]) == (3, "operation-in-progress")
            assert "Try again in a moment" in narration
        assert run(filled, "status")[0] == 0
    assert filled.head == head
