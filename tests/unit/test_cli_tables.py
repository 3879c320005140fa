"""Aligned text: columns by terminal cells, and nothing foreign that acts."""

from __future__ import annotations

import pytest

from dsh_memory.cli.tables import cell, facts, outcome, table, width


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("", 0),
        ("abc", 3),
        ("漢字", 4),
        ("ｆｗ", 4),
        ("한글", 4),
        ("e\u0301", 1),
        ("é", 1),
        ("🤭", 2),
        ("a\u200db", 2),
    ],
)
def test_width_is_in_terminal_cells(text: str, cells: int) -> None:
    assert width(text) == cells


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, ""), (True, "yes"), (False, "no"), (0, "0"), ("a\nb\x1b", "a\\nb\\x1b"), ("", ""), (1.5, "1.5")],
)
def test_cell(value: object, shown: str) -> None:
    assert cell(value) == shown


def test_columns_are_aligned_and_numbers_stand_right() -> None:
    assert table(("name", "n", "note"), [("漢字", 7, None), ("plain", 1234, "x")], right=(1,)) == [
        "name      n  note",
        "漢字      7",
        "plain  1234  x",
    ]


def test_a_table_without_rows_is_its_head() -> None:
    assert table(("a", "b"), []) == ["a  b"]


def test_facts() -> None:
    assert facts([("one", 1), ("longer", None), ("x", "\x1b")]) == ["one     1", "longer", "x       \\x1b"]
    assert facts([]) == []


def test_outcome_names_keys_in_words() -> None:
    value = {"clearedFileCount": 6, "apply_commit": None, "changedPaths": ["a", "b"], "alreadyEmpty": False}
    assert outcome(value) == [
        "cleared file count  6",
        "apply commit        none",
        "changed paths       a",
        "changed paths       b",
        "already empty       no",
    ]
