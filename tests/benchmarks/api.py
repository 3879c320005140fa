"""Numbers of the memory API at 10,000 records: writes a second, milliseconds of search and context over HTTP, and
what idle connections cost.
"""

from __future__ import annotations

import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
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
                "update_state/s, one client": _writes(served, 1, seconds, states=True),
                "search p95 ms": _p95(client, "GET", seconds),
                "context p95 ms": _p95(client, "POST", seconds),
                "1,000 idle connections, MB": idle_connections(root),
            }


def idle_connections(root: Path, count: int = 1000) -> float:
    """MB that the resident set of a `serve --http` process grows by for so many connections that asked once."""
    program = "import sys; from dsh_memory.cli import main; sys.exit(main())"
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    command = [sys.executable, "-c", program, "--root", str(root), "serve", "--http", "--port", "0"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server,
        ExitStack() as stack,
    ):
        stack.callback(server.terminate)
        assert server.stdout is not None
        port = int(server.stdout.readline().rsplit(b":", 1)[1])
        request = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
        before = 0.0
        for number in range(count + 1):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.sendall(request)
            assert b" 200 " in connection.recv(4096)
            if number == 0:
                # What the first one brought in serves all.
                before = _resident(server.pid)
        return _resident(server.pid) - before


def _resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _writes(served: Served, clients: int, seconds: float, *, states: bool = False) -> float:
    token, counts = served.token(), [0] * clients
    end = time.perf_counter() + seconds

    def write(number: int) -> None:
        with httpx.Client(base_url=served.url, headers={"X-API-Key": token}, timeout=60) as client:
            while time.perf_counter() < end:
                text = f"note {counts[number]} of client {number} among {clients}"
                path = "/v1/update_state" if states else "/v1/remember"
                body = {"content": text} if states else {"content": text, "path": f"bench/{clients}"}
                client.post(path, json=body).raise_for_status()
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
