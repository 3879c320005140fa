"""Eight writers and eight readers on one memory, through all its doors at once.

A writer notes what its door acknowledged; each such text must be in HEAD's history in the end. A reader may be answered
with nothing but what is there: the two records that are always written together are of one version.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dsh_memory.environment import utc_now
from dsh_memory.errors import MemoryFailure
from dsh_memory.repository.editing import write_paths
from tests.reliability.doors import CliDoor, Door, HttpDoor, McpDoor, ServiceDoor, StdioDoor, command, run
from tests.reliability.figures import Figures
from tests.reliability.invariants import assert_sound
from tests.support.repositories import MemoryRepository, record

PAIR = ("handbook/pair-one.md", "rollouts/pair-two.md")
#: What a door says while another one writes, each in its own words; a retry works.
_BUSY = ("operation-in-progress", "operation_in_progress", "live-memory-changed")

#: What a writer does for the nth time: the text that was acknowledged, None where the door was busy.
Write = Callable[[int], str | None]
Read = Callable[[], dict[str, Any]]


class Crowd:
    """The doors, and what went wrong."""

    def __init__(self, memory: MemoryRepository) -> None:
        self.memory = memory
        self.acknowledged: list[str] = []
        self.reads = 0
        self.faults: list[str] = []
        self._end = 0.0
        self._lock = threading.Lock()

    def go_on(self, seconds: float) -> None:
        """Lets all write and read for so long."""
        environment = self.memory.environment
        with ExitStack() as stack:

            def opened(door: Door) -> Any:
                stack.callback(door.close)
                return door

            http, other_http = opened(HttpDoor(environment)), opened(HttpDoor(environment))
            writers: list[Write] = [
                self._service("s1"),
                self._pairs(),
                self._editor_and_save("c1"),
                self._editor_and_migrate("d1", opened(StdioDoor(environment))),
                self._editor_and_migrate("d2", opened(StdioDoor(environment))),
                self._rest("h1", http),
                self._rest("h2", other_http),
                self._mcp("m1", opened(McpDoor(environment))),
            ]
            readers: list[Read] = [
                self._pair_of(ServiceDoor(environment)),
                self._pair_of(ServiceDoor(environment)),
                self._pair_of(CliDoor(environment)),
                self._pair_of(opened(StdioDoor(environment))),
                self._pair_of(opened(StdioDoor(environment))),
                self._pair_of(http),
                self._pair_of(other_http),
                self._pair_of(opened(McpDoor(environment))),
            ]
            self._end = time.monotonic() + seconds
            threads = [threading.Thread(target=self._write, args=(writer,)) for writer in writers]
            threads += [threading.Thread(target=self._read, args=(reader,)) for reader in readers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    # --- the loops --------------------------------------------------------------------------------

    def _write(self, writer: Write) -> None:
        number = 0
        while time.monotonic() < self._end:
            number += 1
            try:
                text = writer(number)
            except Exception as fault:
                return self._fault(f"a writer: {type(fault).__name__}: {fault}")
            if text is not None:
                with self._lock:
                    self.acknowledged.append(text)
        return None

    def _read(self, reader: Read) -> None:
        while time.monotonic() < self._end:
            try:
                answer = reader()
            except Exception as fault:
                return self._fault(f"a reader: {type(fault).__name__}: {fault}")
            with self._lock:
                self.reads += 1
            # On two cores, readers that never rest would leave the writers nothing.
            time.sleep(0.05)
            if not answer["ok"]:
                self._fault(f"a reader was answered {answer['error']}")
                continue
            versions = [re.findall(r"version (\d+)", json.dumps(hit)) for hit in answer["value"]["results"]]
            if len(versions) != 2 or versions[0] != versions[1]:
                self._fault(f"a reader saw half a change: {answer['value']['results']}")
        return None

    def _fault(self, sentence: str) -> None:
        with self._lock:
            self.faults.append(sentence)

    # --- writers ----------------------------------------------------------------------------------

    def _service(self, name: str) -> Write:
        service = ServiceDoor(self.memory.environment).service

        def write(number: int) -> str | None:
            text = f"{name} wrote {number}"
            answer = service.write_record(
                f"handbook/{name}-{number}.md", None, record(f"{name}-{number}", text + "\n").encode()
            )
            return text if _done(dict(answer)) else None

        return write

    def _pairs(self) -> Write:
        def write(number: int) -> str | None:
            before = {path: self.memory.path(path).read_bytes() for path in PAIR}
            text = f"pairword version {number}"
            changes: dict[str, bytes | None] = {
                path: record(f"pair-{index}", f"{text}\n").encode() for index, path in enumerate(PAIR)
            }
            try:
                with self.memory.open() as repo:
                    write_paths(repo, utc_now, changes, expected=before)
            except MemoryFailure as refused:
                _check_busy(refused.code)
                return None
            return text

        return write

    def _drop(self, name: str, text: str) -> None:
        """What an editor does: a whole file from one moment to the next."""
        aside = self.memory.root.parent / f"{name}.tmp"
        aside.write_text(text + "\n")
        aside.rename(self.memory.path(f"archive/{name}.md"))

    def _editor_and_save(self, name: str) -> Write:
        words = command(self.memory.environment, "save", "--yes", "--json")

        def write(number: int) -> str | None:
            text = f"{name} saved {number}"
            self._drop(f"{name}-{number}", text)
            answer: dict[str, Any] = json.loads(run(words).stdout)
            return text if _done(answer) else None

        return write

    def _editor_and_migrate(self, name: str, door: Door) -> Write:
        def write(number: int) -> str | None:
            text = f"{name} migrated {number}"
            self._drop(f"{name}-{number}", text)
            return text if _done(door.call("migrateLegacy", {"dryRun": False})) else None

        return write

    def _rest(self, name: str, door: HttpDoor) -> Write:
        def write(number: int) -> str | None:
            text = f"{name} remembered {number}"
            answer = door.client.post("/v1/remember", json={"content": text, "path": "p"})
            if answer.status_code == 201:
                return text
            _check_busy(answer.json()["error"]["code"])
            return None

        return write

    def _mcp(self, name: str, door: McpDoor) -> Write:
        def write(number: int) -> str | None:
            text = f"{name} remembered {number}"
            result = door.tool("remember", {"content": text, "path": "p"})
            if not result.get("isError"):
                return text
            _check_busy(result["content"][0]["text"].partition(":")[0])
            return None

        return write

    # --- readers ----------------------------------------------------------------------------------

    def _pair_of(self, door: Door) -> Read:
        return lambda: door.call("search", {"query": "pairword", "limit": 10})


def _done(answer: dict[str, Any]) -> bool:
    if not answer["ok"]:
        _check_busy(answer["error"]["code"])
    return bool(answer["ok"])


def _check_busy(code: str) -> None:
    if code not in _BUSY:
        raise AssertionError(f"a door was answered {code}")


def crowd_through_all_doors(memory: MemoryRepository, seconds: float) -> tuple[Crowd, list[str]]:
    """What was tried, and what was lost or wrong."""
    memory.write_all(
        {path: record(f"pair-{index}", "pairword version 0\n") for index, path in enumerate(PAIR)}
    )
    memory.commit("A pair")
    crowd = Crowd(memory)
    crowd.go_on(seconds)
    losses = list(crowd.faults)
    history = memory.git("log", "-p", "--no-renames", "--format=", "HEAD").decode("utf-8", "replace")
    added = {line[1:].strip() for line in history.splitlines() if line.startswith("+")}
    losses += [f"{text!r} is not in HEAD's history" for text in crowd.acknowledged if text not in added]
    answer = ServiceDoor(memory.environment).service.save()
    if not answer["ok"]:
        losses.append(f"afterwards a save is answered {answer}")
    assert_sound(memory)
    return crowd, losses


def figures(long: bool) -> Figures:
    """The acknowledged writes and the answered reads of a minute, or of five seconds."""
    with TemporaryDirectory(prefix="dsh-memory-doors-") as folder:
        memory = MemoryRepository.create(Path(folder, "dsh-home", "storages", "memory"))
        crowd, losses = crowd_through_all_doors(memory, 60 if long else 5)
        return Figures(len(crowd.acknowledged) + crowd.reads, tuple(losses))
