"""What a run is about to do to the worktree and the index, written down before the branch moves.

The plan lies in the run's private folder and is all that recovery needs: it holds even if the active run's
record was taken away by other hands.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsh_memory.repository.jsonfile import parse_json_object, to_json_line
from dsh_memory.repository.objects import Entry

PLAN_NAME = "plan.json"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of the worktree (or entry of the index): what it is before and after, None for nothing."""

    path: str
    before: Entry | None
    after: Entry | None


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a run does after its branch moved.

    `target_commit` is the journal commit that the branch moves to; `apply_commit`, below it, holds the new
    payload. `files` are payload files in the worktree, `operational` are journal files, `index` are entries
    of Git's index. `preview_id` is the preview that the run consumes.
    """

    run_id: str
    operation: str
    branch: str
    head_commit: str
    recovery_commit: str
    apply_commit: str
    target_commit: str
    files: tuple[FileChange, ...]
    operational: tuple[FileChange, ...]
    index: tuple[FileChange, ...]
    preview_id: str | None = None

    def to_bytes(self) -> bytes:
        """The plan's file."""
        return to_json_line(
            {
                "schema_version": 1,
                **{key: getattr(self, key) for key in _TEXTS},
                "preview_id": self.preview_id,
                **{key: [_row(change) for change in getattr(self, key)] for key in _LISTS},
            }
        )

    @classmethod
    def parse(cls, data: bytes) -> Plan | None:
        """The plan that a file holds; None where it is none, or was not written to its end."""
        values = parse_json_object(data)
        if values is None:
            return None
        texts = {key: values.get(key) for key in _TEXTS}
        preview_id = values.get("preview_id")
        if not all(isinstance(text, str) for text in texts.values()) or not isinstance(
            preview_id, str | None
        ):
            return None
        try:
            lists = {key: tuple(_change(row) for row in values[key]) for key in _LISTS}
        except (KeyError, TypeError, ValueError):
            return None
        return cls(**texts, **lists, preview_id=preview_id)  # type: ignore[arg-type]


_TEXTS = (
    "run_id",
    "operation",
    "branch",
    "head_commit",
    "recovery_commit",
    "apply_commit",
    "target_commit",
)
_LISTS = ("files", "operational", "index")


def _row(change: FileChange) -> list[str | None]:
    before, after = change.before or (None, None), change.after or (None, None)
    return [change.path, *before, *after]


def _change(row: list[str | None]) -> FileChange:
    path, before_mode, before_blob, after_mode, after_blob = row
    if not isinstance(path, str):
        raise ValueError("a path is a text")
    return FileChange(path, _entry(before_mode, before_blob), _entry(after_mode, after_blob))


def _entry(mode: str | None, blob: str | None) -> Entry | None:
    return None if mode is None or blob is None else Entry(mode, blob)
