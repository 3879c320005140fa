"""Git objects written as loose files: no process for a commit of a few small files."""

from __future__ import annotations

import hashlib
import os
import secrets
import zlib
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Self

from dsh_memory.repository.descriptors import CREATE_FLAGS
from dsh_memory.repository.lock import write_all

# Under a name that Git's own cleaning knows, should this process die before the object is whole.
_TEMPORARY = "tmp_obj_"
_FAST = 1


class LooseObjects:
    """Objects on their way into a repository; use it in a `with` statement.

    Nothing has its name before `settle`, by when the caller has made every byte durable.
    """

    def __init__(self, common_dir: str, object_format: str) -> None:
        self._folder = os.path.join(common_dir, "objects")
        self._format = object_format
        self._waiting: dict[str, tuple[int, str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor, temporary in self._waiting.values():
            os.close(descriptor)
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        self._waiting.clear()

    def add(self, kind: str, data: bytes) -> str:
        """Writes one object, not yet durably; its id."""
        whole = b"%b %d\0%b" % (kind.encode(), len(data), data)
        # Git's own choice of hash, not ours: names of content, no secret rests on them.
        identity = hashlib.new(self._format, whole, usedforsecurity=False).hexdigest()
        if identity not in self._waiting:
            descriptor, temporary = _new_file(os.path.join(self._folder, identity[:2]))
            self._waiting[identity] = descriptor, temporary
            write_all(descriptor, zlib.compress(whole, _FAST))
        return identity

    @property
    def descriptors(self) -> list[int]:
        """What has to be flushed before `settle`."""
        return [descriptor for descriptor, _ in self._waiting.values()]

    def settle(self) -> list[str]:
        """Gives every object its name; the folders that have to be flushed for the names to last."""
        folders = {os.path.dirname(temporary) for _, temporary in self._waiting.values()}
        for identity, (_, temporary) in self._waiting.items():
            os.rename(temporary, os.path.join(self._folder, identity[:2], identity[2:]))
        for descriptor, _ in self._waiting.values():
            os.close(descriptor)
        self._waiting.clear()
        return [self._folder, *sorted(folders)]


def _new_file(folder: str) -> tuple[int, str]:
    while True:
        with suppress(FileExistsError):
            os.mkdir(folder)
        temporary = os.path.join(folder, f"{_TEMPORARY}{secrets.token_hex(8)}")
        # A folder that Git's packing has emptied it removes, perhaps just now.
        with suppress(FileNotFoundError):
            return os.open(temporary, CREATE_FLAGS, 0o444), temporary


def commit_bytes(tree: str, parent: str, message: str, *, identity: str, now: datetime) -> bytes:
    """A commit as Git keeps it; `identity` is `name <address>`, written by author and committer alike."""
    who = f"{identity} {int(now.timestamp())} +0000"
    return f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\n{message}".encode()
