"""The flat grammar, and single fields changed in place (spec/repository.md, cases A)."""

from __future__ import annotations

import difflib
import subprocess
import sys
import time
from contextlib import suppress

import frontmatter
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dsh_memory.records import FrontMatterError, edit, parse, render, split
from dsh_memory.records.frontmatter import CANONICAL_ORDER, MAX_HEADER_BYTES
from dsh_memory.records.handler import FlatHandler

PROJECT = b"""\
---
# kept as a person wrote it
schema_version: 1
id: project/codegen
title:   "A: b"
type: decision

tags: ["#a", '*b', "|c"]
source_rollouts:
    - rollouts/a.md
    # the second one
    - 'rollouts/b.md'
content: x
handler: y
---

  Body.
---
not a fence any more
"""


def values(header: str) -> dict[str, object]:
    return parse(f"---\n{header}\n---\n".encode()).values


def fault(header: str) -> FrontMatterError:
    with pytest.raises(FrontMatterError) as caught:
        parse(f"---\n{header}\n---\n".encode())
    return caught.value


# --- fences -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "header", "body"),
    [
        (b"---\na: b\n---\nbody\n", b"a: b\n", b"body\n"),
        (b"---\r\na: b\r\n---\r\nbody\r\n", b"a: b\r\n", b"body\r\n"),
        (b"\xef\xbb\xbf---\na: b\n---\nbody", b"a: b\n", b"body"),
        (b"---\na: b\n---", b"a: b\n", b""),
        (b"---\n---\n", b"", b""),
        (b"---\n---", b"", b""),
        (b"---\r\n---\r\n\r\n x", b"", b"\r\n x"),
        (b"---\n----\n --- \n---x\n---\n---\n", b"----\n --- \n---x\n", b"---\n"),
        (b"----\na: b\n----\n", None, b"----\na: b\n----\n"),
        (b"--- \na: b\n---\n", None, b"--- \na: b\n---\n"),
        (b"---\na: b\n--- \nbody", None, b"---\na: b\n--- \nbody"),
        (b"---\na: b\n", None, b"---\na: b\n"),
        (b"\n---\na: b\n---\n", None, b"\n---\na: b\n---\n"),
        (b"---", None, b"---"),
        (b"", None, b""),
    ],
)
def test_only_an_exact_fence_encloses_front_matter(data: bytes, header: bytes | None, body: bytes) -> None:
    parts = split(data)
    assert (parts.header, parts.body) == (header, body)


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from([b"---", b"\n", b"\r\n", b"\r", b"-", b" ", b"a: b", b"\xef\xbb\xbf", b"\xff"]))
)
def test_the_parts_of_any_file_join_to_the_same_bytes(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    parts = split(data)
    assert b"".join((parts.bom, parts.opening, parts.header or b"", parts.closing, parts.body)) == data


# --- values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed_text", "value"),
    [
        ("Re: hi", "Re: hi"),
        ("10:00", "10:00"),
        ("no", "no"),
        ("013", "013"),
        ("1e3", "1e3"),
        ("+5", "+5"),
        (".5", ".5"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("2026-08-10", "2026-08-10"),
        ("True", "True"),
        ("a # b", "a # b"),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("-12", -12),
        ("0", 0),
        ("1.50", 1.5),
        ("9" * 19, "9" * 19),
        ('"a: \\"b\\" \\u00e9\\n"', 'a: "b" é\n'),
        ("'it''s'", "it's"),
        ("'tis the season", "'tis the season"),
        ('"Bob" the builder', '"Bob" the builder'),
        ('"x" # y', '"x" # y'),
        ('""', ""),
        ("[]", []),
        ("[ ]", []),
        ("{}", []),
        ("", []),
        ("[a, 10:00, 013, 'b, c', \"d\", 5]", ["a", "10:00", "013", "b, c", "d", 5]),
        ("[draft] title", "[draft] title"),
        ("[a] and [b]", "[a] and [b]"),
        ("[a,,b]", "[a,,b]"),
        ('[{"a": [1]}]', [{"a": [1]}]),
        ('{"a": {"b": [1, null, "é"]}}', {"a": {"b": [1, None, "é"]}}),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": 1e999}', '{"a": 1e999}'),
        ('{"a": "\\ud800"}', '{"a": "\\ud800"}'),
        ("{{date}} $& {0} %s", "{{date}} $& {0} %s"),
        ("|c", "|c"),
        ("> quoted", "> quoted"),
        ("& co", "& co"),
        ("a\u2028b\x0bc\x85d", "a\u2028b\x0bc\x85d"),
        ("\u00a0x\u00a0", "\u00a0x\u00a0"),
    ],
)
def test_a_value_is_what_the_flat_grammar_says(typed_text: str, value: object) -> None:
    read = values(f"key: {typed_text}")["key"]
    assert read == value
    assert type(read) is type(value)


def test_lists_comments_and_blank_lines() -> None:
    header = "a:\n  - x: y\n\n  # note\n\t- 'z'\n  -\n# more\nb: []\n  - 1\nc:d\nsome key : e\n名: f\n-x: g"
    assert values(header) == {
        "a": ["x: y", "z", ""],
        "b": [1],
        "c": "d",
        "some key": "e",
        "名": "f",
        "-x": "g",
    }


@pytest.mark.parametrize(
    ("header", "line", "column", "words"),
    [
        ("a: 1\nid: x\nid: y", 4, 1, "twice"),
        ("id:\tx", 2, 4, "tab"),
        ("id: \tx", 2, 5, "tab"),
        ("a: |", 2, 4, "text block"),
        ("a: >-", 2, 4, "text block"),
        ("a: |2 # note", 2, 4, "text block"),
        ("a:\n  - |", 3, 5, "text block"),
        ("a: &x y", 2, 4, "anchor"),
        ("a: *x", 2, 4, "alias"),
        ("a: !!str x", 2, 4, "tag"),
        ("a: [x, *y]", 2, 4, "alias"),
        ("a:\n  - !x", 3, 5, "tag"),
        ("<<: *x", 2, 5, "alias"),
        ("1: x", 2, 1, "not a text"),
        ("true: x", 2, 1, "not a text"),
        ("~: x", 2, 1, "not a text"),
        ('"id": x', 2, 1, "plain text"),
        ("? x: y", 2, 1, "plain text"),
        ("[a]: x", 2, 1, "plain text"),
        (": x", 2, 1, "no key"),
        ("a: b\nno colon here", 3, 1, "no colon"),
        ("-x", 2, 1, "no colon"),
        ("a:\n- x", 3, 1, "indented"),
        ("a:\n- x: y", 3, 1, "indented"),
        ("a:\n  b: c", 3, 3, "indented"),
        ("a: b\n  c", 3, 3, "indented"),
        ("a: b\n  - c", 3, 3, "starts no list"),
        ("a: [b]\n  - c", 3, 3, "starts no list"),
        ("  - c", 2, 3, "starts no list"),
        ("a:\n  -x", 3, 3, "indented"),
        ('a: "b" "c"', 2, 4, "quoted"),
        ('a: "\\q"', 2, 4, "quoted"),
        ('a: "\\ud800"', 2, 4, "quoted"),
        ("a: 'b'c'", 2, 4, "quoted"),
    ],
)
def test_a_structural_fault_is_named_with_its_place(header: str, line: int, column: int, words: str) -> None:
    error = fault(header)
    assert (error.code, error.line, error.column) == ("invalid-metadata", line, column)
    assert words in error.message


def test_a_header_over_the_limit_is_refused_with_the_line_that_crosses_it() -> None:
    lines = "".join(f"key{number}: {'x' * 90}\n" for number in range(800))
    error = fault(lines)
    assert error.code == "invalid-metadata"
    assert error.line == lines.encode()[:MAX_HEADER_BYTES].count(b"\n") + 2
    assert parse(f"---\na: {'x' * (MAX_HEADER_BYTES - 4)}\n---\n".encode()).values


@pytest.mark.parametrize(
    "unit",
    ["- a\n", "  - a\n", "a'", '["', "[,", "{", "[[", '\\"', " ", "\t", "---", "\r", ":", "'a',", "|", "é#"],
)
@pytest.mark.parametrize("before", ["a: ", "a: [", "a:\n", 'a: "', "a: {"])
def test_no_header_takes_more_than_linear_time(unit: str, before: str) -> None:
    header = before + unit * ((MAX_HEADER_BYTES - 8) // len(unit.encode())) + "]"
    started = time.process_time()
    with suppress(FrontMatterError):
        parse(f"---\n{header}\n---\n".encode())
    # A quadratic step over 64 KiB costs many seconds; the linear ones stay below a tenth of this bound.
    assert time.process_time() - started < 2


# --- python-frontmatter -----------------------------------------------------------------------------------


def test_the_handler_serves_python_frontmatter_with_the_same_grammar() -> None:
    post = frontmatter.loads("---\nid: no\nat: 10:00\ntags: ['#a', b]\n---\nBody.", handler=FlatHandler())
    assert post.metadata == {"id": "no", "at": "10:00", "tags": ["#a", "b"]}
    post.content = "\n  Body.\n\n"
    text = frontmatter.dumps(post, handler=FlatHandler())
    assert text == '---\nid: no\nat: 10:00\ntags:\n  - "#a"\n  - b\n---\n\n  Body.\n\n'
    assert frontmatter.loads("----\nid: x\n----\n", handler=FlatHandler()).metadata == {}


def test_reading_records_loads_neither_yaml_nor_python_frontmatter() -> None:
    code = (
        "import sys; from dsh_memory.records import read_record;"
        "read_record('a.md', b'---\\nid: x\\n---\\n');"
        "print(sorted({'frontmatter', 'yaml', 'git', 'pydantic'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


# --- writing ----------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    [
        "Re: hi",
        "10:00",
        "no",
        "013",
        "5",
        "1.5",
        "true",
        "null",
        "~",
        "[a]",
        "{}",
        "- x",
        "# x",
        "a #b",
        "'",
        '"',
    ]
)
scalars = (
    texts
    | st.none()
    | st.booleans()
    | st.integers(-(10**18) + 1, 10**18 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: 1e-9 < abs(number) < 1e15)
)
objects = st.dictionaries(texts, scalars | st.lists(scalars, max_size=2), min_size=1, max_size=3)
field_values = scalars | st.lists(scalars, max_size=4) | objects | st.lists(objects, min_size=1, max_size=2)
keys = st.sampled_from([*CANONICAL_ORDER, "content", "handler", "memory_path", "名"])
bodies = st.binary(max_size=30)


@settings(max_examples=200)
@given(st.dictionaries(keys, field_values, max_size=6), bodies, st.sampled_from([b"\n", b"\r\n"]))
def test_what_is_rendered_is_read_again(fields: dict[str, object], body: bytes, newline: bytes) -> None:
    data = render(fields, body, newline=newline)
    header = parse(data)
    assert header.values == fields
    assert header.split.body == body
    assert render(header.values, body, newline=newline) == data


def test_rendering_follows_the_canonical_order_and_quotes_where_needed() -> None:
    fields = {
        "x": "Re: hi",
        "tags": ["#a", "b c"],
        "id": "project/a",
        "schema_version": 1,
        "created_by": "no",
    }
    rendered = render({**fields, "meta": {"k": "é"}, "created_at": "2026-08-10"}, b"B")
    assert rendered.decode() == (
        '---\nschema_version: 1\nid: project/a\ncreated_at: 2026-08-10\ncreated_by: no\ntags:\n  - "#a"\n'
        '  - b c\nx: "Re: hi"\nmeta: {"k": "é"}\n---\nB'
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"a": "\ud800"},
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": 10**18},
        {"a": b"x"},
        {"a": {}},
        {"a:b": "x"},
        {"": "x"},
        {"- a": "x"},
        {"#a": "x"},
        {"a\nb": "x"},
        {"true": "x"},
        {"a": {"b": float("nan")}},
    ],
)
def test_what_the_grammar_cannot_hold_is_not_written(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        render(fields, b"")


# --- changing single fields -------------------------------------------------------------------------------


def changed_lines(old: bytes, new: bytes) -> list[bytes]:
    lines = difflib.diff_bytes(difflib.unified_diff, old.split(b"\n"), new.split(b"\n"), n=0, lineterm=b"")
    return [line for line in lines if not line.startswith((b"---", b"+++", b"@@"))]


@pytest.mark.parametrize(
    ("changes", "diff"),
    [
        ({"type": "fact"}, [b"-type: decision", b"+type: fact"]),
        ({"title": "C: d"}, [b'-title:   "A: b"', b'+title:   "C: d"']),
        ({"title": "A: b"}, []),
        ({"tags": ["#a", "b,c"]}, [b'-tags: ["#a", \'*b\', "|c"]', b'+tags: ["#a", "b,c"]']),
        ({"source_rollouts": ["rollouts/a.md"]}, [b"-    - 'rollouts/b.md'"]),
        (
            {"source_rollouts": ["rollouts/a.md", "rollouts/b.md", "rollouts/c.md"]},
            [b"+    - rollouts/c.md"],
        ),
        ({"source_rollouts": ["rollouts/0.md", "rollouts/a.md", "rollouts/b.md"]}, [b"+    - rollouts/0.md"]),
        (
            {"source_rollouts": []},
            [
                b"-source_rollouts:",
                b"-    - rollouts/a.md",
                b"-    # the second one",
                b"-    - 'rollouts/b.md'",
                b"+source_rollouts: []",
            ],
        ),
        ({"handler": None}, [b"-handler: y"]),
        ({"missing": None}, []),
        ({"status": "archived"}, [b"+status: archived"]),
        ({"expires_at": "2027-01-01"}, [b"+expires_at: 2027-01-01"]),
        ({"new": {"a": 1}}, [b'+new: {"a": 1}']),
        ({"content": ["a", "b"]}, [b"-content: x", b"+content:", b"+  - a", b"+  - b"]),
    ],
)
@pytest.mark.parametrize("form", ["lf", "crlf", "bom", "crlf without end"])
def test_one_change_touches_its_own_lines_only(
    changes: dict[str, object], diff: list[bytes], form: str
) -> None:
    data = PROJECT
    if form.startswith("crlf"):
        data = data.replace(b"\n", b"\r\n")
        diff = [line + b"\r" for line in diff]
    if form == "bom":
        data = b"\xef\xbb\xbf" + data
    if form == "crlf without end":
        data = data[: data.index(b"\r\n---\r\n") + 5]
    edited = edit(data, changes)
    assert changed_lines(data, edited) == diff
    expected = {**parse(data).values, **changes}
    assert parse(edited).values == {key: value for key, value in expected.items() if value is not None}


def test_an_added_field_stands_at_its_canonical_place() -> None:
    edited = edit(PROJECT, {"status": "archived", "own": "last", "expires_at": "2027-01-01"})
    assert list(parse(edited).values) == [
        "schema_version", "id", "title", "type", "status", "expires_at", "tags", "source_rollouts", "content",
        "handler", "own",
    ]  # fmt: skip
    assert edit(b"---\n---\nx", {"id": "a"}) == b"---\nid: a\n---\nx"
    assert edit(b"---\nx: y\n---\n", {"id": "a"}) == b"---\nid: a\nx: y\n---\n"


def test_a_field_keeps_its_text_through_three_rounds() -> None:
    data = b"---\ntags: [10:00]\nsource_hash: 013\nid: no\ncreated_by: 1e3\n---\n"
    for round_number in range(3):
        data = edit(data, {"status": f"round{round_number}"})
    assert (
        edit(data, {"status": None})
        == b"---\ntags: [10:00]\nsource_hash: 013\nid: no\ncreated_by: 1e3\n---\n"
    )


@pytest.mark.parametrize("data", [b"no header", b"---\nid: a\nid: b\n---\n"])
def test_an_unreadable_header_is_not_edited(data: bytes) -> None:
    with pytest.raises(FrontMatterError):
        edit(data, {"id": "c"})


def test_an_edit_cannot_grow_a_header_over_the_limit() -> None:
    with pytest.raises(FrontMatterError, match="bytes"):
        edit(PROJECT, {"big": "x" * MAX_HEADER_BYTES})


@settings(max_examples=200)
@given(st.dictionaries(keys, field_values, max_size=6), keys, field_values, bodies, st.booleans())
@example({"tags": ["a", "a"]}, "tags", ["a"], b"", False)
@example({"tags": ["a"]}, "tags", ["a", "a"], b"", True)
def test_an_edit_changes_one_value_and_nothing_else(
    fields: dict[str, object], key: str, value: object, body: bytes, crlf: bool
) -> None:
    assume(value is not None)
    data = b"\xef\xbb\xbf" + render(fields, body, newline=b"\r\n" if crlf else b"\n")
    edited = edit(data, {key: value})
    assert parse(edited).values == {**fields, key: value}
    assert split(edited).body == body
    restored = edit(edited, {key: fields.get(key)})
    assert parse(restored).values == {
        name: kept for name, kept in fields.items() if name != key or kept is not None
    }
    if key not in fields:
        assert restored == data
    simple = not isinstance(value, list) and not isinstance(fields.get(key), list)
    if simple and key in fields:
        assert len(changed_lines(data, edited)) in (0, 2)
