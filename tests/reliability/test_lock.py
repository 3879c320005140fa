"""The operation lock: never two holders, never a dead one in the way, never another's file removed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dsh_memory.environment import format_instant, utc_now
from dsh_memory.errors import OperationInProgress, UnsafeLayout
from dsh_memory.repository import turns
from dsh_memory.repository.layout import Root
from dsh_memory.repository.lock import hold, read_active_run, read_lock
from tests.reliability.actor import PROJECT
from tests.support.repositories import MemoryRepository

RUN = "20260820T120000Z-00000001"


@pytest.fixture
def root(memory: MemoryRepository) -> Iterator[Root]:
    with Root(str(memory.root)) as opened:
        yield opened


def write_lock(memory: MemoryRepository, **content: object) -> Path:
    """A lock file as another program writes it: without a flock."""
    now = format_instant(utc_now())
    values = {"operation": "sync", "pid": os.getppid(), "runId": RUN, "startedAt": now, **content}
    return memory.write(".sync/operation.lock", json.dumps(values))


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_held_lock_names_its_holder_and_goes_with_it(memory: MemoryRepository, root: Root) -> None:
    with hold(root, "clear", RUN, utc_now) as lock:
        lock.record(lock.run)
        state = read_lock(root, utc_now())
        assert state is not None and state.active
        assert (state.operation, state.pid, state.run_id) == ("clear", os.getpid(), RUN)
        content = json.loads(memory.path(".sync/operation.lock").read_text())
        assert list(content) == ["operation", "pid", "runId", "startedAt"]
        assert memory.path(".sync/operation.lock").stat().st_mode & 0o777 == 0o600
        active = read_active_run(root, utc_now())
        assert active is not None and active.state == "running"
    assert sorted(os.listdir(memory.root / ".sync")) == [".gitignore"]


def test_active_run_holds_the_contracts_keys_first(memory: MemoryRepository, root: Root) -> None:
    with hold(root, "clear", RUN, utc_now) as lock:
        lock.record(lock.run)
        content = json.loads(memory.path(".sync/active-run.json").read_text())
    expected = ["schema_version", "run_id", "operation", "status", "phase", "pid", "started_at"]
    assert list(content)[:7] == expected


def test_lock_is_released_when_the_operation_raises(memory: MemoryRepository, root: Root) -> None:
    with pytest.raises(RuntimeError), hold(root, "clear", RUN, utc_now) as lock:
        lock.record(lock.run)
        raise RuntimeError
    assert sorted(os.listdir(memory.root / ".sync")) == [".gitignore"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({"pid": 2**31 + 5}, id="impossible-pid"),
        pytest.param({"pid": os.getpid()}, id="own-pid-without-flock"),
        pytest.param({"startedAt": "2020-01-01T00:00:00.000Z"}, id="process-began-later"),
    ],
)
def test_lock_whose_holder_is_gone_is_taken_at_once(
    memory: MemoryRepository, root: Root, content: dict[str, object]
) -> None:
    write_lock(memory, **content)
    state = read_lock(root, utc_now())
    assert state is not None and not state.active
    with hold(root, "clear", RUN, utc_now, wait_seconds=0):
        held = read_lock(root, utc_now())
        assert held is not None and held.active and held.run_id == RUN


def test_lock_of_a_dead_process_is_taken_at_once(memory: MemoryRepository, root: Root) -> None:
    write_lock(memory, pid=dead_pid(), startedAt=format_instant(utc_now() - timedelta(minutes=1)))
    with hold(root, "clear", RUN, utc_now, wait_seconds=0):
        held = read_lock(root, utc_now())
        assert held is not None and held.active and held.run_id == RUN


@pytest.mark.parametrize("text", ["", "5", "{", '{"pid": true, "startedAt": "2026-08-20T12:00:00Z"}'])
def test_unreadable_lock_counts_as_held_for_five_seconds(
    memory: MemoryRepository, root: Root, text: str
) -> None:
    path = memory.write(".sync/operation.lock", text)
    state = read_lock(root, utc_now())
    assert state is not None and state.active
    with pytest.raises(OperationInProgress), hold(root, "clear", RUN, utc_now, wait_seconds=0):
        pass
    os.utime(path, (path.stat().st_mtime - 6,) * 2)
    with hold(root, "clear", RUN, utc_now, wait_seconds=0):
        held = read_lock(root, utc_now())
        assert held is not None and held.active and held.run_id == RUN


def test_live_process_of_other_hands_is_honoured_until_six_hours(
    memory: MemoryRepository, root: Root
) -> None:
    now = utc_now()
    write_lock(memory, startedAt=format_instant(now))
    with pytest.raises(OperationInProgress), hold(root, "clear", RUN, lambda: now, wait_seconds=0):
        pass
    state = read_lock(root, now + timedelta(hours=5, minutes=59))
    assert state is not None and state.active
    with hold(root, "clear", RUN, lambda: now + timedelta(hours=6, minutes=1), wait_seconds=0):
        pass


def test_both_forms_of_instants_are_read(memory: MemoryRepository, root: Root) -> None:
    for text in ("2126-08-20T12:00:00Z", "2126-08-20T12:00:00.123Z"):
        write_lock(memory, startedAt=text)
        state = read_lock(root, utc_now())
        assert state is not None and state.active and state.pid == os.getppid()


@pytest.mark.parametrize("kind", ["symlink", "folder", "fifo"])
def test_something_else_at_the_locks_place_is_left_alone(
    memory: MemoryRepository, root: Root, kind: str, tmp_path: Path
) -> None:
    place = memory.path(".sync/operation.lock")
    if kind == "symlink":
        place.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        place.mkdir()
    else:
        os.mkfifo(place)
    with pytest.raises(UnsafeLayout), hold(root, "clear", RUN, utc_now, wait_seconds=0):
        pass
    assert os.path.lexists(place) and not (tmp_path / "elsewhere").exists()


def test_linked_sync_folder_is_refused(memory: MemoryRepository, root: Root, tmp_path: Path) -> None:
    (memory.root / ".sync").rename(tmp_path / "elsewhere")
    (memory.root / ".sync").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeLayout), hold(root, "clear", RUN, utc_now, wait_seconds=0):
        pass
    assert os.listdir(tmp_path / "elsewhere") == [".gitignore"]


def test_release_leaves_a_lock_that_others_put_in_place(memory: MemoryRepository, root: Root) -> None:
    with hold(root, "clear", RUN, utc_now) as lock:
        memory.path(".sync/operation.lock").unlink()
        write_lock(memory)
        with pytest.raises(OperationInProgress) as refused:
            lock.check_still_held()
        assert refused.value.detail == "lock-lost"
    assert memory.path(".sync/operation.lock").exists()


def test_leftovers_of_dead_contenders_are_swept(memory: MemoryRepository, root: Root) -> None:
    memory.write(".sync/.usage.lock-77-abcd.tmp", "{}")
    memory.write(".sync/.usage.active-77-abcd.tmp", "{}")
    memory.write(".sync/.usage.77.abcd.tmp", "the usage sidecar's own")
    with hold(root, "clear", RUN, utc_now):
        pass
    assert sorted(os.listdir(memory.root / ".sync")) == [".gitignore", ".usage.77.abcd.tmp"]


def test_writers_of_one_process_queue_in_order(root: Root) -> None:
    order: list[int] = []
    ready = [threading.Event() for _ in range(6)]

    def write(number: int) -> None:
        ready[number].set()
        with hold(root, "write", RUN, utc_now):
            order.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    with hold(root, "write", RUN, utc_now):
        for number, thread in enumerate(threads):
            thread.start()
            ready[number].wait()
            wait_until_queued(number + 1)
    for thread in threads:
        thread.join()
    assert order == list(range(6))


def wait_until_queued(writers: int) -> None:
    end = time.monotonic() + 1.5
    while sum(len(queue.waiting) for queue in turns._queues.values()) <= writers:
        assert time.monotonic() < end, "the writer never took its place in the queue"
        time.sleep(0.001)


def test_stopped_holder_makes_writers_wait_and_then_answer(memory: MemoryRepository, root: Root) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(memory.root)], stdout=subprocess.PIPE, text=True, cwd=PROJECT
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        os.kill(holder.pid, signal.SIGSTOP)
        with pytest.raises(OperationInProgress), hold(root, "clear", RUN, utc_now, wait_seconds=0.1):
            pass
        state = read_lock(root, utc_now() + timedelta(days=1))
        assert state is not None and state.active, "a held flock is alive whatever its age"
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()  # type: ignore[union-attr]
    with hold(root, "clear", RUN, utc_now, wait_seconds=0):
        held = read_lock(root, utc_now())
        assert held is not None and held.active and held.run_id == RUN


HOLDER = """
import signal, sys
from dsh_memory.environment import utc_now
from dsh_memory.repository.layout import Root
from dsh_memory.repository.lock import hold
with Root(sys.argv[1]) as root, hold(root, "clear", "20260820T120000Z-00000002", utc_now):
    print("held", flush=True)
    signal.pause()
