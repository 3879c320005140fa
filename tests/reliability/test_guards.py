"""Every marked check can be broken by a rule; that a test fails then, `python -m tests.reliability.guards` shows."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.reliability.guards.breaking import Unbreakable, broken
from tests.reliability.guards.markers import PROJECT, find_markers, markers_of

MARKERS = find_markers()


def test_there_are_marks_and_no_two_have_one_name() -> None:
    assert len(MARKERS) > 100
    assert [name for name, count in Counter(marker.name for marker in MARKERS).items() if count > 1] == []


def test_every_marked_check_can_be_broken() -> None:
    defects = []
    for marker in MARKERS:
        source = (PROJECT / marker.file).read_text()
        try:
            assert broken(source, marker) != source, marker.name
        except Unbreakable as defect:
            defects.append(str(defect))
    assert defects == []


def breaking(source: str) -> str:
    [marker] = markers_of(source, "example.py")
    return broken(source, marker)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("# guard: a\nif x:\n    raise y\n", "# guard: a\nif False:\n    raise y\n"),
        ("if x:  # guard: a\n    raise y\n", "if False:  # guard: a\n    raise y\n"),
        ("if x:\n    # guard: a\n    raise y\n", "if x:\n    # guard: a\n    pass\n"),
        ("# guard: a (with\n# two lines)\nf(\n  x\n)\n", "# guard: a (with\n# two lines)\npass\n"),
        ("def f():\n    # guard: a\n    return 'ü' in x\n", "def f():\n    # guard: a\n    return True\n"),
        (
            "try:\n    f()\nexcept E:  # guard: a\n    g()\n    raise\n",
            "try:\n    f()\nexcept E:  # guard: a\n    pass\n",
        ),
        (
            "if x:\n    f()\n# guard: a\nelif y:\n    raise z\n",
            "if x:\n    f()\n# guard: a\nelif False:\n    raise z\n",
        ),
    ],
    ids=["if", "if beside its mark", "raise", "call", "predicate", "handler", "elif"],
)
def test_a_statement_is_broken_by_its_kind(source: str, expected: str) -> None:
    assert breaking(source) == expected


def test_a_statement_of_no_known_kind_is_a_defect() -> None:
    with pytest.raises(Unbreakable):
        breaking("# guard: a\nx = f()\n")
