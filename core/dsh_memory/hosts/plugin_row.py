"""Our row in a DSH patch layer, put in and taken out without touching what others wrote there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

PATCH_FILE = "cordis.patch.yml"
ROW_ID = "memory"

_BEGIN = "# >>> dsh-memory: written by `dsh-memory plugin install`, taken out by `dsh-memory plugin remove`\n"
_END = "# <<< dsh-memory\n"
_EMPTY = "[]\n"


class UneditablePatch(Exception):
    """The patch layer cannot take the row, or give it back, without a person."""


def row(command: Sequence[str]) -> str:
    """The patch that mounts the plugin, as YAML; `command` is the server's argument list before `serve`."""
    # A JSON list of printable text is a YAML one.
    listed = json.dumps(list(command), ensure_ascii=False)
    return (
        "- insert:\n"
        f"    - id: {ROW_ID}\n"
        "      name: dsh-memory-plugin\n"
        "      config:\n"
        f"        command: {listed}\n"
    )


def with_row(text: str, patch: str) -> str:
    """A patch layer's text with `patch` in it once, between two comments; raises UneditablePatch."""
    bare = without_row(text)
    root = _root(bare)
    if ROW_ID in _inserted_ids(root):
        raise UneditablePatch(f"another row has the id {ROW_ID!r} already; take that plugin out first")
    block = _BEGIN + patch + _END
    if root is None:
        changed = _lines(bare) + block
    elif root.flow_style and not root.value and bare[root.end_mark.index :].strip() == "":
        changed = bare[: root.start_mark.index] + block
    elif root.flow_style or root.start_mark.column:
        raise UneditablePatch("its list is not written as lines that begin with `- `; add the row by hand")
    else:
        changed = _lines(bare) + block
    # What YAML makes of the text decides, not what we meant: a document end may be in the way.
    if len(_items(_root(changed))) != len(_items(root)) + 1:
        raise UneditablePatch("the row cannot be added to it; add it by hand")
    return changed


def without_row(text: str) -> str:
    """A patch layer's text as it was before `with_row`; the same text where no row of ours is in it."""
    begin = text.find(_BEGIN)
    if begin < 0:
        return text
    end = text.find(_END, begin)
    if end < 0:
        raise UneditablePatch(f"the line {_END.strip()!r} is gone; take the row out by hand")
    before, after = text[:begin], text[end + len(_END) :]
    left = before + after
    # The host wants a list in a file that is there: an empty one stood here, or nothing did.
    return left if not left.strip() or _root(left) is not None else before + _EMPTY + after


def _lines(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _root(text: str) -> Any:
    """The root sequence node of a YAML text; None where it has none."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except YAMLError as error:
        raise UneditablePatch("is not YAML that can be read") from error
    if root is not None and root.id != "sequence":
        raise UneditablePatch("is no list of patches")
    return root


def _items(root: Any) -> list[Any]:
    return [] if root is None else list(root.value)


def _inserted_ids(root: Any) -> list[str]:
    """The ids of all rows that the patches insert."""
    inserted = (entry for patch in _items(root) for entry in _items(_field(patch, "insert")))
    return [identity.value for entry in inserted if (identity := _field(entry, "id")) is not None]


def _field(node: Any, name: str) -> Any:
    if node.id != "mapping":
        return None
    return next((value for key, value in node.value if key.value == name), None)
