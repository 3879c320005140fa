"""The commands that start something: a new memory, a server, the terminal UI."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

from dsh_memory.cli.invocation import Invocation, UsageError
from dsh_memory.cli.output import answer, emit, exit_code
from dsh_memory.text import visible

_FRONTENDS = "dsh_memory.frontends"


def init(call: Invocation) -> int:
    """`dsh-memory init`: creates the memory repository, or restores what the one there lacks."""
    envelope = call.service.init()
    if value := answer(call, envelope):
        root = visible(call.environment.memory_root)
        emit(f"created {root}" if value["created"] else f"{root} is complete")
        emit(*(f"restored {visible(path)}" for path in value["restored"]))
    return exit_code(envelope)


def serve(call: Invocation) -> int:
    """`dsh-memory serve`: answers the DSH host over stdio until it goes away, or clients over HTTP."""
    if call.arguments.http:
        from dsh_memory.cli.hosts import serve_http

        return serve_http(call)
    from dsh_memory.hosts.stdio import serve_process

    return serve_process(call.service)


def open_frontend(call: Invocation) -> int:
    """`dsh-memory` alone: the terminal UI, which is whatever the entry point names."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the terminal UI needs a terminal; for commands see: dsh-memory --help")
    frontends = sorted(entry_points(group=_FRONTENDS))
    if not frontends:
        raise UsageError("no terminal UI is installed; for commands see: dsh-memory --help")
    run = frontends[0].load()
    code: int = run(call.environment, demo=call.arguments.demo, read_only=call.arguments.read_only)
    return code
