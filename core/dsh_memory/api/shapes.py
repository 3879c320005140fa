"""How a memory is shown in answers."""

from __future__ import annotations

from typing import Any

from dsh_memory.api.recall import Hit
from dsh_memory.api.values import Memory


def shown(memory: Memory) -> dict[str, Any]:
    """A memory with all its fields."""
    return {
        "id": memory.id,
        "memory_id": memory.id,
        "content": memory.content,
        "path": memory.path,
        "kind": memory.kind,
        "bucket": memory.bucket,
        "scope": memory.scope,
        "team_id": memory.team_id,
        "memory_type": memory.memory_type,
        "status": memory.status,
        "version": memory.version,
        "semantic_key": memory.semantic_key,
        "importance": memory.importance,
        "confidence": memory.confidence,
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
        "expires_at": memory.expires_at,
        "source": memory.source,
        "logic_path": memory.logic_path,
        "metadata": dict(memory.metadata),
        "provenance": dict(memory.provenance),
        "supersedes": memory.supersedes,
        "superseded_by": memory.superseded_by,
        "conflicts_with": memory.conflicts_with,
        "embedding_provider": memory.embedding_provider,
        "embedding_model": memory.embedding_model,
        "embedding_dimension": memory.embedding_dimension,
        "deleted_at": memory.deleted_at,
        "delete_reason": memory.delete_reason,
        "agent_boundary": boundary(memory),
        "citation": f"[source: {memory.file} · id: {memory.id}]",
    }


def result(hit: Hit, *, explain: bool) -> dict[str, Any]:
    """A search result."""
    memory = hit.memory
    value: dict[str, Any] = {
        "id": memory.id,
        "memory_id": memory.id,
        "content": memory.content,
        "path": memory.path,
        "kind": memory.kind,
        "bucket": memory.bucket,
        "scope": memory.scope,
        "team_id": memory.team_id,
        "score": hit.score,
        "similarity": hit.similarity,
        "memory_type": memory.memory_type,
        "status": memory.status,
        "version": memory.version,
        "semantic_key": memory.semantic_key,
        "importance": memory.importance,
        "confidence": memory.confidence,
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
        "expires_at": memory.expires_at,
        "metadata": dict(memory.metadata),
        "agent_boundary": boundary(memory),
    }
    if explain:
        value["explanation"] = explanation(hit)
    return value


def explanation(hit: Hit) -> dict[str, float]:
    """The parts of a hit's score; they add up to it."""
    parts = hit.parts
    return {
        "bm25": parts.bm25,
        "recency": parts.recency,
        "importance": parts.importance,
        "working": parts.working,
        "neighbours": parts.neighbours,
    }


def boundary(memory: Memory) -> dict[str, Any]:
    """Who wrote it, through which door: provenance, never a right."""
    return {"agent_id": memory.agent, "agent_instance_id": memory.agent_instance, "door": memory.door}
