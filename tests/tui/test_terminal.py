"""The program on a real terminal, from its start to its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.tui.terminal import Terminal

pytestmark = pytest.mark.slow

Start = Callable[..., Terminal]


@pytest.fixture
def start(isolated: Path) -> Iterator[Start]:
    opened: list[Terminal] = []

    def run(*arguments: str, **variables: str) -> Terminal:
        env = {**os.environ, "TERM": "xterm-256color", "TMPDIR": str(isolated), **variables}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            env.pop(name, None)
        terminal = Terminal([sys.executable, "-m", "dsh_memory", *arguments], env)
        opened.append(terminal)
        return terminal

    yield run
    for terminal in opened:
        terminal.close()


def test_the_demo_from_the_first_look_to_an_undone_clear(start: Start, isolated: Path) -> None:
    screen = start("--demo")
    screen.wait_for("Needs you")
    for key, words in (
        ("2", "Wants attention"),
        ("3", "rolls this run back"),
        ("4", "For the reviewer"),
        ("5", "Type to search"),
    ):
        screen.press(key)
        screen.wait_for(words)
    screen.press("\x1b")
    screen.bytes_within(0.3)
    screen.press("6")
    screen.wait_for("▾ handbook")
    screen.press("1")
    screen.wait_for("62 records")

    screen.press("C")
    screen.wait_for("step 1 of 2")
    # A choice takes nothing in its first moment; what is pressed then is spent.
    _go_on(screen)
    screen.press("clear\r")
    screen.wait_for("Cleared 63 files")
    screen.wait_for("0 records")

    screen.press("3")
    screen.wait_for("just now   clear")
    # The cursor stayed on the run it was on; the newest is the first.
    screen.press("g")
    screen.wait_for("rolls this run back")
    screen.press("R")
    screen.wait_for("step 1 of 2")
    _go_on(screen)
    word = screen.text.split("Type  ")[1].split()[0]
    screen.press(word + "\r")
    screen.wait_for("Rolled back")
    screen.wait_for("62 records")

    screen.press("q")
    assert screen.exit_code() == 0
    assert not list(isolated.glob("dsh-memory-demo-*"))


def _go_on(screen: Terminal) -> None:
    screen.bytes_within(0.4)
    screen.press("\t")
    screen.wait_for("[ Continue… ]")
    screen.press("\r")
    screen.wait_for("step 2 of 2")
    screen.bytes_within(0.4)


def test_nothing_is_sent_while_nothing_happens(start: Start) -> None:
    screen = start("--demo")
    screen.wait_for("Needs you")
    screen.bytes_within(1.0)
    assert screen.bytes_within(3.0) == 0
    # A field that waits for a word is as still: its cursor does not blink.
    screen.press("/")
    screen.wait_for("Type to search")
    screen.bytes_within(1.0)
    assert screen.bytes_within(1.5) == 0


def test_a_cursor_key_costs_little(start: Start) -> None:
    screen = start("--demo")
    screen.wait_for("Needs you")
    screen.press("6")
    screen.wait_for("▾ handbook")
    screen.bytes_within(0.8)
    costs = []
    for _ in range(5):
        screen.press("j")
        costs.append(screen.bytes_within(0.4))
    # Most of it is the record beside the list; a held key paints that once, at the end.
    assert max(costs) <= 4_096, costs


def test_no_record_writes_to_the_clipboard_or_the_title(start: Start) -> None:
    screen = start("--demo")
    screen.wait_for("Needs you")
    assert not [command for command in screen.commands if command.startswith((b"0;", b"2;", b"52;"))]
    screen.press("6")
    screen.wait_for("▾ handbook")
    screen.bytes_within(0.5)
    screen.press("y")
    screen.wait_for("Sent the")
    assert [command for command in screen.commands if command.startswith(b"52;c;")]


def test_an_edit_in_an_editor_becomes_a_run(start: Start, isolated: Path) -> None:
    editor = isolated / "editor"
    editor.write_text("#!/bin/sh\necho 'Written by hand.' >> \"$1\"\n")
    editor.chmod(0o700)
    screen = start("--demo", EDITOR=str(editor))
    screen.wait_for("Needs you")
    screen.press("6")
    screen.wait_for("▾ handbook")
    screen.press("jjj")
    screen.bytes_within(0.6)
    screen.press("e")
    screen.wait_for("Saved 1 file as a run")
    screen.wait_for("Written by hand.")
    assert not list(isolated.glob("dsh-memory-edit-*"))
    screen.press("q")
    assert screen.exit_code() == 0


def test_an_older_version_is_restored_as_a_run(start: Start) -> None:
    screen = start("--demo")
    screen.wait_for("Needs you")
    screen.press("6")
    screen.wait_for("▾ handbook")
    screen.press("jjj")
    screen.wait_for("The platform team")
    screen.press("v")
    screen.wait_for("it was removed here")
    screen.press("\x1b[B" * 3 + "\r")
    screen.wait_for("gets the text it had")
    screen.bytes_within(0.4)
    screen.press("\t")
    screen.wait_for("[ Restore ]")
    screen.press("\r")
    screen.wait_for("Restored handbook/codegen/openapi-version.md")
    screen.press("3")
    screen.wait_for("just now   write")


def test_a_change_outside_shows_within_two_seconds(start: Start, isolated: Path) -> None:
    screen = start("--demo")
    screen.wait_for("✓ clean")
    [root] = isolated.glob("dsh-memory-demo-*/sample/storages/memory")
    (root / "handbook" / "from-outside.md").write_text("A note.\n")
    screen.wait_for("1 unsaved", seconds=2.5)


def test_no_repository_offers_to_create_one(start: Start, isolated: Path) -> None:
    screen = start("--root", str(isolated / "memory"))
    screen.wait_for("There is no memory here yet")
    screen.press("i")
    screen.wait_for("0 records")
    screen.press("q")
    assert screen.exit_code() == 0


def test_a_dumb_terminal_is_told_what_else_there_is(start: Start) -> None:
    screen = start("--demo", TERM="dumb")
    assert screen.exit_code() == 2
    assert "dsh-memory status" in screen.text
