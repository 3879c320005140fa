"""One call of the program: its arguments, and what they are about."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dsh_memory.environment import Environment

if TYPE_CHECKING:
    from dsh_memory.inspection import Inspector
    from dsh_memory.service import MemoryService


class UsageError(Exception):
    """The command line does not say enough, or says something impossible; nothing was done."""


class CommandFailed(Exception):
    """Something outside the contract went wrong (an editor, a file); the message says what."""


@dataclass(frozen=True)
class Invocation:
    """The parsed arguments and the environment that they and the process's variables name."""

    arguments: Namespace
    environment: Environment

    @classmethod
    def of(cls, arguments: Namespace) -> Invocation:
        """Raises RepoUnavailable for a root that no path can name."""
        root, dsh_home = _absolute(arguments.root), _absolute(arguments.dsh_home)
        return cls(arguments, Environment.from_process(root=root, dsh_home=dsh_home))

    @cached_property
    def service(self) -> MemoryService:
        from dsh_memory.service import MemoryService

        return MemoryService(self.environment)

    @cached_property
    def inspector(self) -> Inspector:
        from dsh_memory.inspection import Inspector

        return Inspector(self.environment)

    @property
    def wants_json(self) -> bool:
        return bool(self.arguments.json)


def _absolute(path: str | None) -> str | None:
    if path is None or path.startswith("~/"):
        return path
    if not path:
        raise UsageError("--root and --dsh-home need a path")
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise UsageError("the current folder is gone; give an absolute path") from None
