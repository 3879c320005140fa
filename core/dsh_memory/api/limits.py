"""Rate limits of the memory API: so many calls in the last minute, for each token (`spec`: xmemo,
Cross-cutting).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from dsh_memory.api.failures import ApiFailure

#: Calls a minute of each policy.
DEFAULTS: Final = {"memory_write": 180, "memory_search": 300}
_OPTION_NAMES: Final = {"write": "memory_write", "search": "memory_search"}


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Calls a minute by policy; a policy that is missing has no limit."""

    per_minute: Mapping[str, int] = field(default_factory=lambda: dict(DEFAULTS))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The limits that an option names, `off` or `write=N,search=N`; raises ValueError."""
        if text == "off":
            return cls({})
        limits = dict(DEFAULTS)
        for part in text.split(","):
            name, _, number = part.strip().partition("=")
            if name not in _OPTION_NAMES or not number.isdecimal() or int(number) < 1:
                raise ValueError("rate limits are: off, or write=N,search=N")
            limits[_OPTION_NAMES[name]] = int(number)
        return cls(limits)


class Limiter:
    """Counts the calls of one server in a sliding window."""

    def __init__(self, limits: RateLimits) -> None:
        from limits import RateLimitItemPerMinute
        from limits.storage import MemoryStorage
        from limits.strategies import MovingWindowRateLimiter

        self._items = {name: RateLimitItemPerMinute(number) for name, number in limits.per_minute.items()}
        self._window = MovingWindowRateLimiter(MemoryStorage())

    def count(self, policy: str, caller: str) -> None:
        """Count one call; raises ApiFailure 429 with `Retry-After` where it is one too many."""
        item = self._items.get(policy)
        if item is None or self._window.hit(item, policy, caller):
            return
        reset_at, _ = self._window.get_window_stats(item, policy, caller)
        wait = max(1, math.ceil(reset_at - time.time()))
        raise ApiFailure(
            429, "rate_limited", f"Too many calls; try again in {wait} s.", headers={"Retry-After": str(wait)}
        )
