"""hard_delete and redact: a memory's text leaves every place that this machine can reach (`design.md`
§5.9).
"""

from __future__ import annotations

from dsh_memory.api.draft import Batch, Draft, check_secrets
from dsh_memory.api.jobs import Answer, Replay
from dsh_memory.api.mapping import record_bytes
from dsh_memory.api.models import ForgetRequest
from dsh_memory.api.state import FirstAnswer
from dsh_memory.api.store import MemoryStore
from dsh_memory.api.values import Caller, Memory
from dsh_memory.environment import format_instant
from dsh_memory.repository.allowed_secrets import read_allowed_secrets

REDACTED = "[REDACTED]"


def erase(
    store: MemoryStore, caller: Caller, memory_id: str, request: ForgetRequest, replay: Replay | None = None
) -> Answer:
    """The answer of a `hard_delete` or `redact`, given once the history is purged; a replay gets the first one."""
    first = None if replay is None else store.replayed(caller, replay)
    if first is not None:
        return first
    answer = _erased(store, caller, memory_id, request)
    if replay is not None:
        # Of the memory it names the id alone, so that it may outlive it.
        kept = FirstAnswer(replay.fingerprint, answer, memory_id, 0, settled=True)
        store.state.expect(caller.key, replay.key, kept, store.clock())
    return answer


def _erased(store: MemoryStore, caller: Caller, memory_id: str, request: ForgetRequest) -> Answer:
    redact = request.mode == "redact"
    memory = _find(store, caller, memory_id)
    if memory.status == "redacted" and redact:
        return _answer(memory_id, request.mode, purged=True, beyond=())
    stone = _tombstone(store, memory, request) if redact else None
    stones = {} if stone is None else {stone.file: record_bytes(stone)}
    for file, data in stones.items():
        check_secrets(file, data, read_allowed_secrets(store.environment), ("body", "replacement_content"))
    purged = store.purge(memory.id, stones)
    return _answer(memory_id, request.mode, purged=purged.purged, beyond=purged.beyond_reach)


def _find(store: MemoryStore, caller: Caller, memory_id: str) -> Memory:
    with store.reading() as catalogue, store.repository() as repo:
        batch = Batch(catalogue, repo.root, frozenset(), store.clock())
        return Draft(batch, caller, "erase", None).find(memory_id)


def _tombstone(store: MemoryStore, memory: Memory, request: ForgetRequest) -> Memory:
    """What stays of a redacted memory: that it was, where, and why it is gone."""
    now = format_instant(store.clock())
    file = memory.file if memory.file.startswith("archive/") else f"archive/{memory.file}"
    return Memory(
        id=memory.id,
        content=request.replacement_content or REDACTED,
        path=memory.path,
        file=file,
        kind=memory.kind,
        bucket=memory.bucket,
        scope=memory.scope,
        team_id=memory.team_id,
        memory_type=memory.memory_type,
        status="redacted",
        version=memory.version + 1,
        created_at=memory.created_at,
        updated_at=now,
        deleted_at=now,
        delete_reason=request.reason,
        metadata=request.metadata or {},
        agent=memory.agent,
        door=memory.door,
    )


def _answer(memory_id: str, mode: str, *, purged: bool, beyond: tuple[str, ...]) -> Answer:
    return {
        "ok": True,
        "id": memory_id,
        "memory_id": memory_id,
        "mode": mode,
        "status": "redacted" if mode == "redact" else "deleted",
        "forgotten": True,
        "history_purged": purged,
        "beyond_reach": list(beyond),
    }
