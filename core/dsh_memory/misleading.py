"""What in a text could mislead a model, or the person who reviews it: hints, never a verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from dsh_memory.hosts.prompt import disarmed
from dsh_memory.text import visible


class Hint(NamedTuple):
    """`kind` is hidden-text, forged-mark or poses-as-instruction; `line` is 1-based; `sentence` has no full stop."""

    kind: str
    line: int
    sentence: str


#: The kinds that no honest note needs: an agent's change that holds one waits for a person.
NEVER_HONEST: Final = frozenset({"hidden-text", "forged-mark"})

# What opens a turn for the chat models there are.
_TURN: Final = re.compile(
    r"<\|[a-z_]{2,20}\|>|\[/?INST\]|<</?SYS>>|</?(?:system|assistant|developer|tool_results?|function_calls?)\b"
    r"|^\W*(?:system|assistant|developer)(?: prompt| message)?\s*:",
    re.I | re.M,
)
_ORDER: Final = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,30}\b(?:previous|prior|above|earlier|preceding|other)\b.{0,30}"
    r"\b(?:instruction|rule|prompt|message|guideline)s?\b"
    r"|\b(?:do not|don't|never) (?:tell|show|mention (?:this|it)|reveal (?:this|it)) (?:to )?the user\b"
    r"|\bnew (?:system )?instructions?\s*:",
    re.I,
)
#: A citation is what the program itself puts beside a record that it answers with.
_CITATION: Final = re.compile(r"\[source:[^\]\n]{0,300}\bid:", re.I)


def hints_of(lines: Sequence[tuple[int, str]]) -> list[Hint]:
    """The hints about numbered lines, at most one of a kind for each."""
    text = "\n".join(line for _, line in lines)
    # A forged mark may go over several lines; its first one is named.
    harmless = disarmed(text)
    if harmless == text and not _needs_a_look(text):
        return []
    return [
        hint
        for (number, line), other in zip(lines, harmless.split("\n"), strict=True)
        for hint in _hints(number, line, forged=line != other)
    ]


def _needs_a_look(text: str) -> bool:
    """Whether some line may give a hint: asked of all at once, since almost all give none."""
    unbroken = text.replace("\n", " ").replace("\r", " ").replace("\t", " ")
    return visible(unbroken) != unbroken or any(each.search(text) for each in (_TURN, _ORDER, _CITATION))


def new_lines(old: bytes | None, new: bytes) -> list[tuple[int, str]]:
    """The lines of a text that the one before it does not have, with their numbers."""
    known = frozenset((old or b"").split(b"\n"))
    return [
        (number, line.decode("utf-8", "replace"))
        for number, line in enumerate(new.split(b"\n"), 1)
        if line not in known
    ]


def _hints(number: int, line: str, *, forged: bool) -> Iterator[Hint]:
    text = line.removesuffix("\r").replace("\t", " ")
    if number == 1:
        text = text.removeprefix("\ufeff")
    shown = visible(text)
    if shown != text:
        yield Hint("hidden-text", number, "holds characters that a reader does not see")
    if forged or _CITATION.search(text):
        yield Hint("forged-mark", number, "imitates a mark that the program itself writes")
    if _TURN.search(text) or _ORDER.search(text):
        yield Hint("poses-as-instruction", number, "reads like an instruction to a model")
