"""The queue of this process's writers, first come first served, before any of them asks for the lock file."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dsh_memory.errors import OperationInProgress


@dataclass(slots=True)
class Turn:
    """A place in the queue; `deadline` (monotonic) ends all waiting, `held` says that the lock was taken."""

    deadline: float
    held: bool = False


@dataclass(slots=True)
class _Queue:
    waiting: deque[Turn] = field(default_factory=deque)
    last_release: float = 0.0


_queues: dict[tuple[int, int], _Queue] = {}
_queues_changed = threading.Condition()


def _forget_queues() -> None:
    # A forked child has none of its parent's threads, so nobody would ever leave their queues.
    global _queues_changed
    _queues.clear()
    _queues_changed = threading.Condition()


os.register_at_fork(after_in_child=_forget_queues)


@contextmanager
def turn_of(identity: tuple[int, int], wait_seconds: float) -> Iterator[Turn]:
    """Waits for the writers of this process that came first; `deadline` ends the wait for another process.

    The wait begins anew whenever one of them finishes: a long queue that moves is no reason to give up.
    """
    arrived = time.monotonic()
    mine = Turn(arrived + wait_seconds)
    with _queues_changed:
        queue = _queues.setdefault(identity, _Queue())
        queue.waiting.append(mine)
        try:
            while queue.waiting[0] is not mine:
                mine.deadline = max(arrived, queue.last_release) + wait_seconds
                left = mine.deadline - time.monotonic()
                if left <= 0:
                    raise lock_held()
                _queues_changed.wait(left)
            mine.deadline = max(arrived, queue.last_release) + wait_seconds
        except BaseException:
            _leave(identity, queue, mine)
            raise
    try:
        yield mine
    finally:
        with _queues_changed:
            if mine.held:
                queue.last_release = time.monotonic()
            _leave(identity, queue, mine)


def _leave(identity: tuple[int, int], queue: _Queue, turn: Turn) -> None:
    queue.waiting.remove(turn)
    if not queue.waiting and _queues.get(identity) is queue:
        del _queues[identity]
    _queues_changed.notify_all()


def lock_held() -> OperationInProgress:
    """The refusal of a writer that waited long enough."""
    return OperationInProgress("Another operation is changing this memory.", detail="lock-held")
