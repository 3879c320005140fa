"""hard_delete and redact: a memory's text leaves every place that this machine can reach (`design.md`
§5.9).
"""

from __future__ import annotations

from dsh_memory.api.failures import ApiFailure
from dsh_memory.api.models import ForgetRequest
from dsh_memory.api.store import Answer, MemoryStore, Replay
from dsh_memory.api.values import Caller


def erase(
    store: MemoryStore, caller: Caller, memory_id: str, request: ForgetRequest, replay: Replay | None
) -> Answer:
    """Not yet."""
    raise ApiFailure(501, "not_implemented", "Erasing is not available yet.")
