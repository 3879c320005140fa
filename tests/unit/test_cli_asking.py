"""Confirmations on a real terminal: what is shown, what counts as a yes, and what never does."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.terminals import TerminalProcess

_PROGRAM = r"""
import select, sys
from dsh_memory.cli import main
from dsh_memory.inspection import Plan, Refusal
from tests.support.services import FakeService

word, refusal, detail, wait_for_input, *arguments = sys.argv[1:]

class FakeInspector:
    def __init__(self, environment): pass
    def __getattr__(self, name): return self.plan
    def plan(self, *arguments):
        if wait_for_input:
            select.select([0], [], [])
        return Plan(
            operation="clear",
            expected_head="5" * 40,
            what=("6 files will go, \x1b[2J they say.",),
            git_words=("git commit on main",),
            way_back="roll the run back",
            confirm_word=word or None,
            refusal=Refusal(refusal, detail or None, "It cannot be.", "Wait a while.") if refusal else None,
        )

class Recorder(FakeService):
    def call(self, method, params=None, *, expected_head=None):
        return {"ok": True, "value": {"method": method, "params": params, "head": expected_head}}

import dsh_memory.inspection, dsh_memory.service
dsh_memory.inspection.Inspector = FakeInspector
dsh_memory.service.MemoryService = Recorder
sys.exit(main(arguments))
"""

HEAD = "5" * 40
RUN = "20260819T120000Z-a1b2c3d4"


def start(
    *arguments: str, word: str = "", refusal: str = "", detail: str = "", wait_for_input: bool = False
) -> TerminalProcess:
    """The command line with these arguments on a terminal, in front of a plan and a recording service."""
    repository = Path(__file__).parents[2]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(repository), *sys.path])}
    waits = "yes" if wait_for_input else ""
    return TerminalProcess(
        [sys.executable, "-c", _PROGRAM, word, refusal, detail, waits, *arguments, "--root", "/nonexistent"],
        variables,
    )


def called(output: bytes) -> tuple[object, object, object]:
    """Method, params and expected head of the one call that was made."""
    value = json.loads(output)["value"]
    return value["method"], value["params"], value["head"]


def test_clear_asks_twice_and_sends_the_machine_value() -> None:
    with start("clear", "--json", word="clear") as terminal:
        terminal.expect("6 files will go, \\x1b[2J they say.")
        terminal.expect("git: git commit on main")
        terminal.expect("Way back: roll the run back")
        terminal.expect("Go on? [y/N] ")
        terminal.type("y\n")
        terminal.expect("Type clear to go on: ")
        terminal.type("clear\n")
        code, output, _ = terminal.end()
    assert code == 0
    assert called(output) == ("memory.clear", {"confirmation": "DELETE_MEMORY"}, HEAD)


def test_rollback_asks_for_the_commit() -> None:
    with start("rollback", RUN, "--json", word="550010e") as terminal:
        terminal.expect("[y/N] ")
        terminal.type("yes\n")
        terminal.expect("Type 550010e to go on: ")
        terminal.type(" 550010e \n")
        code, output, _ = terminal.end()
    assert code == 0
    assert called(output) == ("memory.rollback", {"runId": RUN, "confirmation": "ROLLBACK_MEMORY"}, HEAD)


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("migrate",), ("memory.migrateLegacy", {"dryRun": False}, HEAD)),
        (("recover",), ("recover", None, None)),
        (("save", "-m", "mine"), ("save", "mine", HEAD)),
        (("preview", "apply", RUN), ("memory.applyPreview", {"previewId": RUN}, HEAD)),
        (("preview", "discard", RUN), ("memory.discardPreview", {"previewId": RUN}, None)),
    ],
)
def test_the_others_ask_once(arguments: tuple[str, ...], call: tuple[object, object, object]) -> None:
    with start(*arguments, "--json") as terminal:
        terminal.expect("[y/N] ")
        terminal.type("y\n")
        code, output, _ = terminal.end()
    assert code == 0
    assert called(output) == call


@pytest.mark.parametrize("typed", ["\n", "n\n", "no\n", "clear\n", "yy\n", "\x04"])
def test_anything_but_yes_changes_nothing(typed: str) -> None:
    with start("clear", word="clear") as terminal:
        terminal.expect("[y/N] ")
        terminal.type(typed)
        code, output, screen = terminal.end()
    assert (code, output) == (1, b"")
    assert b"Nothing was changed." in screen


@pytest.mark.parametrize("typed", ["\n", "y\n", "Clear\n", "clea\n", "clear clear\n", "\x04"])
def test_anything_but_the_word_changes_nothing(typed: str) -> None:
    with start("clear", word="clear") as terminal:
        terminal.expect("[y/N] ")
        terminal.type("y\n")
        terminal.expect("Type clear to go on: ")
        terminal.type(typed)
        code, output, screen = terminal.end()
    assert (code, output) == (1, b"")
    assert b"Nothing was changed." in screen


def test_what_was_typed_ahead_answers_nothing() -> None:
    """The plan comes only once input waits; what was typed by then is thrown away."""
    with start("clear", word="clear", wait_for_input=True) as terminal:
        terminal.type("y\nclear\n")
        terminal.expect("[y/N] ")
        terminal.type("n\n")
        code, output, screen = terminal.end()
    assert (code, output) == (1, b"")
    assert b"Nothing was changed." in screen


def test_ctrl_c_interrupts() -> None:
    with start("clear", word="clear") as terminal:
        terminal.expect("[y/N] ")
        terminal.interrupt()
        code, output, _ = terminal.end()
    assert (code, output) == (130, b"")


@pytest.mark.parametrize(("refusal", "ends_with"), [("rollback-conflict", 1), ("operation-in-progress", 3)])
def test_a_plan_that_is_refused_asks_nothing(refusal: str, ends_with: int) -> None:
    with start("rollback", RUN, "--json", word="550010e", refusal=refusal) as terminal:
        code, output, screen = terminal.end()
    assert code == ends_with
    assert json.loads(output)["error"]["code"] == refusal
    assert b"It cannot be." in screen and b"Wait a while." in screen and b"[y/N]" not in screen


def test_a_plan_that_changes_nothing_asks_nothing() -> None:
    with start("recover", "--json", refusal="recover-refused", detail="no-change") as terminal:
        code, output, screen = terminal.end()
    assert (code, screen) == (0, b"")
    assert called(output) == ("recover", None, None)


def test_an_option_confirms_on_a_terminal_too() -> None:
    with start("clear", "--confirm", "anything", "--json", word="clear") as terminal:
        code, output, screen = terminal.end()
    assert (code, screen) == (0, b"")
    assert called(output) == ("memory.clear", {"confirmation": "anything"}, None)
