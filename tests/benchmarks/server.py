"""`python -m tests.benchmarks.server ROOT`: the megabytes that a server of one memory takes at most."""

from __future__ import annotations

import os
import resource
import sys

from dsh_memory import Environment, MemoryService
from tests.benchmarks.reading import QUERIES, wait_for_index

if __name__ == "__main__":
    root = sys.argv[1]
    service = MemoryService(
        Environment(dsh_home=os.path.join(os.path.dirname(root), "home"), memory_root=root)
    )
    for _ in range(3):
        service.status()
        for query in QUERIES:
            service.search(query)
            service.context(query)
        wait_for_index()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
