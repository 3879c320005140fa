"""Search, context, list, one memory and its versions: what reads and never commits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from dsh_memory.api.catalogue import Catalogue
from dsh_memory.api.context import Budget, assemble
from dsh_memory.api.failures import conflict, not_found
from dsh_memory.api.history import versions
from dsh_memory.api.jobs import Answer
from dsh_memory.api.language import query_terms
from dsh_memory.api.models import ContextRequest, ListQuery, Narrowed, SearchQuery
from dsh_memory.api.recall import Query, search
from dsh_memory.api.shapes import explanation, result, shown
from dsh_memory.api.store import MemoryStore
from dsh_memory.api.values import Caller, Filter, Memory, canonical


class Reading:
    """What answers from the memories of now, within the caller's rights."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def search(self, caller: Caller, request: SearchQuery) -> Answer:
        """The best matches."""
        query = Query(
            text=request.query,
            wanted=narrowed(request),
            limit=request.limit,
            threshold=request.threshold,
            candidate_count=request.candidate_count,
            prefer_working=request.prefer_working,
        )
        with self._store.reading() as catalogue:
            found = search(catalogue, caller, query, self._store.clock())
        results = [result(hit, explain=request.explain) for hit in found.hits]
        return {"results": results, "coverage": found.coverage}

    def context(self, caller: Caller, request: ContextRequest) -> Answer:
        """A context under the budget; a temporary agent's token gets the plain version 1.0."""
        max_items = request.max_items if request.limit is None else min(request.max_items, request.limit)
        query = Query(
            text=request.query,
            wanted=narrowed(request),
            # More than fit, so that what the budget skips is known.
            limit=max_items * 4,
            threshold=request.threshold,
            prefer_working=request.prefer_working,
            knowledge=request.include_knowledge,
        )
        with self._store.reading() as catalogue:
            found = search(catalogue, caller, query, self._store.clock())
            languages = catalogue.index.languages
        parts = assemble(found.hits, Budget(max_items, request.max_tokens, found.filtered))
        plan = {
            "tokens": [alternatives[0] for alternatives in query_terms(request.query, languages)],
            "filters": {
                "path": request.path,
                "bucket": request.bucket,
                "scope": request.scope,
                "team_id": request.team_id,
                "memory_type": request.memory_type,
                "status": request.status,
                "threshold": request.threshold,
            },
            "candidate_count": found.candidates,
            "stages": ["rights", "bm25", "neighbours", "filters", "value-density"],
        }
        if caller.token is not None and caller.token.temporary_agent:
            kept = ("budget", "items", "context_text")
            return {"version": "1.0", "query": request.query, **{key: parts[key] for key in kept}}
        return {"version": "value-density-v2", "query": request.query, "retrieval_plan": plan, **parts}

    def listing(self, caller: Caller, request: ListQuery) -> Answer:
        """A page of the memories, oldest first; deleted and expired ones are not listed."""
        passes = Filter(path=request.path, status="%").matcher()
        prefix, now = canonical(request.path_prefix or ""), self._store.clock()
        with self._store.reading() as catalogue:
            found = [
                memory
                for memory in catalogue
                if memory.kind == "memory"
                and not memory.is_gone
                and caller.may_see(memory)
                and canonical(memory.path).startswith(prefix)
                and passes(memory)
                and not memory.is_expired(now)
            ]
        found.sort(key=_by_age)
        page = found[request.offset : request.offset + request.limit]
        return {"memories": [shown(memory) for memory in page], "total": len(found)}

    def get(self, caller: Caller, memory_id: str) -> Answer:
        """One memory, with its embedding and how often it was used."""
        memory = self.find(caller, memory_id)
        count, last = self._store.state.usage(memory.id)
        embedding = self._store.state.embedding(memory.id, memory.version)
        return {**shown(memory), "embedding": embedding, "usage_count": count, "last_used_at": last}

    def explain(self, caller: Caller, memory_id: str, query: str | None = None) -> Answer:
        """Why a memory is as it is, and from where; with a query, the parts of its score."""
        memory = self.find(caller, memory_id)
        value: dict[str, Any] = {
            "id": memory.id,
            "memory_id": memory.id,
            "memory": shown(memory),
            "provenance": {
                "source": memory.source,
                "agent_id": memory.agent,
                "agent_instance_id": memory.agent_instance,
                "door": memory.door,
                "file": memory.file,
                **memory.provenance,
            },
            "versions": self._versions(memory),
            "score": None,
            "explanation": None,
        }
        if query:
            everything = Query(query, Filter(status="%"), limit=1_000_000)
            with self._store.reading() as catalogue:
                found = search(catalogue, caller, everything, self._store.clock())
            for hit in found.hits:
                if hit.memory.id == memory.id:
                    value.update(score=hit.score, explanation=explanation(hit))
        return value

    def versions(self, caller: Caller, memory_id: str) -> Answer:
        """The versions of a memory, newest first."""
        found = self._versions(self.find(caller, memory_id))
        return {"id": memory_id, "memory_id": memory_id, "versions": found, "total": len(found)}

    def stats(self, caller: Caller) -> Answer:
        """How many memories there are, by kind, type, status, bucket and scope."""
        now = self._store.clock()
        with self._store.reading() as catalogue:
            seen = [
                memory
                for memory in catalogue
                if caller.may_see(memory) and not memory.is_gone and not memory.is_expired(now)
            ]
        return {
            "total": len(seen),
            "by_kind": _counted(memory.kind for memory in seen),
            "by_type": _counted(memory.memory_type for memory in seen),
            "by_status": _counted(memory.status for memory in seen),
            "by_bucket": _counted(memory.bucket for memory in seen),
            "by_scope": _counted(memory.scope or "" for memory in seen),
        }

    def find(self, caller: Caller, memory_id: str) -> Memory:
        """The one memory of this id that is not deleted; raises not_found or conflict."""
        with self._store.reading() as catalogue:
            return find(catalogue, caller, memory_id)

    def _versions(self, memory: Memory) -> list[dict[str, Any]]:
        self._store.commit_of(memory.file)
        with self._store.repository() as repo:
            found = versions(repo, memory)
        return [
            {
                "version": each.memory.version,
                "commit": each.commit,
                "at": each.at,
                "operation": each.operation,
                "agent_id": each.agent,
                "content": each.memory.content,
                "path": each.memory.path,
                "status": each.memory.status,
                "memory_type": each.memory.memory_type,
            }
            for each in found
        ]


def find(catalogue: Catalogue, caller: Caller, memory_id: str) -> Memory:
    """The one memory of this id that the caller may see and that is not deleted."""
    found = [each for each in catalogue.of_id(memory_id) if caller.may_see(each) and not each.is_gone]
    if not found:
        raise not_found()
    if len(found) > 1:
        raise conflict("Several records have this id; a person has to give them ids of their own.")
    return found[0]


def narrowed(request: Narrowed) -> Filter:
    """A request's filters; deleted memories are never asked for by a search."""
    return replace(
        Filter(),
        path=request.path or "%",
        bucket=request.bucket,
        scope=request.scope,
        team_id=request.team_id,
        memory_type=request.memory_type,
        status=request.status,
    )


def _by_age(memory: Memory) -> tuple[str, str]:
    return (memory.created_at or "", memory.id)


def _counted(values: Any) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
