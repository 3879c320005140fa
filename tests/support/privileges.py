"""Runs code without root's powers, where a permission is the point of a test."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

NOBODY = 65534

_T = TypeVar("_T")


def give_to_nobody(folder: Path) -> None:
    """Make nobody the owner of a tree, if we are root."""
    if os.getuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.lchown(path, NOBODY, NOBODY)


def as_nobody(function: Callable[[], _T]) -> _T:
    """What `function` returns in a forked child without root's powers; its modules must be loaded already."""
    if os.getuid() != 0:
        return function()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            answer = pickle.dumps((function(), None))
        except BaseException:
            answer = pickle.dumps((None, traceback.format_exc()))
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        value, failure = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    if failure is not None:
        raise AssertionError(failure)
    result: _T = value
    return result
