"""Git's index as a file: a few entries changed without a process, whatever the number of the others.

Versions 2 and 3 with no extension but those that only save time are understood; for the rest `parse` gives None
and git does it (`finishing.prepare_index`). The form is that of gitformat-index(5).
"""

from __future__ import annotations

import hashlib
import os
import struct
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from dsh_memory.repository.objects import Entry

_HEADER: Final = struct.Struct(">4sLL")
_STAT: Final = struct.Struct(">10L")
_TIMES: Final = struct.Struct(">LL")
_MTIME_AT: Final = 8
_SIZE_AT: Final = 36
_VERSIONS: Final = (2, 3)
_EXTENDED: Final = 0x4000
_NAME_LENGTH: Final = 0xFFF
_STAGE_SHIFT: Final = 12
# What is left out here Git makes anew: the trees of the entries, and two tables of offsets.
_LEFT_OUT: Final = (b"TREE", b"EOIE", b"IEOT")

#: A path and a stage: the order of entries.
_Key = tuple[bytes, int]


class IndexFile:
    """The entries of an index in their order, each as its bytes."""

    def __init__(self, version: int, object_format: str, keys: list[_Key], entries: list[bytes]) -> None:
        self._version = version
        self._format = object_format
        self._id_length = hashlib.new(object_format, usedforsecurity=False).digest_size
        self._keys = keys
        self._entries = entries

    @classmethod
    def parse(cls, data: bytes, object_format: str, written_at_ns: int) -> IndexFile | None:
        """The index that a file holds; None for one that is damaged or holds more than is understood.

        An entry as young as the file itself may describe a file that has changed since: as Git does when it writes
        an index, its size is taken away, so that it is compared by content.
        """
        digest = hashlib.new(object_format, usedforsecurity=False)
        end, id_length = len(data) - digest.digest_size, digest.digest_size
        if end < _HEADER.size:
            return None
        digest.update(data[:end])
        signature, version, count = _HEADER.unpack_from(data)
        if (
            signature != b"DIRC"
            or version not in _VERSIONS
            or data[end:] not in (digest.digest(), bytes(id_length))
        ):
            return None
        youngest = divmod(written_at_ns, 1_000_000_000)
        keys: list[_Key] = []
        entries: list[bytes] = []
        position = _HEADER.size
        flags_at = _STAT.size + id_length
        for _ in range(count):
            flags = data[position + flags_at] << 8 | data[position + flags_at + 1]
            name_at = position + flags_at + (4 if flags & _EXTENDED else 2)
            name_end = data.find(b"\0", name_at, end)
            if name_end < 0:
                return None
            after = position + ((name_end - position) // 8 + 1) * 8
            entry = data[position:after]
            if _TIMES.unpack_from(entry, _MTIME_AT) >= youngest:
                entry = entry[:_SIZE_AT] + bytes(4) + entry[_SIZE_AT + 4 :]
            keys.append((data[name_at:name_end], flags >> _STAGE_SHIFT & 3))
            entries.append(entry)
            position = after
        while position < end:
            if data[position : position + 4] not in _LEFT_OUT:
                return None
            position += 8 + int.from_bytes(data[position + 4 : position + 8])
        return cls(version, object_format, keys, entries) if position == end else None

    def entry(self, path: str) -> Entry | None:
        """What is staged at a path; in a conflict the last of its stages."""
        found = self._range(os.fsencode(path))
        if not found:
            return None
        data = self._entries[found[-1]]
        mode = int.from_bytes(data[24:28])
        return Entry(f"{mode:06o}", data[_STAT.size : _STAT.size + self._id_length].hex())

    def changed(self, changes: Iterable[tuple[str, Entry | None]]) -> IndexFile:
        """The index with other entries at these paths, None for no entry; they know no file times yet."""
        new = IndexFile(self._version, self._format, self._keys.copy(), self._entries.copy())
        # Deletes first: a file may become a folder, or the other way round.
        for path, entry in sorted(changes, key=lambda change: change[1] is not None):
            new._set(os.fsencode(path), entry)
        return new

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        header = _HEADER.pack(b"DIRC", self._version, len(self._entries))
        digest = hashlib.new(self._format, header, usedforsecurity=False)
        body = b"".join(self._entries)
        digest.update(body)
        return header + body + digest.digest()

    def _set(self, path: bytes, entry: Entry | None) -> None:
        for place in reversed(self._range(path)):
            del self._keys[place], self._entries[place]
        if entry is None:
            return
        self._make_room(path)
        place = bisect_left(self._keys, (path, 0))
        stat = _STAT.pack(0, 0, 0, 0, 0, 0, int(entry.mode, 8), 0, 0, 0)
        data = stat + bytes.fromhex(entry.blob) + min(len(path), _NAME_LENGTH).to_bytes(2) + path
        self._keys.insert(place, (path, 0))
        self._entries.insert(place, data + bytes(8 - len(data) % 8))

    def _make_room(self, path: bytes) -> None:
        """Takes out files that stand where the path needs a folder, and the folder that stands at the path."""
        parts = path.split(b"/")
        for count in range(1, len(parts)):
            for place in reversed(self._range(b"/".join(parts[:count]))):
                del self._keys[place], self._entries[place]
        first = bisect_left(self._keys, (path + b"/", 0))
        last = bisect_left(self._keys, (path + b"0", 0))
        del self._keys[first:last], self._entries[first:last]

    def _range(self, path: bytes) -> range:
        return range(bisect_left(self._keys, (path, 0)), bisect_left(self._keys, (path, 4)))
