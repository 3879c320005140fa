"""The confirmation: what will happen, then, for what destroys, a word to type; only then yes."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input

from dsh_memory import visible
from dsh_memory_tui.dialogs.dialog import Choice, Dialog, Reading, choices
from dsh_memory_tui.frame import Bar
from dsh_memory_tui.widgets.diff import unified
from dsh_memory_tui.widgets.field import Field
from dsh_memory_tui.widgets.lines import EMPTY, Line, Piece, heading, line, wrap
from dsh_memory_tui.widgets.rows import Fixed

if TYPE_CHECKING:
    from dsh_memory.inspection import Plan

#: After a step appears, its choices take nothing for this long: what was pressed before it stood is spent.
ARM_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a title, the button's verb, and the plan behind it."""

    title: str
    verb: str
    plan: Plan

    @property
    def steps(self) -> int:
        """Two where a word is to be typed."""
        return 2 if self.plan.confirm_word else 1


class WordInput(Field):
    """Takes typed characters only: pasted text is refused with a word about it."""

    def _on_paste(self, event: events.Paste) -> None:
        # guard: paste-refused
        event.stop()
        event.prevent_default()
        screen = self.screen
        if isinstance(screen, ConfirmDialog):
            screen.say("Pasted text does not count: type the word.")

    def action_paste(self) -> None:
        """The clipboard of the terminal does not count either."""
        screen = self.screen
        if isinstance(screen, ConfirmDialog):
            screen.say("Pasted text does not count: type the word.")


class PlanLines(Reading):
    """What the act will do; tab stops there only where it has to be scrolled."""

    def allow_focus(self) -> bool:
        return super().allow_focus() and self.max_scroll_y > 0


