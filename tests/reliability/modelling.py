"""A plain model of a memory, in dictionaries, and a machine that does everything with it and with the real one.

The model knows each branch's payload in the worktree and in HEAD, its runs with the payload before and after each,
and the previews. After every step the disk has to be the model: the worktree, HEAD's tree, the journal. What
a door acknowledged must be reachable in the end.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha1
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dsh_memory.environment import utc_now
from dsh_memory.errors import MemoryFailure
from dsh_memory.hosts.prompt import prompt_section
from dsh_memory.records.legacy import generated_header
from dsh_memory.records.metadata import Malformed, Record, read_record
from dsh_memory.service import MemoryService
from dsh_memory.sync.proposing import from_files, propose
from tests.reliability.doors import Door, HttpDoor, ServiceDoor, StdioDoor
from tests.reliability.figures import Figures
from tests.reliability.invariants import assert_sound, reachable_blobs
from tests.support.repositories import MemoryRepository, record

Payload = dict[str, bytes]

_PATHS: Final = ("handbook/a.md", "handbook/deep/b.md", "rollouts/c.md", "rollouts/d.md", "archive/e.md")
_LIFETIME: Final = timedelta(days=7)
_LEGACY: Final = "legacy"
_MALFORMED: Final = "malformed"

paths = st.sampled_from(_PATHS)
numbers = st.integers(0, 30)
kinds = st.sampled_from(("record", "record", "record", _LEGACY, _MALFORMED))
doors = st.sampled_from(("service", "stdio", "http"))


@dataclass
class Run:
    """A journaled run, with the payload around it where it can be rolled back."""

    operation: str
    status: str
    before: Payload
    after: Payload


@dataclass
class Branch:
    """What a branch holds: HEAD's payload, the runs of its journal, and the commits that HEAD was after a step."""

    committed: Payload
    runs: dict[str, Run] = field(default_factory=dict)
    history: list[tuple[str, Payload]] = field(default_factory=list)


@dataclass
class Preview:
    base: Payload
    staged: Payload
    expires: datetime


