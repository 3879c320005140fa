"""Copying by a clipboard tool of this machine; where there is none, by the terminal (OSC 52)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsh_memory_tui.app import MemoryApp

_TIMEOUT_SECONDS = 2.0


def tool(environ: Mapping[str, str], platform: str = sys.platform) -> list[str] | None:
    """The command that fills the clipboard of the person at this screen; None over SSH or without one."""
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        # A tool would fill the clipboard of the far machine.
        return None
    candidates: list[tuple[bool, list[str]]] = [
        (platform == "darwin", ["pbcopy"]),
        (bool(environ.get("WAYLAND_DISPLAY")), ["wl-copy"]),
        (bool(environ.get("DISPLAY")), ["xclip", "-selection", "clipboard"]),
        (bool(environ.get("DISPLAY")), ["xsel", "--clipboard", "--input"]),
    ]
    return next((command for usable, command in candidates if usable and shutil.which(command[0])), None)


def copy_by_tool(text: str) -> bool:
    """Copy with a tool of this machine; False when there is none or it fails."""
    command = tool(os.environ)
    if command is None:
        return False
    try:
        done = subprocess.run(
            command,
            input=text.encode("utf-8", "surrogateescape"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def copy(app: MemoryApp, text: str, what: str) -> None:
    """Copy by a tool of this machine, else through the terminal; the word afterwards says which."""

    def copied(by_tool: bool) -> None:
        if by_tool:
            app.say(f"Copied the {what}.")
        else:
            app.copy_to_clipboard(text.encode("utf-8", "replace").decode())
            app.say(f"Sent the {what} to the terminal; whether it copies is the terminal's choice.")

    def work() -> None:
        app.call_from_thread(copied, copy_by_tool(text))

    app.run_worker(work, group="copy", thread=True)
