"""How the terminal UI starts: memory is read while the screen's libraries load."""

from __future__ import annotations

import os
import sys

from dsh_memory import Environment
from dsh_memory.environment import utc_now
from dsh_memory_tui.core import LiveCore


def main(environment: Environment, *, demo: bool = False, read_only: bool = False) -> int:
    """Open the terminal UI; the exit code of the process (2: there is no terminal to open it on)."""
    # Textual draws on the standard error stream.
    streams = (sys.stdin, sys.stdout, sys.__stderr__)
    if (
        not all(stream is not None and stream.isatty() for stream in streams)
        or os.environ.get("TERM") == "dumb"
    ):
        sys.stderr.write("dsh-memory needs a terminal that can move its cursor; try: dsh-memory status\n")
        return 2
    if demo:
        from dsh_memory_tui.demo import run_demo

        return run_demo(lambda sample: _run(sample, demo=True, read_only=read_only))
    return _run(environment, demo=False, read_only=read_only)


def _run(environment: Environment, *, demo: bool, read_only: bool) -> int:
    core = LiveCore(environment, utc_now)
    core.read_ahead()

    from rich.console import Console

    from dsh_memory_tui import settings
    from dsh_memory_tui.app import MemoryApp
    from dsh_memory_tui.themes import fitting_theme

    path = settings.default_path()
    app = MemoryApp(
        core,
        root="sample memory, gone at the end" if demo else environment.shown_root,
        preferences=settings.load(path, fitting_theme(Console(file=sys.stdout))),
        settings_path=path,
        read_only=read_only,
        demo=demo,
    )
    answer = app.run()
    return app.return_code or (0 if answer is None else answer)
