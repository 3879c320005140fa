"""The system refuses one call of an operation, each in turn and for each reason, or all of them for want of space."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.reliability import tracing
from tests.reliability.aftermath import Learned, check_refused
from tests.reliability.figures import Figures
from tests.reliability.sweeping import learned_operations, sample, scene_of, tried
from tests.reliability.tracing import Point

ERRORS = ("ENOSPC", "EIO", "EROFS", "EINTR")
#: So many faults of each operation make the short form.
SHORT_FAULTS = 4
#: Free space that an operation meets, in KiB: from none at all to almost enough.
FREE = tuple(range(0, 484, 4))
SHORT_FREE = 2
_TMPFS_KIB = 1024


@dataclass(frozen=True, slots=True)
class Fault:
    """One refused call."""

    facts: Learned
    point: Point
    error: str

    def __str__(self) -> str:
        return f"{self.facts.operation.name}, {self.error} at {self.point}"


def faults(facts: Learned) -> list[Fault]:
    """Every refusal of an operation's calls, for every reason."""
    return [Fault(facts, point, error) for error in ERRORS for point in facts.points]


def some_faults(facts: Learned) -> list[Fault]:
    """Refusals of calls all along an operation, each for another reason."""
    points = sample(facts.points, SHORT_FAULTS)
    return [Fault(facts, point, ERRORS[number % len(ERRORS)]) for number, point in enumerate(points)]


def attempt(fault: Fault) -> None:
    """Refuses the call and checks; raises AssertionError where something was lost."""
    facts = fault.facts
    with scene_of(facts) as scene:
        ended = tracing.fail(scene, facts.operation.command(scene), fault.point, fault.error)
        check_refused(facts, scene, ended, git_may_leave_locks=fault.point.name == "unlink")


def figures(long: bool) -> Figures:
    """Refused system calls."""
    with learned_operations() as operations:
        cases = [fault for facts in operations for fault in (faults(facts) if long else some_faults(facts))]
        return tried(cases, attempt)


@dataclass(frozen=True, slots=True)
class Fullness:
    """An operation on a file system with so much room left."""

    facts: Learned
    free_kib: int

    def __str__(self) -> str:
        return f"{self.facts.operation.name}, {self.free_kib} KiB free"


@contextmanager
def small_file_system() -> Iterator[Path | None]:
    """A mounted tmpfs of 1 MiB; None where the system does not let us mount one."""
    with tempfile.TemporaryDirectory(prefix="dsh-memory-full-") as folder:
        command = ["mount", "-t", "tmpfs", "-o", f"size={_TMPFS_KIB}k,mode=0700", "tmpfs", folder]
        if subprocess.run(command, capture_output=True).returncode:
            yield None
            return
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def attempt_on_full(fullness: Fullness) -> None:
    """Runs the operation with little room left, makes room, and checks; raises AssertionError where something
    was lost.
    """
    facts = fullness.facts
    with small_file_system() as place:
        if place is None:
            raise AssertionError("no tmpfs could be mounted")
        scene = facts.template.copied_to(place / "scene")
        filler = place / "filler"
        _fill(filler, fullness.free_kib)
        ended = scene.run(facts.operation.command(scene))
        filler.unlink()
        check_refused(facts, scene, ended)


def _fill(filler: Path, free_kib: int) -> None:
    status = os.statvfs(filler.parent)
    room = status.f_bavail * status.f_frsize - free_kib * 1024
    with open(filler, "wb") as file:
        file.write(b"\0" * max(0, room))


def fullnesses(facts: Learned) -> list[Fullness]:
    """An operation with every amount of room."""
    return [Fullness(facts, free) for free in FREE]


def full_figures(long: bool) -> Figures:
    """Operations on a file system that is full."""
    with learned_operations() as operations:
        cases = [
            case
            for facts in operations
            for case in (fullnesses(facts) if long else sample(fullnesses(facts), SHORT_FREE))
        ]
        return tried(cases, attempt_on_full)


def can_mount() -> bool:
    """Whether the system lets us mount the small file system."""
    with small_file_system() as place:
        return place is not None
