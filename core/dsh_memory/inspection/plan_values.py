"""What the inspector answers about an act before it is done: one frozen value for each kind of act."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dsh_memory.inspection.values import (
    Count,
    FileChange,
    FileDiff,
    PreviewRow,
    PreviewView,
    Refusal,
    ReviewWarning,
    RunRow,
)

Direction = Literal["forward", "back", "journal-only"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What an act will do, before it is done.

    `what` says it in sentences with numbers and ids, `git_words` in the words of Git, `way_back` how to
    undo it. `expected_head` goes with the act, which refuses when HEAD has moved. `confirm_word` is to be
    typed in a second step; None asks for one step. `refusal` is why the act would fail now; then there is
    nothing to confirm.
    """

    operation: str
    expected_head: str | None
    what: tuple[str, ...]
    git_words: tuple[str, ...]
    way_back: str
    confirm_word: str | None
    refusal: Refusal | None


@dataclass(frozen=True, slots=True)
class ClearPlan(Plan):
    """Emptying the memory; `recovery_commit` is None when a dirty payload needs a checkpoint first."""

    record_count: int
    by_folder: tuple[Count, ...]
    data_file_count: int
    ignored_file_count: int
    dirty_paths: tuple[str, ...]
    recovery_commit: str | None
    previews_that_stay: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RollbackPlan(Plan):
    """Undoing one run: its files go back to what they were in `recovery_commit`."""

    run: RunRow
    restored: int
    removed: int
    changed_back: int
    recovery_commit: str | None
    apply_commit: str | None


@dataclass(frozen=True, slots=True)
class ApplyPlan(Plan):
    """Applying one preview."""

    preview: PreviewView


@dataclass(frozen=True, slots=True)
class DiscardPlan(Plan):
    """Removing one preview without applying it."""

    preview: PreviewRow


@dataclass(frozen=True, slots=True)
class MigratePlan(Plan):
    """Giving legacy records front matter; `malformed_count` files are left alone."""

    paths: tuple[str, ...]
    malformed_count: int


@dataclass(frozen=True, slots=True)
class RecoverPlan(Plan):
    """Ending a run whose process died; `direction` is None when there is nothing to recover."""

    run_id: str | None
    direction: Direction | None
    target_commit: str | None
    recovery_commit: str | None


@dataclass(frozen=True, slots=True)
class SavePlan(Plan):
    """Committing what editors left in the work tree; a `blocking` problem stops it."""

    files: tuple[FileChange, ...]
    problems: tuple[ReviewWarning, ...]


@dataclass(frozen=True, slots=True)
class RestorePlan(Plan):
    """Bringing back one version of a record: `diff` is from the text of now to the one it would have."""

    path: str
    commit: str
    diff: FileDiff
