"""A person's editor on a private copy of one record; what it leaves goes back through the core as a run."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

_FALLBACK_EDITOR = "vi"
_MAX_COPY = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Edited:
    """What the editor left: the copy's place, the text before and after; `problem` when it could not run."""

    copy: str
    before: bytes
    after: bytes
    problem: str = ""

    @property
    def changed(self) -> bool:
        """Whether there is anything to apply."""
        return not self.problem and self.after != self.before

    def forget(self) -> None:
        """Remove the private copy and its folder."""
        shutil.rmtree(os.path.dirname(self.copy), ignore_errors=True)


def edit(path: str, before: bytes, environ: Mapping[str, str] | None = None) -> Edited:
    """Open a private copy (folder 0700, file 0600) in $VISUAL or $EDITOR and wait for it."""
    variables = os.environ if environ is None else environ
    folder = tempfile.mkdtemp(prefix="dsh-memory-edit-")
    copy = os.path.join(folder, os.path.basename(path))
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(before)
    problem = _run_editor(variables.get("VISUAL") or variables.get("EDITOR") or "", copy)
    after = before
    if not problem:
        try:
            with open(copy, "rb") as file:
                after = file.read(_MAX_COPY + 1)
        except OSError as error:
            problem = f"The editor's copy cannot be read: {error}"
    return Edited(copy, before, after, problem)


def _run_editor(named: str, copy: str) -> str:
    """Run the editor on the copy; a sentence when it failed, else nothing."""
    try:
        command = shlex.split(named) or [_FALLBACK_EDITOR]
    except ValueError as error:
        return f"$VISUAL or $EDITOR cannot be understood: {error}"
    # ctrl+c belongs to the editor while it runs.
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        status = subprocess.run([*command, copy], check=False).returncode
    except OSError as error:
        return f"The editor {command[0]} cannot be started: {os.strerror(error.errno or 0)}"
    finally:
        signal.signal(signal.SIGINT, previous)
    return f"The editor ended with {status}; nothing was applied." if status else ""
