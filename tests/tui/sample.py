"""The real core on the sample memory, with the clock and the Git version held still."""

from __future__ import annotations

from typing import Any

from dsh_memory import Environment
from dsh_memory.inspection import Fact, Snapshot
from dsh_memory_tui.core import SNAPSHOT_RUNS, LiveCore, Looks
from tests.tui.fakes import NOW


class SampleCore(LiveCore):
    """Answers as the real core does, but names no version of the machine's Git."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment, lambda: NOW)
        self._still: Any = _StillLooks(super().looks)

    @property
    def looks(self) -> Looks:
        looks: Looks = self._still
        return looks

    def snapshot(self) -> Snapshot:
        return self.looks.snapshot()


class _StillLooks:
    def __init__(self, looks: Looks) -> None:
        self._looks = looks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._looks, name)

    def snapshot(self, run_limit: int = SNAPSHOT_RUNS) -> Snapshot:
        snapshot = self._looks.snapshot(run_limit)
        facts = tuple(map(_without_version, snapshot.overview.facts))
        return snapshot._replace(overview=snapshot.overview._replace(facts=facts))


def _without_version(fact: Fact) -> Fact:
    return fact._replace(sentence="2.45.0, sealed") if fact.topic == "git" else fact
