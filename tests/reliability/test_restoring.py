"""One version of a record brought back: by a new commit, never over an edit, never what was erased."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_memory.api.models import ForgetRequest, RememberRequest, UpdateRequest
from dsh_memory.api.store import MemoryStore
from dsh_memory.api.values import Caller
from dsh_memory.api.writing import Writing
from dsh_memory.inspection import Inspector
from dsh_memory.service import MemoryService
from tests.support.clocks import FrozenClock
from tests.support.repositories import MemoryRepository, record

PATH = "handbook/a.md"
FIRST, SECOND = record("project/a", "first\n"), record("project/a", "second\n")
ALICE = Caller(agent="alice", door="mcp")


@pytest.fixture
def twice(memory: MemoryRepository) -> tuple[MemoryRepository, str]:
    """A record in its second version, and the commit of the first."""
    memory.write(PATH, FIRST)
    first = memory.commit()
    memory.write(PATH, SECOND)
    memory.commit()
    return memory, first


@pytest.fixture
def writing(memory: MemoryRepository, clock: FrozenClock) -> Writing:
    return Writing(MemoryStore(memory.environment, clock=clock, max_age=0))


def restore(memory: MemoryRepository, path: str, commit: str, **more: Any) -> dict[str, Any]:
    return dict(MemoryService(memory.environment, clock=FrozenClock()).restore_record(path, commit, **more))


def refusal(answer: dict[str, Any]) -> tuple[str, str | None]:
    assert not answer["ok"]
    return answer["error"]["code"], answer["error"].get("detail")


def test_a_version_comes_back_as_a_run_that_can_be_undone(twice: tuple[MemoryRepository, str]) -> None:
    memory, first = twice
    head = memory.head
    value = restore(memory, PATH, first[:9], expected_head=head)["value"]
    assert (value["status"], value["path"], value["restoredCommit"]) == ("applied", PATH, first)
    assert value["changedPaths"] == [PATH]
    assert memory.path(PATH).read_text() == FIRST
    assert memory.git("merge-base", "--is-ancestor", head, "HEAD") == b""
    assert memory.git("status", "--porcelain") == b""
    assert restore(memory, PATH, first)["value"]["status"] == "no_change"
    service = MemoryService(memory.environment)
    assert service.rollback(value["runId"], "ROLLBACK_MEMORY")["ok"]
    assert memory.path(PATH).read_text() == SECOND


def test_a_deleted_record_comes_back(twice: tuple[MemoryRepository, str]) -> None:
    memory, first = twice
    memory.remove(PATH)
    memory.commit()
    assert restore(memory, PATH, first)["ok"]
    assert memory.path(PATH).read_text() == FIRST


def test_what_is_no_version_is_refused(twice: tuple[MemoryRepository, str]) -> None:
    memory, first = twice
    beside = memory.git("commit-tree", f"{first}^{{tree}}", "-m", "beside").decode().strip()
    start = memory.git("rev-list", "--max-parents=0", "HEAD").decode().strip()
    head = memory.head
    for path, commit, code in (
        (PATH, beside, "restore-version-not-found"),
        (PATH, start, "restore-version-not-found"),
        (PATH, "0" * 40, "restore-version-not-found"),
        ("handbook/b.md", first, "restore-version-not-found"),
        (PATH, "HEAD", "restore-invalid-request"),
        (PATH, "main~1", "restore-invalid-request"),
        (PATH, first[:6], "restore-invalid-request"),
        ("README.md", first, "restore-invalid-request"),
        ("handbook/../.git/config", first, "restore-invalid-request"),
    ):
        assert refusal(restore(memory, path, commit))[0] == code, (path, commit)
    assert memory.head == head


def test_an_edit_stands_in_the_way(twice: tuple[MemoryRepository, str]) -> None:
    memory, first = twice
    head = memory.head
    memory.write(PATH, "edited\n")
    assert refusal(restore(memory, PATH, first)) == ("restore-conflict", "dirty-payload")
    assert Inspector(memory.environment).restore_plan(PATH, first).refusal is not None
    memory.remove(PATH)
    assert refusal(restore(memory, PATH, first)) == ("restore-conflict", "dirty-payload")
    memory.git("checkout", "-q", "--", PATH)
    memory.write("handbook/other.md", record("project/other"))
    memory.commit()
    assert refusal(restore(memory, PATH, first, expected_head=head)) == ("restore-conflict", "head-moved")
    assert memory.path(PATH).read_text() == SECOND


def test_the_rules_of_today_hold_for_a_version_too(memory: MemoryRepository) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    memory.write(PATH, record("project/a", f"token {token}\n"))
    secret = memory.commit()
    memory.write(PATH, record("project/b", "another id\n"))
    renamed = memory.commit()
    memory.write_all({PATH: FIRST, "handbook/b.md": record("project/b")})
    memory.commit()
    assert refusal(restore(memory, PATH, secret))[0] == "secret-detected"
    assert refusal(restore(memory, PATH, renamed))[0] == "duplicate-id"
    assert memory.path(PATH).read_text() == FIRST


def test_a_memory_gets_a_version_of_its_own_and_keeps_its_history(
    memory: MemoryRepository, writing: Writing, clock: FrozenClock
) -> None:
    identity = writing.remember(
        ALICE, RememberRequest(content="one", path="p", memory_id="m-1", scope="team-x")
    )["id"]
    path, first = f"handbook/p/{identity}.md", memory.head
    writing.update(Caller(agent="bob"), identity, UpdateRequest(content="two"))
    writing.forget(ALICE, identity, ForgetRequest())
    archived = f"archive/{path}"
    clock.advance(days=1)
    view = Inspector(memory.environment).record(archived)
    assert [(each.version, each.operation, each.agent, each.door, each.path) for each in view.history] == [
        (3, "forget", "alice", "mcp", archived),
        (2, "update", "bob", "rest", path),
        (1, "remember", "alice", "mcp", path),
    ]
    assert view.memory is not None
    assert (view.memory.scope, view.memory.status, view.memory.version) == ("team-x", "deleted", 3)
    plan = Inspector(memory.environment).restore_plan(archived, first)
    assert (plan.path, plan.refusal) == (path, None)
    assert plan.diff.new is not None and plan.diff.new.endswith("one")
    value = restore(memory, archived, first, expected_head=plan.expected_head)["value"]
    assert (value["path"], sorted(value["changedPaths"])) == (path, [archived, path])
    with writing._store.reading() as catalogue:
        (back,) = catalogue.of_id(identity)
    assert (back.file, back.content, back.status, back.version) == (path, "one", "active", 4)
    history = Inspector(memory.environment).record(path).history
    assert (history[0].version, history[0].operation) == (4, "restore-version")
    assert len(history) == 4


def test_what_was_erased_stays_away(memory: MemoryRepository, writing: Writing) -> None:
    for mode in ("hard_delete", "redact"):
        identity = writing.remember(ALICE, RememberRequest(content=f"quetzal {mode}", path="p"))["id"]
        commit, path = memory.head, f"handbook/p/{identity}.md"
        writing.forget(ALICE, identity, ForgetRequest(mode=mode))
        for place in (path, f"archive/{path}"):
            assert refusal(restore(memory, place, commit))[0] == "restore-version-not-found"


def test_a_record_of_its_own_in_the_archive_is_left_alone(twice: tuple[MemoryRepository, str]) -> None:
    memory, first = twice
    twin = record("project/twin", "another\n")
    memory.write(f"archive/{PATH}", twin)
    memory.commit()
    inspector = Inspector(memory.environment)
    assert len(inspector.record(f"archive/{PATH}").history) == 1
    assert len(inspector.record(PATH).history) == 2
    assert restore(memory, PATH, first)["value"]["changedPaths"] == [PATH]
    assert memory.path(f"archive/{PATH}").read_text() == twin
    assert refusal(restore(memory, f"archive/{PATH}", first))[0] == "restore-version-not-found"
    memory.remove(f"archive/{PATH}")
    memory.commit()
    # Nothing lies in the archive now; what lies at the version's own place is still the same record.
    assert restore(memory, f"archive/{PATH}", first)["value"]["status"] == "no_change"


def test_a_version_never_replaces_another_record(twice: tuple[MemoryRepository, str]) -> None:
    memory, first = twice
    memory.path("archive/handbook").mkdir(exist_ok=True)
    memory.path(PATH).rename(memory.path(f"archive/{PATH}"))
    newer = record("project/newer", "took the place\n")
    memory.write(PATH, newer)
    memory.commit()
    assert refusal(restore(memory, f"archive/{PATH}", first)) == ("restore-conflict", "place-taken")
    assert memory.path(PATH).read_text() == newer
