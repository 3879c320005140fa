"""Every operation is killed at every system call that changes the disk: the whole process group, or one git
process alone.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.reliability import tracing
from tests.reliability.aftermath import Learned, check_killed, check_refused
from tests.reliability.figures import Figures
from tests.reliability.scenes import end_group
from tests.reliability.sweeping import learned_operations, sample, scene_of, tried
from tests.reliability.tracing import Point

#: So many points of each operation make the short form.
SHORT_GROUP_KILLS = 3
SHORT_GIT_KILLS = 2


@dataclass(frozen=True, slots=True)
class Kill:
    """One death: at a point, of the whole group or of the git process `alone`."""

    facts: Learned
    point: Point
    alone: bool

    def __str__(self) -> str:
        victim = "git alone" if self.alone else "all"
        return f"{self.facts.operation.name}, {victim} killed at {self.point}"


def group_kills(facts: Learned) -> list[Kill]:
    """Every death of an operation's whole process group."""
    return [Kill(facts, point, alone=False) for point in facts.points if not point.flushes]


def git_kills(facts: Learned) -> list[Kill]:
    """Every death of one git process of an operation."""
    return [Kill(facts, point, alone=True) for point in facts.points if point.in_git and not point.flushes]


def attempt(kill: Kill) -> None:
    """Kills, recovers and checks; raises AssertionError where something was lost."""
    facts = kill.facts
    with scene_of(facts) as scene:
        command = facts.operation.command(scene)
        ended = tracing.kill(scene, command, kill.point, alone=kill.alone)
        if kill.alone:
            check_refused(facts, scene, ended)
        else:
            check_killed(facts, scene, ended)


def figures(long: bool) -> Figures:
    """Deaths at system calls."""
    with learned_operations() as operations:
        kills: list[Kill] = []
        for facts in operations:
            for every, most in ((group_kills(facts), SHORT_GROUP_KILLS), (git_kills(facts), SHORT_GIT_KILLS)):
                kills += every if long else sample(every, most)
        return tried(kills, attempt)


@dataclass(frozen=True, slots=True)
class Moment:
    """A death of the whole group so many seconds after its start."""

    facts: Learned
    seconds: float

    def __str__(self) -> str:
        return f"{self.facts.operation.name}, killed after {self.seconds:.3f} s"


def moments(operations: Sequence[Learned], number: int) -> list[Moment]:
    """Random moments for each operation, the same each time."""
    chance = random.Random(9)
    return [Moment(facts, chance.uniform(0.1, 0.8)) for facts in operations for _ in range(number)]


def attempt_moment(moment: Moment) -> None:
    """Kills at the moment, recovers and checks; raises AssertionError where something was lost."""
    facts = moment.facts
    with scene_of(facts) as scene:
        process = scene.start(facts.operation.command(scene))
        time.sleep(moment.seconds)
        end_group(process)
        check_killed(facts, scene, scene.ended(process))


def random_figures(long: bool) -> Figures:
    """Deaths at random moments."""
    with learned_operations() as operations:
        return tried(moments(operations, 50 if long else 2), attempt_moment)
