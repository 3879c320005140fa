"""`python -m tests.reliability [--long] [ROW ...]`: one table of what was tried and what was lost.

A row is added by one line in `ROWS`. `--long` tries every point; without it each row takes a sample, the same
each time.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.reliability import (
    crowd,
    fuzzing,
    many_doors,
    modelling,
    poisoning,
    sweep_faults,
    sweep_kills,
    sweep_torn,
)
from tests.reliability.figures import Figures
from tests.support.isolation import isolated_variables


class Row(NamedTuple):
    """`measure` is called with whether the long form is wanted; `unit` says what it counts."""

    name: str
    unit: str
    measure: Callable[[bool], Figures]


ROWS = (
    Row("killed at a system call", "kill points", sweep_kills.figures),
    Row("killed at a random moment", "kills", sweep_kills.random_figures),
    Row("a refused system call", "faults", sweep_faults.figures),
    Row("a full file system of 1 MiB", "amounts of room", sweep_faults.full_figures),
    Row("a torn file", "states", sweep_torn.figures),
    Row("many processes, random kills", "acknowledged writes", crowd.figures),
    Row("all doors at once", "acknowledged writes and reads", many_doors.figures),
    Row("a model beside the memory", "steps", modelling.figures),
    Row("poisoned texts", "texts", poisoning.figures),
    Row("bytes that nobody would write", "inputs", fuzzing.figures),
)


def main() -> int:
    """Measures the rows asked for and prints the table; 1 where something was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    parser.add_argument("--long", action="store_true", help="try every point")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="only the rows whose name has this text")
    chosen = parser.parse_args()
    lost: list[str] = []
    print("| what | tried | | losses | seconds |\n|---|---:|---|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="dsh-memory-reliability-") as home:
        variables = isolated_variables(Path(home))
        os.environ.clear()
        os.environ.update(variables)
        for row in ROWS:
            if chosen.rows and not any(text in row.name for text in chosen.rows):
                continue
            begun = time.monotonic()
            figures = row.measure(chosen.long)
            seconds = time.monotonic() - begun
            print(
                f"| {row.name} | {figures.tried:,} | {row.unit} | {len(figures.losses)} | {seconds:.0f} |",
                flush=True,
            )
            lost += [f"{row.name}: {loss}" for loss in figures.losses]
    for loss in lost:
        print(loss, file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
