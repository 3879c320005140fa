"""The demo: a believable sample memory in a temporary folder that is removed at the end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

from dsh_memory import Environment
from dsh_memory.environment import utc_now
from dsh_memory.sample import create_sample


def run_demo(run: Callable[[Environment], int]) -> int:
    """Run with a sample memory; the folder goes whatever happens, its switch and settings with it."""
    with tempfile.TemporaryDirectory(prefix="dsh-memory-demo-") as folder:
        return run(create_sample(os.path.join(folder, "sample"), utc_now()))
