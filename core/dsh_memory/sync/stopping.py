"""Signals that end a sync: at once while an agent works, after the end of a transaction while one runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopping:
    """While entered, SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt inside `possible` blocks, or wait
    for one.

    Outside the main thread, where Python takes no signals, it does nothing.
    """

    def __init__(self) -> None:
        self._possible = False
        self._asked = False
        self._previous: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._previous[number] = signal.signal(number, self._stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if self._asked and kind is None:
            raise KeyboardInterrupt

    @contextmanager
    def possible(self) -> Iterator[None]:
        """The work inside may be broken off anywhere."""
        if self._asked:
            raise KeyboardInterrupt
        self._possible = True
        try:
            yield
        finally:
            self._possible = False

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        if self._possible:
            # Only once: what cleans up must not be broken off by an impatient second signal.
            self._possible = False
            raise KeyboardInterrupt
