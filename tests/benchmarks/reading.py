"""Read methods: warm in one process as a server has them, and cold as whole processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dsh_memory import Environment, MemoryService
from dsh_memory.environment import format_instant
from dsh_memory.repository.journal import new_run_id
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.view import read_records
from dsh_memory.search.index import RecordIndex
from tests.benchmarks.alternatives import FullText, git_status, grep
from tests.benchmarks.measuring import Row, Timed, timed
from tests.support.repositories import MemoryRepository

_RUNS = 10_000
QUERIES = ("bala", "decision agent", "部署方案")


def warm_rows(root: Path, size: int) -> list[Row]:
    """Each read method of a service that has been asked before."""
    service = MemoryService(Environment(dsh_home=str(root.parent / "home"), memory_root=str(root)))
    for _ in range(3):
        for query in QUERIES:
            service.search(query)
        wait_for_index()
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


def index_row(root: Path, size: int) -> Row:
    """A whole index of records that are read already."""
    repository = Repository.open(Environment(dsh_home=str(root.parent / "home"), memory_root=str(root)))
    with repository:
        found = read_records(repository, datetime.now(UTC))
    index = RecordIndex()
    built = timed(lambda: index.build(found.records, found.blobs), repeat=1)
    return _row(size, f"index build, {size / built.p50 * 1000:,.0f} records a second", built)


def journal_row(root: Path) -> Row:
    """The newest twenty of 10,000 journaled runs, one every ten minutes."""
    memory = MemoryRepository.create(root)
    first = datetime.now(UTC) - timedelta(minutes=10 * _RUNS)
    for number in range(_RUNS):
        started = first + timedelta(minutes=10 * number)
        memory.write_run(new_run_id(started), started_at=format_instant(started))
    service = MemoryService(memory.environment)
    for _ in range(3):
        service.runs(20)
    return _row(0, f"runs, {_RUNS:,} journaled", timed(lambda: service.runs(20), repeat=31))


def server_megabytes(root: Path) -> int:
    """The most memory of a process of its own that answered status, searches and contexts, and made the index."""
    command = [sys.executable, "-m", "tests.benchmarks.server", str(root)]
    return int(subprocess.run(command, check=True, capture_output=True, env=dict(os.environ)).stdout)


def _row(size: int, what: str, ours: Timed, beside: str = "", theirs: Timed | None = None) -> Row:
    return Row(size, what, ours.p50, ours.p95, ours.processes, beside, None if theirs is None else theirs.p50)


def wait_for_index() -> None:
    """Waits until no index is being built."""
    for thread in threading.enumerate():
        if thread.name == "dsh-memory-index":
            thread.join()
