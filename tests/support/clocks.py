"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.support.repositories import NOON


class FrozenClock:
    """Callable like the program's clock; `advance` moves it."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **step: float) -> None:
        """Move on by a timedelta's arguments (`seconds=1`, `days=7`)."""
        self.now += timedelta(**step)
