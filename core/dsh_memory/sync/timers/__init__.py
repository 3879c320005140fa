"""Examples of a schedule, with this installation's own paths put in: timers know a bare PATH only."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.resources import files
from typing import Final
from xml.sax.saxutils import escape

from dsh_memory.environment import Environment

KINDS: Final = ("systemd", "launchd")


def timer_text(kind: str, environment: Environment, path: str) -> str:
    """The example for `systemd` or `launchd`; `path` is the PATH on which git and the agent are found now."""
    values = {
        "PROGRAM": _program(),
        "PATH": path,
        "DSH_HOME": environment.dsh_home,
        "DSH_MEMORY_ROOT": environment.memory_root,
    }
    text = files(__package__).joinpath(f"{kind}.txt").read_text("utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", _quoted(kind, value))
    return text


def _program() -> str:
    found = shutil.which("dsh-memory") or os.path.join(os.path.dirname(sys.executable), "dsh-memory")
    return os.path.abspath(found)


def _quoted(kind: str, value: str) -> str:
    if kind == "launchd":
        return escape(value)
    # systemd: % begins a specifier, and inside quotes a backslash or quote is escaped.
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
