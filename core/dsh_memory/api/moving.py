"""Export and import of memories as JSON lines."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from dsh_memory.api.draft import Draft
from dsh_memory.api.failures import ApiFailure, InvalidField
from dsh_memory.api.jobs import Answer, Replay
from dsh_memory.api.models import ExportRequest, ImportRequest, RememberRequest
from dsh_memory.api.shapes import shown
from dsh_memory.api.store import MemoryStore
from dsh_memory.api.values import KINDS, Caller
from dsh_memory.api.writing import checked_id, wanted_memory
from dsh_memory.hosts.jsonrpc import BadJson, strict_json

_MOST_LINES = 1000


class Moving:
    """Memories out of a store and into one."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def export(self, caller: Caller, request: ExportRequest) -> Answer:
        """A page of the memories as JSON lines, by id; `next_cursor` is null after the last one."""
        with self._store.reading() as catalogue:
            found = sorted(
                (memory for memory in catalogue if caller.may_see(memory) and not memory.is_gone),
                key=lambda memory: memory.id,
            )
        if request.cursor is not None:
            found = [memory for memory in found if memory.id > request.cursor]
        page = found[: request.limit]
        lines = [json.dumps(shown(memory), ensure_ascii=False) for memory in page]
        return {
            "jsonl": "".join(f"{line}\n" for line in lines),
            "count": len(page),
            "next_cursor": page[-1].id if len(found) > len(page) else None,
        }

    def bring_in(self, caller: Caller, request: ImportRequest, replay: Replay | None = None) -> Answer:
        """All lines or none, in one commit; a memory that is there with the same content is left alone."""
        lines = [line for line in request.jsonl.split("\n") if line.strip()]
        if len(lines) > _MOST_LINES:
            raise ApiFailure(413, "payload_too_large", f"An import may have {_MOST_LINES} lines at most.")
        values = [_line(number, line) for number, line in enumerate(lines, 1)]

        def work(draft: Draft) -> Answer:
            imported = unchanged = 0
            for number, (value, wanted) in enumerate(values, 1):
                memory = wanted_memory(draft, caller, wanted)
                kind = value.get("kind")
                if isinstance(kind, str) and kind in KINDS:
                    memory = replace(memory, kind=kind)
                known = draft.of_id(memory.id)
                if known:
                    if known[0].content != memory.content or not caller.may_see(known[0]):
                        raise ApiFailure(
                            409, "conflict", f"Line {number}: the id is taken by another memory."
                        )
                    unchanged += 1
                    continue
                draft.save(memory)
                imported += 1
            return {"imported": imported, "unchanged": unchanged, "total": len(values)}

        return self._store.write(caller, "import", work, replay)


def _line(number: int, line: str) -> tuple[dict[str, Any], RememberRequest]:
    place = ("body", "jsonl", number)
    try:
        value = strict_json(line)
        if not isinstance(value, dict):
            raise InvalidField(place, "a line must be a JSON object", "json_invalid")
        request = RememberRequest.model_validate(value)
    except BadJson as error:
        raise InvalidField(place, f"not JSON: {error}", "json_invalid") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        raise InvalidField((*place, *first["loc"]), first["msg"], first["type"]) from error
    if request.memory_id is None and isinstance(value.get("id"), str):
        request = request.model_copy(update={"memory_id": checked_id(value["id"])})
    return value, request
