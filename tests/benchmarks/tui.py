"""`python -m tests.benchmarks.tui`: how the terminal UI feels on a real pseudo-terminal, each figure beside its goal.

Printed, never judged: 120x36, 256 colours, 10,000 records.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.corpus import build
from tests.tui.terminal import Terminal

_RECORDS = 10_000
_KEYS = 40
_QUIET = 0.5


def main() -> None:
    rows: list[tuple[str, str, str]] = []
    with tempfile.TemporaryDirectory(prefix="dsh-memory-bench-") as folder:
        root = build(Path(folder) / "memory", _RECORDS)
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "HOME": folder,
            "XDG_CACHE_HOME": f"{folder}/cache",
        }
        command = [sys.executable, "-m", "dsh_memory", "--root", str(root)]
        for start in ("first start", "second start"):
            began = time.perf_counter()
            screen = Terminal(command, environment)
            screen.wait_for("1 Status", 60)
            frame = time.perf_counter() - began
            screen.wait_for(f"{_RECORDS:,} records", 60)
            rows.append((f"frame painted, {start}", f"{frame * 1000:,.0f} ms", ""))
            rows.append(
                (f"records painted, {start}", f"{(time.perf_counter() - began) * 1000:,.0f} ms", "700 ms")
            )
            screen.bytes_within(2)
            if start == "first start":
                screen.press("q")
                screen.exit_code()
            screen.close()
        screen = Terminal(command, environment)
        screen.wait_for(f"{_RECORDS:,} records", 60)
        rows += _keys(screen)
        screen.close()
    for what, measured, goal in rows:
        print(f"{what:34}{measured:>14}   {'goal ' + goal if goal else ''}")


def _keys(screen: Terminal) -> list[tuple[str, str, str]]:
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
        latencies.append((time.perf_counter() - pressed) * 1000)
        screen.bytes_within(_QUIET)
        sizes.append(screen.written - before)
    latencies.sort()
    idle = screen.bytes_within(3)
    pressed = time.perf_counter()
    screen.press("1")
    screen.wait_for("Needs you")
    screen.bytes_within(_QUIET)
    pressed = time.perf_counter()
    screen.press("C")
    screen.wait_for("step 1 of 2")
    modal = (time.perf_counter() - pressed) * 1000
    screen.press("\x1b")
    screen.bytes_within(_QUIET)
    screen.press("/")
    screen.bytes_within(_QUIET)
    screen.press("bal")
    screen.bytes_within(1)
    pressed = time.perf_counter()
    screen.press("a")
    screen.wait_for("matches,")
    search = (time.perf_counter() - pressed) * 1000
    return [
        ("key to paint, median", f"{statistics.median(latencies):,.0f} ms", ""),
        ("key to paint, p95", f"{latencies[int(0.95 * (len(latencies) - 1))]:,.0f} ms", "60 ms"),
        ("bytes a cursor key, median", f"{statistics.median(sizes):,.0f}", "4,096"),
        ("bytes a cursor key, most", f"{max(sizes):,}", "4,096"),
        ("bytes in 3 s of idleness", f"{idle:,}", "0"),
        ("clear's dialog", f"{modal:,.0f} ms", "200 ms"),
        ("last letter to matches", f"{search:,.0f} ms", ""),
    ]


if __name__ == "__main__":
    main()
