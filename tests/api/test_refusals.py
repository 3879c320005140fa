"""What the memory API refuses although nothing is wrong with the request itself: the place, the time, the size."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator

import httpx
import pytest
from starlette.requests import Request

from dsh_memory.api.endpoints import MemoryApi
from dsh_memory.api.failures import ApiFailure
from dsh_memory.api.models import ForgetRequest, RememberRequest, UpdateRequest
from dsh_memory.api.store import MemoryStore
from dsh_memory.api.values import Caller
from dsh_memory.api.wire import read_body
from dsh_memory.hosts.http import HttpOptions, application
from tests.support.repositories import MemoryRepository, record


@pytest.fixture
def api(memory: MemoryRepository) -> Iterator[MemoryApi]:
    # The catalogue is never old enough to be read again by itself.
    store = MemoryStore(memory.environment, max_age=3600)
    yield MemoryApi(store)
    store.close()


@pytest.mark.parametrize(
    ("host", "client", "status"),
    [
        ("127.0.0.1:8765", "127.0.0.1", 200),
        ("localhost:8765", "127.0.0.1", 200),
        # A proxy on this machine, and a client that only names this machine.
        ("memory.example:8765", "127.0.0.1", 401),
        ("127.0.0.1:8765", "192.0.2.7", 401),
    ],
)
async def test_documents_are_open_to_this_machine_alone(
    memory: MemoryRepository, host: str, client: str, status: int
) -> None:
    options = HttpOptions(allowed_hosts=("memory.example:8765", "localhost:8765"))
    transport = httpx.ASGITransport(application(memory.environment, options), client=(client, 1))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as caller:
        for path in ("/openapi.json", "/docs"):
            assert (await caller.get(path)).status_code == status, path


def test_an_id_that_two_records_have_is_nobodys_to_delete(memory: MemoryRepository, api: MemoryApi) -> None:
    memory.write_all({"handbook/one.md": record("twice"), "handbook/two.md": record("twice")})
    memory.commit()
    with pytest.raises(ApiFailure) as refused:
        api.writing.forget(Caller(), "twice", ForgetRequest())
    assert (refused.value.status, refused.value.code) == (409, "conflict")
    assert {"handbook/one.md", "handbook/two.md"} <= memory.live_payload().keys()


def test_a_change_keeps_what_a_person_wrote_meanwhile(memory: MemoryRepository, api: MemoryApi) -> None:
    memory_id = api.writing.remember(Caller(), RememberRequest(content="One fact.", path="p"))["id"]
    [path] = memory.root.rglob(f"{memory_id}.md")
    path.write_text(path.read_text() + "A person's line.\n")
    api.writing.update(Caller(), memory_id, UpdateRequest(importance=0.9))
    written = path.read_text()
    assert "A person's line." in written and "0.9" in written


async def test_an_endless_body_is_not_read_to_its_end() -> None:
    sent = 0

    async def endless() -> AsyncGenerator[bytes, None]:
        nonlocal sent
        while sent < 1_000:
            sent += 1
            yield bytes(1024 * 1024)

    request = Request({"type": "http", "headers": []})
    request.stream = endless  # type: ignore[method-assign]
    with pytest.raises(ApiFailure) as refused:
        await read_body(request)
    assert refused.value.status == 413 and sent < 100
