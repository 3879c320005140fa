"""A segment as one file: written whole under a private name, mapped into memory by whoever reads it.

A header line of JSON with a checksum names the sections that follow; numbers stand in the machine's own byte order,
which the header names too. It is a cache: whatever does not fit is not there.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import secrets
import sys
import zlib
from array import array
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from dsh_memory.search.lexicon import Lexicon, Postings
from dsh_memory.search.segment import FieldIndex, Segment

_FORM: Final = f"dsh-memory segment 1 {sys.byteorder}"
_ALIGNMENT: Final = 8
_FIELDS: Final = ("head", "identity", "body")

_log = logging.getLogger("dsh_memory")


def save(segment: Segment, path: str) -> None:
    """Write a segment to `path` atomically, owner-only; a folder that cannot be written is left as it is."""
    private = f"{path}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            for piece in _pieces(segment):
                file.write(piece)
        os.rename(private, path)
    except OSError as error:
        _log.debug("the index cannot be kept: %s", error)
        with suppress(OSError):
            os.unlink(private)


def load(path: str) -> Segment | None:
    """The segment of a file; None where it is missing, damaged or of another form."""
    try:
        with open(path, "rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):
        return None
    end = bytes(data[:256]).find(b"\n")
    # guard: segment-checksum
    if end < 0 or not bytes(data[:end]).startswith(_FORM.encode()):
        return None
    try:
        header_length, checksum = (int(word) for word in bytes(data[len(_FORM) : end]).split())
    except ValueError:
        return None
    body = data[end + 1 :]
    if zlib.crc32(body) != checksum:
        return None
    sections = json.loads(bytes(body[:header_length]))
    return _Sections(data, sections).segment()


class _Sections:
    """The sections of a mapped file, by name."""

    def __init__(self, data: memoryview, places: dict[str, tuple[int, int]]) -> None:
        self._data = data
        self._places = places

    def segment(self) -> Segment:
        facts = json.loads(self.bytes("facts"))
        return Segment(
            facts["keys"],
            facts["paths"],
            self.numbers("word_counts", "I"),
            facts["types"],
            facts["expiries"],
            facts["ids"],
            [self._field(name, len(facts["keys"])) for name in _FIELDS],
            self.numbers("frequencies", "H"),
        )

    def bytes(self, name: str) -> bytes:
        return bytes(self.view(name))

    def view(self, name: str) -> memoryview:
        start, length = self._places[name]
        return self._data[start : start + length]

    def numbers(self, name: str, kind: Any) -> Sequence[int]:
        return self.view(name).cast(kind)

    def _field(self, name: str, size: int) -> FieldIndex:
        parts = []
        for part in ("words", "grams"):
            prefix = f"{name}.{part}"
            parts.append(
                (
                    Lexicon(self.bytes(f"{prefix}.joined").decode(), self.numbers(f"{prefix}.starts", "I")),
                    Postings(
                        size,
                        self.numbers(f"{prefix}.counts", "I"),
                        self.numbers(f"{prefix}.offsets", "Q"),
                        self.view(f"{prefix}.data"),
                    ),
                )
            )
        (words, word_documents), (grams, gram_documents) = parts
        return FieldIndex(words, word_documents, grams, gram_documents)


def _pieces(segment: Segment) -> list[bytes]:
    facts = {
        "keys": list(segment.keys),
        "paths": list(segment.paths),
        "types": list(segment.types),
        "expiries": list(segment.expiries),
        "ids": list(segment.ids),
    }
    sections: dict[str, bytes] = {
        "facts": json.dumps(facts, separators=(",", ":")).encode(),
        "word_counts": _octets("I", segment.word_counts),
        "frequencies": _octets("H", segment.frequencies),
    }
    for name, field in zip(_FIELDS, (segment.head, segment.identity, segment.body), strict=True):
        for part, lexicon, postings in (
            ("words", field.words, field.word_documents),
            ("grams", field.grams, field.gram_documents),
        ):
            prefix = f"{name}.{part}"
            sections[f"{prefix}.joined"] = lexicon.joined.encode()
            sections[f"{prefix}.starts"] = _octets("I", lexicon.starts)
            sections[f"{prefix}.counts"] = _octets("I", postings.counts)
            sections[f"{prefix}.offsets"] = _octets("Q", postings.offsets)
            sections[f"{prefix}.data"] = bytes(postings.data)
    return _laid_out(sections)


def _laid_out(sections: dict[str, bytes]) -> list[bytes]:
    # The header names absolute places, so its own length is settled first: by writing it with places of full width.
    width = 256
    header_length = len(_header(dict.fromkeys(sections, (10**12, 10**12))))
    position = width + header_length
    places: dict[str, tuple[int, int]] = {}
    body: list[bytes] = []
    for name, data in sections.items():
        padding = -position % _ALIGNMENT
        body += [bytes(padding), data]
        position += padding
        places[name] = (position, len(data))
        position += len(data)
    header = _header(places).ljust(header_length)
    checksum = zlib.crc32(header)
    for piece in body:
        checksum = zlib.crc32(piece, checksum)
    first = f"{_FORM} {header_length} {checksum}".encode().ljust(width - 1) + b"\n"
    return [first, header, *body]


def _header(places: dict[str, tuple[int, int]]) -> bytes:
    return json.dumps(places, separators=(",", ":")).encode()


def _octets(kind: str, numbers: Sequence[int]) -> bytes:
    return array(kind, numbers).tobytes()
