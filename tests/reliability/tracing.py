"""Which system calls of an operation change the disk, and how strace cuts or fails exactly one of them.

strace counts the calls of each process and each name by itself. So the Python process is traced alone, and
each git process it starts is traced by a `git` that stands first on the PATH, counts how often it was started,
and puts strace before the one that is meant.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.reliability.scenes import Ended, Scene

#: Calls that make, change or remove something on disk, or promise that it will stay.
_CHANGING: Final = [
    "open", "openat", "openat2", "creat", "mkdir", "mkdirat", "rename", "renameat", "renameat2", "link",
    "linkat", "unlink", "unlinkat", "rmdir", "symlink", "symlinkat", "truncate", "ftruncate", "write",
    "pwrite64", "writev", "pwritev", "chmod", "fchmod", "fchmodat", "utimensat", "fallocate",
    "copy_file_range", "sendfile",
]  # fmt: skip
_FLUSHING: Final = ["fsync", "fdatasync", "syncfs", "sync"]
_TRACED: Final = ",".join(f"?{name}" for name in (*_CHANGING, *_FLUSHING))
_OPENING: Final = ("open", "openat", "openat2")
_CALL: Final = re.compile(r"(?:(?P<process>\d+) +)?(?P<name>[a-z0-9_]+)\((?P<rest>.*)")
_FAILED: Final = re.compile(r" = -1 E[A-Z]+ ")
_PYTHON: Final = 0


@dataclass(frozen=True, slots=True)
class Point:
    """One system call: the `call`th of its name in a process (0 the Python process, else the nth git), or with
    `child` in a process that this git started. `words` name the git command.
    """

    process: int
    call: int
    name: str
    words: str = ""
    child: bool = False

    @property
    def in_git(self) -> bool:
        """Whether a git process makes the call."""
        return self.process != _PYTHON

    @property
    def flushes(self) -> bool:
        """Whether the call changes nothing that another process could see."""
        return self.name in _FLUSHING

    def __str__(self) -> str:
        where = f"git {self.process} ({self.words})" if self.in_git else "python"
        return f"{where}{' child' if self.child else ''}, {self.name} {self.call}"


needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


class Missed(Exception):
    """The call that was meant was not made this time."""


def learn(scene: Scene, command: Sequence[str]) -> tuple[Ended, list[Point]]:
    """Runs the command undisturbed: how it ended, and every call of it that changes something of the scene."""
    _write_shim(scene, f'exec {_strace(scene, "$n")} -f "$git" "$@"')
    ended = scene.run([*_strace_words(scene, str(_PYTHON)), *command])
    points: list[Point] = []
    for trace in sorted(scene.folder.glob("trace.*"), key=lambda path: int(path.suffix[1:])):
        points += _points(trace, scene)
    return ended, points


def kill(scene: Scene, command: Sequence[str], point: Point, *, alone: bool) -> Ended:
    """Runs the command with SIGKILL at the point; unless `alone`, the whole process group dies at once.

    Raises Missed.
    """
    return _inject(scene, command, point, "signal=KILL", "= ?\n", group_dies=not alone)


def fail(scene: Scene, command: Sequence[str], point: Point, error: str) -> Ended:
    """Runs the command with one call failing as if the system refused it; raises Missed."""
    return _inject(scene, command, point, f"error={error}", "(INJECTED)", group_dies=False)


def _inject(
    scene: Scene, command: Sequence[str], point: Point, what: str, trace: str, *, group_dies: bool
) -> Ended:
    ended = _run_with(scene, command, point, what, group_dies=group_dies)
    path = scene.folder / f"trace.{point.process}"
    if not path.exists() or trace not in path.read_text(errors="replace"):
        raise Missed
    return ended


def _run_with(scene: Scene, command: Sequence[str], point: Point, what: str, *, group_dies: bool) -> Ended:
    injection = ["-e", f"inject={point.name}:{what}:when={point.call}"]
    if not point.in_git:
        _write_shim(scene, 'exec "$git" "$@"')
        return scene.run([*_strace_words(scene, str(_PYTHON)), *injection, *command])
    following = "-f " if point.child else ""
    traced = f'{_strace(scene, "$n")} {shlex.join(injection)} {following}"$git" "$@"'
    # strace ends by the signal that its process died of.
    then = f"{traced}; status=$?; [ $status -lt 128 ] || kill -KILL 0; exit $status"
    chosen = then if group_dies else f"exec {traced}"
    _write_shim(scene, f'if [ $n = {point.process} ]; then {chosen}; fi\nexec "$git" "$@"')
    return scene.run(command)


def _strace_words(scene: Scene, number: str) -> list[str]:
    trace = str(scene.folder / f"trace.{number}")
    return ["strace", "-q", "-y", "-s", "0", "-o", trace, "-e", f"trace={_TRACED}", "-e", "signal=none"]


def _strace(scene: Scene, number: str) -> str:
    words = _strace_words(scene, "NUMBER")
    return " ".join(shlex.quote(word) for word in words).replace("NUMBER", number)


def _write_shim(scene: Scene, body: str) -> None:
    git = shutil.which("git")
    if git is None:
        raise FileNotFoundError("git")
    count = scene.folder / "git-count"
    count.write_text("0\n")
    (scene.folder / "git-words").write_text("")
    shim = scene.folder / "bin" / "git"
    shim.write_text(
        f"#!/bin/sh\ngit={shlex.quote(git)}\nread n < {count}\nn=$((n + 1))\necho $n > {count}\n"
        f'echo "$n $*" >> {scene.folder}/git-words\n{body}\n'
    )
    shim.chmod(0o700)


def _points(trace: Path, scene: Scene) -> list[Point]:
    process = int(trace.suffix[1:])
    words = _words_of(scene, process)
    first: str | None = None
    calls: dict[tuple[str | None, str], int] = {}
    reached: set[tuple[str, int]] = set()
    points: list[Point] = []
    for line in trace.read_text(errors="replace").splitlines():
        found = _CALL.match(line)
        if found is None:
            continue
        first = first or found["process"]
        name, child = found["name"], found["process"] != first
        own = calls[found["process"], name] = calls.get((found["process"], name), 0) + 1
        # Where children are traced, too, the first process that makes its nth call is the one that is met.
        if (not child or (name, own) not in reached) and _changes(name, found["rest"], str(scene.folder)):
            points.append(Point(process, own, name, words, child))
        reached.add((name, own))
    return points


def _changes(name: str, rest: str, folder: str) -> bool:
    if folder not in rest or _FAILED.search(rest):
        return False
    return name not in _OPENING or "O_CREAT" in rest or "O_TRUNC" in rest


def _words_of(scene: Scene, process: int) -> str:
    """The git command of a process, which stands after the sealed configuration."""
    for line in (scene.folder / "git-words").read_text(errors="replace").splitlines():
        number, *words = line.split()
        while words and words[0] in ("-C", "-c"):
            del words[:2]
        if number == str(process):
            return " ".join(words[:1])
    return ""
