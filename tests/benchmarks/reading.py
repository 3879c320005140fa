"""Read methods: warm in one process as a server has them, and cold as whole processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from dsh_memory import Environment, MemoryService
from tests.benchmarks.alternatives import FullText, git_status, grep
from tests.benchmarks.measuring import Row, Timed, timed

QUERIES = ("bala", "decision agent", "部署方案")


def warm_rows(root: Path, size: int) -> list[Row]:
    """Each read method of a service that has been asked before."""
    service = MemoryService(Environment(dsh_home=str(root.parent / "home"), memory_root=str(root)))
    for _ in range(3):
        for query in QUERIES:
            service.search(query)
        _wait_for_index()
    repeat = 15 if size > 10_000 else 31
    status = git_status(root, 7)
    text = FullText(root)
    word = grep(root, QUERIES[0], 5)
    rows = [
        _row(size, "status", timed(service.status, repeat=repeat), "git status", status),
        _row(size, "health", timed(service.health, repeat=repeat), "git status", status),
        _row(size, "runs", timed(lambda: service.runs(20), repeat=repeat)),
        _row(size, "legacyRecords", timed(service.legacy_records, repeat=5)),
    ]
    for query in QUERIES:
        found = timed(lambda query=query: service.search(query), repeat=repeat)  # type: ignore[misc]
        rows.append(_row(size, f"search {query}", found, "SQLite FTS5", text.search(query, repeat)))
    by_grep = timed(lambda: service.search(QUERIES[0]), repeat=repeat)
    rows.append(_row(size, f"search {QUERIES[0]}", by_grep, "grep", word))
    rows.append(_row(size, "context decision", timed(lambda: service.context("decision"), repeat=repeat)))
    return rows


def cold_rows(root: Path, size: int) -> list[Row]:
    """Whole processes, the second and later ones: what earlier ones kept is there."""
    rows = []
    for arguments in (("status",), ("search", "bala"), ("context", "bala")):
        command = [sys.executable, "-m", "dsh_memory", "--root", str(root), *arguments, "--json"]

        def call(command: list[str] = command) -> None:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ))

        call()
        cold = timed(call, repeat=7)
        rows.append(Row(size, f"cold process: {arguments[0]}", cold.p50, cold.p95, None, "", None))
    return rows


def _row(size: int, what: str, ours: Timed, beside: str = "", theirs: Timed | None = None) -> Row:
    return Row(size, what, ours.p50, ours.p95, ours.processes, beside, None if theirs is None else theirs.p50)


def _wait_for_index() -> None:
    for thread in threading.enumerate():
        if thread.name == "dsh-memory-index":
            thread.join()
