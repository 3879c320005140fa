"""Every record of the repository as a memory, in one process's hands: by file, id, key and content, and
ranked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple

from dsh_memory.api.index import RecallIndex
from dsh_memory.api.mapping import memory_of
from dsh_memory.api.values import Memory, canonical
from dsh_memory.records import Record

#: Identifies a memory that a new version may replace: bucket, scope, team, semantic key.
SemanticKey = tuple[str, str | None, str | None, str]

#: A place: path, bucket, scope, team, type and kind.
PathKey = tuple[str | None, ...]


class Known(NamedTuple):
    """A record file and the memory it is."""

    record: Record
    memory: Memory


class Catalogue:
    """All memories of one moment; hold `lock` while more than one answer must agree."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.index = RecallIndex()
        self._by_file: dict[str, Known] = {}
        self._files_of_id: dict[str, set[str]] = {}
        self._files_of_key: dict[SemanticKey, set[str]] = {}
        self._files_of_content: dict[bytes, set[str]] = {}

    def __len__(self) -> int:
        return len(self._by_file)

    def __iter__(self) -> Iterator[Memory]:
        return (known.memory for known in self._by_file.values())

    def replace_all(self, records: Iterable[Record]) -> None:
        """Take over the records of a new moment; only those that changed are looked at."""
        with self.lock:
            gone = set(self._by_file)
            for record in records:
                gone.discard(record.path)
                known = self._by_file.get(record.path)
                if known is None or (known.record is not record and known.record.sha256 != record.sha256):
                    self.put(record)
            for file in gone:
                self.remove(file)

    def put(self, record: Record) -> Memory:
        """Take over one record, in place of what the file held."""
        with self.lock:
            self.remove(record.path)
            memory = memory_of(record)
            self._by_file[record.path] = Known(record, memory)
            for table, key in self._places(memory):
                table.setdefault(key, set()).add(record.path)
            if not memory.is_gone and memory.kind != "snapshot":
                self.index.add(memory)
            return memory

    def remove(self, file: str) -> None:
        """Forget a file; it need not be known."""
        with self.lock:
            known = self._by_file.pop(file, None)
            if known is None:
                return
            for table, key in self._places(known.memory):
                files = table[key]
                files.discard(file)
                if not files:
                    del table[key]
            self.index.remove(file)

    def known(self, file: str) -> Known | None:
        """What the file holds."""
        return self._by_file.get(file)

    def of_id(self, memory_id: str) -> list[Memory]:
        """The memories with exactly this id: one, unless outside hands made another."""
        with self.lock:
            return [self._by_file[file].memory for file in sorted(self._files_of_id.get(memory_id, ()))]

    def of_key(self, key: SemanticKey) -> list[Memory]:
        """The memories of a semantic key."""
        with self.lock:
            return [self._by_file[file].memory for file in sorted(self._files_of_key.get(key, ()))]

    def of_content(self, memory: Memory) -> list[Memory]:
        """The memories with the same content in the same path, bucket, scope and team."""
        with self.lock:
            return [
                self._by_file[file].memory
                for file in sorted(self._files_of_content.get(content_key(memory), ()))
            ]

    def _places(self, memory: Memory) -> Iterator[tuple[dict[object, set[str]], object]]:
        yield self._files_of_id, memory.id  # type: ignore[misc]
        yield self._files_of_content, content_key(memory)  # type: ignore[misc]
        key = semantic_key(memory)
        if key is not None:
            yield self._files_of_key, key  # type: ignore[misc]


def semantic_key(memory: Memory) -> SemanticKey | None:
    """The key under which a new version replaces this memory; None where it has none."""
    if memory.semantic_key is None:
        return None
    return (memory.bucket, memory.scope, memory.team_id, canonical(memory.semantic_key))


def path_key(memory: Memory) -> PathKey:
    """Where a memory stands."""
    return (
        canonical(memory.path),
        memory.bucket,
        memory.scope,
        memory.team_id,
        memory.memory_type,
        memory.kind,
    )


def content_key(memory: Memory) -> bytes:
    """Equal for memories that say the same in the same place."""
    place = (memory.bucket, memory.scope, memory.team_id, memory.kind)
    said = (*place, canonical(memory.path), canonical(memory.content))
    return sha256(repr(said).encode("utf-8", "surrogatepass")).digest()
