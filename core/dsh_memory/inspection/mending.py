"""What migrating, recovering and saving would do, said before it is done."""

from __future__ import annotations

from collections.abc import Sequence

from dsh_memory.errors import InterruptedRun, MigrationFailure, hint_of
from dsh_memory.inspection.changes import change_of
from dsh_memory.inspection.looking import Look, busy, leftovers_of, lock_fact, look, obstacle_of, refusal_of
from dsh_memory.inspection.plan_values import Direction, MigratePlan, RecoverPlan, SavePlan
from dsh_memory.inspection.plans import ROLL_BACK
from dsh_memory.inspection.reviewing import MOST_BYTES, review_of
from dsh_memory.inspection.values import Refusal, ReviewWarning
from dsh_memory.inspection.visiting import Visit
from dsh_memory.inspection.wording import counted
from dsh_memory.records import Malformed
from dsh_memory.records.outline import Outline
from dsh_memory.repository.changes import StagedFile
from dsh_memory.repository.layout import Reader
from dsh_memory.repository.lock import ActiveRun, read_active_run
from dsh_memory.repository.objects import is_object_id, read_blobs
from dsh_memory.repository.refs import contains
from dsh_memory.repository.view import Head, payload_view, read_head

_NO_LOSS = "No byte is lost: what is neither its old nor its new text is kept beside the file."


def migrate_plan(visit: Visit) -> MigratePlan:
    """Giving legacy records front matter."""
    found = look(visit)
    paths = tuple(item.path for item in found.items if isinstance(item, Outline) and item.is_legacy)
    malformed = sum(isinstance(item, Malformed) for item in found.items)
    get = "gets" if len(paths) == 1 else "get"
    what = [f"{counted(len(paths), 'legacy record')} {get} front matter; no text changes."]
    if malformed:
        what.append(f"{counted(malformed, 'malformed file')} {'is' if malformed == 1 else 'are'} left alone.")
    return MigratePlan(
        operation="migrate",
        expected_head=found.head.commit,
        what=tuple(what),
        git_words=("git commit of the new headers above HEAD: DPSK memory sync applied: <its own id>",),
        way_back=ROLL_BACK,
        confirm_word=None,
        refusal=_migrate_refusal(found, len(paths)),
        paths=paths,
        malformed_count=malformed,
    )


def recover_plan(visit: Visit) -> RecoverPlan:
    """Ending a run whose process died."""
    head = read_head(visit.repository).commit
    run = read_active_run(visit.repository.root, visit.now)
    dead = run if run is not None and run.state == "interrupted" else None
    run_id, direction, what = _course(visit, dead, head)
    leftovers = leftovers_of(visit)
    if leftovers:
        what += (f"What dead processes left behind is cleared away: {counted(len(leftovers), 'thing')}.",)
    return RecoverPlan(
        operation="recover",
        expected_head=head,
        what=what,
        git_words=("git commit of the journal: DPSK memory recovered: <its own id>",),
        way_back="None is needed: every state in between stays in Git.",
        confirm_word=None,
        refusal=busy(lock_fact(visit)) if what else _refused("recover-refused", "No run was interrupted."),
        run_id=run_id,
        direction=direction,
        target_commit=None if dead is None else dead.target_commit,
        recovery_commit=None if dead is None else dead.recovery_commit,
    )


def _course(
    visit: Visit, dead: ActiveRun | None, head: str | None
) -> tuple[str | None, Direction | None, tuple[str, ...]]:
    """Which run will be ended, which way it goes, and that in sentences."""
    if dead is None:
        journaled = visit.journal.state().interrupted
        if journaled is None:
            return None, None, ()
        sentence = f"{journaled.operation} {journaled.run_id} is marked as resolved in the journal."
        return journaled.run_id, "journal-only", (sentence,)
    run = f"{dead.operation} {dead.run_id}"
    # The id comes from a file that other programs write.
    if not is_object_id(dead.target_commit, visit.repository.object_format):
        sentence = f"{run} is journaled as interrupted; what it left in the files stays."
        return dead.run_id, "journal-only", (sentence,)
    if head is not None and contains(visit.repository.git, head, str(dead.target_commit)):
        return dead.run_id, "forward", (f"{run} had reached Git: its files are finished.", _NO_LOSS)
    sentence = f"{run} had not reached Git: its files go back to what they were."
    return dead.run_id, "back", (sentence, _NO_LOSS)


def save_plan(visit: Visit) -> SavePlan:
    """Committing what editors left in the work tree."""
    payload = payload_view(visit.repository, visit.memo.records)
    paths = sorted(payload.dirty)
    committed = read_blobs(
        visit.repository.git, [payload.committed[path].blob for path in paths if path in payload.committed]
    )
    files = []
    with Reader(visit.repository.root) as live:
        for path in paths:
            old = committed[payload.committed[path].blob] if path in payload.committed else None
            new = live.read(path, MOST_BYTES) if path in payload.files else None
            files.append(StagedFile(path, old, new))
    problems = review_of(visit, files, limited=False)
    blocking = [problem for problem in problems if problem.blocking]
    return SavePlan(
        operation="save",
        expected_head=payload.head.commit,
        what=(
            f"{counted(len(files), 'file')} edited outside {'is' if len(files) == 1 else 'are'} committed.",
        ),
        git_words=("git commit of these files above HEAD: DPSK memory write: <its own id>",),
        way_back=ROLL_BACK,
        confirm_word=None,
        refusal=_save_refusal(visit, payload.head, len(files), blocking),
        files=tuple(change_of(file.path, file.old, file.new) for file in files),
        problems=problems,
    )


def _refused(code: str, sentence: str) -> Refusal:
    return Refusal(code, "no-change", sentence, "There is nothing to do.")


def _migrate_refusal(found: Look, legacy_count: int) -> Refusal | None:
    if found.active_run is not None and found.active_run.interrupted:
        sentence = "A run was interrupted; recover it first."
        return refusal_of(InterruptedRun(sentence, detail=found.active_run.run_id))
    if found.obstacle is not None:
        obstacle = found.obstacle
        return refusal_of(MigrationFailure("migration-failed", obstacle.sentence, detail=obstacle.detail))
    if not legacy_count:
        return refusal_of(
            MigrationFailure("migration-failed", "There is no legacy record.", detail="no-change")
        )
    return busy(found.lock)


def _save_refusal(
    visit: Visit, head: Head, file_count: int, blocking: Sequence[ReviewWarning]
) -> Refusal | None:
    obstacle = obstacle_of(visit, head)
    if obstacle is not None:
        return Refusal("save-refused", obstacle.detail, obstacle.sentence, "Mend it with Git, then save.")
    if not file_count:
        return _refused("save-refused", "Nothing was edited outside.")
    if blocking:
        problem = blocking[0]
        hint = hint_of(problem.kind) or "Mend the file, then save."
        return Refusal(problem.kind, problem.path, f"It would be refused: {problem.sentence}.", hint)
    return busy(lock_fact(visit))
