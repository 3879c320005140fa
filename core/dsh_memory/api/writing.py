"""Remember, store, update, forget and restore."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from dsh_memory.api.draft import Draft
from dsh_memory.api.erasing import erase
from dsh_memory.api.failures import ApiFailure, InvalidField, conflict, not_found
from dsh_memory.api.jobs import Answer, Replay
from dsh_memory.api.mapping import normal_expiry, with_client_tags
from dsh_memory.api.models import ForgetRequest, RememberRequest, StoreRequest, UpdateRequest
from dsh_memory.api.shapes import shown
from dsh_memory.api.store import MemoryStore
from dsh_memory.api.values import Caller, Memory, canonical
from dsh_memory.records import is_valid_id

_LONGEST_ID: Final = 128
_WORD: Final = re.compile(r"\w+")
#: Two memories whose words overlap by this much, in the same place, may contradict each other.
_CONFLICT_OVERLAP: Final = 0.5


class Writing:
    """What changes memories; every method commits before it answers."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def remember(self, caller: Caller, request: RememberRequest, replay: Replay | None = None) -> Answer:
        """A new memory, a new version under the same semantic key, or the one that says the same already."""

        def work(draft: Draft) -> Answer:
            wanted = wanted_memory(draft, caller, request)
            current = _current(draft, wanted)
            if current is not None:
                return {"id": self._new_version(draft, current, wanted, request).id, "status": "remembered"}
            if request.memory_id is None and request.dedupe:
                same = [each for each in draft.same_content(wanted) if not each.is_gone]
                if same:
                    return {"id": same[0].id, "status": "remembered"}
            return {"id": self._create(draft, wanted, request).id, "status": "remembered"}

        return self._store.write(caller, "remember", work, replay)

    def store(self, caller: Caller, request: StoreRequest, replay: Replay | None = None) -> Answer:
        """A new memory in any case."""

        def work(draft: Draft) -> Answer:
            return {"id": self._create(draft, wanted_memory(draft, caller, request), request).id}

        return self._store.write(caller, "store", work, replay)

    def update(
        self,
        caller: Caller,
        memory_id: str,
        request: UpdateRequest,
        replay: Replay | None = None,
        *,
        expected_version: int | None = None,
    ) -> Answer:
        """The changed memory, with the memories that may contradict it."""

        def work(draft: Draft) -> Answer:
            memory = draft.find(memory_id)
            if memory.is_gone:
                raise not_found()
            expected = request.expected_version if expected_version is None else expected_version
            # guard: expected-version
            if expected is not None and expected != memory.version:
                raise conflict(f"The memory is at version {memory.version}.")
            changed = _changed(draft, caller, memory, request)
            if request.status in ("deleted", "redacted"):
                raise InvalidField(("body", "status"), "A memory is deleted or redacted by forgetting it.")
            _check_successor(draft, changed)
            conflicts = _conflicts(draft, changed) if request.detect_conflicts and request.content else []
            if conflicts and changed.conflicts_with is None:
                changed = replace(changed, conflicts_with=conflicts[0].id)
            saved = draft.save(changed)
            if request.embedding is not None:
                self._store.state.keep_embedding(saved.id, saved.version, request.embedding)
            reason = "says something else about the same"
            return {**shown(saved), "conflicts": [{"id": each.id, "reason": reason} for each in conflicts]}

        return self._store.write(caller, "update", work, replay)

    def forget(
        self, caller: Caller, memory_id: str, request: ForgetRequest, replay: Replay | None = None
    ) -> Answer:
        """Delete a memory: `soft_delete` can be undone, the other modes erase its history as well."""
        if request.mode != "soft_delete":
            return erase(self._store, caller, memory_id, request, replay)

        def work(draft: Draft) -> Answer:
            memory = draft.find(memory_id)
            if memory.status == "redacted":
                raise conflict("The memory was redacted; nothing is left to forget.")
            if memory.status != "deleted":
                draft.save(_deleted(draft, memory, request))
            return forgotten(memory_id, "soft_delete", "deleted", history_purged=False)

        return self._store.write(caller, "forget", work, replay)

    def restore(self, caller: Caller, memory_id: str, replay: Replay | None = None) -> Answer:
        """Bring back what was softly deleted; a memory that is there already stays as it is."""

        def work(draft: Draft) -> Answer:
            memory = draft.find(memory_id)
            if memory.status == "redacted":
                raise conflict("The memory was redacted for good.")
            if memory.status == "deleted":
                status = memory.provenance.get("status_before_deletion", "active")
                provenance = {
                    key: value for key, value in memory.provenance.items() if key != "status_before_deletion"
                }
                draft.save(
                    replace(
                        memory,
                        status=status if status in ("active", "archived", "superseded") else "active",
                        provenance=provenance,
                        deleted_at=None,
                        delete_reason=None,
                        version=memory.version + 1,
                        updated_at=draft.now,
                    )
                )
            return {"ok": True, "id": memory.id, "restored": True}

        return self._store.write(caller, "restore", work, replay)

    def _create(self, draft: Draft, wanted: Memory, request: StoreRequest) -> Memory:
        taken = draft.of_id(wanted.id)
        if taken:
            same = [each for each in taken if each.content == wanted.content and draft.caller.may_see(each)]
            # guard: id-taken
            if not same or same[0].is_gone:
                raise conflict("This memory_id is taken by another memory.")
            return same[0]
        _check_successor(draft, wanted)
        if wanted.conflicts_with is None and isinstance(request, RememberRequest):
            conflicts = _conflicts(draft, wanted)
            if conflicts:
                wanted = replace(wanted, conflicts_with=conflicts[0].id)
        saved = draft.save(wanted)
        if request.embedding is not None:
            self._store.state.keep_embedding(saved.id, saved.version, request.embedding)
        return saved

    def _new_version(self, draft: Draft, current: Memory, wanted: Memory, request: RememberRequest) -> Memory:
        if request.memory_id is not None and request.memory_id != current.id:
            raise conflict("The semantic key belongs to a memory with another id.")
        updated = replace(
            wanted,
            id=current.id,
            file=current.file,
            version=current.version,
            created_at=current.created_at,
            updated_at=current.updated_at,
            metadata={**current.metadata, **wanted.metadata},
            provenance={**current.provenance, **wanted.provenance},
            supersedes=current.supersedes,
            conflicts_with=current.conflicts_with,
            importance=current.importance if wanted.importance is None else wanted.importance,
            confidence=current.confidence if wanted.confidence is None else wanted.confidence,
        )
        unchanged = replace(
            updated, agent=current.agent, agent_instance=current.agent_instance, door=current.door
        )
        if request.dedupe and not current.is_gone and unchanged == current:
            return current
        saved = draft.save(
            replace(updated, version=request.version or current.version + 1, updated_at=draft.now)
        )
        if request.embedding is not None:
            self._store.state.keep_embedding(saved.id, saved.version, request.embedding)
        return saved


