"""Git, sealed: nothing of the caller's environment or configuration reaches it.

Argument lists only; the environment is built anew from an allow-list; hooks, signing, filters, line-ending conversion,
external programs and user excludes are off (`design.md` §5.2). Reads start git themselves, since importing GitPython
costs a cold read more than the read; writes go through GitPython's command layer (`WritingGit`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsh_memory.errors import RepoUnavailable

#: Written where a repository names no identity of its own.
OWN_IDENTITY = "DPSK Memory <dpsk-memory@localhost>"

# A read that hangs (a dead network mount) must end in an answer; no read of ours takes minutes.
_TIME_LIMIT_SECONDS = 300

# guard: sealed-config
_SEALED_CONFIG = {
    "advice.detachedHead": "false",
    "color.ui": "false",
    "commit.gpgSign": "false",
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "core.eol": "lf",
    "core.excludesFile": os.devnull,
    "core.fsmonitor": "false",
    "core.fsync": "all",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.safecrlf": "false",
    "core.untrackedCache": "keep",
    "diff.external": "",
    "diff.renames": "false",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "status.relativePaths": "false",
    "status.renames": "false",
    "status.showUntrackedFiles": "all",
    "submodule.recurse": "false",
    "tag.gpgSign": "false",
}

_OWNERSHIP_WORDS = b"dubious ownership"


class GitFailed(Exception):
    """A git process that ended with a status the caller did not expect; `message` is its stderr, cut."""

    def __init__(self, arguments: Sequence[str], status: int, stderr: bytes) -> None:
        self.status = status
        self.message = stderr.decode("utf-8", "replace").strip()[:500]
        super().__init__(f"git {arguments[0] if arguments else ''} ended with {status}: {self.message}")


def sealed_environment(root: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of a git process that works on `root`."""
    # guard: sealed-environment
    environment = {
        "PATH": os.environ.get("PATH") or os.defpath,
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": os.path.dirname(root),
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": "false",
    }
    if extra:
        environment.update(extra)
    return environment


def sealed_arguments(root: str, arguments: Sequence[str]) -> list[str]:
    """`git` with the sealed configuration in front of `arguments`, working on `root`."""
    command = ["git", "-C", root]
    for key, value in _SEALED_CONFIG.items():
        command += ["-c", f"{key}={value}"]
    return command + list(arguments)


@dataclass(slots=True)
class SealedGit:
    """Runs git on one root.

    `spawned` counts the processes started, `killed` those that a signal ended; `overrides` are further `-c
    key=value` arguments, for what only the repository's own config can name.
    """

    root: str
    spawned: int = field(default=0, init=False)
    killed: int = field(default=0, init=False)
    overrides: tuple[str, ...] = field(default=(), init=False)

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        extra_environment: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (0,),
    ) -> bytes:
        """The standard output of one git process.

        Raises GitFailed for a status outside `accept`, RepoUnavailable where git is missing, hangs, or refuses the
        repository because another user owns it.
        """
        self.spawned += 1
        status, stdout, stderr = self._spawn(
            sealed_arguments(self.root, (*self.overrides, *arguments)),
            sealed_environment(self.root, extra_environment),
            stdin,
        )
        if status < 0:
            self.killed += 1
        if status not in accept:
            if _OWNERSHIP_WORDS in stderr:
                raise RepoUnavailable(
                    "Another user owns this repository, so Git refuses it.", detail="ownership"
                )
            raise GitFailed(arguments, status, stderr)
        return stdout

    def _spawn(
        self, command: list[str], environment: dict[str, str], stdin: bytes
    ) -> tuple[int, bytes, bytes]:
        try:
            done = subprocess.run(
                command,
                input=stdin,
                capture_output=True,
                env=environment,
                timeout=_TIME_LIMIT_SECONDS,
                cwd="/",
            )
        except FileNotFoundError:
            raise git_missing() from None
        except subprocess.TimeoutExpired:
            raise RepoUnavailable("Git did not answer in time.", detail="git-timeout") from None
        return done.returncode, done.stdout, done.stderr


class WritingGit(SealedGit):
    """The same, through GitPython's command layer: what every write uses."""

    __slots__ = ()

    def _spawn(
        self, command: list[str], environment: dict[str, str], stdin: bytes
    ) -> tuple[int, bytes, bytes]:
        git = _gitpython()
        # GitPython merges its `env` into the caller's environment; `env -i` starts from nothing instead.
        clean = ["env", "-i", *(f"{key}={value}" for key, value in environment.items()), *command]
        if shutil.which("git", path=environment["PATH"]) is None:
            raise git_missing()
        process = git.cmd.Git("/").execute(clean, istream=subprocess.PIPE, as_process=True)
        try:
            stdout, stderr = process.proc.communicate(stdin, timeout=_TIME_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.proc.kill()
            process.proc.communicate()
            raise RepoUnavailable("Git did not answer in time.", detail="git-timeout") from None
        return process.proc.returncode, stdout, stderr


def git_missing() -> RepoUnavailable:
    return RepoUnavailable("Git is not on the PATH; install Git 2.38 or newer.", detail="git-missing")


def _gitpython() -> Any:
    if "git" not in sys.modules:
        _import_under_no_variables_of_git()
    import git

    return git


def _import_under_no_variables_of_git() -> None:
    # Importing GitPython runs `git version`, or whatever GIT_PYTHON_GIT_EXECUTABLE names, under the caller's
    # variables, and a trace file that these name is written.
    # guard: sealed-import
    hidden = {name: value for name, value in os.environ.items() if name.startswith("GIT_")}
    for name in hidden:
        del os.environ[name]
    try:
        import git  # noqa: F401
    finally:
        os.environ.update(hidden)
