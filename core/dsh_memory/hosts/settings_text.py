"""`memory.enabled` in the text of a settings.yaml: read it, and change it without touching another character.

ruamel.yaml only says where the tokens stand; the text around them is never written anew, since its own round
trip changes spacing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

SECTION = "memory"
KEY = "enabled"

_WORDS = {"false": False, "no": False, "off": False, "true": True, "yes": True, "on": True}
_NULL_WORDS = frozenset({"", "~", "null"})
_PLAIN_TAGS = frozenset({None, "tag:yaml.org,2002:bool", "tag:yaml.org,2002:str", "tag:yaml.org,2002:null"})
# An anchor or a tag in front of a value.
_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*[ \t]+)*")


class UnreadableSettings(Exception):
    """Text that is no settings file; the message says what is wrong with it, without quoting it."""


class UnchangeableSettings(Exception):
    """A readable text in which the value cannot be changed without changing something else."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the switch stands in the parsed events; an index is None where that part is missing."""

    events: list[Any]
    top: int | None
    section: int | None
    value: int | None

    def start(self, index: int) -> int:
        position: int = self.events[index].start_mark.index
        return position

    def end(self, index: int) -> int:
        position: int = self.events[index].end_mark.index
        return position


def read_enabled(text: str) -> bool:
    """The value of `memory.enabled`; True where the section, the key or its value is missing.

    Raises UnreadableSettings for what is no single YAML mapping, repeats a key on the way, or gives the
    switch a value that is neither on nor off.
    """
    return _value(_locate(text))


def with_enabled(text: str, enabled: bool) -> str:
    """`text` with `memory.enabled` as asked, every other character as it was.

    Raises UnreadableSettings as `read_enabled` does, and UnchangeableSettings where an alias or an unusual
    shape would make the change reach further than the one value.
    """
    place = _locate(text)
    _value(place)
    word = "true" if enabled else "false"
    if place.value is not None:
        changed = _replace_value(text, place, place.value, word)
    elif place.section is not None:
        changed = _insert_key(text, place, place.section, f"{KEY}: {word}")
    else:
        changed = _insert_section(text, place, f"{KEY}: {word}")
    try:
        after = _locate(changed)
        # guard: settings-change-is-one-place
        if _value(after) is not enabled or not _differ_in_one_place(place.events, after.events):
            raise UnchangeableSettings
    except UnreadableSettings:
        raise UnchangeableSettings from None
    return changed


def _locate(text: str) -> _Place:
    events = _parse(text)
    documents = [index for index, event in enumerate(events) if _kind(event) == "DocumentStart"]
    if not documents:
        return _Place(events, None, None, None)
    if len(documents) > 1:
        raise UnreadableSettings("it holds more than one document")
    top = documents[0] + 1
    if _is_null(events[top]):
        return _Place(events, None, None, None)
    section = _find(events, top, SECTION)
    if section is None:
        return _Place(events, top, None, None)
    if _is_null(events[section]):
        return _Place(events, top, section, None)
    return _Place(events, top, section, _find(events, section, KEY))


