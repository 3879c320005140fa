"""What a list shows: rows made beforehand, or drawn when they come into sight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from dsh_memory_tui.widgets.lines import Line

Item = TypeVar("Item")


class Rows(Protocol):
    """What a list shows: rows of `height` lines each, drawn when they come into sight."""

    @property
    def height(self) -> int:
        """Lines a row takes."""

    def __len__(self) -> int:
        """How many rows there are."""

    def key(self, index: int) -> str | None:
        """What the row stands for, unique in the list; None for a row the cursor passes over."""

    def draw(self, index: int, width: int) -> Sequence[Line]:
        """The row's lines, `height` of them."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Rows of one line, made beforehand, each with its key; for short lists and texts."""

    rows: tuple[tuple[str | None, Line], ...] = ()
    height: int = 1

    def __len__(self) -> int:
        return len(self.rows)

    def key(self, index: int) -> str | None:
        return self.rows[index][0]

    def draw(self, index: int, width: int) -> Sequence[Line]:
        return (self.rows[index][1],)


class Drawn(Generic[Item]):
    """Rows drawn one by one from a sequence of values: a hundred thousand cost no more than a screenful."""

    def __init__(
        self,
        items: Sequence[Item],
        key: Callable[[Item], str | None],
        draw: Callable[[Item, int], Sequence[Line]],
        height: int = 1,
    ) -> None:
        self._items = items
        self._height = height
        self._key = key
        self._draw = draw

    @property
    def height(self) -> int:
        return self._height

    def __len__(self) -> int:
        return len(self._items)

    def key(self, index: int) -> str | None:
        return self._key(self._items[index])

    def draw(self, index: int, width: int) -> Sequence[Line]:
        return self._draw(self._items[index], width)
