"""States and events are acknowledged by a durable line beside Git, seen at once, and folded into one commit."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsh_memory.api.calm import CalmFolder
from dsh_memory.api.items import Items
from dsh_memory.api.models import (
    EventRequest,
    ForgetRequest,
    Place,
    RememberRequest,
    StateRequest,
    TimelineQuery,
)
from dsh_memory.api.reading import Reading
from dsh_memory.api.states import States
from dsh_memory.api.store import MemoryStore
from dsh_memory.api.values import Caller
from dsh_memory.api.writing import Writing
from dsh_memory.repository import phases
from dsh_memory.repository.pending_log import NAME
from dsh_memory.service import MemoryService
from tests.api.processes import ServerProcess
from tests.api.test_v1_purge import places_with
from tests.support.repositories import MemoryRepository

CALLER = Caller(agent="alice")
CANARY = "canary-fulmar-4410"


@pytest.fixture
def store(memory: MemoryRepository) -> Iterator[MemoryStore]:
    made = MemoryStore(memory.environment, max_age=0)
    yield made
    made.close()


def log_of(memory: MemoryRepository) -> Path:
    return memory.root / ".git" / NAME


def subjects(memory: MemoryRepository) -> list[str]:
    return memory.git("log", "--format=%s").decode().splitlines()


def record_events(store: MemoryStore, count: int, text: str = "event") -> None:
    for number in range(count):
        Items(store).record_event(CALLER, EventRequest(content=f"{text} {number}"))


def seen(store: MemoryStore) -> list[str]:
    events = Items(store).timeline(CALLER, TimelineQuery())["events"]
    return sorted(event["content"] for event in events)


def test_no_acknowledged_write_is_lost_by_a_kill(memory: MemoryRepository) -> None:
    head = memory.head
    with ServerProcess(memory) as server:
        for number in range(12):
            body = {"content": f"step {number}", "state_key": "active_task"}
            answer = server.client.post("/v1/update_state", json=body)
            assert answer.json()["version"] == number + 1
            answer = server.client.post("/v1/timeline/events", json={"content": f"event {number}"})
            assert answer.status_code < 300
        identity = server.client.post("/v1/update_state", json={"content": "last"}).json()["id"]
        server.restart()
        events = server.client.get("/v1/timeline").json()["events"]
        assert sorted(each["content"] for each in events) == sorted(f"event {number}" for number in range(12))
        assert server.client.get(f"/v1/memories/{identity}").json()["content"] == "last"
        assert server.client.post("/v1/update_state", json={"content": "after"}).json()["version"] == 14
        assert server.client.get(f"/v1/memories/{identity}").json()["content"] == "after"
        server.stop()
    assert not log_of(memory).exists()
    assert memory.git("status", "--porcelain") == b""
    assert 1 <= len(subjects(memory)) - 1 < 25
    trailers = memory.git("log", "--format=%B", f"{head}..HEAD").decode()
    assert f"Memory-Id: {identity}\nMemory-Version: 14\n" in trailers
    assert "Memory-Operation: record_event" in trailers


def test_it_is_seen_at_once_and_committed_before_the_next_write(
    memory: MemoryRepository, store: MemoryStore
) -> None:
    record_events(store, 3)
    assert len(subjects(memory)) == 1
    other = MemoryStore(memory.environment, max_age=0)
    assert seen(store) == seen(other) == ["event 0", "event 1", "event 2"]
    States(other).update_state(CALLER, StateRequest(content="from the other one"))
    assert States(store).state(CALLER, Place(), "active_task")["content"] == "from the other one"
    Writing(store).remember(CALLER, RememberRequest(content="a note", path="p"))
    newest, folded, _ = subjects(memory)
    assert newest.startswith("DPSK memory remember: ") and folded == "DPSK memory: 4 small writes"
    assert not log_of(memory).exists()
    assert seen(store) == ["event 0", "event 1", "event 2"]
    other.close()


def test_the_versions_of_a_state_come_from_git(memory: MemoryRepository, store: MemoryStore) -> None:
    states = States(store)
    identity = states.update_state(CALLER, StateRequest(content="one"))["id"]
    assert Reading(store).versions(CALLER, identity)["total"] == 1
    states.update_state(CALLER, StateRequest(content="two"))
    states.update_state(CALLER, StateRequest(content="three"))
    versions = Reading(store).versions(CALLER, identity)["versions"]
    assert [each["content"] for each in versions] == ["three", "one"]
    assert [each["version"] for each in versions] == [3, 1]


def test_a_clear_takes_what_waits_and_nothing_comes_back(
    memory: MemoryRepository, store: MemoryStore
) -> None:
    record_events(store, 2)
    service = MemoryService(memory.environment)
    value = service.clear("DELETE_MEMORY")
    assert value["ok"] and value["value"]["clearedFileCount"] >= 2
    assert seen(store) == []
    store.close()
    assert memory.live_payload() == {"summary.md": b""}
    run_id = service.runs()["value"]["runs"][0]["run_id"]  # type: ignore[typeddict-item]
    assert service.rollback(run_id, "ROLLBACK_MEMORY")["ok"]
    assert seen(MemoryStore(memory.environment)) == ["event 0", "event 1"]


def test_what_is_erased_does_not_wait_anywhere(memory: MemoryRepository, store: MemoryStore) -> None:
    record_events(store, 1, CANARY)
    with store.reading() as catalogue:
        (event,) = catalogue
    Writing(store).forget(CALLER, event.id, ForgetRequest(mode="hard_delete"))
    assert places_with(CANARY, memory) == []


def test_a_line_without_an_end_was_never_acknowledged(memory: MemoryRepository, store: MemoryStore) -> None:
    record_events(store, 2)
    with log_of(memory).open("ab") as log:
        log.write(b'{"message": "torn", "files": {"handbook/x')
    again = MemoryStore(memory.environment, max_age=0)
    assert seen(again) == ["event 0", "event 1"]
    record_events(again, 1, "later")
    again.close()
    assert seen(store) == ["event 0", "event 1", "later 0"]
    assert not log_of(memory).exists()


@pytest.mark.parametrize(
    "line", [b"no JSON\n", b'{"message": "m", "files": {".git/config": "x"}}\n', b'{"files": {}}\n']
)
def test_a_damaged_log_stands_in_nobodys_way_but_its_own(memory: MemoryRepository, line: bytes) -> None:
    log_of(memory).parent.mkdir()
    log_of(memory).write_bytes(line)
    config = (memory.root / ".git/config").read_bytes()
    memory.write("handbook/a.md", "a note\n")
    assert MemoryService(memory.environment).save()["ok"]
    assert log_of(memory).read_bytes() == line
    assert (memory.root / ".git/config").read_bytes() == config


@pytest.mark.parametrize("point", ["staged", "moved", "index", "folded"])
def test_a_fold_that_dies_is_done_once(memory: MemoryRepository, store: MemoryStore, point: str) -> None:
    record_events(store, 3)
    child = os.fork()
    if child == 0:
        try:
            phases.phase_hook = lambda name: os._exit(9) if name == point else None
            MemoryService(memory.environment).save()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    again = MemoryStore(memory.environment, max_age=0)
    assert seen(again) == ["event 0", "event 1", "event 2"]
    again.close()
    assert [subject for subject in subjects(memory) if "small writes" in subject] == [
        "DPSK memory: 3 small writes"
    ]
    assert memory.git("status", "--porcelain") == b""
    assert not log_of(memory).exists()
    memory.git("fsck", "--strict")


def test_it_is_folded_when_calm_and_tried_again_where_it_could_not() -> None:
    done, answers = threading.Event(), iter([False, True])

    def fold() -> bool:
        folded = next(answers)
        if folded:
            done.set()
        return folded

    folder = CalmFolder(fold, calm=0.01, most=0.05)
    folder.note()
    assert done.wait(20)
    folder.close()
    folder.note()


def test_a_stream_of_writes_does_not_put_the_fold_off_for_ever(
    memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsh_memory.api.store._LARGEST_LOG", 1500)
    store = MemoryStore(memory.environment)
    record_events(store, 12)
    assert len(subjects(memory)) > 1
    store.close()
    assert len(seen(MemoryStore(memory.environment))) == 12


def test_writers_and_folders_in_a_crowd_lose_nothing(memory: MemoryRepository) -> None:
    stores = [MemoryStore(memory.environment, max_age=0) for _ in range(3)]
    failures: list[BaseException] = []

    def act(number: int) -> None:
        try:
            for step in range(6):
                if number == 2:
                    request = RememberRequest(content=f"note {step}", path="p")
                    Writing(stores[2]).remember(CALLER, request)
                else:
                    record_events(stores[number], 1, f"{number}-{step}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=act, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for store in stores:
        store.close()
    assert seen(MemoryStore(memory.environment)) == sorted(
        f"{number}-{step} 0" for number in range(2) for step in range(6)
    )
    assert not log_of(memory).exists()
    assert memory.git("status", "--porcelain") == b""
