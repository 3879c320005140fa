"""Line counts and both sides of a change, between bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dsh_memory.inspection.changes import change_of, count_lines, diff_of

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n"]), max_size=12).map(b"".join)


@given(LINES, LINES)
def test_counts_add_up(old: bytes, new: bytes) -> None:
    added, removed = count_lines(old, new)
    before, after = len(old.splitlines()), len(new.splitlines())
    assert after - before == added - removed
    assert 0 <= added <= after and 0 <= removed <= before
    assert ((added, removed) == (0, 0)) == (old == new)


def test_a_line_in_the_middle() -> None:
    assert count_lines(b"a\nb\nc\n", b"a\nx\ny\nc\n") == (2, 1)


def test_a_missing_line_end_counts_as_a_changed_line() -> None:
    assert count_lines(b"a\nb", b"a\nb\n") == (1, 1)


def test_long_files_are_counted_without_their_order() -> None:
    old = b"".join(b"%d\n" % number for number in range(3000))
    new = b"".join(b"%d\n" % number for number in reversed(range(3001)))
    assert count_lines(old, new) == (1, 0)


def test_kinds_and_sizes() -> None:
    assert (change_of("x", None, b"a\n").kind, change_of("x", b"a\n", None).kind) == ("A", "D")
    change = change_of("x", b"a\n", b"bb\n")
    assert (change.kind, change.old_size, change.new_size) == ("M", 2, 3)


def test_binary_files_have_no_text() -> None:
    change, diff = change_of("x", b"a\n", b"\0"), diff_of("x", b"a\n", b"\0")
    assert (change.added, change.removed) == (None, None)
    assert diff.binary and diff.old is None and diff.new is None


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert diff_of("x", b"caf\xe9\n", None).old == "caf\ufffd\n"
