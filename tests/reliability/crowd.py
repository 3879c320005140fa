"""Many processes on one memory, killed at random: no two holders, no half state, nothing lost, nothing in
the way.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from hashlib import sha1
from pathlib import Path

from dsh_memory.environment import utc_now
from dsh_memory.repository.clearing import clear
from dsh_memory.repository.mutation import recover
from tests.reliability.actor import PROJECT
from tests.reliability.figures import Figures
from tests.reliability.invariants import assert_sound, reachable_blobs
from tests.support.repositories import MemoryRepository, record

WORKER = """
import json, os, random, sys, time
from pathlib import Path
from dsh_memory.environment import Environment, utc_now
from dsh_memory.errors import MemoryFailure
from dsh_memory.repository.journal import Journal
from dsh_memory.repository.clearing import clear
from dsh_memory.repository.editing import save, write_paths
from dsh_memory.repository.mutation import recover
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.rollback import rollback
from dsh_memory.repository.view import read_records

root, seconds, name = sys.argv[1], float(sys.argv[2]), sys.argv[3]
chance = random.Random(name)
environment = Environment(dsh_home=str(Path(root).parent), memory_root=root)
acceptable = {
    "operation-in-progress", "rollback-conflict", "rollback-not-applicable", "live-memory-changed",
    "clear-failed", "duplicate-id", "staging-invalid",
}
end = time.monotonic() + seconds
count = 0
with Repository.open(environment) as repo:
    while time.monotonic() < end:
        count += 1
        act = chance.choice(["clear", "rollback", "write", "write", "write", "save", "edit", "read", "read"])
        try:
            if act == "clear":
                clear(repo, utc_now)
            elif act == "rollback":
                runs = Journal(repo.root).runs(1, status="applied")
                if runs:
                    rollback(repo, utc_now, runs[0].run_id)
            elif act == "write":
                text = f"{name} wrote {count}\\n"
                write_paths(repo, utc_now, {f"handbook/{name}/{count}.md": text.encode()}, expected={})
                print("acknowledged", text, end="", flush=True)
            elif act == "save":
                save(repo, utc_now)
            elif act == "edit":
                path = Path(root, "archive", f"{name}-{count}.md")
                text = f"{name} edited {count}\\n"
                temporary = Path(root, f".{name}.tmp")
                temporary.write_text(text)
                path.parent.mkdir(exist_ok=True)
                temporary.rename(path)
                print("acknowledged", text, end="", flush=True)
            else:
                found = read_records(repo, utc_now())
                # A pair is written in one run: a reader that sees one half of it saw a half state.
                pair = [record.body for record in found.records if record.path.startswith("rollouts/pair")]
                assert len(pair) in (0, 2), pair
        except MemoryFailure as failure:
            if failure.code not in acceptable:
                print("unexpected", act, failure.code, failure.detail, failure.message, flush=True)
                sys.exit(3)
"""


def figures(long: bool) -> Figures:
    """The acknowledged writes of eight processes in a minute, or of four in a few seconds."""
    with tempfile.TemporaryDirectory() as folder:
        memory = MemoryRepository.create(Path(folder, "dsh-home", "storages", "memory"))
        if long:
            return stress(memory, processes=8, seconds=60, kills_a_second=3)
        return stress(memory, processes=4, seconds=4, kills_a_second=2)


def stress(memory: MemoryRepository, processes: int, seconds: float, kills_a_second: float) -> Figures:
    """How many writes were acknowledged, and those that no ref's history has in the end."""
    memory.write_all({"rollouts/pair1.md": record("pair1"), "rollouts/pair2.md": record("pair2")})
    memory.commit("A pair")
    chance = random.Random(7)
    output: list[str] = []
    workers: list[subprocess.Popen[str]] = []

    def start() -> None:
        name = f"w{len(output)}-{len(workers)}-{chance.randrange(10**6)}"
        workers.append(
            subprocess.Popen(
                [sys.executable, "-c", WORKER, str(memory.root), str(seconds), name],
                cwd=PROJECT,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )

    def end(worker: subprocess.Popen[str]) -> None:
        said, _ = worker.communicate(timeout=120)
        output.extend(said.splitlines())
        assert worker.returncode in (0, -signal.SIGKILL), said

    for _ in range(processes):
        start()
    finish = time.monotonic() + seconds
    while time.monotonic() < finish:
        time.sleep(1 / kills_a_second)
        victim = workers.pop(chance.randrange(len(workers)))
        # Half of the time the git processes go with it, half of the time they outlive it.
        if chance.random() < 0.5:
            os.killpg(victim.pid, signal.SIGKILL)
        else:
            victim.kill()
        end(victim)
        start()
    for worker in workers:
        end(worker)

    assert [line for line in output if line.startswith("unexpected")] == []
    with memory.open() as repo:
        recover(repo, utc_now)
        # What is still in the worktree alone goes into the history, too.
        clear(repo, utc_now)
    assert_sound(memory)
    written = [
        line.removeprefix("acknowledged ") + "\n" for line in output if line.startswith("acknowledged ")
    ]
    reachable = reachable_blobs(memory)
    lost = [f"{text!r} is in no history" for text in written if blob_of(text) not in reachable]
    return Figures(len(written), tuple(lost))


def blob_of(text: str) -> str:
    data = text.encode()
    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
