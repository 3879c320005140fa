"""What an agent's change needs a person for: it obeys the rules, but would lose more than an agent should,
or hides what it says.

Such a change is put up as a preview instead of being applied (`cases.md` 15, 29, 60).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from dsh_memory.misleading import NEVER_HONEST, hints_of, new_lines
from dsh_memory.repository.changes import StagedFile
from dsh_memory.repository.content import is_record_path
from dsh_memory.text import visible

_SHRINKABLE_BYTES: Final = 1024
_KEPT_SHARE: Final = 0.4
_MANY_DELETIONS: Final = 5
_DELETED_SHARE: Final = 1 / 3


def reasons_for_approval(
    files: Sequence[StagedFile], live_records: Collection[str], forgotten: Iterable[str]
) -> list[str]:
    """A sentence for each reason why a person has to approve the change; `live_records` are paths before
    it.
    """
    reasons = []
    # guard: no-mass-deletion
    gone = _deleted(files)
    if gone and (
        len(gone) == len(live_records)
        or (len(gone) >= _MANY_DELETIONS and len(gone) > _DELETED_SHARE * len(live_records))
    ):
        reasons.append(f"It deletes {len(gone)} of {len(live_records)} records.")
    for file in files:
        # guard: no-hidden-text
        reasons += _misleading(file)
        if file.old is None or file.new is None or len(file.old) < _SHRINKABLE_BYTES:
            continue
        # guard: no-silent-shrink
        if len(file.new) < _KEPT_SHARE * len(file.old):
            reasons.append(f"{visible(file.path)} shrinks from {len(file.old):,} to {len(file.new):,} bytes.")
    reasons += [f"{visible(path)} brings back what was deleted before." for path in forgotten]
    return reasons


def _misleading(file: StagedFile) -> list[str]:
    """Sentences about what no honest note needs, the first of each kind."""
    if file.new is None:
        return []
    hints = hints_of(new_lines(file.old, file.new))
    first = {hint.kind: hint for hint in reversed(hints) if hint.kind in NEVER_HONEST}
    return [f"{visible(file.path)}:{hint.line} {hint.sentence}." for hint in first.values()]


def _deleted(files: Iterable[StagedFile]) -> list[str]:
    """The record files that go without their bytes coming back under another path, as a move to archive/
    does.
    """
    files = list(files)
    arrived = {file.new for file in files if file.old is None}
    return [
        file.path
        for file in files
        if file.new is None and file.old is not None and is_record_path(file.path) and file.old not in arrived
    ]
