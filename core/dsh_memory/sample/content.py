"""The records of the sample memory, with days counted from its newest session.

The texts stand beside this module: `=== path` opens a file, `<-12>` is the date twelve days before the
newest session. A file without front matter names its day after the path; one marked `migrated` got its front
matter later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from importlib.resources import files
from typing import Final

_SOURCES: Final = ("handbook.txt", "rollouts.txt", "archive.txt")
_OPENING: Final = re.compile(
    r"^=== (?P<path>\S+)(?: @(?P<day>-\d+))?(?P<migrated> migrated)?\n", re.MULTILINE
)
_DAY: Final = re.compile(r"<([+-]?\d+)>")
_CREATED: Final = re.compile(r"^created_at: <(-?\d+)>$", re.MULTILINE)
_UPDATED: Final = re.compile(r"^updated_at: <(-?\d+)>$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Draft:
    """One state of one file: written on `day` (0 is the newest session, negative before it).

    `written_by_hand` files have no front matter; `migrated` ones get it in a later run.
    """

    path: str
    day: int
    text: str
    is_new: bool
    written_by_hand: bool
    migrated: bool


def drafts(newest_day: date) -> list[Draft]:
    """Every state of every file of the sample, oldest first; a file that was updated has two."""
    found: list[Draft] = []
    for source in _SOURCES:
        text = files(__package__).joinpath(source).read_text(encoding="utf-8")
        openings = list(_OPENING.finditer(text))
        ends = [opening.start() for opening in openings[1:]] + [len(text)]
        for opening, end in zip(openings, ends, strict=True):
            found += _states(opening, text[opening.end() : end], newest_day)
    return sorted(found, key=lambda draft: (draft.day, draft.path))


def with_days(text: str, newest_day: date) -> str:
    """The text with each `<n>` replaced by its date."""
    return _DAY.sub(lambda match: (newest_day + timedelta(days=int(match[1]))).isoformat(), text)


def _states(opening: re.Match[str], text: str, newest_day: date) -> list[Draft]:
    path = with_days(opening["path"], newest_day)
    by_hand = opening["day"] is not None
    migrated = opening["migrated"] is not None
    created = opening["day"] if by_hand else _stated_day(_CREATED, text)
    updated = created if by_hand else _stated_day(_UPDATED, text)
    final = Draft(path, int(updated), with_days(text, newest_day), created == updated, by_hand, migrated)
    if final.is_new:
        return [final]
    # The first state lacks what the update added: its last paragraph.
    first = text.rstrip("\n").rpartition("\n\n")[0] + "\n"
    first = first.replace(f"updated_at: <{updated}>", f"updated_at: <{created}>")
    return [Draft(path, int(created), with_days(first, newest_day), True, by_hand, migrated), final]


def _stated_day(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    if match is None:
        raise ValueError(f"a sample record does not match {pattern.pattern}")
    return match[1]