def _parse(text: str) -> list[Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return list(YAML(typ="safe", pure=True).parse(text))
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise UnreadableSettings(f"it is no valid YAML{where}") from None
    except (RecursionError, ValueError, IndexError):
        # What ruamel's scanner raises for a few broken escapes and for nesting without end.
        raise UnreadableSettings("it is no valid YAML") from None


def _find(events: list[Any], mapping: int, wanted: str) -> int | None:
    """The index of the value under the key `wanted` of the mapping that starts at index `mapping`."""
    if _kind(events[mapping]) != "MappingStart":
        raise UnreadableSettings("a mapping is missing where memory.enabled should stand")
    found = None
    seen: set[str] = set()
    index = mapping + 1
    while _kind(events[index]) != "MappingEnd":
        value = _after(events, index)
        key = events[index].value if _kind(events[index]) == "Scalar" else None
        if key is not None:
            # guard: settings-duplicate-key (YAML readers disagree about which one counts)
            if key in seen:
                raise UnreadableSettings("a key stands twice")
            seen.add(key)
        if key == wanted:
            found = value
        index = _after(events, value)
    if found is None and "<<" in seen:
        raise UnreadableSettings("memory.enabled may come from a merge key, which is not read")
    return found


def _after(events: list[Any], index: int) -> int:
    """The index behind the node that starts at `index`."""
    depth = 0
    while True:
        kind = _kind(events[index])
        depth += kind.endswith("Start") - kind.endswith("End")
        index += 1
        if depth == 0:
            return index


def _value(place: _Place) -> bool:
    if place.value is None:
        return True
    event = place.events[place.value]
    if _is_null(event):
        return True
    if _kind(event) == "Scalar" and event.tag in _PLAIN_TAGS and event.value.lower() in _WORDS:
        return _WORDS[event.value.lower()]
    raise UnreadableSettings("memory.enabled is neither on nor off")


def _replace_value(text: str, place: _Place, value: int, word: str) -> str:
    start, end = place.start(value), place.end(value)
    if start == end:
        colon = _behind_colon(text, place, value)
        return f"{text[:colon]} {word}{text[colon:]}"
    properties = _PROPERTIES.match(text, start, end)
    return text[: properties.end() if properties else start] + word + text[end:]


def _insert_key(text: str, place: _Place, section: int, pair: str) -> str:
    event = place.events[section]
    if _kind(event) == "Scalar":
        return _fill_null_section(text, place, section, pair)
    if event.flow_style:
        return _insert_flow(text, place, section, pair)
    indent = " " * _column(text, place.start(section + 1))
    return _insert_line(text, place.end(section - 1), indent + pair)


def _fill_null_section(text: str, place: _Place, section: int, pair: str) -> str:
    start, end = place.start(section), place.end(section)
    if start != end:
        return f"{text[:start]}{{ {pair} }}{text[end:]}"
    colon = _behind_colon(text, place, section)
    if place.top is not None and place.events[place.top].flow_style:
        return f"{text[:colon]} {{ {pair} }}{text[colon:]}"
    indent = " " * (_column(text, place.start(section - 1)) + 2)
    return _insert_line(text, colon, indent + pair)


def _behind_colon(text: str, place: _Place, value: int) -> int:
    # The mark of an empty value stands at the next token; what can be found is the colon behind its key.
    colon = text.find(":", place.end(value - 1))
    if colon < 0:
        raise UnchangeableSettings
    return colon + 1


def _insert_section(text: str, place: _Place, pair: str) -> str:
    if place.top is not None and place.events[place.top].flow_style:
        return _insert_flow(text, place, place.top, f"{SECTION}: {{ {pair} }}")
    newline = _newline(text)
    indent = " " * (0 if place.top is None else _column(text, place.start(place.top + 1)))
    lines = f"{indent}{SECTION}:{newline}{indent}  {pair}{newline}"
    endings = [event for event in place.events if _kind(event) == "DocumentEnd" and event.explicit]
    at: int = endings[0].start_mark.index if endings else len(text)
    before = text[:at]
    return before + (newline if before and not before.endswith("\n") else "") + lines + text[at:]


def _insert_flow(text: str, place: _Place, mapping: int, pair: str) -> str:
    brace = place.end(mapping)
    is_empty = _kind(place.events[mapping + 1]) == "MappingEnd"
    return f"{text[:brace]} {pair}{' ' if is_empty else ','}{text[brace:]}"


def _insert_line(text: str, position: int, line: str) -> str:
    """`line` put below the line that holds `position`."""
    newline = _newline(text)
    end = text.find("\n", position)
    if end < 0:
        return text + newline + line + newline
    return text[: end + 1] + line + newline + text[end + 1 :]


def _newline(text: str) -> str:
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def _column(text: str, position: int) -> int:
    return position - (text.rfind("\n", 0, position) + 1)


def _is_null(event: Any) -> bool:
    return (
        _kind(event) == "Scalar"
        and event.style is None
        and event.tag in _PLAIN_TAGS
        and event.value.lower() in _NULL_WORDS
    )


def _differ_in_one_place(before: list[Any], after: list[Any]) -> bool:
    """Whether events were inserted in one place, or one was replaced by another, or a null by a mapping."""
    old, new = [_content(event) for event in before], [_content(event) for event in after]
    shorter = min(len(old), len(new))
    same_head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    limit = shorter - same_head
    same_tail = next((i for i in range(limit) if old[-1 - i] != new[-1 - i]), limit)
    replaced = before[same_head : len(old) - same_tail]
    return not replaced or (len(replaced) == 1 and (len(old) == len(new) or _is_null(replaced[0])))


def _content(event: Any) -> tuple[object, ...]:
    return (_kind(event), *(getattr(event, name, None) for name in ("value", "anchor", "tag")))


def _kind(event: Any) -> str:
    return type(event).__name__.removesuffix("Event")
