"""What clearing, rolling back, applying and discarding would do, said before it is done.

Numbers, ids, Git's words, the way back, and the head that binds the act to what was shown.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from dsh_memory.errors import ClearFailure
from dsh_memory.inspection.looking import Look, busy, lock_fact, look, preview_row, refusal_of
from dsh_memory.inspection.plan_values import ApplyPlan, ClearPlan, DiscardPlan, RollbackPlan
from dsh_memory.inspection.previews import preview_view
from dsh_memory.inspection.runs import run_view
from dsh_memory.inspection.values import Count, Refusal
from dsh_memory.inspection.visiting import Visit
from dsh_memory.inspection.wording import counted
from dsh_memory.repository.layout import PAYLOAD, RECORD_FOLDERS
from dsh_memory.repository.previews import find
from dsh_memory.repository.view import read_head

ROLL_BACK: Final = "Roll this run back (Runs, or dsh-memory rollback), as long as nothing newer is written."

_SHORT: Final = 7


def clear_plan(visit: Visit) -> ClearPlan:
    """Emptying the memory."""
    found = look(visit)
    head = found.head.commit
    clean = not found.dirty_paths
    folders = tuple(
        Count(name, sum(item.path.startswith(name + "/") for item in found.items)) for name in RECORD_FOLDERS
    )
    ignored = _ignored_count(visit)
    records = counted(len(found.items), "record")
    what = [f"{records} in 3 folders and summary.md leave the work tree."]
    if ignored:
        what.append(
            f"{counted(ignored, 'file')} that Git ignores leave{'s' if ignored == 1 else ''} with them."
        )
    if clean:
        what.append(f"They stay in Git: recovery commit {_short(head)} (HEAD, clean).")
    else:
        edited = counted(len(found.dirty_paths), "unsaved file")
        what.append(f"They stay in Git: a recovery commit takes in {edited} first.")
    stay = tuple(row.preview_id for row in found.previews)
    if stay:
        what.append(
            f"{counted(len(stay), 'preview')} stay{'s' if len(stay) == 1 else ''}, bodies included, "
            "and can be applied only after this clear is rolled back."
        )
    git_words = [] if clean else ["git commit of the payload as it stands: DPSK memory recovery checkpoint"]
    git_words.append("git commit of an empty summary.md and no records: DPSK memory cleared")
    return ClearPlan(
        operation="clear",
        expected_head=head,
        what=_clear_words(found, ignored, len(stay)),
        git_words=tuple(git_words),
        way_back=ROLL_BACK,
        confirm_word="clear",
        refusal=_clear_refusal(found),
        record_count=len(found.items),
        by_folder=folders,
        data_file_count=found.data_file_count,
        ignored_file_count=ignored,
        dirty_paths=found.dirty_paths,
        recovery_commit=head if clean else None,
        previews_that_stay=stay,
    )


def _clear_words(found: Look, ignored: int, previews: int) -> tuple[str, ...]:
    words = [f"{counted(len(found.items), 'record')} in 3 folders and summary.md leave the work tree."]
    if ignored:
        them = "goes" if ignored == 1 else "go"
        words.append(f"{counted(ignored, 'file')} that Git ignores {them} with them.")
    if found.dirty_paths:
        edited = counted(len(found.dirty_paths), "unsaved file")
        words.append(f"They stay in Git: a recovery commit takes in {edited} first.")
    else:
        words.append(f"They stay in Git: recovery commit {_short(found.head.commit)} (HEAD, clean).")
    if previews:
        stay = "stays" if previews == 1 else "stay"
        words.append(
            f"{counted(previews, 'preview')} {stay}, bodies included, and can be applied only after this "
            "clear is rolled back."
        )
    return tuple(words)


def rollback_plan(visit: Visit, run_id: str) -> RollbackPlan:
    """Undoing one run."""
    view = run_view(visit, run_id)
    kinds = Counter(change.kind for change in view.files)
    row = view.row
    recovery = _short(row.recovery_commit)
    return RollbackPlan(
        operation="rollback",
        expected_head=view.head,
        what=(
            f"{row.operation} {row.run_id} is undone: {counted(len(view.files), 'file')}.",
            f"{_parts(('come back', kinds['D']), ('get their old text', kinds['M']), ('go', kinds['A']))}.",
            f"All are as in recovery commit {recovery} then; nothing leaves Git.",
        ),
        git_words=(f"git commit of {recovery}'s payload above HEAD: DPSK memory rollback: {run_id}",),
        way_back=f"What the run wrote stays in commit {_short(row.apply_commit)}.",
        confirm_word=_short(row.apply_commit),
        refusal=view.refusal,
        run=row,
        restored=kinds["D"],
        removed=kinds["A"],
        changed_back=kinds["M"],
        recovery_commit=row.recovery_commit,
        apply_commit=row.apply_commit,
    )


def apply_plan(visit: Visit, preview_id: str) -> ApplyPlan:
    """Applying one preview."""
    # Read first: what comes between it and the rest makes the act refuse.
    head = read_head(visit.repository).commit
    preview = preview_view(visit, preview_id)
    kinds = Counter(change.kind for change in preview.files)
    what = [
        f"{counted(len(preview.files), 'file')} change: "
        f"{_parts(('new', kinds['A']), ('edited', kinds['M']), ('deleted', kinds['D']))}."
    ]
    if preview.warnings:
        what.append(f"{counted(len(preview.warnings), 'warning')} to look at first.")
    what.append("The preview is used up.")
    return ApplyPlan(
        operation="apply",
        expected_head=head,
        what=tuple(what),
        git_words=(f"git commit of the change above HEAD: DPSK memory sync applied: {preview_id}",),
        way_back=ROLL_BACK,
        confirm_word=None,
        refusal=preview.refusal,
        preview=preview,
    )


def discard_plan(visit: Visit, preview_id: str) -> DiscardPlan:
    """Removing one preview."""
    preview = find(visit.repository.root, preview_id, visit.now, visit.memo.previews)
    return DiscardPlan(
        operation="discard",
        expected_head=None,
        what=(
            f"The proposal is deleted: {counted(len(preview.changed_paths), 'changed file')}.",
            "Memory stays as it is.",
        ),
        git_words=("none: a preview is no part of Git",),
        way_back="There is none: what the preview proposed is gone.",
        confirm_word=None,
        refusal=busy(lock_fact(visit)),
        preview=preview_row(preview),
    )


def _clear_refusal(found: Look) -> Refusal | None:
    if found.obstacle is not None:
        obstacle = found.obstacle
        return refusal_of(ClearFailure("clear-failed", obstacle.sentence, detail=obstacle.detail))
    if not found.data_file_count and not found.dirty_paths:
        return refusal_of(ClearFailure("clear-failed", "Memory is empty already.", detail="already-empty"))
    return busy(found.lock)


def _ignored_count(visit: Visit) -> int:
    listed = visit.repository.git.run(
        "ls-files", "--others", "--ignored", "--exclude-standard", "-z", "--", *PAYLOAD
    )
    return listed.count(b"\0")


def _parts(*parts: tuple[str, int]) -> str:
    return ", ".join(f"{count:,} {words}" for words, count in parts if count) or "none"


def _short(commit: str | None) -> str:
    return "none" if commit is None else commit[:_SHORT]
