"""Other processes of this machine: whether one still lives, and since when."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta

# Start times are whole seconds, or clock ticks after a boot time of whole seconds.
_START_TOLERANCE = timedelta(seconds=2)
_LARGEST_PID = 2**31 - 1


def is_alive(pid: int) -> bool:
    """Whether a process with this id runs; a zombie has ended."""
    if not 0 < pid <= _LARGEST_PID:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    fields = _linux_stat(pid)
    return fields is None or fields[0] not in ("Z", "X")


def started_after(pid: int, instant: datetime) -> bool:
    """Whether the process that has this id now began after `instant`: then it is not the one meant."""
    started = _start_time(pid)
    return started is not None and started > instant + _START_TOLERANCE


def _start_time(pid: int) -> datetime | None:
    fields = _linux_stat(pid)
    booted = _linux_boot_time()
    if fields is None or booted is None:
        return _start_time_by_ps(pid)
    # Field 22 of proc(5), counted from the state, which is field 3.
    return booted + timedelta(seconds=int(fields[19]) / os.sysconf("SC_CLK_TCK"))


def _linux_stat(pid: int) -> list[str] | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            # The second field, the program's name in brackets, may itself hold blanks and brackets.
            return stat.read().rpartition(")")[2].split()
    except OSError:
        return None


def _linux_boot_time() -> datetime | None:
    try:
        with open("/proc/stat", encoding="ascii", errors="replace") as stat:
            for line in stat:
                if line.startswith("btime "):
                    return datetime.fromtimestamp(int(line.split()[1]), UTC)
    except OSError:
        return None
    return None


def _start_time_by_ps(pid: int) -> datetime | None:
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    environment = {"LC_ALL": "C", "TZ": "UTC", "PATH": "/bin:/usr/bin"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        return datetime.strptime(done.stdout.strip(), "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    except (FileNotFoundError, ValueError):
        return None