def forgotten(memory_id: str, mode: str, status: str, *, history_purged: bool) -> Answer:
    """The answer of every way to forget."""
    return {
        "ok": True,
        "id": memory_id,
        "memory_id": memory_id,
        "mode": mode,
        "status": status,
        "forgotten": True,
        "history_purged": history_purged,
    }


def new_id() -> str:
    """An id for a new memory."""
    return str(uuid.uuid4())


def expiry(draft: Draft, text: str | None, field: str = "expires_at") -> str | None:
    """A client's instant as it is kept; raises InvalidField."""
    if text is None:
        return None
    try:
        return normal_expiry(text, draft.instant)
    except ValueError as error:
        raise InvalidField(
            ("body", field), f"not a date or an instant: {error}", "datetime_parsing"
        ) from error


def checked_id(memory_id: str) -> str:
    """A client's own id; raises invalid_memory_id where it does not fit the form of record ids."""
    if len(memory_id) > _LONGEST_ID or not is_valid_id(memory_id):
        raise ApiFailure(
            400,
            "invalid_memory_id",
            "A memory_id is small letters, digits and hyphens, with one slash at most.",
        )
    return memory_id


def wanted_memory(draft: Draft, caller: Caller, request: StoreRequest) -> Memory:
    """The memory that a request describes, as if it were new; raises ApiFailure."""
    status = request.status or ("superseded" if request.superseded_by else "active")
    if status in ("deleted", "redacted"):
        raise InvalidField(("body", "status"), "A new memory cannot be deleted or redacted.")
    return with_client_tags(
        Memory(
            id=new_id() if request.memory_id is None else checked_id(request.memory_id),
            content=request.content,
            path=request.path,
            bucket=request.bucket,
            scope=request.scope,
            team_id=request.team_id,
            memory_type="semantic" if request.memory_type == "auto" else request.memory_type,
            status=status,
            version=request.version or 1,
            semantic_key=request.semantic_key,
            importance=request.importance,
            confidence=request.confidence,
            created_at=draft.now,
            updated_at=draft.now,
            expires_at=expiry(draft, request.expires_at),
            source=request.source,
            logic_path=request.logic_path,
            metadata=request.metadata,
            provenance=request.provenance,
            superseded_by=request.superseded_by,
            embedding_provider=request.embedding_provider,
            embedding_model=request.embedding_model,
            embedding_dimension=request.embedding_dimension
            or (request.embedding and len(request.embedding))
            or None,
            agent=caller.agent or request.source,
            agent_instance=caller.agent_instance,
            door=caller.door,
        )
    )


