"""hard_delete and redact: afterwards no object, ref, file or database of this machine has the bytes."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsh_memory.api.jobs import Replay
from dsh_memory.api.models import ForgetRequest, RememberRequest
from dsh_memory.api.state import State
from dsh_memory.api.store import MemoryStore
from dsh_memory.api.values import Caller
from dsh_memory.api.writing import Writing
from dsh_memory.environment import utc_now
from dsh_memory.errors import MemoryFailure, RepoUnavailable
from dsh_memory.repository import phases
from dsh_memory.repository.purge import purge
from dsh_memory.service import MemoryService
from tests.api.serving import Served, serving
from tests.support.repositories import MemoryRepository, record

CANARY = "canary-quetzal-7731"


@pytest.fixture
def served(memory: MemoryRepository) -> Iterator[Served]:
    with serving(memory) as running:
        yield running


def places_with(text: str, memory: MemoryRepository) -> list[str]:
    """Every object, file and database of the repository and its state that holds the text."""
    found = []
    ids = memory.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)", "--unordered")
    for oid in ids.decode().split():
        if text.encode() in memory.git("cat-file", "-p", oid):
            found.append(f"object {oid}")
    state = Path(memory.environment.state_dir)
    for root in (memory.root, state, Path(memory.environment.cache_dir)):
        for folder, _, names in os.walk(root):
            for name in names:
                data = Path(folder, name).read_bytes()
                if text.encode() in data or text.encode() in inflated(data):
                    found.append(f"file {folder}/{name}")
    return found


def inflated(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error:
        return b""


def remember(served: Served, content: str, **more: object) -> str:
    with served.client() as client:
        body = {"content": content, "path": "projects/alpha", **more}
        answer = client.post("/v1/remember", json=body, headers={"Idempotency-Key": f"key-{len(content)}"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_a_hard_delete_leaves_the_bytes_nowhere(served: Served) -> None:
    kept = remember(served, "The build runs on the blue machine.")
    gone = remember(served, f"The secret word is {CANARY}.", embedding=[0.25, 0.5])
    with served.client() as client:
        client.patch(f"/v1/memories/{gone}", json={"content": f"Still {CANARY}, second version."})
        assert places_with(CANARY, served.memory)
        answer = client.delete(f"/v1/memories/{gone}", params={"mode": "hard_delete"})
        assert answer.status_code == 200, answer.text
        value = answer.json()
        assert value["forgotten"] is True and value["history_purged"] is True
        assert value["mode"] == "hard_delete" and value["status"] == "deleted"
        assert places_with(CANARY, served.memory) == []
        assert client.get(f"/v1/memories/{gone}").status_code == 404
        assert client.post(f"/v1/memories/{gone}/restore").status_code == 404
        assert client.get(f"/v1/memories/{kept}").json()["content"] == "The build runs on the blue machine."
        # The repository goes on: it is whole, clean, and takes writes.
        assert served.memory.git("status", "--porcelain") == b""
        served.memory.git("fsck", "--strict")
        assert client.post("/v1/remember", json={"content": "after", "path": "p"}).status_code == 201


def test_a_redacted_memory_keeps_its_place_and_nothing_else(served: Served) -> None:
    memory_id = remember(served, f"Bob's number is {CANARY}.", metadata={"note": CANARY})
    with served.client() as client:
        answer = client.post(f"/v1/memories/{memory_id}/forget", json={"mode": "redact", "reason": "privacy"})
        assert answer.json()["status"] == "redacted"
        assert places_with(CANARY, served.memory) == []
        assert client.post(f"/v1/memories/{memory_id}/restore").status_code == 409
        assert client.get("/v1/memories/search", params={"query": "redacted"}).json()["results"] == []
    [file] = (served.memory.root / "archive").rglob(f"{memory_id}.md")
    assert "memory_status: redacted" in file.read_text() and file.read_text().endswith("[REDACTED]")


def test_a_secret_as_replacement_is_refused_and_nothing_erased(served: Served) -> None:
    memory_id = remember(served, "Bob's number.")
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
    head = served.memory.head
    with served.client() as client:
        answer = client.post(
            f"/v1/memories/{memory_id}/forget", json={"mode": "redact", "replacement_content": secret}
        )
        assert answer.status_code == 422, answer.text
        [detail] = answer.json()["detail"]
        assert detail["type"] == "secret-detected" and detail["loc"] == ["body", "replacement_content"]
        assert secret not in answer.text
        assert client.get(f"/v1/memories/{memory_id}").json()["content"] == "Bob's number."
    assert served.memory.head == head


def test_earlier_runs_are_mapped_and_stay_undoable(served: Served, memory: MemoryRepository) -> None:
    gone = remember(served, f"The word is {CANARY}.")
    service = MemoryService(memory.environment)
    memory.write("handbook/plain.md", "A legacy note.\n")
    assert service.migrate_legacy(dry_run=False)["ok"]
    with served.client() as client:
        assert client.delete(f"/v1/memories/{gone}", params={"mode": "hard_delete"}).status_code == 200
    runs = service.runs()["value"]["runs"]  # type: ignore[typeddict-item]
    assert [run["operation"] for run in runs] == ["purge", "migrate"]
    migrated = runs[1]
    rolled_back = service.rollback(migrated["run_id"], "ROLLBACK_MEMORY")
    assert rolled_back["ok"], rolled_back
    assert places_with(CANARY, memory) == []
    assert not (memory.root / "handbook/plain.md").read_text().startswith("---")


def test_previews_that_hold_the_record_go_with_it(served: Served, memory: MemoryRepository) -> None:
    gone = remember(served, f"The word is {CANARY}.")
    memory.write_preview("20260820T110000Z-00112233", {"handbook/new.md": record("new-one")})
    assert any("previews" in place for place in places_with(CANARY, memory))
    with served.client() as client:
        assert client.delete(f"/v1/memories/{gone}", params={"mode": "hard_delete"}).status_code == 200
    assert places_with(CANARY, memory) == []


@pytest.mark.parametrize("door", ["writer", "recover"])
@pytest.mark.parametrize("point", ["rewritten", "staged", "moved", "index", "projection"])
def test_a_purge_that_died_loses_nothing_and_is_finished(
    memory: MemoryRepository, point: str, door: str
) -> None:
    store = MemoryStore(memory.environment)
    writing = Writing(store)
    gone = writing.remember(Caller(), RememberRequest(content=f"The word is {CANARY}.", path="p"))["id"]
    kept = writing.remember(Caller(), RememberRequest(content="Nothing to hide.", path="p"))["id"]
    child = os.fork()
    if child == 0:
        try:
            phases.phase_hook = lambda name: os._exit(9) if name == point else None
            with memory.open() as repo:
                purge(repo, utc_now, gone)
        finally:
            # Whatever happened, the child must never go on as a second test runner.
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    # Whoever comes next finds the dead run, and finishes or undoes it.
    fresh = Writing(MemoryStore(memory.environment))
    if door == "writer":
        fresh.remember(Caller(), RememberRequest(content="A later note.", path="p"))
    else:
        recovered = MemoryService(memory.environment).recover()
        assert recovered["ok"] and recovered["value"]["erased"] is (point not in ("rewritten", "staged"))
    memory.git("fsck", "--strict")
    assert memory.git("status", "--porcelain") == b""
    files = {path for path, data in memory.live_payload().items() if b"hide" in data}
    assert files == {f"handbook/p/{kept}.md"}
    if point in ("rewritten", "staged"):
        fresh.forget(Caller(), gone, ForgetRequest(mode="hard_delete"))
    assert places_with(CANARY, memory) == []


def test_a_write_stands_though_the_state_beside_it_cannot_be_settled(
    memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore(memory.environment)
    writing = Writing(store)

    def full(state: State) -> sqlite3.Connection:
        raise sqlite3.OperationalError("database or disk is full")

    request = RememberRequest(content="The build is blue.", path="p")
    with monkeypatch.context() as patch:
        patch.setattr(State, "_connect", full)
        with pytest.raises(MemoryFailure) as refused:
            writing.remember(Caller(), request, Replay("key", "print"))
    assert refused.value.detail == "state-unusable"
    with monkeypatch.context() as patch:
        patch.setattr(State, "settle", _refusing_settle)
        first = writing.remember(Caller(), request, Replay("key", "print"))
    assert writing.remember(Caller(), request, Replay("key", "print")) == first
    store.close()


def _refusing_settle(state: State, keys: object, *, kept: bool) -> None:
    raise RepoUnavailable("The state database cannot be used.", detail="state-unusable")
