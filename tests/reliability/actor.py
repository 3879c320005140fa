"""A process of its own that changes a memory, and can die at a named point: what the reliability tests start.

    python -m tests.reliability.actor '{"root": ..., "operation": "clear", "die_at": ["moved", 1]}'

Prints one JSON line: `{"value": ...}` or `{"code": ..., "detail": ...}`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from dsh_memory.environment import Environment, utc_now
from dsh_memory.errors import MemoryFailure
from dsh_memory.repository import phases
from dsh_memory.repository.clearing import clear
from dsh_memory.repository.editing import save, write_paths
from dsh_memory.repository.migration import migrate_legacy
from dsh_memory.repository.mutation import recover
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.preview_runs import apply_preview, discard_preview
from dsh_memory.repository.rollback import rollback

PROJECT = Path(__file__).parents[2]

#: Every named point of a transaction, in order.
PHASES = (
    "looked",
    "built",
    "staged",
    "moved",
    "index",
    "deleted",
    "replaced",
    "projected",
    "projection",
    "journal",
    "refreshed",
)


def act(root: Path, operation: str, argument: Any = None) -> Any:
    """Does one operation on the memory at `root`, in this process."""
    environment = Environment(dsh_home=str(root.parent / "dsh-home"), memory_root=str(root))
    with Repository.open(environment) as repo:
        match operation:
            case "clear":
                return clear(repo, utc_now)
            case "rollback":
                return rollback(repo, utc_now, argument)
            case "apply":
                return apply_preview(repo, utc_now, argument)
            case "discard":
                return discard_preview(repo, utc_now, argument)
            case "migrate":
                return migrate_legacy(repo, utc_now)
            case "save":
                return save(repo, utc_now)
            case "write":
                path, old, new = argument
                expected = {path: None if old is None else old.encode()}
                return write_paths(repo, utc_now, {path: new.encode()}, expected=expected)
            case "recover":
                done = recover(repo, utc_now)
                return {"forward": done.forward, "back": done.back, "left": done.left}
    raise ValueError(operation)


def start(root: Path, operation: str, argument: object = None, **how: Any) -> subprocess.Popen[str]:
    """Starts an actor; `how` may hold die_at, pause_at (a point and its count) and file_size_limit."""
    request = {"root": str(root), "operation": operation, "argument": argument, **how}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.reliability.actor", json.dumps(request)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    )


def run(root: Path, operation: str, argument: object = None, **how: Any) -> tuple[int, dict[str, Any]]:
    """Runs an actor to its end: exit status (negative: the signal it died of), and what it printed."""
    process = start(root, operation, argument, **how)
    output, _ = process.communicate(timeout=120)
    return process.returncode, json.loads(output) if output else {}


def _main() -> None:
    request = json.loads(sys.argv[1])
    seen = 0

    def at_point(name: str) -> None:
        nonlocal seen
        wanted, count = request.get("die_at") or request.get("pause_at") or ("", 0)
        if name != wanted:
            return
        seen += 1
        if seen == count and request.get("die_at"):
            os.kill(os.getpid(), signal.SIGKILL)
        elif seen == count:
            print("paused", flush=True)
            sys.stdin.readline()

    phases.phase_hook = at_point
    if "file_size_limit" in request:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_size_limit"],) * 2)
    try:
        answer = {"value": act(Path(request["root"]), request["operation"], request["argument"])}
    except MemoryFailure as failure:
        answer = {"code": failure.code, "detail": failure.detail}
    print(json.dumps(answer))


if __name__ == "__main__":
    _main()