def _current(draft: Draft, wanted: Memory) -> Memory | None:
    if wanted.semantic_key is None:
        return None
    key = (wanted.bucket, wanted.scope, wanted.team_id, canonical(wanted.semantic_key))
    found = [each for each in draft.of_key(key) if each.status != "redacted" and draft.caller.may_see(each)]
    return max(found, key=lambda each: (not each.is_gone, each.version), default=None)


def _changed(draft: Draft, caller: Caller, memory: Memory, request: UpdateRequest) -> Memory:
    given = request.model_fields_set
    changes: dict[str, Any] = {
        name: getattr(request, name)
        for name in (
            "content",
            "path",
            "source",
            "logic_path",
            "bucket",
            "semantic_key",
            "status",
            "superseded_by",
            "embedding_provider",
            "embedding_model",
            "embedding_dimension",
            "importance",
            "confidence",
            "scope",
            "team_id",
        )
        if name in given
    }
    if request.memory_type is not None and request.memory_type != "auto":
        changes["memory_type"] = request.memory_type
    if request.expires_at is not None:
        changes["expires_at"] = expiry(draft, request.expires_at)
    if request.metadata is not None:
        changes["metadata"] = _merged(memory.metadata, request.metadata, keep=request.merge_metadata)
    if request.provenance is not None:
        changes["provenance"] = _merged(memory.provenance, request.provenance, keep=request.merge_provenance)
    if request.supersession_reason is not None:
        reasons = {"supersession_reason": request.supersession_reason}
        changes["provenance"] = {**changes.get("provenance", memory.provenance), **reasons}
    if request.superseded_by is not None and request.status is None:
        changes["status"] = "superseded"
    if request.embedding is not None and request.embedding_dimension is None:
        changes["embedding_dimension"] = len(request.embedding)
    return with_client_tags(
        replace(
            memory,
            **changes,
            version=memory.version + 1,
            updated_at=draft.now,
            created_at=memory.created_at or draft.now,
            agent=caller.agent or memory.agent,
            agent_instance=caller.agent_instance or memory.agent_instance,
            door=caller.door,
            api_written=True,
        )
    )


def _merged(old: Mapping[str, object], new: Mapping[str, object], *, keep: bool) -> Mapping[str, object]:
    return {**old, **new} if keep else new


def _check_successor(draft: Draft, memory: Memory) -> None:
    """A memory's successor must exist, and learns what it replaces."""
    if memory.superseded_by is None:
        return
    if memory.superseded_by == memory.id:
        raise InvalidField(("body", "superseded_by"), "A memory cannot supersede itself.")
    successors = [each for each in draft.of_id(memory.superseded_by) if draft.caller.may_see(each)]
    if len(successors) == 1 and successors[0].supersedes is None and not successors[0].is_gone:
        draft.save(replace(successors[0], supersedes=memory.id), primary=False)


def _conflicts(draft: Draft, memory: Memory) -> list[Memory]:
    """Memories in the same place, of the same type, most of whose words are these: kept, and named.

    Nothing is ever deleted for it; a person looks at the pair.
    """
    words = set(_WORD.findall(memory.content.lower()))
    if memory.kind != "memory" or not words:
        return []
    found: list[tuple[float, str, Memory]] = []
    for other in draft.similar(memory):
        theirs = set(_WORD.findall(other.content.lower()))
        overlap = len(words & theirs) / max(len(words), len(theirs), 1)
        if overlap >= _CONFLICT_OVERLAP and other.content != memory.content:
            found.append((-overlap, other.id, other))
    return [other for _, _, other in sorted(found, key=lambda each: each[:2])[:5]]


def _deleted(draft: Draft, memory: Memory, request: ForgetRequest) -> Memory:
    provenance = dict(memory.provenance)
    if memory.status != "active":
        provenance["status_before_deletion"] = memory.status
    return replace(
        memory,
        status="deleted",
        provenance=provenance,
        metadata={**memory.metadata, **(request.metadata or {})},
        deleted_at=draft.now,
        delete_reason=request.reason,
        version=memory.version + 1,
        updated_at=draft.now,
        created_at=memory.created_at or draft.now,
    )
