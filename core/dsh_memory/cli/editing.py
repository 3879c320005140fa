"""`dsh-memory edit`: a person's editor on a private copy, applied as a journaled run."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

from dsh_memory.cli.invocation import CommandFailed, Invocation, UsageError
from dsh_memory.cli.output import DONE, FAILED, answer, emit, exit_code, narrate
from dsh_memory.cli.tables import outcome
from dsh_memory.environment import Environment
from dsh_memory.records import MAX_RECORD_BYTES
from dsh_memory.repository.layout import RECORD_FOLDERS, SUMMARY, Root

_FALLBACK_EDITOR = "vi"


def edit(call: Invocation) -> int:
    """`dsh-memory edit PATH`: the copy is kept, and its place said, when its text could not be applied."""
    path = call.arguments.path
    _check_path(path)
    editor = editor_command()
    before = _read(call.environment, path)
    folder = tempfile.mkdtemp(prefix="dsh-memory-edit-")
    copy = os.path.join(folder, os.path.basename(path))
    code, after = FAILED, before
    try:
        _write_private(copy, before)
        status = run_editor([*editor, copy])
        after = _read_copy(copy)
        if status:
            narrate(f"dsh-memory: the editor ended with {status}; nothing was applied.")
        elif after == before:
            narrate("Nothing was changed.")
            code = DONE
        else:
            envelope = call.service.write_record(path, before, after)
            if value := answer(call, envelope):
                emit(*outcome(value))
            code = exit_code(envelope)
    finally:
        if code and after != before:
            narrate(f"Your text is kept in {copy}")
        else:
            shutil.rmtree(folder)
    return code


def _check_path(path: str) -> None:
    parts = path.split("/")
    # guard: edit-inside-payload
    if path != SUMMARY and (
        parts[0] not in RECORD_FOLDERS or len(parts) < 2 or any(part in ("", ".", "..") for part in parts)
    ):
        raise UsageError(
            f"PATH is {SUMMARY} or a file below {', '.join(RECORD_FOLDERS)}, seen from the memory root"
        )


def editor_command() -> list[str]:
    """The editor's command line; raises UsageError where none is named and nobody is there."""
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not named and not sys.stdin.isatty():
        raise UsageError("there is no terminal; name an editor in $VISUAL or $EDITOR")
    try:
        return shlex.split(named or "") or [_FALLBACK_EDITOR]
    except ValueError as error:
        raise UsageError(f"$VISUAL or $EDITOR cannot be understood: {error}") from None


def _read(environment: Environment, path: str) -> bytes:
    with Root(environment.memory_root) as root:
        try:
            data = root.read(path, MAX_RECORD_BYTES)
        except FileNotFoundError:
            raise CommandFailed(f"the memory holds no file {path}") from None
        except OSError as error:
            raise CommandFailed(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from None
    if len(data) > MAX_RECORD_BYTES:
        raise CommandFailed(f"{path} is too large to edit")
    return data


def _write_private(copy: str, data: bytes) -> None:
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _read_copy(copy: str) -> bytes:
    try:
        with open(copy, "rb") as file:
            return file.read(MAX_RECORD_BYTES + 1)
    except OSError as error:
        raise CommandFailed(f"the editor left nothing to read: {os.strerror(error.errno or 0)}") from None


def run_editor(command: list[str]) -> int:
    """Runs the editor to its end; its exit status, or UsageError where it cannot be started."""
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        raise CommandFailed(
            f"the editor {command[0]} cannot be started: {os.strerror(error.errno or 0)}"
        ) from None
    # ctrl+c belongs to the editor while it runs.
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, previous)