class Clock:
    """The system's clock, put forward or back."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def __call__(self) -> datetime:
        return utc_now() + self.offset


class World:
    """The doors to one root, open from the first example to the last, and the memory that each example starts
    with.
    """

    def __init__(self, folder: Path) -> None:
        self.steps = 0
        self.clock = Clock()
        self.memory = MemoryRepository.create(
            folder / "dsh-home" / "storages" / "memory",
            {path: record(_id(path), "quokka0\n") for path in _PATHS[:3]},
            dsh_home=folder / "dsh-home",
        )
        self._template = folder / "template"
        subprocess.run(["cp", "-a", str(self.memory.root), str(self._template)], check=True)
        environment = self.memory.environment
        self._open = ExitStack()
        self.http = HttpDoor(environment)
        self.doors: dict[str, Door] = {
            "service": ServiceDoor(environment, self.clock),
            "stdio": StdioDoor(environment),
            "http": self.http,
        }
        for door in self.doors.values():
            self._open.callback(door.close)

    def reset(self) -> None:
        """The memory as it was in the beginning, under doors that do not know of it."""
        shutil.rmtree(self.memory.root)
        subprocess.run(["cp", "-a", str(self._template), str(self.memory.root)], check=True)
        Path(self.memory.environment.dsh_home, "settings.yaml").unlink(missing_ok=True)
        self.clock.offset = timedelta()

    def close(self) -> None:
        """Closes every door."""
        self._open.close()


class MemoryMachine(RuleBasedStateMachine):
    """One life of a memory; `world` is given by a subclass."""

    world: World

    @initialize()
    def begin(self) -> None:
        self.world.reset()
        self.memory = self.world.memory
        self.service = MemoryService(self.memory.environment, clock=self.world.clock)
        self.live: Payload = self.memory.live_payload()
        self.branches = {"main": Branch(dict(self.live))}
        self.on = "main"
        self.previews: dict[str, Preview] = {}
        self.enabled = True
        self.ids: list[str] = []
        self.acknowledged: set[bytes] = set()

    @property
    def branch(self) -> Branch:
        return self.branches[self.on]

    @property
    def dirty(self) -> set[str]:
        names = self.live.keys() | self.branch.committed.keys()
        return {path for path in names if self.live.get(path) != self.branch.committed.get(path)}

    # --- other hands ------------------------------------------------------------------------------

    @rule(path=paths, number=numbers, kind=kinds)
    def a_person_edits(self, path: str, number: int, kind: str) -> None:
        self.live[path] = _text(path, number, kind)
        self.memory.write(path, self.live[path])

    @rule(path=paths)
    def a_person_deletes(self, path: str) -> None:
        if self.live.pop(path, None) is not None:
            self.memory.remove(path)

    @rule(number=numbers)
    def a_person_edits_the_summary(self, number: int) -> None:
        self.live["summary.md"] = f"# Summary {number}\n".encode()
        self.memory.write("summary.md", self.live["summary.md"])

    @rule()
    def a_person_commits(self) -> None:
        self.memory.commit("By hand")
        self.branch.committed = dict(self.live)
        self.acknowledged |= set(self.live.values())

    @rule(name=st.sampled_from(("main", "side")))
    def a_person_switches_the_branch(self, name: str) -> None:
        if self.dirty:
            return
        if name not in self.branches:
            self.branches[name] = Branch(dict(self.live), dict(self.branch.runs), list(self.branch.history))
            self.memory.git("checkout", "-q", "-b", name)
        else:
            self.memory.git("checkout", "-q", name)
        self.on = name
        self.live = dict(self.branch.committed)

    @rule(hours=st.sampled_from((-200, -1, 1, 24, 200)))
    def the_clock_is_put(self, hours: int) -> None:
        self.world.clock.offset += timedelta(hours=hours)

    # --- the program's changes --------------------------------------------------------------------

    @rule(path=paths, number=numbers, kind=kinds, stale=st.booleans())
    def write_a_record(self, path: str, number: int, kind: str, stale: bool) -> None:
        new = _text(path, number, kind)
        old = b"another text\n" if stale else self.live.get(path)
        answer = self.service.write_record(path, old, new)
        if stale:
            self._refused(answer, "live-memory-changed")
        elif new == self.live.get(path):
            assert self._value(answer)["status"] == "no_change"
        elif kind == _MALFORMED:
            self._refused(answer, "invalid-schema-version")
        else:
            before = _with(self.branch.committed, {path: self.live.get(path)})
            self._applied(self._value(answer)["runId"], "write", before, _with(before, {path: new}))
            self.live[path] = new

    @rule()
    def save(self) -> None:
        answer = self.service.save()
        if not self.dirty:
            assert self._value(answer)["status"] == "no_change"
        elif any(_is_malformed(path, self.live[path]) for path in self.dirty if path in self.live):
            self._refused(answer, "invalid-schema-version")
        else:
            self._applied(self._value(answer)["runId"], "write", self.branch.committed, self.live)

    @precondition(lambda self: self.branch.history)
    @rule(path=paths, which=st.integers(0, 50))
    def restore_a_version(self, path: str, which: int) -> None:
        commit, payload = self.branch.history[which % len(self.branch.history)]
        old = payload.get(path)
        answer = self.service.restore_record(path, commit)
        if old is None:
            self._refused(answer, "restore-version-not-found")
        elif path in self.dirty:
            self._refused(answer, "restore-conflict")
        elif old == self.live.get(path):
            assert self._value(answer)["status"] == "no_change"
        elif _is_malformed(path, old):
            self._refused(answer, "invalid-schema-version")
        else:
            before = self.branch.committed
            self._applied(self._value(answer)["runId"], "write", before, _with(before, {path: old}))
            self.live[path] = old

    @rule(door=doors)
    def clear(self, door: str) -> None:
        value = self._value(self._call(door, "clear", confirmation="DELETE_MEMORY"))
        if not any({**self.live, "HEAD": b"".join(self.branch.committed.values())}.values()):
            assert value["alreadyEmpty"]
            return
        # The contract's answer names no run; the newest one is it.
        before, self.live = self.live, {"summary.md": b""}
        self._applied(value["runId"], "clear", before, self.live)

    @precondition(lambda self: self.branch.runs)
    @rule(door=doors, which=st.integers(0, 50))
    def rollback(self, door: str, which: int) -> None:
        run_id = sorted(self.branch.runs)[-1 - which % len(self.branch.runs)]
        run = self.branch.runs[run_id]
        answer = self._call(door, "rollback", runId=run_id, confirmation="ROLLBACK_MEMORY")
        if run.status != "applied":
            self._refused(answer, "rollback-not-applicable")
        elif run.after != self.branch.committed or self.dirty:
            self._refused(answer, "rollback-conflict")
        else:
            rollback_id = self._value(answer)["rollbackRunId"]
            self._applied(rollback_id, "rollback", self.live, run.before, status="rolled_back")
            self.live = dict(run.before)

    @rule(path=paths, number=numbers, deletes=st.booleans())
    def propose(self, path: str, number: int, deletes: bool) -> None:
        new = None if deletes and path in self.live else _text(path, number, "record")
        staged = _with(self.live, {path: new})
        try:
            made = propose(self.memory.environment, self.world.clock, from_files({path: new}))
        except MemoryFailure as failure:
            assert self.dirty and failure.detail == "dirty-payload", failure
            return
        assert not self.dirty
        if staged == self.live:
            assert made is None
            return
        assert made is not None
        expires = self.world.clock() + _LIFETIME
        self.previews[made["preview_id"]] = Preview(dict(self.live), staged, expires)

    @precondition(lambda self: self.previews)
    @rule(door=doors, which=st.integers(0, 50))
    def apply(self, door: str, which: int) -> None:
        preview_id = sorted(self.previews)[which % len(self.previews)]
        preview = self.previews[preview_id]
        answer = self._call(door, "applyPreview", previewId=preview_id)
        if self._now(door) >= preview.expires:
            self._refused(answer, "preview-expired")
        elif self.dirty or preview.base != self.live:
            self._refused(answer, "live-memory-changed")
        else:
            self._value(answer)
            self._applied(preview_id, "preview", self.live, preview.staged)
            self.live = dict(preview.staged)
            del self.previews[preview_id]

    @precondition(lambda self: self.previews)
    @rule(door=doors, which=st.integers(0, 50))
    def discard(self, door: str, which: int) -> None:
        preview_id = sorted(self.previews)[which % len(self.previews)]
        assert self._value(self._call(door, "discardPreview", previewId=preview_id))["removed"] is True
        del self.previews[preview_id]

    @rule(door=doors)
    def migrate(self, door: str) -> None:
        value = self._value(self._call(door, "migrateLegacy", dryRun=False))
        legacy = {path: data for path, data in self.live.items() if _is_legacy(path, data)}
        assert value["migratedCount"] == len(legacy)
        if not legacy:
            return
        after = dict(self.live)
        for path, data in legacy.items():
            written = self.memory.path(path).read_bytes()
            header = read_record(path, written)
            assert isinstance(header, Record) and header.metadata is not None
            created, updated = header.metadata.created_at, header.metadata.updated_at
            assert created is not None and updated is not None
            assert written == generated_header(path, created, updated) + data
            after[path] = written
        before, self.live = self.live, after
        self._applied(value["runId"], "migrate", before, after)

    @rule(door=doors, enabled=st.booleans())
    def switch(self, door: str, enabled: bool) -> None:
        assert self._value(self._call(door, "setEnabled", enabled=enabled)) == {"enabled": enabled}
        self.enabled = enabled

    @rule()
    def recover_where_nothing_died(self) -> None:
        assert self._value(self.service.recover())["nothingToDo"] is True

    # --- the memory API ---------------------------------------------------------------------------

    @rule(number=numbers)
    def remember(self, number: int) -> None:
        content = f"quokka{number} over the API\n"
        body = {"content": content, "path": "projects/alpha", "dedupe": False}
        answer = self.world.http.client.post("/v1/remember", json=body)
        assert answer.status_code == 201, answer.text
        [(path, data)] = self._adopt().items()
        assert data is not None and data.endswith(content.encode()), data
        self.ids.append(answer.json()["id"])
        assert path.endswith(f"{self.ids[-1]}.md")

    @precondition(lambda self: self.ids)
    @rule(which=st.integers(0, 50), restores=st.booleans())
    def forget_or_restore(self, which: int, restores: bool) -> None:
        memory_id = self.ids[which % len(self.ids)]
        client = self.world.http.client
        files = [path for path in self.live if path.endswith(f"{memory_id}.md")]
        if restores:
            answer = client.post(f"/v1/memories/{memory_id}/restore")
        else:
            answer = client.delete(f"/v1/memories/{memory_id}")
        if not files:
            assert answer.status_code == 404, answer.text
            return
        assert answer.status_code == 200, answer.text
        for path in self._adopt():
            assert path.endswith(f"{memory_id}.md"), path
        gone = client.get(f"/v1/memories/{memory_id}").status_code
        assert gone == (200 if restores else 404)

    # --- what is read -----------------------------------------------------------------------------

    @rule(door=doors, number=numbers)
    def search(self, door: str, number: int) -> None:
        word = f"quokka{number}"
        value = self._value(self._call(door, "search", query=word, scope="all", limit=1000))
        expected = {path for path, data in self.live.items() if _is_found(path, data, word)}
        assert {hit["path"] for hit in value["results"]} == expected
        assert value["count"] == len(expected)

    @rule(door=doors)
    def context(self, door: str) -> None:
        value = self._value(self._call(door, "context", query="quokka1", limit=20, scope="all"))
        expected = {path for path, data in self.live.items() if _is_found(path, data, "quokka1")}
        assert {each["path"] for each in value["records"]} <= expected
        assert len(value["records"]) == min(20, len(expected))

    @rule(door=doors)
    def look_around(self, door: str) -> None:
        status = self._value(self._call(door, "status"))
        malformed = sum(_is_malformed(path, data) for path, data in self.live.items())
        assert status["dataFileCount"] == len([data for data in self.live.values() if data])
        assert status["targetDirty"] is bool(self.dirty)
        assert status["malformedFileCount"] == malformed
        legacy = self._value(self._call(door, "legacyRecords"))["count"]
        assert legacy == sum(_is_legacy(path, data) for path, data in self.live.items())
        pending = {each["preview_id"] for each in self._value(self._call(door, "previews"))["previews"]}
        now = self._now(door)
        assert pending == {name for name, each in self.previews.items() if now < each.expires}
        assert self._value(self._call(door, "getSettings")) == {"enabled": self.enabled}
        section = prompt_section(self.memory.environment, self.enabled)
        summary = self.live.get("summary.md", b"").decode()
        assert section is None if not self.enabled else section is not None and summary in section

    # --- what always holds ------------------------------------------------------------------------

    @invariant()
    def the_disk_is_the_model(self) -> None:
        self.world.steps += 1
        assert self.memory.live_payload() == self.live
        listed = self.memory.git(
            "ls-tree", "-r", "-z", "HEAD", "summary.md", "handbook", "rollouts", "archive"
        )
        blobs = dict(_path_and_blob(line) for line in listed.split(b"\0")[:-1])
        assert blobs == {path: _blob(data) for path, data in self.branch.committed.items()}
        head = self.memory.head
        if not self.branch.history or self.branch.history[-1][0] != head:
            self.branch.history.append((head, dict(self.branch.committed)))
        answer = self._value(dict(self.service.runs(limit=1000)))
        shown = {run["run_id"]: (run["operation"], run["status"]) for run in answer["runs"]}
        assert shown == {name: (run.operation, run.status) for name, run in self.branch.runs.items()}

    def teardown(self) -> None:
        if not hasattr(self, "acknowledged"):
            return
        assert_sound(self.memory)
        reachable = reachable_blobs(self.memory)
        assert {data for data in self.acknowledged if _blob(data) not in reachable} == set()

    # --- helpers ----------------------------------------------------------------------------------

    def _call(self, door: str, method: str, **params: Any) -> dict[str, Any]:
        return self.world.doors[door].call(method, params)

    def _now(self, door: str) -> datetime:
        return self.world.clock() if door == "service" else utc_now()

    def _value(self, envelope: Mapping[str, Any]) -> dict[str, Any]:
        assert envelope["ok"], envelope
        value: dict[str, Any] = envelope["value"]
        return value

    def _refused(self, envelope: Mapping[str, Any], code: str) -> None:
        assert not envelope["ok"], envelope
        assert envelope["error"]["code"] == code, envelope

    def _applied(
        self, run_id: str, operation: str, before: Payload, after: Payload, *, status: str = "applied"
    ) -> None:
        self.branch.runs[run_id] = Run(operation, status, dict(before), dict(after))
        self.branch.committed = dict(after)
        self.acknowledged |= {*before.values(), *after.values()}

    def _adopt(self) -> dict[str, bytes | None]:
        """Takes over what the memory API changed on disk, each changed file committed; what that was."""
        found = self.memory.live_payload()
        changed = {
            path: found.get(path)
            for path in found.keys() | self.live.keys()
            if found.get(path) != self.live.get(path)
        }
        self.live = found
        self.branch.committed = _with(self.branch.committed, changed)
        self.acknowledged |= {data for data in changed.values() if data is not None}
        return changed


def figures(long: bool) -> Figures:
    """The steps of a hundred long lives, or of ten short ones; a step that went wrong is a loss."""
    with TemporaryDirectory(prefix="dsh-memory-model-") as folder:
        world = World(Path(folder))
        losses: list[str] = []
        try:
            check(world, lives=100 if long else 10, steps=50 if long else 20)
        except AssertionError as failure:
            losses.append("\n".join([str(failure), *getattr(failure, "__notes__", ())]))
        finally:
            world.close()
        return Figures(world.steps, tuple(losses))


def check(world: World, *, lives: int, steps: int) -> None:
    """Lets `lives` memories go through up to `steps` steps each, the same ones every time."""

    class Machine(MemoryMachine):
        pass

    Machine.world = world
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=lives,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


def _id(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".md")


def _text(path: str, number: int, kind: str) -> bytes:
    body = f"quokka{number}\n"
    if kind == _LEGACY:
        return f"{body}{path}\n".encode()
    if kind == _MALFORMED:
        return f"---\nid: {_id(path)}\n---\n{body}".encode()
    return record(_id(path), body).encode()


def _with(payload: Mapping[str, bytes], changes: Mapping[str, bytes | None]) -> Payload:
    merged = {**payload, **changes}
    return {path: data for path, data in merged.items() if data is not None}


def _is_record_file(path: str) -> bool:
    return path != "summary.md" and path.endswith(".md")


def _is_legacy(path: str, data: bytes) -> bool:
    return _is_record_file(path) and not data.startswith(b"---\n")


def _is_malformed(path: str, data: bytes) -> bool:
    return _is_record_file(path) and isinstance(read_record(path, data), Malformed)


def _is_found(path: str, data: bytes, word: str) -> bool:
    if not _is_record_file(path) or _is_malformed(path, data) or b"memory_status: deleted" in data:
        return False
    return word.encode() in data


def _blob(data: bytes) -> str:
    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _path_and_blob(line: bytes) -> tuple[str, str]:
    facts, _, path = line.partition(b"\t")
    return path.decode(), facts.split()[2].decode()
