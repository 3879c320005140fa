"""`python -m tests.benchmarks [--sizes N ...] [--json]`: one table, each call beside the alternatives on the same data.

Times are printed and never judged: what blocks a change are counts, in the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

from tests.benchmarks.corpus import build
from tests.benchmarks.measuring import Row, table
from tests.benchmarks.reading import cold_rows, index_row, journal_row, server_megabytes, warm_rows
from tests.benchmarks.writing import writing_rows

SIZES = (100, 1_000, 10_000)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="how many records, each measured")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    asked = parser.parse_args()
    rows: list[Row] = []
    megabytes: dict[int, int] = {}
    with tempfile.TemporaryDirectory(prefix="dsh-memory-bench-") as folder:
        # The caches of the measured calls are their own.
        os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
        for size in asked.sizes:
            root = build(Path(folder) / f"memory-{size}", size)
            megabytes[size] = server_megabytes(root)
            rows += warm_rows(root, size)
            rows.append(index_row(root, size))
            rows += cold_rows(root, size)
            if size <= 10_000:
                rows += writing_rows(root, size)
        rows.append(journal_row(Path(folder) / "journal"))
    if asked.json:
        print(json.dumps({"rows": [row.to_json() for row in rows], "server_megabytes": megabytes}))
    else:
        print(table(rows))
        print()
        for size, peak in megabytes.items():
            print(f"most memory of a server of {size:,} records: {peak} MB")


main()
