"""Timing calls, and the table they stand in."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from dsh_memory.repository.git import SealedGit


@dataclass(frozen=True, slots=True)
class Row:
    """One line: milliseconds, git processes started by one call, and the alternative's median beside."""

    size: int
    what: str
    p50: float
    p95: float
    processes: int | None
    beside: str
    beside_p50: float | None

    @property
    def ratio(self) -> float | None:
        """How many times the alternative's median."""
        return None if not self.beside_p50 else self.p50 / self.beside_p50

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "ratio": self.ratio}


@dataclass(frozen=True, slots=True)
class Timed:
    """Medians and 95th percentiles in milliseconds, and the git processes of one call."""

    p50: float
    p95: float
    processes: int


def timed(call: Callable[[], object], *, repeat: int, before: Callable[[], object] | None = None) -> Timed:
    """`call`, `repeat` times; `before` runs ahead of each and is not counted."""
    spawned = 0
    real = SealedGit.run

    def counting(self: SealedGit, *arguments: str, **options: object) -> bytes:
        nonlocal spawned
        spawned += 1
        return real(self, *arguments, **options)  # type: ignore[arg-type]

    durations = []
    for _ in range(repeat):
        if before is not None:
            before()
        SealedGit.run = counting  # type: ignore[method-assign,assignment]
        spawned = 0
        started = time.perf_counter()
        try:
            call()
        finally:
            durations.append((time.perf_counter() - started) * 1000)
            SealedGit.run = real  # type: ignore[method-assign]
    durations.sort()
    return Timed(statistics.median(durations), durations[int(0.95 * (len(durations) - 1))], spawned)


def table(rows: Iterable[Row]) -> str:
    """Markdown, numbers right-aligned."""
    lines = [
        "| records | call | p50 ms | p95 ms | git processes | beside | its p50 ms | ratio |",
        "|---:|---|---:|---:|---:|---|---:|---:|",
    ]
    for row in rows:
        processes = "" if row.processes is None else str(row.processes)
        beside_p50 = "" if row.beside_p50 is None else f"{row.beside_p50:,.1f}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        lines.append(
            f"| {row.size:,} | {row.what} | {row.p50:,.1f} | {row.p95:,.1f} | {processes} "
            f"| {row.beside} | {beside_p50} | {ratio} |"
        )
    return "\n".join(lines)
