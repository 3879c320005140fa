"""The commands that change memory: asked for on a terminal, or confirmed by an option."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dsh_memory.cli.invocation import Invocation
from dsh_memory.cli.output import FAILED, answer, emit, exit_code, fail
from dsh_memory.cli.tables import outcome

if TYPE_CHECKING:
    from dsh_memory.inspection import Plan
    from dsh_memory.service import Envelope

#: Does what was confirmed; bound to the commit that the plan was made for, where there was a plan.
Act = Callable[[str | None], "Envelope"]

_CLEAR = "DELETE_MEMORY"
_ROLL_BACK = "ROLLBACK_MEMORY"
# The detail of a plan that would change nothing: the act itself says so, and there is nothing to ask.
_NOTHING_TO_DO = "no-change"


def clear(call: Invocation) -> int:
    """`dsh-memory clear`: empties the memory; asked for twice."""
    given = call.arguments.confirm
    value = _CLEAR if given is None else given
    return _change(
        call,
        confirmed_by=f"--confirm {_CLEAR}",
        plan=None if given is not None else lambda: call.inspector.clear_plan(),
        act=lambda head: call.service.clear(value, expected_head=head),
    )


def rollback(call: Invocation) -> int:
    """`dsh-memory rollback RUN`: undoes one run by a new commit; asked for twice."""
    run_id, given = call.arguments.run_id, call.arguments.confirm
    value = _ROLL_BACK if given is None else given
    return _change(
        call,
        confirmed_by=f"--confirm {_ROLL_BACK}",
        plan=None if given is not None else lambda: call.inspector.rollback_plan(run_id),
        act=lambda head: call.service.rollback(run_id, value, expected_head=head),
    )


def apply_preview(call: Invocation) -> int:
    """`dsh-memory preview apply ID`: makes a preview's changes, as a journaled run."""
    preview_id = call.arguments.preview_id
    return _change(
        call,
        confirmed_by="--yes",
        plan=None if call.arguments.yes else lambda: call.inspector.apply_plan(preview_id),
        act=lambda head: call.service.apply_preview(preview_id, expected_head=head),
    )


def discard_preview(call: Invocation) -> int:
    """`dsh-memory preview discard ID`: removes a preview without applying it."""
    preview_id = call.arguments.preview_id
    return _change(
        call,
        confirmed_by="--yes",
        plan=None if call.arguments.yes else lambda: call.inspector.discard_plan(preview_id),
        act=lambda _: call.service.discard_preview(preview_id),
    )


def restore(call: Invocation) -> int:
    """`dsh-memory restore PATH COMMIT`: brings back one version of a record, as a journaled run."""
    path, commit = call.arguments.path, call.arguments.commit
    return _change(
        call,
        confirmed_by="--yes",
        plan=None if call.arguments.yes else lambda: call.inspector.restore_plan(path, commit),
        act=lambda head: call.service.restore_record(path, commit, expected_head=head),
    )


def migrate(call: Invocation) -> int:
    """`dsh-memory migrate`: gives legacy records front matter, or with `--dry-run` says which."""
    dry_run = call.arguments.dry_run
    return _change(
        call,
        confirmed_by="--yes, or --dry-run to look only",
        plan=None if dry_run or call.arguments.yes else lambda: call.inspector.migrate_plan(),
        act=lambda head: call.service.call("memory.migrateLegacy", {"dryRun": dry_run}, expected_head=head),
    )


def recover(call: Invocation) -> int:
    """`dsh-memory recover`: finishes or undoes a run whose process died."""
    return _change(
        call,
        confirmed_by="--yes",
        plan=None if call.arguments.yes else lambda: call.inspector.recover_plan(),
        act=lambda _: call.service.recover(),
    )


def save(call: Invocation) -> int:
    """`dsh-memory save`: commits what editors left in the memory, as a journaled run."""
    return _change(
        call,
        confirmed_by="--yes",
        plan=None if call.arguments.yes else lambda: call.inspector.save_plan(),
        act=lambda head: call.service.save(call.arguments.message, expected_head=head),
    )


def _change(call: Invocation, *, confirmed_by: str, plan: Callable[[], Plan] | None, act: Act) -> int:
    """Asks by the plan (None: an option confirmed it already), acts, and shows what came of it."""
    head = None
    if plan is not None:
        from dsh_memory.cli import asking

        asking.require_terminal(confirmed_by)
        shown = plan()
        why = shown.refusal
        if why is not None and why.detail != _NOTHING_TO_DO:
            return fail(why.code, why.sentence, why.detail, as_json=call.wants_json, hint=why.hint)
        if why is None and not asking.confirm(shown):
            return FAILED
        head = shown.expected_head
    envelope = act(head)
    if value := answer(call, envelope):
        emit(*outcome(value))
    return exit_code(envelope)
