"""The first snapshot, read by a process of its own while the screen's libraries load in this one."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar

Read = TypeVar("Read")


class Ahead(Generic[Read]):
    """A reading under way in a second process; begin it before any thread is started."""

    def __init__(self, read: Callable[[], Read]) -> None:
        self._source, sink = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            os.close(self._source)
            _send(read, sink)
        os.close(sink)

    def result(self) -> Read | None:
        """What was read; None where the process brought none: whoever reads for itself then meets what it met."""
        with open(self._source, "rb") as file:
            data = file.read()
        _, status = os.waitpid(self._process, 0)
        if status != 0:
            return None
        found: Read = pickle.loads(data)  # noqa: S301 (our own process wrote it)
        return found


def _send(read: Callable[[], object], sink: int) -> NoReturn:
    status = 1
    try:
        data = pickle.dumps(read(), pickle.HIGHEST_PROTOCOL)
        with open(sink, "wb") as file:
            file.write(data)
        status = 0
    finally:
        # Nothing of the first process is this one's to end: no exit handler, no temporary folder, no terminal.
        os._exit(status)
