"""`doctor`: whether the surroundings are fit for a memory, in plain words; it changes nothing."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from dsh_memory.environment import Environment
from dsh_memory.errors import MemoryFailure, SettingsFailure
from dsh_memory.hosts.settings import Settings
from dsh_memory.repository.git import sealed_environment
from dsh_memory.repository.opening import Repository
from dsh_memory.text import visible

State = Literal["good", "warning", "bad"]

MIN_GIT: Final = (2, 38)
MIN_PYTHON: Final = (3, 11)
_LEAST_FREE_BYTES: Final = 64 * 1024 * 1024
_GIT_VERSION: Final = re.compile(r"git version (\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Check:
    """One look at the surroundings: `name` for machines, a sentence for people, and what to do where it is
    not good.
    """

    name: str
    state: State
    sentence: str
    advice: str | None = None

    def to_json(self) -> dict[str, str | None]:
        return {"name": self.name, "state": self.state, "sentence": self.sentence, "advice": self.advice}


def examine(environment: Environment, environ: Mapping[str, str]) -> list[Check]:
    """Every check, in the order in which one rests on the other."""
    return [
        _python(),
        _git(environment),
        *_home(environment),
        *_root(environment),
        _host(environ),
        _settings(environment),
    ]


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < MIN_PYTHON:
        return Check("python", "bad", f"Python is {version}.", "Install Python 3.11 or newer.")
    return Check("python", "good", f"Python is {version}.")


def _git(environment: Environment) -> Check:
    advice = f"Install Git {MIN_GIT[0]}.{MIN_GIT[1]} or newer, and put it on the PATH."
    path = os.environ.get("PATH", os.defpath)
    try:
        done = subprocess.run(
            ["git", "--version"],
            capture_output=True,
            env=sealed_environment(environment.memory_root),
            timeout=10,
            check=True,
        )
    except FileNotFoundError:
        return Check("git", "bad", f"Git is not on the PATH ({visible(path)}).", advice)
    except (OSError, subprocess.SubprocessError):
        return Check("git", "bad", "Git is there but does not run.", advice)
    match = _GIT_VERSION.match(done.stdout.decode(errors="replace"))
    if match is None:
        return Check("git", "bad", "Git does not say its version.", advice)
    version = f"{match[1]}.{match[2]}"
    if (int(match[1]), int(match[2])) < MIN_GIT:
        return Check("git", "bad", f"Git is {version}.", advice)
    return Check("git", "good", f"Git is {version}.")


def _home(environment: Environment) -> Iterator[Check]:
    home = visible(environment.dsh_home)
    if not os.path.isdir(environment.dsh_home):
        advice = "It is made when it is needed; set DSH_HOME if it lies elsewhere."
        yield Check("dsh-home", "warning", f"There is no DSH home at {home}.", advice)
        return
    if not os.access(environment.dsh_home, os.R_OK | os.W_OK | os.X_OK):
        yield Check(
            "dsh-home", "bad", f"The DSH home {home} cannot be written.", f"Give yourself the rights: {home}"
        )
        return
    yield Check("dsh-home", "good", f"The DSH home is {home}.")
    sessions = os.path.join(environment.dsh_home, "sessions")
    if os.path.isdir(sessions) and not os.access(sessions, os.R_OK | os.X_OK):
        yield Check(
            "sessions",
            "bad",
            "The session logs cannot be read.",
            f"Give yourself the rights: {visible(sessions)}",
        )


def _root(environment: Environment) -> Iterator[Check]:
    shown = visible(environment.shown_root)
    try:
        with Repository.open(environment) as repo:
            status = os.fstat(repo.root.descriptor)
            free = os.fstatvfs(repo.root.descriptor)
    except MemoryFailure as failure:
        yield Check(
            "memory",
            "bad",
            f"The memory at {shown} cannot be opened: {visible(failure.message)}",
            failure.hint,
        )
        return
    yield Check("memory", "good", f"The memory is {shown}.")
    if status.st_uid != os.getuid():
        yield Check(
            "owner",
            "bad",
            "The memory belongs to another user.",
            "Make it yours with chown, or name another root.",
        )
    if not os.access(environment.memory_root, os.W_OK):
        yield Check(
            "writable",
            "bad",
            "The memory cannot be written.",
            "Reading works; changes need the rights to write.",
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        yield Check("private", "warning", "Others may look into the memory.", "Run: dsh-memory init")
    if free.f_bavail * free.f_frsize < _LEAST_FREE_BYTES:
        yield Check("space", "warning", "Less than 64 MiB are free where the memory lies.", "Make room.")


def _host(environ: Mapping[str, str]) -> Check:
    named = environ.get("DSH_MEMORY_AGENT") or environ.get("DSH_BIN") or "dsh"
    program = named.split()[0] if named.split() else "dsh"
    found = shutil.which(os.path.expanduser(program), path=environ.get("PATH"))
    if found is None:
        advice = "Only sync needs it: install the host, or name a program with DSH_BIN or DSH_MEMORY_AGENT."
        return Check("agent", "warning", f"The agent program {visible(program)} is not on the PATH.", advice)
    return Check("agent", "good", f"Sync would run {visible(found)}.")


def _settings(environment: Environment) -> Check:
    try:
        enabled = Settings(environment).enabled()
    except SettingsFailure as failure:
        return Check("settings", "bad", visible(failure.message), failure.hint)
    return Check("settings", "good", f"Memory is switched {'on' if enabled else 'off'}.")
