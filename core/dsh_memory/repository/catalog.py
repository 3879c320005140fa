"""What earlier processes read of payload files, in the user's cache folder: a cold call reads only what changed.

It holds no bodies, and a row is believed only for a file whose size, times and inode are the same and were settled
when it was read.
"""

from __future__ import annotations

from typing import Any, Final

from dsh_memory.records.metadata import Malformed
from dsh_memory.repository.cache_file import WORTH_KEEPING, CacheFile
from dsh_memory.repository.content import Content, Kind, RecordCache
from dsh_memory.repository.layout import LiveFile
from dsh_memory.repository.opening import Repository

_NAME: Final = "contents-1.json"


def recall_contents(repository: Repository, cache: RecordCache) -> None:
    """Give the cache what earlier processes knew, at its first time."""
    if not cache.preloaded:
        cache.preload([_content(row) for row in CacheFile(repository, _NAME).load()])


def keep_contents(repository: Repository, cache: RecordCache) -> None:
    """Leave later processes what was read anew, if it is enough to be worth it."""
    if cache.read_anew >= WORTH_KEEPING:
        CacheFile(repository, _NAME).store(_row(content) for content in cache.contents() if content.readable)


def _row(content: Content) -> list[Any]:
    row: list[Any] = [*content.live, content.read_at_ns, content.blob, content.kind.value]
    if isinstance(content.parsed, Malformed):
        parsed = content.parsed
        row.append([parsed.code, parsed.line, parsed.message, parsed.column])
    return row


def _content(row: list[Any]) -> Content:
    live = LiveFile(*row[:6])
    kind = _KINDS[row[8]]
    parsed = None
    if kind is Kind.MALFORMED:
        code, line, message, column = row[9]
        parsed = Malformed(live.path, code, line, message, live.size, column)
    return Content(live, row[6], row[7], kind, parsed)


_KINDS: Final = {kind.value: kind for kind in Kind}
