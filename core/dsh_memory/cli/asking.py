"""Confirmations on a terminal: say what will happen, let nothing through that was not typed on purpose."""

from __future__ import annotations

import sys
import termios

from dsh_memory.cli.invocation import UsageError
from dsh_memory.cli.output import narrate
from dsh_memory.inspection import Plan
from dsh_memory.text import visible


def require_terminal(without: str) -> None:
    """Raises UsageError where nobody can be asked; `without` says what to give instead."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"there is no terminal to ask on; give {without}")


def confirm(plan: Plan) -> bool:
    """Shows a plan and asks for it: once, and a second time for the word where the plan has one."""
    for sentence in plan.what:
        narrate(sentence)
    for words in plan.git_words:
        narrate(f"  git: {words}")
    narrate(f"Way back: {plan.way_back}")
    if _ask("Go on? [y/N] ").lower() not in ("y", "yes"):
        return _declined()
    if plan.confirm_word is not None:
        typed = _ask(f"Type {visible(plan.confirm_word)} to go on: ")
        # guard: typed-confirmation
        if typed != plan.confirm_word:
            return _declined()
    return True


def _declined() -> bool:
    narrate("Nothing was changed.")
    return False


def _ask(question: str) -> str:
    # guard: no-type-ahead (a held key or a pasted text must not answer a question that is not shown yet)
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    sys.stderr.write(question)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        sys.stderr.write("\n")
    return line.strip()
