"""What changed between two states of the payload: files, line counts, and both texts of one file.

Between commits Git answers, in a constant number of processes. Between bytes (a preview's staging, the
worktree) nothing is handed to Git, so that no object of an unapproved text ever exists.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from dsh_memory.inspection.values import ChangeKind, FileChange, FileDiff
from dsh_memory.repository.git import SealedGit
from dsh_memory.repository.layout import PAYLOAD

_KINDS: Final[dict[str, ChangeKind]] = {"A": "A", "D": "D"}
# Above this many pairs of lines an exact comparison takes seconds; what moved is then not counted.
_MOST_PAIRS: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class TreeChange:
    """A payload file that differs between two commits; a blob id is None where the file does not exist."""

    path: str
    kind: ChangeKind
    old_blob: str | None
    new_blob: str | None
    added: int | None
    removed: int | None


def tree_changes(git: SealedGit, old: str, new: str) -> list[TreeChange]:
    """The payload's files that differ between two commits, by path; raises GitFailed where one is missing."""
    output = git.run(
        "diff-tree",
        "-r",
        "-z",
        "--raw",
        "--numstat",
        "--no-renames",
        "--full-index",
        old,
        new,
        "--",
        *PAYLOAD,
    )
    pieces = output.split(b"\0")
    raw: dict[bytes, tuple[str, str, str]] = {}
    counts: dict[bytes, tuple[int | None, int | None]] = {}
    position = 0
    while position < len(pieces) and pieces[position]:
        piece = pieces[position]
        if piece.startswith(b":"):
            _, _, old_blob, new_blob, status = piece[1:].decode().split(" ")
            raw[pieces[position + 1]] = (status, old_blob, new_blob)
            position += 2
        else:
            added, removed, path = piece.split(b"\t", 2)
            counts[path] = (_count(added), _count(removed))
            position += 1
    changes = []
    for name, (status, old_blob, new_blob) in raw.items():
        kind = _KINDS.get(status, "M")
        added_lines, removed_lines = counts.get(name, (None, None))
        changes.append(
            TreeChange(
                os.fsdecode(name),
                kind,
                None if kind == "A" else old_blob,
                None if kind == "D" else new_blob,
                added_lines,
                removed_lines,
            )
        )
    return sorted(changes, key=lambda change: change.path)


def with_sizes(git: SealedGit, changes: Sequence[TreeChange]) -> tuple[FileChange, ...]:
    """The changes with the sizes of both sides, asked of one git process."""
    blobs = [blob for change in changes for blob in (change.old_blob, change.new_blob) if blob]
    sizes: dict[str | None, int] = {None: 0}
    if blobs:
        request = "".join(f"{blob}\n" for blob in blobs).encode()
        answer = git.run("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=request)
        for line in answer.decode().splitlines():
            name, _, size = line.partition(" ")
            sizes[name] = int(size) if size.isdigit() else 0
    return tuple(
        FileChange(
            change.path,
            change.kind,
            change.added,
            change.removed,
            sizes.get(change.old_blob, 0),
            sizes.get(change.new_blob, 0),
        )
        for change in changes
    )


def change_of(path: str, old: bytes | None, new: bytes | None) -> FileChange:
    """The change of one file between its bytes, None where it does not exist; at least one side does."""
    kind: ChangeKind = "A" if old is None else "D" if new is None else "M"
    sizes = len(old or b""), len(new or b"")
    if _is_binary(old) or _is_binary(new):
        return FileChange(path, kind, None, None, *sizes)
    return FileChange(path, kind, *count_lines(old or b"", new or b""), *sizes)


def diff_of(path: str, old: bytes | None, new: bytes | None) -> FileDiff:
    """Both texts of one file, None where it does not exist; a binary file has sizes only."""
    kind: ChangeKind = "A" if old is None else "D" if new is None else "M"
    sizes = len(old or b""), len(new or b"")
    if _is_binary(old) or _is_binary(new):
        return FileDiff(path, kind, None, None, True, *sizes)
    return FileDiff(path, kind, _text(old), _text(new), False, *sizes)


def count_lines(old: bytes, new: bytes) -> tuple[int, int]:
    """How many lines were added and removed; for very long files a line that only moved counts as neither."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    before, after = before[start : len(before) - end], after[start : len(after) - end]
    if len(before) * len(after) > _MOST_PAIRS:
        lines_before, lines_after = Counter(before), Counter(after)
        return (lines_after - lines_before).total(), (lines_before - lines_after).total()
    kept = sum(
        block.size for block in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    )
    return len(after) - kept, len(before) - kept


def _count(text: bytes) -> int | None:
    return None if text == b"-" else int(text)


def _is_binary(data: bytes | None) -> bool:
    return data is not None and b"\0" in data


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
