"""The outlines of record files, remembered by what they were made from, from one process to the next."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from dsh_memory.records.metadata import Record
from dsh_memory.records.outline import Outline, outline_of
from dsh_memory.repository.cache_file import WORTH_KEEPING, CacheFile
from dsh_memory.repository.content import Content, ContentReader, Kind
from dsh_memory.repository.opening import Repository

_NAME: Final = "outlines-1.json"


class Outlines:
    """What is known of record files by their path and blob id; whatever else is there is parsed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, Outline]] = {}
        self._recalled = False
        self._made_anew = 0

    def recall(self, repository: Repository) -> None:
        """Take what earlier processes knew, at the first time."""
        if not self._recalled:
            self._recalled = True
            rows = CacheFile(repository, _NAME).load()
            self._known = {row[1]: (row[0], Outline._make(row[1:])) for row in rows}

    def keep(self, repository: Repository) -> None:
        """Leave later processes what was made anew, if it is enough to be worth it."""
        if self._made_anew >= WORTH_KEEPING:
            self._made_anew = 0
            CacheFile(repository, _NAME).store((blob, *outline) for blob, outline in self._known.values())

    def of(self, content: Content, reader: ContentReader) -> Outline | None:
        """The outline of a record file; None for what is no record, or no more there."""
        if content.kind not in (Kind.RECORD, Kind.LEGACY) or content.blob is None:
            return None
        path = content.live.path
        known = self._known.get(path)
        if known is not None and known[0] == content.blob:
            return known[1]
        if content.parsed is None:
            again = reader.read(content.live, blob=True, record=True)
            if again is None:
                return None
            content = again
        if not isinstance(content.parsed, Record):
            return None
        outline = outline_of(content.parsed)
        self._known[path] = str(content.blob), outline
        self._made_anew += 1
        return outline

    def forget_others(self, paths: Container[str]) -> None:
        """Drop what is known of files that are gone."""
        for path in [path for path in self._known if path not in paths]:
            del self._known[path]
