"""`dsh-memory edit` with real editors: what reaches the service, and that no text of a person is lost."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dsh_memory.cli import main
from tests.support.repositories import MemoryRepository
from tests.support.services import FakeService

OLD = b"old \xff\r\ntext"
Edit = Callable[..., int]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where private copies are made."""
    folder = tmp_path / "temporary files"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def service(memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch) -> FakeService:
    fake = FakeService(memory.environment)
    monkeypatch.setattr("dsh_memory.service.MemoryService", lambda environment: fake)
    memory.write("handbook/a note.md", OLD)
    return fake


@pytest.fixture
def edit(memory: MemoryRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path) -> Edit:
    """Runs the command with an editor that is a Python script; the name of the copy is its `path`."""

    def run(script: str, path: str = "handbook/a note.md", *, variable: str = "EDITOR") -> int:
        editor = tmp_path / "an editor.py"
        editor.write_text(f"import os, sys\npath = sys.argv[-1]\n{script}\n")
        monkeypatch.setenv(variable, f"{sys.executable} '{editor}' --wait")
        return main(["edit", path, "--root", str(memory.root)])

    return run


def test_the_new_text_is_applied_against_the_old(
    service: FakeService, edit: Edit, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service.succeed("write_record", status="applied", apply_commit="550010e")
    assert edit("open(path, 'ab').write(b' and more')") == 0
    assert service.calls == [("write_record", ("handbook/a note.md", OLD, OLD + b" and more"))]
    assert capsys.readouterr().out == "status        applied\napply commit  550010e\n"
    assert os.listdir(temporary) == []


def test_visual_comes_before_editor(
    service: FakeService, edit: Edit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "false")
    assert edit("open(path, 'w').write('new')", variable="VISUAL") == 0
    assert len(service.calls) == 1


def test_the_copy_is_private_and_keeps_its_name(service: FakeService, edit: Edit) -> None:
    script = """
    assert os.path.basename(path) == "a note.md" and os.path.isabs(path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
    """
    assert edit("\n".join(line.strip() for line in script.splitlines())) == 0
    assert service.calls == []


def test_an_editor_that_saves_by_rename(service: FakeService, edit: Edit) -> None:
    assert edit("open(path + '~', 'w').write('new'); os.rename(path + '~', path)") == 0
    assert service.calls == [("write_record", ("handbook/a note.md", OLD, b"new"))]


def test_no_change_calls_nothing(
    service: FakeService, edit: Edit, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert edit("pass") == 0
    assert service.calls == [] and os.listdir(temporary) == []
    assert capsys.readouterr().err == "Nothing was changed.\n"


def test_a_refused_text_is_kept(
    service: FakeService,
    edit: Edit,
    memory: MemoryRepository,
    temporary: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Somebody changed the file meanwhile: theirs stays where it is, ours in the copy."""
    service.fail("write_record", "live-memory-changed")
    target = memory.path("handbook/a note.md")
    assert edit(f"open(path, 'w').write('mine'); open({str(target)!r}, 'w').write('theirs')") == 1
    assert target.read_text() == "theirs"
    captured = capsys.readouterr()
    assert captured.out == "" and "live-memory-changed" in captured.err
    kept = re.search("^Your text is kept in (.*)$", captured.err, re.M)
    assert kept is not None and Path(kept[1]).read_text() == "mine"
    assert Path(kept[1]).parent.parent == temporary


def test_a_busy_memory_keeps_the_text_too(
    service: FakeService, edit: Edit, capsys: pytest.CaptureFixture[str]
) -> None:
    service.fail("write_record", "operation-in-progress")
    assert edit("open(path, 'w').write('mine')") == 3
    assert "Your text is kept in " in capsys.readouterr().err


def test_a_failing_editor_applies_nothing(
    service: FakeService, edit: Edit, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert edit("sys.exit(7)") == 1
    assert os.listdir(temporary) == []
    assert edit("open(path, 'w').write('mine'); sys.exit(7)") == 1
    assert service.calls == []
    assert "the editor ended with 7" in capsys.readouterr().err
    (kept,) = temporary.glob("*/a note.md")
    assert kept.read_text() == "mine"


def test_an_editor_that_removes_the_copy(service: FakeService, edit: Edit, temporary: Path) -> None:
    assert edit("os.unlink(path)") == 1
    assert service.calls == [] and os.listdir(temporary) == []


@pytest.mark.parametrize(("editor", "ends_with"), [("/no/such/editor", 1), ("'unbalanced", 2)])
def test_an_editor_that_cannot_be_started(
    service: FakeService,
    memory: MemoryRepository,
    monkeypatch: pytest.MonkeyPatch,
    temporary: Path,
    editor: str,
    ends_with: int,
) -> None:
    monkeypatch.setenv("EDITOR", editor)
    assert main(["edit", "handbook/a note.md", "--root", str(memory.root)]) == ends_with
    assert os.listdir(temporary) == []


@pytest.mark.parametrize(
    ("path", "ends_with"),
    [
        ("README.md", 2),
        ("handbook", 2),
        ("handbook/", 2),
        ("handbook/../README.md", 2),
        ("handbook/../../outside.md", 2),
        ("../handbook/a.md", 2),
        ("/etc/passwd", 2),
        ("./summary.md", 2),
        (".sync/usage.json", 2),
        (".git/config", 2),
        ("handbook/missing.md", 1),
        ("handbook/link.md", 1),
        ("handbook/linked/a.md", 1),
    ],
)
def test_no_path_outside_the_payload(
    service: FakeService, edit: Edit, memory: MemoryRepository, temporary: Path, path: str, ends_with: int
) -> None:
    outside = memory.root.parent / "outside.md"
    outside.write_text("secret")
    memory.path("handbook/link.md").symlink_to(outside)
    memory.path("handbook/linked").symlink_to(memory.path("archive"))
    memory.write("archive/a.md", "text")
    assert edit("open(path, 'w').write('mine')", path) == ends_with
    assert service.calls == [] and os.listdir(temporary) == []


def test_names_with_dots_are_fine(service: FakeService, edit: Edit, memory: MemoryRepository) -> None:
    memory.write("handbook/v1..v2.md", "text")
    assert edit("open(path, 'w').write('mine')", "handbook/v1..v2.md") == 0
    assert edit("open(path, 'w').write('mine')", "summary.md") == 0
    assert [call[1][0] for call in service.calls] == ["handbook/v1..v2.md", "summary.md"]  # type: ignore[index]
