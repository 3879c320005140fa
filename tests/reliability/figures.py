"""What one row of the reliability table counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """`tried` points, faults, states or steps, and one sentence for each loss: a thing that did not hold."""

    tried: int
    losses: tuple[str, ...] = ()
