"""When acknowledged writes are folded into a commit: once no more come, or when the oldest has waited long enough."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

_CALM: Final = 1.0
_LONGEST_WAIT: Final = 10.0


class CalmFolder:
    """Calls `fold` from a thread of its own; `fold` says whether it could, else it is tried again later."""

    def __init__(self, fold: Callable[[], bool], *, calm: float = _CALM, most: float = _LONGEST_WAIT) -> None:
        self._fold = fold
        self._calm = calm
        self._most = most
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._first: float | None = None
        self._last = 0.0
        self._folding = False
        self._closed = False

    def note(self) -> None:
        """A write waits."""
        with self._changed:
            self._last = time.monotonic()
            if self._first is None:
                self._first = self._last
                self._changed.notify()
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._work, name="memory-folder", daemon=True)
                self._thread.start()

    def note_found(self) -> None:
        """A write was found waiting that may have been noted already."""
        with self._changed:
            known = self._first is not None or self._folding
        if not known:
            self.note()

    def close(self) -> None:
        """Ends the thread; what waits is the caller's to fold."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while self._wait():
            folded = self._fold()
            with self._changed:
                self._folding = False
                if not folded:
                    self._first = self._last = time.monotonic() + self._most

    def _wait(self) -> bool:
        """Waits until it is time; False at the end."""
        with self._changed:
            while not self._closed:
                if self._first is None:
                    self._changed.wait()
                    continue
                due = min(self._last + self._calm, self._first + self._most)
                left = due - time.monotonic()
                if left <= 0:
                    self._first = None
                    self._folding = True
                    return True
                self._changed.wait(left)
        return False
