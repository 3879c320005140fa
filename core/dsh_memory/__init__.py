"""The headless core of dsh-memory: an agent's long-term memory as Markdown records in a local Git repository.

Public names load on first use, so that `import dsh_memory` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dsh_memory.contract import METHODS, Method
    from dsh_memory.environment import Environment
    from dsh_memory.errors import MemoryFailure
    from dsh_memory.service import Envelope, MemoryService
    from dsh_memory.text import visible

_HOMES = {
    "Environment": "dsh_memory.environment",
    "Envelope": "dsh_memory.service",
    "METHODS": "dsh_memory.contract",
    "MemoryFailure": "dsh_memory.errors",
    "MemoryService": "dsh_memory.service",
    "Method": "dsh_memory.contract",
    "visible": "dsh_memory.text",
}

__all__ = ["METHODS", "Envelope", "Environment", "MemoryFailure", "MemoryService", "Method", "visible"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
