"""A conversation with one `git fast-import`: commits go in, their ids come out at once."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Self

from dsh_memory.repository.git import sealed_arguments, sealed_environment


class HistoryWriter:
    """Writes commits to the branch `main` of a fresh repository; use it in a `with` statement."""

    def __init__(self, root: str) -> None:
        self._process = subprocess.Popen(
            sealed_arguments(root, ["fast-import", "--quiet", "--done"]),
            env=sealed_environment(root),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("git fast-import has no pipes")
        self._stdin = self._process.stdin
        self._stdout = self._process.stdout
        self._mark = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._stdin.write(b"done\n")
        self._stdin.close()
        self._stdout.close()
        status = self._process.wait()
        if error is None and status != 0:
            raise RuntimeError(f"git fast-import ended with {status}")

    def commit(
        self, message: str, author: str, instant: datetime, changes: Mapping[str, tuple[str, bytes | None]]
    ) -> str:
        """Adds a commit of `changes` (path -> mode and bytes, or None to delete) and gives its id."""
        self._mark += 1
        who = f"{author} {int(instant.timestamp())} +0000"
        lines = [f"commit refs/heads/main\nmark :{self._mark}\nauthor {who}\ncommitter {who}\n".encode()]
        lines.append(_data(message.encode() + b"\n"))
        for path, (mode, content) in sorted(changes.items()):
            if content is None:
                lines.append(f"D {path}\n".encode())
            else:
                lines += [f"M {mode} inline {path}\n".encode(), _data(content)]
        lines.append(f"\nget-mark :{self._mark}\n".encode())
        self._stdin.write(b"".join(lines))
        self._stdin.flush()
        commit = self._stdout.readline().decode().strip()
        if not commit:
            raise RuntimeError("git fast-import refused a commit")
        return commit


def _data(content: bytes) -> bytes:
    return b"data %d\n" % len(content) + content + b"\n"
