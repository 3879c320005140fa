"""The frame of every sweep: learn the operations once, try points in parallel, gather what was lost."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TypeVar

from tests.reliability.aftermath import Learned, learned
from tests.reliability.figures import Figures
from tests.reliability.operations import OPERATIONS
from tests.reliability.scenes import Scene
from tests.reliability.tracing import Missed

Case = TypeVar("Case")

SCENE_NUMBERS = count()


@contextmanager
def learned_operations(names: Iterable[str] = OPERATIONS) -> Iterator[list[Learned]]:
    """The operations, each done once undisturbed; their templates go in the end."""
    with tempfile.TemporaryDirectory(prefix="dsh-memory-sweep-") as folder:

        def learn(name: str) -> Learned:
            place = Path(folder, name)
            place.mkdir()
            return learned(OPERATIONS[name], place)

        with _pool() as pool:
            yield list(pool.map(learn, names))


def tried(cases: Sequence[Case], attempt: Callable[[Case], None]) -> Figures:
    """How many cases were tried, and what each lost that raised; those whose call was not made do not count."""

    def one(case: Case) -> tuple[int, str | None]:
        try:
            attempt(case)
        except Missed:
            return 0, None
        except AssertionError as lost:
            return 1, f"{case}: {str(lost) or _line_of(lost)}"
        return 1, None

    with _pool() as pool:
        ends = list(pool.map(one, cases))
    return Figures(sum(number for number, _ in ends), tuple(loss for _, loss in ends if loss is not None))


def _line_of(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.line} (line {last.lineno} of {Path(last.filename).name})"


@contextmanager
def scene_of(facts: Learned) -> Iterator[Scene]:
    """A fresh copy of an operation's template; it stays on disk where something was lost."""
    scene = facts.template.copied_to(facts.template.folder.parent / f"scene-{next(SCENE_NUMBERS)}")
    yield scene
    scene.remove()


def sample(cases: Sequence[Case], most: int) -> Sequence[Case]:
    """At most that many of the cases, evenly spread, the same each time; the last one is always among them."""
    if len(cases) <= most:
        return cases
    return [cases[(number + 1) * len(cases) // most - 1] for number in range(most)]


def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count())
