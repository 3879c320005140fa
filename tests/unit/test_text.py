"""Foreign text before it reaches a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_memory.text import visible

any_text = st.text(st.characters(exclude_categories=()), max_size=60)


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        (
            "plain text, tags: [a] [/b] [@click=app.quit]x[/]",
            "plain text, tags: [a] [/b] [@click=app.quit]x[/]",
        ),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("a\x00b\x7fc\x9bd\x85e", "a\\x00b\\x7fc\\x9bd\\x85e"),
        ("one\ntwo\rthree\tfour", "one\\ntwo\\rthree\\tfour"),
        ("evil\u202egpj.exe\u202c", "evil\\u202egpj.exe\\u202c"),
        ("\u200e\u200f\u061c\u2066x\u2069", "\\u200e\\u200f\\u061c\\u2066x\\u2069"),
        ("a\u200bb\u200cc\u200dd\u2060e\ufefff", "a\\u200bb\\u200cc\\u200dd\\u2060e\\ufefff"),
        ("line\u2028paragraph\u2029", "line\\u2028paragraph\\u2029"),
        ("tag\U000e0041\U000e007f", "tag\\U000e0041\\U000e007f"),
        ("x\ufe01\U000e0100y\u3164", "x\\ufe01\\U000e0100y\\u3164"),
        ("caf\udce9.md", "caf\\xe9.md"),
        ("\ud800 \udfff", "\\ud800 \\udfff"),
        ("漢字　かな, naïve\u00a0é, e\u0301", "漢字　かな, naïve\u00a0é, e\u0301"),
        ("👩\u200d💻 ❤\ufe0f\u200d🔥 👍🏽", "👩\u200d💻 ❤\ufe0f\u200d🔥 👍🏽"),
        ("a\ufe0f\u200d💻", "a\\ufe0f\\u200d💻"),
        ("\u200d💻\u200d", "\\u200d💻\\u200d"),
        ("already \\x1b escaped", "already \\x1b escaped"),
    ],
)
def test_shows_what_would_act_or_hide(foreign: str, shown: str) -> None:
    assert visible(foreign) == shown


def test_kept_newlines_give_lines_a_terminal_can_show() -> None:
    assert visible("a\r\n\tb\nc\rd\x1b[2J", keep_newlines=True) == "a\n    b\nc\\rd\\x1b[2J"


@settings(max_examples=300)
@given(any_text, st.booleans())
def test_any_text_becomes_inert_and_stays_as_it_is(text: str, keep_newlines: bool) -> None:
    shown = visible(text, keep_newlines=keep_newlines)
    shown.encode()
    assert visible(shown, keep_newlines=keep_newlines) == shown
    unprintable = {char for char in shown if not char.isprintable() and unicodedata.category(char) != "Zs"}
    assert unprintable <= ({"\n", "\u200d"} if keep_newlines else {"\u200d"})


def test_printable_text_is_returned_as_it_is() -> None:
    text = "好 résumé " * 1000
    assert visible(text) is text