"""

CONTENDER = """
import fcntl, os, random, signal, sys, time
from dsh_memory.environment import utc_now
from dsh_memory.errors import OperationInProgress
from dsh_memory.repository.layout import Root
from dsh_memory.repository.lock import hold
root_path, witness, seconds, seed = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
chance = random.Random(seed)
end = time.monotonic() + seconds
with Root(root_path) as root:
    while time.monotonic() < end:
        try:
            with hold(root, "clear", "20260820T120000Z-00000003", utc_now, wait_seconds=1):
                descriptor = os.open(witness, os.O_CREAT | os.O_RDWR)
                try:
                    # The system itself says whether another holder is inside, and forgets those that died.
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    sys.exit(7)
                if chance.random() < 0.02:
                    os.kill(os.getpid(), signal.SIGKILL)
                os.close(descriptor)
        except OperationInProgress:
            pass
"""


def contend(memory: MemoryRepository, tmp_path: Path, processes: int, rounds: int) -> None:
    witness = tmp_path / "witness"
    for turn in range(rounds):
        contenders = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    CONTENDER,
                    str(memory.root),
                    str(witness),
                    "1",
                    f"{turn}{number}",
                ],
                cwd=PROJECT,
            )
            for number in range(processes)
        ]
        for contender in contenders:
            contender.wait(timeout=120)
        assert {contender.returncode for contender in contenders} <= {0, -signal.SIGKILL}
    with Root(str(memory.root)) as root, hold(root, "clear", RUN, utc_now):
        pass
    assert sorted(os.listdir(memory.root / ".sync")) == [".gitignore"]


def test_never_two_holders_even_if_holders_are_killed(memory: MemoryRepository, tmp_path: Path) -> None:
    contend(memory, tmp_path, processes=4, rounds=3)


@pytest.mark.slow
def test_never_two_holders_for_thirty_rounds(memory: MemoryRepository, tmp_path: Path) -> None:
    contend(memory, tmp_path, processes=8, rounds=30)
