"""The parts of an index segment: sorted terms joined in one text, and the documents of each term."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from dsh_memory.search import bits

_SEPARATOR = "\n"
_NUMBER_SIZE = array("I").itemsize


class Lexicon:
    """Sorted terms in one text: exact look-up by halving, and every term that contains a text by plain find."""

    def __init__(self, joined: str, starts: Sequence[int]) -> None:
        """`joined` is every term followed by a line end; `starts` are the offsets of the terms in it."""
        self.joined = joined
        self.starts = starts

    @classmethod
    def of(cls, terms: Iterable[str]) -> Lexicon:
        """A lexicon of terms that are sorted already and hold no line end."""
        starts = array("I")
        position = 0
        pieces = []
        for term in terms:
            starts.append(position)
            position += len(term) + 1
            pieces.append(term)
        return cls("".join(f"{term}{_SEPARATOR}" for term in pieces), starts)

    def __len__(self) -> int:
        return len(self.starts)

    def term(self, number: int) -> str:
        """The term of a number."""
        start = self.starts[number]
        return self.joined[start : self.joined.index(_SEPARATOR, start)]

    def find(self, term: str) -> int | None:
        """The number of exactly this term."""
        low, high = 0, len(self.starts)
        while low < high:
            middle = (low + high) // 2
            if self.term(middle) < term:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self.starts) and self.term(low) == term else None

    def containing(self, text: str) -> Iterator[int]:
        """The numbers of all terms that contain `text`, ascending."""
        position = self.joined.find(text)
        while position >= 0:
            number = bisect_right(self.starts, position) - 1
            yield number
            if number + 1 == len(self.starts):
                return
            position = self.joined.find(text, self.starts[number + 1])


class Postings:
    """The documents of each term: ascending numbers, or one bit a document where that is smaller."""

    def __init__(self, size: int, counts: Sequence[int], offsets: Sequence[int], data: memoryview) -> None:
        """`size` is the number of documents; `offsets` (in bytes, one more than terms) cut `data`."""
        self._size = size
        self.counts = counts
        self.offsets = offsets
        self.data = data

    @classmethod
    def of(cls, size: int, documents_of_terms: Iterable[array[int] | int]) -> Postings:
        """Postings of terms; the documents of each are ascending numbers or a bit set."""
        counts, offsets, data = array("I"), array("Q", [0]), bytearray()
        for documents in documents_of_terms:
            count = documents.bit_count() if isinstance(documents, int) else len(documents)
            counts.append(count)
            if is_dense(count, size):
                members = documents if isinstance(documents, int) else bits.from_numbers(documents, size)
                octets = members.to_bytes((size >> 3) + 1, "little")
                data += octets + bytes(-len(octets) % _NUMBER_SIZE)
            else:
                numbers = bits.numbers(documents) if isinstance(documents, int) else documents
                data += array("I", numbers).tobytes()
            offsets.append(len(data))
        return cls(size, counts, offsets, memoryview(bytes(data)))

    def documents(self, number: int) -> Iterable[int]:
        """The documents of the term, ascending."""
        piece = self.data[self.offsets[number] : self.offsets[number + 1]]
        if is_dense(self.counts[number], self._size):
            return bits.numbers(int.from_bytes(piece, "little"))
        return piece.cast("I")

    def union(self, numbers: Iterable[int]) -> int:
        """The documents that hold any of the terms, as a bit set."""
        total = 0
        octets = bytearray((self._size >> 3) + 1)
        for number in numbers:
            piece = self.data[self.offsets[number] : self.offsets[number + 1]]
            if is_dense(self.counts[number], self._size):
                total |= int.from_bytes(piece, "little")
            else:
                for document in piece.cast("I"):
                    octets[document >> 3] |= 1 << (document & 7)
        return total | int.from_bytes(octets, "little")


def is_dense(count: int, size: int) -> bool:
    """Whether so many of `size` documents take less room as bits than as numbers."""
    return count * 32 > size
