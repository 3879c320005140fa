"""Named points of a transaction, where a test can stop or kill it."""

from __future__ import annotations

from collections.abc import Callable

#: The tests' door: called with the name of each point as it is reached; None outside tests.
phase_hook: Callable[[str], None] | None = None


def reached(name: str) -> None:
    """Says that the point `name` is reached."""
    if phase_hook is not None:
        phase_hook(name)
