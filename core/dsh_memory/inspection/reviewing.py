"""What a reviewer should see in a change before it is applied: what it loses, and what will refuse it.

What refuses is asked of the writers' own rules, file by file, so that all of it is told at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from dsh_memory.errors import ChangeRefused
from dsh_memory.inspection.values import ReviewWarning
from dsh_memory.inspection.visiting import Visit
from dsh_memory.inspection.wording import counted
from dsh_memory.misleading import hints_of, new_lines
from dsh_memory.records import Record, read_record
from dsh_memory.repository.allowed_secrets import read_allowed_secrets
from dsh_memory.repository.changes import StagedFile, check_change
from dsh_memory.repository.content import is_record_path
from dsh_memory.repository.forgotten import forgotten_again
from dsh_memory.repository.view import read_records

#: Both sides of a file are read up to this size; a change may hold no file over 1 MiB anyway.
MOST_BYTES: Final = 8 * 1024 * 1024

#: A file that keeps less than this share of its bytes has shrunk; models drop the rest of a file by mistake.
_KEPT_SHARE: Final = 0.4


def review(
    files: Sequence[StagedFile],
    ids_elsewhere: Mapping[str, str],
    allowed_secrets: frozenset[str],
    *,
    limited: bool,
) -> tuple[ReviewWarning, ...]:
    """All warnings about a change, the blocking ones first; the arguments are those of `check_change`."""
    refused: list[ReviewWarning] = []
    losses: list[ReviewWarning] = []
    for part in [*([file] for file in files), files]:
        try:
            check_change(part, ids_elsewhere, allowed_secrets=allowed_secrets, limited=limited)
        except ChangeRefused as refusal:
            refused.append(
                ReviewWarning(
                    refusal.code, refusal.message.removesuffix("."), refusal.path, True, refusal.line
                )
            )
    for file in files:
        losses += [*_losses(file), *_misleading(file)]
    return (*dict.fromkeys(refused), *losses)


def review_of(visit: Visit, files: Sequence[StagedFile], *, limited: bool) -> tuple[ReviewWarning, ...]:
    """All warnings about a change of the live memory."""
    changed = {file.path for file in files}
    records = read_records(visit.repository, visit.now, "all", visit.memo.records).records
    elsewhere = {record.id: record.path for record in records if record.path not in changed}
    known = [
        ReviewWarning("forgotten-before", "brings back what was deleted before", path, False)
        for path in forgotten_again(visit.repository, files)
    ]
    return (*review(files, elsewhere, read_allowed_secrets(visit.environment), limited=limited), *known)


def _misleading(file: StagedFile) -> list[ReviewWarning]:
    """What a new or changed line could do to a model, the first of each kind."""
    if file.new is None:
        return []
    first: dict[str, ReviewWarning] = {}
    for hint in hints_of(new_lines(file.old, file.new)):
        first.setdefault(hint.kind, ReviewWarning(hint.kind, hint.sentence, file.path, False, hint.line))
    return list(first.values())


def _losses(file: StagedFile) -> list[ReviewWarning]:
    if file.old is None:
        return []
    if file.new is None:
        lines = counted(len(file.old.splitlines()), "line")
        return [ReviewWarning("delete", f"deletes the file, {lines}", file.path, False)]
    found = []
    if len(file.new) < _KEPT_SHARE * len(file.old):
        share = round(100 - 100 * len(file.new) / len(file.old))
        found.append(ReviewWarning("shrinks", f"shrinks by {share} %", file.path, False))
    old, new = (
        read_record(file.path, data) if is_record_path(file.path) else None for data in (file.old, file.new)
    )
    if isinstance(old, Record) and isinstance(new, Record) and old.metadata is not None:
        if new.metadata is None:
            found.append(ReviewWarning("front-matter-lost", "loses its front matter", file.path, False))
        elif new.id != old.id:
            sentence = f"its id changes from {old.id} to {new.id}"
            found.append(ReviewWarning("id-changed", sentence, file.path, False))
    return found
