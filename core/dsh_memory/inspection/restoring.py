"""What bringing back one version of a record would do, said before it is done."""

from __future__ import annotations

from dsh_memory.errors import RestoreFailure
from dsh_memory.inspection.changes import diff_of
from dsh_memory.inspection.looking import busy, lock_fact, obstacle_of, refusal_of
from dsh_memory.inspection.plan_values import RestorePlan
from dsh_memory.inspection.plans import ROLL_BACK
from dsh_memory.inspection.values import Refusal
from dsh_memory.inspection.visiting import Visit
from dsh_memory.repository.restoring import Restoration, restoration
from dsh_memory.repository.view import payload_view

_SHORT = 7


def restore_plan(visit: Visit, path: str, commit: str) -> RestorePlan:
    """Writing a record as it was at a commit; raises RestoreFailure for what is no version of it."""
    wanted = restoration(visit.repository, path, commit, visit.now)
    old = next((data for data in wanted.before.values() if data is not None), None)
    what = [f"{wanted.place} gets the text it had in {wanted.commit[:_SHORT]}."]
    if any(data is None and wanted.before[place] is not None for place, data in wanted.after.items()):
        what.append("It moves back to the place it had then.")
    what.append("The text of now stays in Git.")
    return RestorePlan(
        operation="restore",
        expected_head=wanted.head,
        what=tuple(what),
        git_words=("git commit of this file above HEAD: DPSK memory write: <its own id>",),
        way_back=ROLL_BACK,
        confirm_word=None,
        refusal=_refusal(visit, wanted),
        path=wanted.place,
        commit=wanted.commit,
        diff=diff_of(wanted.place, old, wanted.after[wanted.place]),
    )


def _refusal(visit: Visit, wanted: Restoration) -> Refusal | None:
    payload = payload_view(visit.repository, visit.memo.records)
    obstacle = obstacle_of(visit, payload.head)
    if obstacle is not None:
        hint = "Mend it with Git, then restore."
        return Refusal("restore-refused", obstacle.detail, obstacle.sentence, hint)
    if not payload.dirty.isdisjoint(wanted.before):
        sentence = "The record was edited outside and is not saved."
        return refusal_of(RestoreFailure("restore-conflict", sentence, detail="dirty-payload"))
    if wanted.after == wanted.before:
        return Refusal("restore-refused", "no-change", "The record is as it was.", "There is nothing to do.")
    return busy(lock_fact(visit))
