"""`python -m tests.benchmarks.tui`: how the terminal UI feels, each figure beside its goal.

On a real pseudo-terminal of 120x36 and 256 colours with 10,000 records; the long list in a process of its own without
a terminal, so that its memory is its own. Printed, never judged.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.corpus import build
from tests.tui.terminal import Terminal

_RECORDS = 10_000
_LONG_LIST = 100_000
_STARTS = 5
_KEYS = 40
_QUIET = 0.5
_WORDS = ("balance", "cache", "deploy", "index", "token")
_FOUND = re.compile(r"([\d,]+) match(?:es)?, ([\d,]+) ms")

Row = tuple[str, str, str]


def main() -> None:
    if sys.argv[1:2] == ["--list"]:
        print(*asyncio.run(_list_cost(int(sys.argv[2]))))
        return
    with tempfile.TemporaryDirectory(prefix="dsh-memory-bench-") as folder:
        root = build(Path(folder) / "memory", _RECORDS)
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "HOME": folder,
            "XDG_CACHE_HOME": f"{folder}/cache",
        }
        command = [sys.executable, "-m", "dsh_memory", "--root", str(root)]
        rows = [*_starts(command, environment), *_session(command, environment)]
    rows += _long_list()
    for what, measured, goal in rows:
        print(f"{what:42}{measured:>14}   {'goal ' + goal if goal else ''}")


def _starts(command: list[str], environment: dict[str, str]) -> list[Row]:
    times = []
    for _ in range(_STARTS + 1):
        began = time.perf_counter()
        screen = Terminal(command, environment)
        screen.wait_for(f"{_RECORDS:,} records", 60)
        times.append((time.perf_counter() - began) * 1_000)
        screen.bytes_within(2)
        screen.press("q")
        screen.exit_code()
        screen.close()
    first, *later = times
    return [
        ("records painted, nothing cached", f"{first:,.0f} ms", ""),
        ("records painted, median of later starts", f"{statistics.median(later):,.0f} ms", "700 ms"),
    ]


def _session(command: list[str], environment: dict[str, str]) -> list[Row]:
    screen = Terminal(command, environment)
    screen.wait_for(f"{_RECORDS:,} records", 60)
    # What the core gets ready in the background is over by then.
    screen.bytes_within(6)
    rows = [*_keys(screen), *_dialog(screen), *_search(screen)]
    screen.close()
    return rows


def _keys(screen: Terminal) -> list[Row]:
    screen.press("6")
    screen.wait_for("handbook")
    screen.bytes_within(2)
    latencies, sizes = [], []
    for _ in range(_KEYS):
        before = screen.written
        pressed = time.perf_counter()
        screen.press("j")
        while screen.written == before:
            screen.bytes_within(0.001)
        latencies.append((time.perf_counter() - pressed) * 1_000)
        screen.bytes_within(_QUIET)
        sizes.append(screen.written - before)
    latencies.sort()
    idle = screen.bytes_within(3)
    return [
        ("key to paint, median", f"{statistics.median(latencies):,.0f} ms", ""),
        ("key to paint, p95", f"{latencies[int(0.95 * (len(latencies) - 1))]:,.0f} ms", "60 ms"),
        ("bytes a cursor key, median", f"{statistics.median(sizes):,.0f}", "4,096"),
        ("bytes a cursor key, most", f"{max(sizes):,}", "4,096"),
        ("bytes in 3 s of idleness", f"{idle:,}", "0"),
    ]


def _dialog(screen: Terminal) -> list[Row]:
    screen.press("1")
    screen.wait_for("Needs you")
    times = []
    for _ in range(5):
        screen.bytes_within(_QUIET)
        pressed = time.perf_counter()
        screen.press("C")
        screen.wait_for("step 1 of 2")
        times.append((time.perf_counter() - pressed) * 1_000)
        screen.press("\x1b")
        screen.wait_until_gone("step 1 of 2")
    return [("clear's dialog, median of 5", f"{statistics.median(times):,.0f} ms", "200 ms")]


def _search(screen: Terminal) -> list[Row]:
    """From each letter to the matches of the word so far, without the core's own time, which the screen names."""
    screen.press("/")
    screen.bytes_within(_QUIET)
    beyond = []
    for word in _WORDS:
        screen.press("\x15")  # ctrl+u: an empty line
        screen.wait_for("Type to search")
        for letter in word:
            before = _FOUND.search(screen.text)
            pressed = time.perf_counter()
            screen.press(letter)
            while (found := _FOUND.search(screen.text)) is None or (
                before is not None and found.group(1) == before.group(1)
            ):
                screen.bytes_within(0.001)
                if time.perf_counter() - pressed > 2:
                    break
            else:
                beyond.append((time.perf_counter() - pressed) * 1_000 - int(found.group(2).replace(",", "")))
            screen.bytes_within(0.2)
    beyond.sort()
    return [
        (f"letter to matches, median of {len(beyond)}", f"{statistics.median(beyond):,.0f} ms", "50 ms"),
        ("letter to matches, p95", f"{beyond[int(0.95 * (len(beyond) - 1))]:,.0f} ms", "50 ms"),
    ]


def _long_list() -> list[Row]:
    empty, full = (
        [
            float(word)
            for word in subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.tui", "--list", str(count)],
                check=True,
                capture_output=True,
                text=True,
            ).stdout.split()
        ]
        for count in (0, _LONG_LIST)
    )
    name = f"a list of {_LONG_LIST:,} mounts"
    return [
        (f"{name}, CPU", f"{(full[0] - empty[0]) * 1_000:,.0f} ms", "150 ms"),
        (f"{name}, memory above none", f"{full[1] - empty[1]:,.0f} MB", "60 MB"),
    ]


async def _list_cost(count: int) -> tuple[float, float]:
    """CPU seconds from the rows to the painted list, and the megabytes that rows and list take together."""
    from dsh_memory_tui.panes.records import RecordsPane
    from tests.tui.driving import running, settle
    from tests.tui.fakes import FakeCore, entry

    core = FakeCore()
    core.looks.entries = ()
    async with running(core, pane="records") as (app, pilot):
        resident = _resident()
        entries = tuple(
            entry(f"handbook/{number // 1_000:03}/record-{number:06}.md", f"bench/record-{number:06}")
            for number in range(count)
        )
        snapshot = core.looks.snapshot()
        snapshot = type(snapshot)(snapshot.stamp, snapshot.overview, entries, snapshot.runs)
        began = time.process_time()
        app.query_one(RecordsPane).show(snapshot)
        await settle(pilot)
        return time.process_time() - began, _resident() - resident


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
