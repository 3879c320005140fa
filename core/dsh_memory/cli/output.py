"""What leaves the program: data, narration, failures, exit codes; what is foreign is made visible first."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO

from dsh_memory.cli.invocation import CommandFailed
from dsh_memory.errors import hint_of
from dsh_memory.text import visible

if TYPE_CHECKING:
    from dsh_memory.cli.invocation import Invocation
    from dsh_memory.service import Envelope

DONE = 0
FAILED = 1
USAGE = 2
BUSY = 3
INTERRUPTED = 130


def prepare_streams() -> None:
    """Makes both streams take any text whatever the locale, and what is logged inert."""
    # guard: closed-streams (each takes its own descriptor, in this order, so that no file opened later can)
    sys.stdin, sys.stdout, sys.stderr = (
        stream or open(os.devnull, mode)  # noqa: SIM115
        for stream, mode in ((sys.stdin, "r"), (sys.stdout, "w"), (sys.stderr, "w"))
    )
    for stream in (sys.stdout, sys.stderr):
        # Tests put another kind of stream there.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_InertFormatter())


def emit(*lines: str) -> None:
    """Writes lines of data, already made visible, to standard output."""
    _write(sys.stdout, lines)


def narrate(text: str) -> None:
    """Writes words for a person, made visible here, to standard error."""
    _write(sys.stderr, [visible(text, keep_newlines=True)])


def emit_json(envelope: Mapping[str, object]) -> None:
    """Writes an envelope as one line; ASCII, so that nothing in it acts on a terminal."""
    emit(json.dumps(envelope, separators=(",", ":")))


def answer(call: Invocation, envelope: Envelope) -> dict[str, Any] | None:
    """The value to show; None where there is nothing left to show.

    That is after a failure, which is narrated, and with `--json`, where the envelope itself is written.
    """
    if not envelope["ok"]:
        error = envelope["error"]
        fail(error["code"], error["message"], error.get("detail"), as_json=call.wants_json)
        return None
    if call.wants_json:
        emit_json(envelope)
        return None
    return envelope["value"]


def exit_code(envelope: Envelope) -> int:
    """What the program ends with after this answer."""
    return DONE if envelope["ok"] else _failure_code(envelope["error"]["code"])


def fail(code: str, message: str, detail: str | None, *, as_json: bool, hint: str | None = None) -> int:
    """Says what failed and what to do about it, with `as_json` also as the envelope; the exit code."""
    if as_json:
        reason = {} if detail is None else {"detail": detail}
        emit_json({"ok": False, "error": {"code": code, "message": message, **reason}})
    narrate(f"dsh-memory: {code}{f' ({detail})' if detail else ''}: {message}")
    if advice := hint or hint_of(code):
        narrate(advice)
    return _failure_code(code)


def finish(code: int) -> int:
    """Flushes both streams; `code`, or 1 where the data could not be written."""
    try:
        with _writing(sys.stdout):
            sys.stdout.flush()
    except CommandFailed as failure:
        narrate(f"dsh-memory: {failure}")
        code = code or FAILED
    with _writing(sys.stderr):
        sys.stderr.flush()
    return code


def _failure_code(code: str) -> int:
    return BUSY if code == "operation-in-progress" else FAILED


def _write(stream: TextIO, lines: Iterable[str]) -> None:
    with _writing(stream):
        stream.writelines(f"{line}\n" for line in lines)


@contextmanager
def _writing(stream: TextIO) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # What is still in the stream's buffer goes to nowhere, at the latest when the interpreter ends.
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
        # A reader that has enough (head, less) is no failure, and of lost narration nobody could be told.
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            reason = os.strerror(error.errno or 0)
            raise CommandFailed(f"the output could not be written: {reason}") from None


class _InertFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record), keep_newlines=True)