class ConfirmDialog(Dialog[bool]):
    """Asks once or twice; answers True once at most, and only for the HEAD that was shown."""

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question
        self.step = 1
        self._shown_at = 0.0
        self._answered = False
        self._changed = False

    def frame(self) -> ComposeResult:
        yield Bar(id="dialog-title")
        yield PlanLines()
        with Horizontal(id="word-row"):
            yield Bar(id="word-label")
            yield WordInput(id="word")
        yield Bar(id="dialog-note")
        if self.question.plan.refusal is not None:
            yield choices(Choice("Close", id="cancel"))
        else:
            first = "Continue…" if self.question.steps == 2 else self.question.verb
            yield choices(
                Choice("Cancel", id="cancel"),
                Choice(first, id="continue"),
                Choice(self.question.verb, id="confirm"),
            )

    def on_mount(self) -> None:
        if self.question.plan.refusal is None:
            self.query_one("#confirm").display = False
        self.query_one("#word-row").display = False
        self._show_step()
        self.query_one("#cancel").focus()

    def say(self, words: str) -> None:
        """A word about a key that did nothing."""
        self.query_one("#dialog-note", Bar).show_parts([(None, (Piece(words, "attention"),))])

    def head_is(self, head: str | None) -> None:
        """Tell the dialog where HEAD is now; a plan made for another one is void."""
        expected = self.question.plan.expected_head
        # guard: head-moved
        if self._changed or expected is None or head == expected or self.question.plan.refusal is not None:
            return
        self._changed = True
        self.query_one("#word-row").display = False
        self.query_one("#continue").display = self.query_one("#confirm").display = False
        self.query_one("#cancel").focus()
        self._title("")
        self._lines(
            [
                line(("Memory changed in between.", "attention")),
                EMPTY,
                line("Nothing was done. What this dialog said may no longer be so:"),
                line("close it and look again."),
            ]
        )
        self.say("")

    @on(Choice.Pressed, "#cancel")
    def _cancel(self) -> None:
        self._answer(False)

    @on(Choice.Pressed, "#continue")
    def _continue(self) -> None:
        if not self._armed():
            return
        if self.question.steps == 2:
            self._to_step_two()
        else:
            self._answer(True)

    @on(Choice.Pressed, "#confirm")
    def _confirm(self) -> None:
        if self._armed() and self._word_is_right():
            self._answer(True)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        # guard: word-complete
        if not self._word_is_right():
            self.say(f"Not yet: the word is {self.question.plan.confirm_word}")
        elif self._armed():
            self._answer(True)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self.query_one("#confirm").disabled = not self._word_is_right()
        if event.value:
            self.say("")

    def on_key(self, event: events.Key) -> None:
        if event.is_printable and not isinstance(self.focused, Input) and not self._changed:
            event.stop()
            self.say(
                f"{visible(event.character or '')} does nothing here: tab moves, enter takes, esc leaves."
            )

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        word = self.query_one("#word", Input)
        if self.step == 2 and word.value and not self._changed:
            # What was typed for another view of the dialog is not carried over.
            word.value = ""
            self.say("The window changed: type the word again.")

    def action_leave(self) -> None:
        self._answer(False)

    def _to_step_two(self) -> None:
        self.step = 2
        self.query_one("#word-row").display = True
        self.query_one("#continue").display = False
        confirm = self.query_one("#confirm")
        confirm.display = True
        confirm.disabled = True
        self._show_step()
        self.query_one("#word").focus()

    def _show_step(self) -> None:
        self._shown_at = monotonic()
        question = self.question
        refused = question.plan.refusal is not None
        self._title(f"step {self.step} of {question.steps}" if question.steps == 2 and not refused else "")
        self.say("")
        if self.step == 1:
            self.query_one(Reading).show(lambda width: _fixed(plan_lines(question.plan, width)), top=True)
        else:
            word = question.plan.confirm_word or ""
            self._lines(
                [line("Type  ", (word, "strong"), "  to go on; enter counts once it is complete."), EMPTY]
            )
            self.query_one("#word-label", Bar).show_parts([(None, (Piece("› ", "accent"),))])

    def _title(self, note: str) -> None:
        text = visible(self.question.title)
        bar = self.query_one("#dialog-title", Bar)
        bar.show(lambda _width: _fixed([line((text, "strong"), right=[(note, "muted")] if note else ())]))

    def _lines(self, lines: list[Line]) -> None:
        self.query_one(Reading).show(lambda _width: _fixed(lines), top=True)

    def _word_is_right(self) -> bool:
        word = self.question.plan.confirm_word
        return word is not None and self.query_one("#word", Input).value == word

    def _armed(self) -> bool:
        # guard: armed
        return not self._changed and not self.too_small and monotonic() - self._shown_at >= ARM_SECONDS

    def _answer(self, answer: bool) -> None:
        # guard: one-answer
        if self._answered:
            return
        self._answered = True
        self.dismiss(answer)


def plan_lines(plan: Plan, width: int) -> list[Line]:
    """A plan in sentences: what will happen, the same in Git words, the way back; or why it cannot be."""
    lines: list[Line] = []
    if plan.refusal is not None:
        lines.extend(line((part, "danger")) for part in wrap(visible(plan.refusal.sentence), width))
        lines.append(EMPTY)
        lines.extend(line((part, "muted")) for part in wrap(visible(plan.refusal.hint), width))
        code = plan.refusal.code + (f" ({visible(plan.refusal.detail)})" if plan.refusal.detail else "")
        return [*lines, EMPTY, line((code, "muted"))]
    for sentence in plan.what:
        lines.extend(line(part) for part in wrap(visible(sentence), width))
    from dsh_memory.inspection import RestorePlan

    if isinstance(plan, RestorePlan):
        lines.extend((EMPTY, heading("What changes"), *unified(plan.diff, width)[0]))
    if plan.git_words:
        lines.extend((EMPTY, heading("In Git")))
        for words in plan.git_words:
            lines.extend(
                line(("  " if index else "", "muted"), (part, "muted"))
                for index, part in enumerate(wrap(visible(words), width - 2))
            )
    if plan.way_back:
        lines.extend((EMPTY, heading("The way back")))
        lines.extend(line(part) for part in wrap(visible(plan.way_back), width))
    return lines


def _fixed(lines: list[Line]) -> Fixed:
    return Fixed(tuple((None, content) for content in lines))
