"""What one request wants to write, worked out on the memories of now and the writes before it in the same
batch.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from heapq import nsmallest
from typing import Final
from urllib.parse import quote

from dsh_memory.api.catalogue import Catalogue, SemanticKey, content_key, path_key, semantic_key
from dsh_memory.api.failures import ApiFailure, InvalidField, conflict, not_found
from dsh_memory.api.mapping import memory_of, record_bytes
from dsh_memory.api.paths import file_name, safe_folder
from dsh_memory.api.values import Caller, Memory
from dsh_memory.environment import format_instant
from dsh_memory.records import MAX_RECORD_BYTES, Record, read_record
from dsh_memory.records.secrets import scan
from dsh_memory.repository.layout import Root

_ARCHIVE: Final = "archive/"
_COMPARED_CHARACTERS: Final = 500


class Stale(Exception):
    """A file is no longer what the catalogue knows; look again and start over."""


def check_secrets(
    file: str, data: bytes, allowed: frozenset[str], loc: tuple[str, str] = ("body", "content")
) -> None:
    """Raise InvalidField `secret-detected` at `loc` for a record that holds a secret."""
    # guard: api-secret-scan
    findings = scan(file, data, allowed)
    if findings:
        kinds = ", ".join(sorted({finding.kind for finding in findings}))
        raise InvalidField(loc, f"The memory holds a secret ({kinds}).", "secret-detected")


@dataclass(slots=True)
class Batch:
    """The files that the writes before this one leave behind; None is a deleted file."""

    catalogue: Catalogue
    root: Root
    allowed_secrets: frozenset[str]
    now: datetime
    data: dict[str, bytes | None] = field(default_factory=dict)
    records: dict[str, Record | None] = field(default_factory=dict)


class Draft:
    """One request's writes; nothing of it is seen by others before the commit is durable."""

    def __init__(self, batch: Batch, caller: Caller, operation: str, idempotency_key: str | None) -> None:
        self.caller = caller
        self._batch = batch
        self._operation = operation
        self._key = idempotency_key
        self._data: dict[str, bytes | None] = {}
        self._records: dict[str, Record | None] = {}
        self._saved: list[Memory] = []

    @property
    def now(self) -> str:
        """The instant of the batch."""
        return format_instant(self._batch.now)

    @property
    def instant(self) -> datetime:
        """The same as a value."""
        return self._batch.now

    @property
    def files(self) -> Mapping[str, bytes | None]:
        """The new bytes of each file that changes."""
        return self._data

    @property
    def records(self) -> Mapping[str, Record | None]:
        """The same as records; None for a file that goes."""
        return self._records

    @property
    def saved(self) -> Memory | None:
        """The memory that the request was about: the first one saved."""
        return self._saved[0] if self._saved else None

    def message(self) -> str:
        """The commit's message: no content, and trailers whose values are percent-encoded."""
        trailers = [
            trailer
            for memory in self._saved
            for trailer in (f"Memory-Id: {_encoded(memory.id)}", f"Memory-Version: {memory.version}")
        ]
        trailers.append(f"Memory-Operation: {self._operation}")
        if self.caller.agent:
            trailers.append(f"Memory-Agent: {_encoded(self.caller.agent)}")
        trailers.append(f"Memory-Door: {_encoded(self.caller.door)}")
        if self._key:
            trailers.append(f"Idempotency-Key: {_encoded(self._key)}")
        subject = f"DPSK memory {self._operation}"
        if len(self._saved) == 1:
            subject += f": {self._saved[0].id}"
        return f"{subject}\n\n" + "\n".join(trailers) + "\n"

    def merge(self) -> None:
        """Let the requests after this one in the batch see it."""
        self._batch.data.update(self._data)
        self._batch.records.update(self._records)

    # --- finding ----------------------------------------------------------------------------------------

    def find(self, memory_id: str, what: str = "memory", *, kind: str | None = None) -> Memory:
        """The one memory of this id that the caller may see, deleted or not; raises not_found or conflict."""
        seen = [memory for memory in self.of_id(memory_id) if self.caller.may_see(memory)]
        if kind is not None:
            seen = [memory for memory in seen if memory.kind == kind]
        if not seen:
            raise not_found(what)
        # guard: exact-and-unambiguous
        if len(seen) > 1:
            raise conflict("Several records have this id; a person has to give them ids of their own.")
        return seen[0]

    def of_id(self, memory_id: str) -> list[Memory]:
        """Every memory of this id, whoever may see it."""
        return self._current(self._batch.catalogue.of_id(memory_id), lambda memory: memory.id == memory_id)

    def of_key(self, key: SemanticKey) -> list[Memory]:
        """Every memory of a semantic key."""
        return self._current(self._batch.catalogue.of_key(key), lambda memory: semantic_key(memory) == key)

    def same_content(self, memory: Memory) -> list[Memory]:
        """Every memory that says the same in the same place."""
        key = content_key(memory)
        return self._current(
            self._batch.catalogue.of_content(memory), lambda other: content_key(other) == key
        )

    def similar(self, memory: Memory, most: int = 20) -> list[Memory]:
        """The other active memories of the same place that share most words with this one, best first."""
        index = self._batch.catalogue.index
        with self._batch.catalogue.lock:
            scores = index.match(memory.content[:_COMPARED_CHARACTERS]).scores
            best = nsmallest(most, scores, key=lambda file: (-scores[file], file))
            found = [index.memory(file) for file in best]
        place = path_key(memory)
        return self._current(
            found,
            lambda other: path_key(other) == place and other.id != memory.id and other.status == "active",
        )

    def every(self) -> list[Memory]:
        """All memories."""
        return self._current(list(self._batch.catalogue), lambda _: True)

    def _current(self, known: list[Memory], wanted: Callable[[Memory], bool]) -> list[Memory]:
        changed = {**self._batch.records, **self._records}
        found = [memory for memory in known if memory.file not in changed]
        found += (memory_of(record) for record in changed.values() if record is not None)
        return [memory for memory in found if wanted(memory)]

    # --- writing ----------------------------------------------------------------------------------------

    def save(self, memory: Memory, *, primary: bool = True) -> Memory:
        """Write a memory, new or changed, to the file where it belongs; raises ApiFailure for what no file
        can hold.

        Raises Stale where the file is not what this request has seen.
        """
        if not self.caller.may_see(memory):
            # guard: no-write-outside-restrictions
            raise ApiFailure(403, "forbidden", "The token is bound to another part of the memory.")
        old = self._bytes(memory.file) if memory.file else None
        file = self._place(memory)
        try:
            data = record_bytes(memory, old)
        except ValueError as error:
            raise InvalidField(("body",), f"A value cannot be kept: {error}") from error
        if len(data) > MAX_RECORD_BYTES:
            raise ApiFailure(413, "payload_too_large", "The record would be too large.")
        record = read_record(file, data)
        if not isinstance(record, Record):
            raise InvalidField(("body",), f"The record would not be valid: {record.message}")
        check_secrets(file, data, self._batch.allowed_secrets)
        if memory.file and memory.file != file:
            self._data[memory.file] = None
            self._records[memory.file] = None
        if data != old or file != memory.file:
            self._data[file] = data
            self._records[file] = record
        saved = replace(memory, file=file)
        if primary:
            self._saved.insert(0, saved)
        else:
            self._saved.append(saved)
        return saved

    def _bytes(self, file: str) -> bytes:
        for written in (self._data, self._batch.data):
            if file in written:
                found = written[file]
                if found is None:
                    raise Stale
                return found
        known = self._batch.catalogue.known(file)
        try:
            data = self._batch.root.read(file, MAX_RECORD_BYTES)
        except FileNotFoundError:
            raise Stale from None
        # guard: no-blind-overwrite
        if known is None or sha256(data).hexdigest() != known.record.sha256:
            raise Stale
        return data

    def _place(self, memory: Memory) -> str:
        """Where the record belongs: deleted ones in archive/, others where they are, new ones by their
        path.
        """
        file = memory.file
        if not file:
            return self._free(f"handbook/{safe_folder(memory.path)}", file_name(memory.id))
        if memory.is_gone and not file.startswith(_ARCHIVE):
            folder, _, name = f"{_ARCHIVE}{file}".rpartition("/")
            return self._free(folder, name)
        if not memory.is_gone and file.startswith((f"{_ARCHIVE}handbook/", f"{_ARCHIVE}rollouts/")):
            folder, _, name = file.removeprefix(_ARCHIVE).rpartition("/")
            return self._free(folder, name)
        return file

    def _free(self, folder: str, name: str) -> str:
        """A place in the folder that no other file has; a file in the folder's place is walked around."""
        parts: list[str] = []
        for part in folder.split("/"):
            candidate, number = part, 1
            while self._is_file("/".join([*parts, candidate])):
                number += 1
                candidate = f"{part}-{number}"
            parts.append(candidate)
        stem, place, number = name.removesuffix(".md"), "/".join(parts), 1
        file = f"{place}/{name}"
        while self._exists(file):
            number += 1
            file = f"{place}/{stem}-{number}.md"
        return file

    def _is_file(self, path: str) -> bool:
        status = self._batch.root.lstat(path)
        return status is not None and not stat.S_ISDIR(status.st_mode)

    def _exists(self, file: str) -> bool:
        for data in (self._data, self._batch.data):
            if file in data:
                return data[file] is not None
        return self._batch.root.lstat(file) is not None


def _encoded(text: str) -> str:
    return quote(text, safe="/:@+,")
