"""What earlier processes read of payload files, in the user's cache folder: a cold call reads only what changed.

A cache and no more: it holds no bodies, is believed only for a file whose size, times and inode are the same and were
settled when it was read, and whatever is wrong with it counts as nothing known.
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

from dsh_memory.records.metadata import Malformed
from dsh_memory.repository.content import Content, Kind
from dsh_memory.repository.layout import LiveFile

_NAME: Final = "contents-1.json"
_CHECKSUM_LENGTH: Final = len(b"00000000\n")

_log = logging.getLogger("dsh_memory")


class Catalog:
    """The facts of one root's payload files, kept below `folder`; believed only for this root and object format."""

    def __init__(self, folder: str, root: os.stat_result, object_format: str) -> None:
        self._folder = folder
        self._head = [root.st_dev, root.st_ino, object_format]

    def load(self) -> list[Content]:
        """Everything known; nothing where the file is missing, of another root or form, or damaged."""
        try:
            with open(os.path.join(self._folder, _NAME), "rb") as file:
                data = file.read()
        except OSError:
            return []
        body = data[_CHECKSUM_LENGTH:]
        # guard: catalog-checksum
        if data[:_CHECKSUM_LENGTH] != _checksum(body):
            return []
        kept = json.loads(body)
        return [_content(row) for row in kept["rows"]] if kept["head"] == self._head else []

    def store(self, contents: Iterable[Content]) -> None:
        """Keep these facts in place of all others; a folder that cannot be written is left as it is."""
        rows = [_row(content) for content in contents if content.readable]
        body = json.dumps({"head": self._head, "rows": rows}, separators=(",", ":")).encode()
        private = os.path.join(self._folder, f".{_NAME}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            descriptor = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(_checksum(body) + body)
            os.rename(private, os.path.join(self._folder, _NAME))
        except OSError as error:
            _log.debug("the catalog cannot be kept: %s", error)
            with suppress(OSError):
                os.unlink(private)


def _checksum(body: bytes) -> bytes:
    return b"%08x\n" % zlib.crc32(body)


def _row(content: Content) -> list[Any]:
    row: list[Any] = [*content.live, content.read_at_ns, content.blob, content.kind.value]
    if isinstance(content.parsed, Malformed):
        parsed = content.parsed
        row.append([parsed.code, parsed.line, parsed.message, parsed.column])
    return row


def _content(row: list[Any]) -> Content:
    live = LiveFile(*row[:6])
    kind = Kind(row[8])
    parsed = None
    if kind is Kind.MALFORMED:
        code, line, message, column = row[9]
        parsed = Malformed(live.path, code, line, message, live.size, column)
    return Content(live, row[6], row[7], kind, parsed)
