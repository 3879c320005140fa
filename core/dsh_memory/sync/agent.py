"""Running the consolidating agent: in its own process group, with an allow-listed environment and a time
limit.

Source of the rules: `spec` dsh-host, Session logs and the headless agent.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from dsh_memory.environment import Environment
from dsh_memory.errors import SyncFailure
from dsh_memory.sync.redaction import redact_text
from dsh_memory.sync.workfolder import WorkFolder

DEFAULT_TIME_LIMIT_SECONDS: Final = 1800.0
_GRACE_SECONDS: Final = 5.0
_DRAIN_SECONDS: Final = 2.0
_TAIL_BYTES: Final = 64 * 1024
_SHOWN_CHARACTERS: Final = 2000
_SYSTEM_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_PASSED_ON: Final = ("HOME", "PATH", "LANG")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The one-shot session goes to a private folder, and the memory plugin is off: the agent must not read the
# live memory's prompt section, nor leave a session that the next sync would take for work of the user's.
_PATCH: Final = """\
- id: session-persistence-jsonl
  config:
    root: {sessions}
- id: memory
  disabled: true
"""


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """What an agent that ended well said last; redacted, at most 2,000 characters."""

    text: str


def agent_command(environ: Mapping[str, str], override: str | None, patch_path: str) -> list[str]:
    """The command that is given the prompt as its last argument, found on the PATH.

    `override`, then `DSH_MEMORY_AGENT`, name any command line; without them it is the host's headless
    profile, `DSH_BIN` or `dsh`. Raises SyncFailure: sync-invalid-request, agent-missing.
    """
    line = override or environ.get("DSH_MEMORY_AGENT")
    if line:
        try:
            command = shlex.split(line)
        except ValueError as error:
            raise SyncFailure(
                "sync-invalid-request", f"The agent's command line is broken: {error}."
            ) from None
    else:
        command = [environ.get("DSH_BIN") or "dsh", "--profile", "headless", "--patch", patch_path]
    if not command:
        raise SyncFailure("sync-invalid-request", "The agent's command line is empty.")
    path = environ.get("PATH") or _SYSTEM_PATH
    program = shutil.which(os.path.expanduser(command[0]), path=path)
    if program is None:
        message = f"The agent program {command[0]} is not on the PATH ({path})."
        raise SyncFailure("agent-missing", message, detail="agent-missing")
    return [os.path.abspath(program), *command[1:]]


def agent_environment(
    environ: Mapping[str, str], environment: Environment, folder: WorkFolder
) -> dict[str, str]:
    """The agent's whole environment; `DSH_MEMORY_ROOT` names the staging copy, never the live root."""
    kept = {name: environ[name] for name in _PASSED_ON if name in environ}
    kept |= {name: value for name, value in environ.items() if name.startswith("LC_")}
    # guard: agent-environment (what a project's .env or a hook put into ours stays here)
    for name in re.split(r"[\s,]+", environ.get("DSH_MEMORY_PROVIDER_ENV_NAMES", "")):
        if _VARIABLE.fullmatch(name) and name in environ:
            kept[name] = environ[name]
    return {
        "PATH": _SYSTEM_PATH,
        **kept,
        "DSH_HOME": environment.dsh_home,
        "DSH_MEMORY_ROOT": folder.staging,
        "TMPDIR": folder.temporary,
        "DSH_PERMISSION_MODE": "workspace-write",
        "DSH_TELEMETRY_DISABLED": "1",
    }


def write_patch(folder: WorkFolder) -> str:
    """The host's configuration patch of this run, written to the work folder; its path."""
    path = os.path.join(folder.path, "patch.yml")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        # A JSON-like quoted scalar: a path may hold spaces, colons or hashes.
        quoted = '"' + folder.sessions.replace("\\", "\\\\").replace('"', '\\"') + '"'
        file.write(_PATCH.format(sessions=quoted))
    return path


def run_agent(
    command: Sequence[str],
    prompt: str,
    variables: Mapping[str, str],
    folder: WorkFolder,
    time_limit_seconds: float,
) -> AgentAnswer:
    """Runs the agent in the staging copy to its end, and ends whatever is left of its process group.

    Raises SyncFailure: agent-missing, agent-failed, agent-timed-out.
    """
    said, complained = _Tail(), _Tail()
    try:
        process = subprocess.Popen(
            [*command, prompt],
            cwd=folder.staging,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=said.write_end,
            stderr=complained.write_end,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        said.close()
        complained.close()
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        message = f"The agent program {command[0]} cannot be started: {reason}."
        raise SyncFailure("agent-missing", message, detail="agent-not-started") from None
    try:
        said.start()
        complained.start()
        status = process.wait(time_limit_seconds)
    except subprocess.TimeoutExpired:
        message = f"The agent did not end within {time_limit_seconds:g} seconds and was stopped."
        raise SyncFailure("agent-timed-out", message, detail="agent-timed-out") from None
    finally:
        # On every way out, an interrupt included: nothing of the agent outlives this call.
        end_group(process)
        said.close()
        complained.close()
    if status != 0:
        raise _failed(status, complained.text() or said.text())
    return AgentAnswer(said.text())


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and all others of its group: asked first if it still runs, then killed."""
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
    # guard: kill-the-whole-group
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    # macOS answers EPERM where nothing but zombies is left of the group.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _failed(status: int, said: str) -> SyncFailure:
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    detail = f"signal-{-status}" if status < 0 else f"status-{status}"
    return SyncFailure("agent-failed", f"The agent {how}{f': {said}' if said else '.'}", detail=detail)


class _Tail:
    """The end of what a pipe delivers, read by a thread so that the writer never waits."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self._kept = b""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Reads from now on; the write end is the child's alone."""
        self._close_write_end()
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        while piece := os.read(self._read_end, _TAIL_BYTES):
            self._kept = (self._kept + piece)[-_TAIL_BYTES:]

    def close(self) -> None:
        """Waits for the end of the pipe; one that a process outside the group holds is left to its thread."""
        self._close_write_end()
        if self._thread is not None:
            self._thread.join(_DRAIN_SECONDS)
        if self._thread is None or not self._thread.is_alive():
            os.close(self._read_end)

    def _close_write_end(self) -> None:
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def text(self) -> str:
        """What was said last, redacted and cut to its end."""
        shown = redact_text(self._kept.decode(errors="replace").strip())
        return shown if len(shown) <= _SHOWN_CHARACTERS else "…" + shown[-_SHOWN_CHARACTERS:]
