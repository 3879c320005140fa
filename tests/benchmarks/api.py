"""Numbers of the memory API at 10,000 records: writes a second, and milliseconds of search and context over HTTP."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from pathlib import Path

import httpx

from tests.api.serving import Served, serving
from tests.benchmarks.corpus import build
from tests.support.repositories import MemoryRepository

_RECORDS = 10_000
_QUERIES = ("deploy window", "note 17", "ban kis", "数据库迁移", "vas tor wan")


def run(records: int = _RECORDS, *, seconds: float = 5.0) -> dict[str, float]:
    """Measures one fresh memory; the numbers by name."""
    with tempfile.TemporaryDirectory() as folder:
        root = build(Path(folder) / "memory", records)
        with serving(MemoryRepository(root)) as served:
            client = served.client()
            client.get("/v1/memories/stats")
            return {
                "remember/s, one client": _writes(served, 1, seconds),
                "remember/s, eight clients": _writes(served, 8, seconds),
                "search p95 ms": _p95(client, "GET", seconds),
                "context p95 ms": _p95(client, "POST", seconds),
            }


def _writes(served: Served, clients: int, seconds: float) -> float:
    token, counts = served.token(), [0] * clients
    end = time.perf_counter() + seconds

    def write(number: int) -> None:
        with httpx.Client(base_url=served.url, headers={"X-API-Key": token}, timeout=60) as client:
            while time.perf_counter() < end:
                text = f"note {counts[number]} of client {number} among {clients}"
                client.post(
                    "/v1/remember", json={"content": text, "path": f"bench/{clients}"}
                ).raise_for_status()
                counts[number] += 1

    started = time.perf_counter()
    threads = [threading.Thread(target=write, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - started)


def _p95(client: httpx.Client, method: str, seconds: float) -> float:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        query = _QUERIES[len(times) % len(_QUERIES)]
        started = time.perf_counter()
        if method == "GET":
            client.get("/v1/memories/search", params={"query": query}).raise_for_status()
        else:
            client.post(
                "/v1/recall/context", json={"query": query, "include_knowledge": True}
            ).raise_for_status()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.quantiles(times, n=20)[18]


if __name__ == "__main__":
    for name, value in run().items():
        print(f"{name:28} {value:8.1f}")
