"""`dsh-memory`: the contract's methods for people and scripts; without a subcommand the terminal UI.

Data goes to standard output, narration to standard error. Exit codes: 0 done, 1 failed (code and hint on
standard error), 2 wrong usage or no terminal, 3 another operation is in progress, 130 interrupted.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from dsh_memory.cli.invocation import CommandFailed, Invocation, UsageError
from dsh_memory.cli.output import (
    FAILED,
    INTERRUPTED,
    USAGE,
    fail,
    finish,
    narrate,
    prepare_streams,
)
from dsh_memory.cli.parser import build_parser, starting_point
from dsh_memory.errors import ChangeRefused, MemoryFailure

__all__ = ["main", "sync_main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line (the process's own when None); the exit code."""
    prepare_streams()
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        narrate("Interrupted.")
        code = INTERRUPTED
    except Exception:
        # A fault of ours; its words may hold what a terminal would act on.
        narrate(traceback.format_exc())
        code = FAILED
    return finish(code)


def sync_main() -> int:
    """`dsh-memory-sync`, the contract's name for `dsh-memory sync`."""
    return main(["sync", *sys.argv[1:]])


def _run(argv: Sequence[str]) -> int:
    parser = build_parser()
    arguments = parser.parse_args(argv, starting_point())
    if arguments.handler != "starting:open_frontend" and (arguments.demo or arguments.read_only):
        parser.error("--demo and --read-only are for the terminal UI, which opens without a subcommand")
    module, _, function = arguments.handler.partition(":")
    try:
        code: int = getattr(import_module(f"dsh_memory.cli.{module}"), function)(Invocation.of(arguments))
    except UsageError as error:
        narrate(f"dsh-memory: {error}")
        return USAGE
    except CommandFailed as error:
        narrate(f"dsh-memory: {error}")
        return FAILED
    except MemoryFailure as failure:
        message = failure.placed if isinstance(failure, ChangeRefused) else failure.message
        return fail(failure.code, message, failure.detail, as_json=arguments.json)
    return code
