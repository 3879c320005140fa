"""`dsh-memory serve --stdio`: the contract as JSON-RPC 2.0 for the DSH host, one object a line (`spec`:
dsh-host).

Reads run side by side, mutating calls one after the other in the order they came; replies leave as they are
ready.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import dsh_memory
from dsh_memory.contract import AGENT_TOOLS, METHODS
from dsh_memory.errors import SettingsFailure
from dsh_memory.hosts.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    BadFrame,
    Call,
    error_line,
    notification_line,
    read_call,
    result_line,
)
from dsh_memory.hosts.prompt import prompt_section
from dsh_memory.hosts.tools import answer_tool

if TYPE_CHECKING:
    from dsh_memory.service import MemoryService

PROTOCOL = 1
#: A longer line is skipped and answered as an invalid request.
MAX_LINE_BYTES = 16 * 1024 * 1024
#: How long calls under way may take once the host is gone.
DRAIN_SECONDS = 60.0

_TOOL_METHODS = {f"tools.{tool}": tool for tool in AGENT_TOOLS}
_PROMPT_METHOD = "host.promptSection"
_SERVED = (*METHODS, *_TOOL_METHODS, _PROMPT_METHOD)
_MUTATING = frozenset(name for name, method in METHODS.items() if method.mutating)
_PARALLEL_READS = 32
_CHUNK = 256 * 1024

_log = logging.getLogger("dsh_memory.stdio")


def serve_process(service: MemoryService) -> int:
    """Serves the process's own standard input and output until the host closes them; the exit code.

    From here on file descriptor 1 is standard error and 0 is empty, for libraries and child processes alike:
    standard output carries frames only.
    """
    requests, frames = _private_streams()
    os.chdir("/")
    try:
        finished = serve(service, requests, frames)
    except KeyboardInterrupt:
        return 130
    if finished:
        return 0
    _log.error("calls were still running %d s after the host went away", DRAIN_SECONDS)
    logging.shutdown()
    # Their threads would keep the interpreter alive; recovery finishes what a mutating one leaves behind.
    os._exit(1)


def serve(service: MemoryService, requests: int, frames: int) -> bool:
    """Answers the requests read from one descriptor on the other, from `ready` to the end of the input.

    Whether all calls were finished `DRAIN_SECONDS` after that end.
    """
    return _Server(service, requests, frames).run()


def _private_streams() -> tuple[int, int]:
    # guard: stdout-carries-frames-only
    requests, frames = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        # No standard error either.
        os.dup2(nothing, 1)
    os.close(nothing)
    return requests, frames


class _Server:
    def __init__(self, service: MemoryService, requests: int, frames: int) -> None:
        self._service = service
        self._requests = requests
        self._frames = frames
        self._write_lock = threading.Lock()
        self._host_is_gone = False
        self._wake_reader, self._wake = os.pipe()
        self._under_way: set[Future[None]] = set()

    def run(self) -> bool:
        os.set_blocking(self._frames, True)
        self._send(notification_line("ready", _ready_params()))
        reads = ThreadPoolExecutor(_PARALLEL_READS, "read")
        writes = ThreadPoolExecutor(1, "write")
        try:
            for line in self._lines():
                call = self._accept(line)
                if call is not None:
                    pool = writes if call.method in _MUTATING else reads
                    future = pool.submit(self._answer, call)
                    self._under_way.add(future)
                    future.add_done_callback(self._under_way.discard)
        finally:
            unfinished = wait(set(self._under_way), timeout=DRAIN_SECONDS).not_done
            reads.shutdown(wait=False, cancel_futures=True)
            writes.shutdown(wait=False, cancel_futures=True)
        if not unfinished:
            os.close(self._wake_reader)
            os.close(self._wake)
        return not unfinished

    def _lines(self) -> Iterator[bytes | None]:
        """Each line until the input ends or the host is gone; None for one that is too long."""
        held = bytearray()
        too_long = False
        while True:
            ready, _, _ = select.select([self._requests, self._wake_reader], [], [])
            if self._wake_reader in ready:
                return
            chunk = os.read(self._requests, _CHUNK)
            if not chunk:
                break
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                held += end
                yield None if too_long or len(held) > MAX_LINE_BYTES else bytes(held)
                held.clear()
                too_long = False
            held += rest
            if len(held) > MAX_LINE_BYTES:
                too_long = True
                held.clear()
        if held.strip() and not too_long and _is_whole(bytes(held)):
            yield bytes(held)

    def _accept(self, line: bytes | None) -> Call | None:
        """The call in a line; None when there is none, or none that is served, and that has been answered."""
        if line is not None and not line.strip():
            return None
        try:
            if line is None:
                raise BadFrame(INVALID_REQUEST)
            call = read_call(line)
        except BadFrame as fault:
            self._send(error_line(fault.id, fault.code))
            return None
        if call is None or call.method in _SERVED:
            return call
        if call.id is not None:
            self._send(error_line(call.id, METHOD_NOT_FOUND))
        return None

    def _answer(self, call: Call) -> None:
        try:
            result = self._result(call)
            if call.id is not None:
                self._send(result_line(call.id, result))
        except Exception:
            _log.exception("%s failed", call.method)
            if call.id is not None:
                self._send(error_line(call.id, INTERNAL_ERROR))

    def _result(self, call: Call) -> object:
        if call.method in METHODS:
            return self._service.call(call.method, call.params)
        if call.method in _TOOL_METHODS:
            return answer_tool(self._service, _TOOL_METHODS[call.method], call.params)
        return _prompt_envelope(self._service, call.params)

    def _send(self, line: bytes) -> None:
        with self._write_lock:
            if self._host_is_gone:
                return
            view = memoryview(line)
            try:
                while view:
                    view = view[os.write(self._frames, view) :]
            except OSError:
                # Nobody reads any more: finish what is under way and end, as at the end of the input.
                self._host_is_gone = True
                os.write(self._wake, b"\0")


def _ready_params() -> dict[str, object]:
    return {
        "protocol": PROTOCOL,
        "server": "dsh-memory",
        "version": dsh_memory.__version__,
        "pid": os.getpid(),
        "methods": list(_SERVED),
    }


def _prompt_envelope(service: MemoryService, params: dict[str, object]) -> object:
    from dsh_memory.service import failed

    enabled = params.get("enabled")
    if not isinstance(enabled, bool):
        return failed(SettingsFailure("settings-invalid-request", "enabled must be true or false."))
    return {"ok": True, "value": {"text": prompt_section(service.environment, enabled) or ""}}


def _is_whole(line: bytes) -> bool:
    # The input ended without a line end: a request cut in the middle is not answered, a complete one is.
    try:
        read_call(line)
    except BadFrame:
        return False
    return True
