"""Sets of document numbers as big integers (bit n is document n): one operation on 100,000 takes microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

# Taking the lowest bit of a long integer costs its whole length; so it is done on slices of this many bits.
_SLICE_BITS = 4096


def from_numbers(numbers: Iterable[int], size: int) -> int:
    """The set of `numbers`, each below `size`."""
    octets = bytearray((size >> 3) + 1)
    for number in numbers:
        octets[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(octets, "little")


def numbers(bits: int) -> Iterator[int]:
    """The members in ascending order."""
    octets = bits.to_bytes((bits.bit_length() + 7) >> 3, "little")
    step = _SLICE_BITS >> 3
    for start in range(0, len(octets), step):
        piece = int.from_bytes(octets[start : start + step], "little")
        base = start << 3
        while piece:
            lowest = piece & -piece
            yield base + lowest.bit_length() - 1
            piece ^= lowest


def first(bits: int, limit: int) -> list[int]:
    """The `limit` lowest members, ascending."""
    found: list[int] = []
    for number in numbers(bits):
        if len(found) == limit:
            break
        found.append(number)
    return found


class Counter:
    """Adds small weights to sets of documents; the sums are kept as bit planes, lowest first."""

    def __init__(self) -> None:
        self._planes: list[int] = []

    def add(self, members: int, weight: int) -> None:
        """Add `weight` (at least 0) to every member."""
        plane = 0
        while weight:
            if weight & 1:
                carry = members
                position = plane
                while carry:
                    if position == len(self._planes):
                        self._planes.append(0)
                    self._planes[position], carry = (
                        self._planes[position] ^ carry,
                        self._planes[position] & carry,
                    )
                    position += 1
            weight >>= 1
            plane += 1

    def groups(self, members: int) -> Iterator[tuple[int, int]]:
        """The members parted by their sum, highest sum first: (sum, set), sums of 0 left out."""
        yield from _parted(self._planes, len(self._planes) - 1, members, 0)


def _parted(planes: Sequence[int], position: int, members: int, total: int) -> Iterator[tuple[int, int]]:
    if not members:
        return
    if position < 0:
        if total:
            yield total, members
        return
    upper = members & planes[position]
    yield from _parted(planes, position - 1, upper, total + (1 << position))
    yield from _parted(planes, position - 1, members & ~upper, total)
