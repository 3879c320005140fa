"""Changes of memory, from the wish to the word afterwards; nothing reaches the core unconfirmed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual.app import SuspendNotSupported

from dsh_memory_tui import acts, editing
from dsh_memory_tui.dialogs.confirm import ConfirmDialog, Question
from dsh_memory_tui.messages import Act, ActEnded, Failure, PlanRead, SourceRead

if TYPE_CHECKING:
    from dsh_memory_tui.app import MemoryApp


class Doing:
    """Leads one act at a time through its steps, for one application."""

    def __init__(self, app: MemoryApp) -> None:
        self._app = app
        self._asking = False
        self._edited: editing.Edited | None = None

    @property
    def _free(self) -> bool:
        # guard: acts-need-a-free-screen
        return not self._app.read_only and len(self._app.screen_stack) == 1

    def act_wanted(self, kind: str, params: dict[str, Any]) -> None:
        """Ask for the plan of an act; the switch alone needs none."""
        if not self._free or self._asking:
            return
        if kind == "enable":
            self.start(Act("enable", params, None, "switching"))
            return
        self._asking = True
        self._app.gateway.plan(kind, params)

    def plan_read(self, message: PlanRead) -> None:
        """Show the plan, and act once it is confirmed."""
        self._asking = False
        kind = acts.KINDS[message.kind]
        if message.plan is None:
            if message.failure is not None:
                self._app.show_failure(kind.title, message.failure)
            return
        # guard: no-dialog-over-a-dialog
        if not self._free:
            return
        plan = message.plan
        from dsh_memory.inspection import RecoverPlan

        if isinstance(plan, RecoverPlan) and plan.direction is None:
            self._app.say("There is nothing to recover.")
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.start(acts.act_of(message.kind, message.params, plan))
            else:
                self._app.log_line(f"{kind.title}: cancelled, nothing was done")

        self._app.push_screen(ConfirmDialog(Question(kind.title, kind.verb, plan)), answered)

    def start(self, act: Act) -> None:
        """Hand a confirmed act to the core."""
        self._app.log_line(act.doing)
        self._app.work_begins(act.doing)
        self._app.gateway.act(act)

    def act_ended(self, message: ActEnded) -> None:
        """Say what was done and how to undo it, or why it was not."""
        act = message.act
        title = acts.KINDS[act.kind].title
        failure = self._edit_ended(message.failure) if act.kind == "write" else message.failure
        if message.value is not None:
            words = acts.done_words(act, message.value)
            self._app.log_line(words.replace("\n", " "))
            self._app.say(words)
        elif failure is not None:
            self._app.log_line(f"{title}: {failure.code}")
            self._app.show_failure(title, failure)

    def edit_wanted(self, path: str) -> None:
        """Ask for the bytes of a record, for the editor."""
        if self._free:
            self._app.gateway.source(path)

    def source_read(self, message: SourceRead) -> None:
        """Open the editor on a private copy, and save what it left as a run."""
        app = self._app
        if message.data is None:
            if message.failure is not None:
                app.show_failure("Edit a record", message.failure)
            return
        if not self._free:
            return
        try:
            with app.suspend():
                edited = editing.edit(message.path, message.data)
        except SuspendNotSupported:
            app.say("An editor cannot be opened from this terminal.", severity="warning")
            return
        if edited.problem:
            edited.forget()
            app.show_failure("Edit a record", Failure("editor-failed", edited.problem, None, "Set $EDITOR."))
        elif not edited.changed:
            edited.forget()
            app.say("Nothing was changed.")
        else:
            self._edited = edited
            params = {"path": message.path, "old": edited.before, "new": edited.after}
            self.start(Act("write", params, None, "saving 1 file", "Runs, this run, R."))

    def _edit_ended(self, failure: Failure | None) -> Failure | None:
        """Forget the private copy once its text is applied; else say where it is kept."""
        edited, self._edited = self._edited, None
        if edited is None:
            return failure
        if failure is None:
            edited.forget()
            return None
        return replace(failure, hint=f"{failure.hint}\nYour text is kept in {edited.copy}".strip())
