"""`memory.enabled` inside the text of a settings file: what counts as off, and that nothing else moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_memory.hosts.settings_text import (
    UnchangeableSettings,
    UnreadableSettings,
    read_enabled,
    with_enabled,
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing yet\n",
        "---\n",
        "null\n",
        "{}\n",
        "web:\n  port: 1\n",
        "memory:\n",
        "memory: ~\n",
        "memory: {}\n",
        "memory:\n  other: 1\n",
        "memory:\n  enabled:\n",
        "memory:\n  enabled: null\n",
        "memory:\n  enabled: true\n",
        "memory:\n  enabled: 'on'\n",
        "memory: { enabled: YES }\n",
        "memory: # enabled: false\n  enabled: true # false\n",
        "other:\n  memory:\n    enabled: false\n",
        "memory.enabled: false\n",
    ],
)
def test_on(text: str) -> None:
    assert read_enabled(text) is True


@pytest.mark.parametrize(
    "value", ["false", "False", "FALSE", '"false"', "'no'", "no", "NO", "off", "Off", "!!bool false"]
)
def test_off(value: str) -> None:
    assert read_enabled(f"a: 1\nmemory:\n  enabled: {value}  # a comment\nb: 2\n") is False
    assert read_enabled(f'{{"memory": {{"enabled": {value} }}}}') is False


@pytest.mark.parametrize(
    "text",
    [
        "memory: [\n",
        "memory: on\n",
        "memory:\n  - enabled\n",
        "- memory\n",
        "just words\n",
        "memory:\n\tenabled: false\n",
        "memory:\n  enabled: maybe\n",
        "memory:\n  enabled: 0\n",
        "memory:\n  enabled: ''\n",
        "memory:\n  enabled: [false]\n",
        "memory:\n  enabled: !off false\n",
        "memory:\n  enabled: *gone\n",
        "memory:\n  enabled: true\n  enabled: false\n",
        "memory:\n  enabled: true\nmemory:\n  enabled: false\n",
        "base: &base\n  enabled: false\nmemory:\n  <<: *base\n",
        "memory:\n  enabled: true\n---\nmemory:\n  enabled: false\n",
        "memory:\n  enabled: \0\n",
        "[" * 400,
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(UnreadableSettings):
        read_enabled(text)
    with pytest.raises(UnreadableSettings):
        with_enabled(text, False)


def test_the_reason_names_the_line() -> None:
    with pytest.raises(UnreadableSettings, match=r"no valid YAML \(line 3\)"):
        read_enabled("a: 1\nb: 2\nc: [}\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "memory:\n  enabled: false\n"),
        ("# mine\n", "# mine\nmemory:\n  enabled: false\n"),
        ("# mine", "# mine\nmemory:\n  enabled: false\n"),
        ("---\n", "---\nmemory:\n  enabled: false\n"),
        ("a: 1", "a: 1\nmemory:\n  enabled: false\n"),
        ("a: 1\n\n# end\n", "a: 1\n\n# end\nmemory:\n  enabled: false\n"),
        ("a: 1\n...\n", "a: 1\nmemory:\n  enabled: false\n...\n"),
        ("a:\r\n- 1\r\n", "a:\r\n- 1\r\nmemory:\r\n  enabled: false\r\n"),
        ("  a: 1\n", "  a: 1\n  memory:\n    enabled: false\n"),
        ("{}\n", "{ memory: { enabled: false } }\n"),
        ('{"a": 1}', '{ memory: { enabled: false },"a": 1}'),
        ("memory:", "memory:\n  enabled: false\n"),
        ("memory: # off?\nb: 1\n", "memory: # off?\n  enabled: false\nb: 1\n"),
        ("memory: ~ # none\n", "memory: { enabled: false } # none\n"),
        ("{memory: , b: 1}", "{memory: { enabled: false } , b: 1}"),
        ("memory: {}\n", "memory: { enabled: false }\n"),
        ("memory: {x: 1}\n", "memory: { enabled: false,x: 1}\n"),
        ("memory:\n    # why\n    x: 1\n", "memory:\n    enabled: false\n    # why\n    x: 1\n"),
        ("memory:\n  enabled:\n  x: 1\n", "memory:\n  enabled: false\n  x: 1\n"),
        ("memory:\n  enabled: # ?\n", "memory:\n  enabled: false # ?\n"),
        ('"memory":\n  "enabled": "true"  # yes\n', '"memory":\n  "enabled": false  # yes\n'),
        ("memory: { enabled: true }\n", "memory: { enabled: false }\n"),
        ("memory:\r\n  enabled:   On\r\n", "memory:\r\n  enabled:   false\r\n"),
        ("memory:\n  enabled: !!bool &e true\nb: *e\n", "memory:\n  enabled: !!bool &e false\nb: *e\n"),
        ("é: 漢字𝒳\nmemory: {enabled: yes}\n", "é: 漢字𝒳\nmemory: {enabled: false}\n"),
        ("a: |+\n  text\n\n\n", "a: |+\n  text\n\n\nmemory:\n  enabled: false\n"),
    ],
)
def test_only_the_switch_changes(before: str, after: str) -> None:
    assert with_enabled(before, False) == after
    assert read_enabled(after) is False
    assert read_enabled(with_enabled(after, True)) is True


@pytest.mark.parametrize(
    "text",
    [
        "? memory\n: ? enabled\n",
        "null\n",
        "a: |\n  no newline at the end",
    ],
)
def test_what_cannot_be_changed_alone_is_refused(text: str) -> None:
    with pytest.raises(UnchangeableSettings):
        with_enabled(text, False)


_KEYS = st.sampled_from(["a", "memory", "web", '"memory"', "'b c'", "é"])
_LEAVES = st.sampled_from(
    [
        "1",
        "true",
        "~",
        "",
        "'x # y'",
        "[1, 2]",
        "{ k: v }",
        "{ enabled: on }",
        "|\n    block\n    text",
        "&x y",
    ]
)
_LINES = st.lists(
    st.one_of(
        st.tuples(_KEYS, _LEAVES).map(lambda pair: f"{pair[0]}: {pair[1]}"),
        st.just("memory:\n  # inside\n  enabled: true # on\n  rest: 1"),
        st.just("# a comment: enabled"),
        st.just(""),
    ),
    max_size=6,
)


def _same(one: str, other: str) -> int:
    """How many characters two texts share at their start."""
    differing = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differing, min(len(one), len(other)))


@given(
    lines=_LINES,
    newline=st.sampled_from(["\n", "\r\n"]),
    end=st.sampled_from(["", "\n", "\n...\n"]),
    wanted=st.booleans(),
)
def test_any_file_keeps_its_other_bytes(lines: list[str], newline: str, end: str, wanted: bool) -> None:
    text = ("\n".join(lines) + end).replace("\n", newline)
    try:
        changed = with_enabled(text, wanted)
    except (UnreadableSettings, UnchangeableSettings):
        return
    assert read_enabled(changed) is wanted
    kept = _same(text, changed)
    kept += _same(text[kept:][::-1], changed[kept:][::-1])
    assert len(text) - kept <= len("'false'")
