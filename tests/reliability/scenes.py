"""A memory with all that belongs to it in one folder, copied anew for every point of a sweep."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsh_memory.environment import Environment
from tests.support.isolation import isolated_variables
from tests.support.repositories import MemoryRepository

PROJECT = Path(__file__).parents[2]

#: No single step of a sweep takes longer, unless it hangs.
PATIENCE_SECONDS = 120
_INSTANT = re.compile(rb"\d{4}-\d\d-\d\d(T[\d:.]+Z)?")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: its status (negative: the signal it died of), its output, and the last line as JSON."""

    status: int
    output: str
    errors: str

    @property
    def envelope(self) -> dict[str, Any] | None:
        """The envelope that was printed, None where none was (to its end)."""
        lines = self.output.splitlines()
        try:
            value = json.loads(lines[-1]) if lines else None
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    @property
    def acknowledged(self) -> bool:
        """Whether it said that the change is done."""
        envelope = self.envelope
        return envelope is not None and envelope.get("ok") is True


@dataclass(frozen=True, slots=True)
class Scene:
    """The folder of one point: `dsh-home` with the memory, `home` of the user, `tmp`, and the operation's own
    files.
    """

    folder: Path

    @property
    def dsh_home(self) -> Path:
        return self.folder / "dsh-home"

    @property
    def memory(self) -> MemoryRepository:
        return MemoryRepository(self.dsh_home / "storages" / "memory", self.dsh_home)

    @property
    def environment(self) -> Environment:
        return self.memory.environment

    @property
    def variables(self) -> dict[str, str]:
        """The variables of every process of the scene; a shim folder, if there is one, comes first."""
        return {
            **isolated_variables(self.folder / "home"),
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "TMPDIR": str(self.folder / "tmp"),
            "PYTHONHASHSEED": "0",
        }

    @classmethod
    def create(cls, folder: Path, files: Mapping[str, str | bytes]) -> Scene:
        """A new scene whose memory holds `files`."""
        for name in ("home", "tmp", "bin"):
            (folder / name).mkdir(parents=True)
        scene = cls(folder)
        MemoryRepository.create(scene.memory.root, files, dsh_home=scene.dsh_home)
        os.chmod(scene.memory.root, 0o700)
        return scene

    def copied_to(self, folder: Path) -> Scene:
        """The same scene elsewhere, file times and modes included."""
        subprocess.run(["cp", "-a", str(self.folder), str(folder)], check=True)
        return Scene(folder)

    def remove(self) -> None:
        shutil.rmtree(self.folder)

    def start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Starts a process group of the scene."""
        return subprocess.Popen(
            command,
            cwd=PROJECT,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, command: Sequence[str]) -> Ended:
        """Runs a process to its end; what is left of its group dies then."""
        process = self.start(command)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{command[-3:]} did not end within {PATIENCE_SECONDS} s") from None
        finally:
            end_group(process)
        return self.ended(process)

    def ended(self, process: subprocess.Popen[str]) -> Ended:
        """How a process that ends by itself, or was killed, ended."""
        output, errors = process.communicate()
        return Ended(process.returncode, output, errors)

    def call(self, *arguments: str) -> Ended:
        """Runs the command line in a fresh process."""
        places = ("--root", str(self.memory.root), "--dsh-home", str(self.dsh_home))
        return self.run([sys.executable, "-m", "dsh_memory", *places, *arguments])


def end_group(process: subprocess.Popen[str]) -> None:
    """Kills what is left of a process's group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def comparable(payload: Mapping[str, bytes]) -> dict[str, bytes]:
    """The payload with every date and instant left out, so that two runs of one operation can be compared."""
    return {path: _INSTANT.sub(b"", data) for path, data in payload.items()}
