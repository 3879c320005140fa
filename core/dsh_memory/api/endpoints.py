"""One table of the memory API's endpoints: routes, rights, limits, models and the OpenAPI document come
from it.
"""

from __future__ import annotations

from typing import Final

from dsh_memory.api import answers, models
from dsh_memory.api.item_endpoints import ITEM_ENDPOINTS
from dsh_memory.api.jobs import Answer
from dsh_memory.api.operations import Asked, Endpoint, MemoryApi


def _forget(api: MemoryApi, asked: Asked) -> Answer:
    return api.writing.forget(
        asked.caller, asked.ids["memory_id"], asked.body or models.ForgetRequest(), asked.replay
    )


def _delete(api: MemoryApi, asked: Asked) -> Answer:
    request = models.ForgetRequest(mode=asked.query.mode, reason=asked.query.reason)
    return api.writing.forget(asked.caller, asked.ids["memory_id"], request, asked.replay)


def _update(api: MemoryApi, asked: Asked) -> Answer:
    return api.writing.update(
        asked.caller,
        asked.ids["memory_id"],
        asked.body,
        asked.replay,
        expected_version=asked.expected_version,
    )


def _search(api: MemoryApi, asked: Asked) -> Answer:
    return api.reading.search(asked.caller, asked.query)


_MEMORY: Final = "/memories/{memory_id:path}"
_READ: Final = "memory:read"
_WRITE: Final = "memory:write"

#: In the order of routing: an id may hold a slash, so that the longer paths come first.
ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/remember",
        "Remember a text",
        _WRITE,
        "memory_write",
        answers.Remembered,
        lambda api, asked: api.writing.remember(asked.caller, asked.body, asked.replay),
        status=201,
        body=models.RememberRequest,
    ),
    Endpoint(
        "GET",
        "/memories/search",
        "Search memories",
        _READ,
        "memory_search",
        answers.SearchAnswer,
        _search,
        query=models.SearchQuery,
    ),
    Endpoint(
        "GET",
        "/recall",
        "Search memories",
        _READ,
        "memory_search",
        answers.SearchAnswer,
        _search,
        query=models.SearchQuery,
    ),
    Endpoint(
        "POST",
        "/recall/context",
        "Assemble a context",
        _READ,
        "memory_search",
        answers.ContextAnswer,
        lambda api, asked: api.reading.context(asked.caller, asked.body),
        body=models.ContextRequest,
    ),
    Endpoint(
        "GET",
        "/memories/stats",
        "Count memories",
        _READ,
        "memory_search",
        answers.Stats,
        lambda api, asked: api.reading.stats(asked.caller),
    ),
    Endpoint(
        "POST",
        "/memories/export",
        "Export memories as JSON lines",
        _READ,
        "memory_search",
        answers.Exported,
        lambda api, asked: api.moving.export(asked.caller, asked.body or models.ExportRequest()),
        body=models.ExportRequest,
        body_required=False,
    ),
    Endpoint(
        "POST",
        "/memories/import",
        "Import JSON lines",
        _WRITE,
        "memory_write",
        answers.Imported,
        lambda api, asked: api.moving.bring_in(asked.caller, asked.body, asked.replay),
        body=models.ImportRequest,
    ),
    Endpoint(
        "POST",
        "/memories",
        "Store a memory",
        _WRITE,
        "memory_write",
        answers.Stored,
        lambda api, asked: api.writing.store(asked.caller, asked.body, asked.replay),
        status=201,
        body=models.StoreRequest,
    ),
    Endpoint(
        "GET",
        "/memories",
        "List memories",
        _READ,
        "memory_search",
        answers.MemoryPage,
        lambda api, asked: api.reading.listing(asked.caller, asked.query),
        query=models.ListQuery,
    ),
    Endpoint(
        "GET",
        f"{_MEMORY}/explain",
        "Explain a memory",
        _READ,
        "memory_search",
        answers.Explained,
        lambda api, asked: api.reading.explain(asked.caller, asked.ids["memory_id"], asked.query.query),
        query=models.ExplainQuery,
    ),
    Endpoint(
        "GET",
        f"{_MEMORY}/versions",
        "List a memory's versions",
        _READ,
        "memory_search",
        answers.Versions,
        lambda api, asked: api.reading.versions(asked.caller, asked.ids["memory_id"]),
    ),
    Endpoint(
        "POST",
        f"{_MEMORY}/forget",
        "Forget a memory",
        "memory:delete",
        "memory_write",
        answers.Forgotten,
        _forget,
        body=models.ForgetRequest,
        body_required=False,
    ),
    Endpoint(
        "POST",
        f"{_MEMORY}/restore",
        "Restore a memory",
        "memory:restore",
        "memory_write",
        answers.Restored,
        lambda api, asked: api.writing.restore(asked.caller, asked.ids["memory_id"], asked.replay),
        body=models.Nothing,
        body_required=False,
    ),
    Endpoint(
        "POST",
        f"{_MEMORY}/usage",
        "Count a use",
        _WRITE,
        "memory_write",
        answers.Used,
        lambda api, asked: api.count_usage(
            asked.caller, asked.ids["memory_id"], asked.body or models.UsageRequest()
        ),
        body=models.UsageRequest,
        body_required=False,
    ),
    Endpoint(
        "GET",
        _MEMORY,
        "Get a memory",
        _READ,
        "memory_search",
        answers.MemoryAnswer,
        lambda api, asked: api.reading.get(asked.caller, asked.ids["memory_id"]),
    ),
    Endpoint(
        "PATCH",
        _MEMORY,
        "Update a memory",
        _WRITE,
        "memory_write",
        answers.UpdatedMemory,
        _update,
        body=models.UpdateRequest,
    ),
    Endpoint(
        "DELETE",
        _MEMORY,
        "Delete a memory",
        "memory:delete",
        "memory_write",
        answers.Forgotten,
        _delete,
        query=models.DeleteQuery,
    ),
    *ITEM_ENDPOINTS,
)
