"""One file of the user's cache folder: a table of rows about one root's payload.

A cache and no more: it is believed only for this root and object format, and whatever is wrong with it counts as
nothing known.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import zlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from dsh_memory.repository.opening import Repository

#: Reading fewer rows anew takes less than writing the table of a large memory.
WORTH_KEEPING: Final = 200

_CHECKSUM_LENGTH: Final = len(b"00000000\n")

_log = logging.getLogger("dsh_memory")


class CacheFile:
    """The table called `name` in the repository's cache folder; the name carries the version of its form."""

    def __init__(self, repository: Repository, name: str) -> None:
        self._folder = repository.environment.cache_dir
        self._name = name
        root = os.fstat(repository.root.descriptor)
        self._head = [root.st_dev, root.st_ino, repository.object_format]

    def load(self) -> list[Any]:
        """All rows; none where the file is missing, of another root or format, or damaged."""
        try:
            with open(os.path.join(self._folder, self._name), "rb") as file:
                data = file.read()
        except OSError:
            return []
        body = data[_CHECKSUM_LENGTH:]
        # guard: cache-checksum
        if data[:_CHECKSUM_LENGTH] != _checksum(body):
            return []
        kept = json.loads(body)
        return list(kept["rows"]) if kept["head"] == self._head else []

    def store(self, rows: Iterable[Any]) -> None:
        """Keep these rows in place of all others; a folder that cannot be written is left as it is."""
        body = json.dumps({"head": self._head, "rows": list(rows)}, separators=(",", ":")).encode()
        private = os.path.join(self._folder, f".{self._name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            descriptor = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(_checksum(body) + body)
            os.rename(private, os.path.join(self._folder, self._name))
        except OSError as error:
            _log.debug("%s cannot be kept: %s", self._name, error)
            with suppress(OSError):
                os.unlink(private)


def _checksum(body: bytes) -> bytes:
    return b"%08x\n" % zlib.crc32(body)
