"""`dsh-memory preview show`: what a preview would change, as a unified diff."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsh_memory.cli.invocation import Invocation
from dsh_memory.cli.output import DONE, emit, emit_json, narrate
from dsh_memory.text import visible

if TYPE_CHECKING:
    from dsh_memory.inspection import FileDiff, PreviewView, ReviewWarning

_LINES = re.compile(r"[^\n]*\n|[^\n]+")


def show(call: Invocation) -> int:
    """`dsh-memory preview show ID`; the warnings for a reviewer are narrated."""
    preview_id = call.arguments.preview_id
    view = call.inspector.preview(preview_id)
    diffs = [call.inspector.preview_diff(preview_id, change.path) for change in view.files]
    if call.wants_json:
        emit_json({"ok": True, "value": _value(view, diffs)})
        return DONE
    for warning in view.warnings:
        narrate(_sentence(warning))
    if view.refusal is not None:
        narrate(f"It cannot be applied now: {view.refusal.sentence}")
    for diff in diffs:
        emit(*(visible(line) for line in unified(diff)))
    return DONE


def unified(diff: FileDiff) -> Iterator[str]:
    """The lines of one file's unified diff, without line ends and as found (not made visible)."""
    old_name, new_name = f"a/{diff.path}", f"b/{diff.path}"
    if diff.binary:
        yield f"Binary files {old_name} and {new_name} differ"
        return
    old, new = _LINES.findall(diff.old or ""), _LINES.findall(diff.new or "")
    old_name = "/dev/null" if diff.kind == "A" else old_name
    new_name = "/dev/null" if diff.kind == "D" else new_name
    yield from (f"--- {old_name}", f"+++ {new_name}")
    for number, line in enumerate(difflib.unified_diff(old, new)):
        # difflib's own two lines of names would be split by a line break in a path.
        if number < 2:
            continue
        yield line.removesuffix("\n")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def _sentence(warning: ReviewWarning) -> str:
    place = "" if warning.path is None else f"{visible(warning.path)}: "
    return f"{'!' if warning.blocking else 'note'}  {place}{warning.sentence}"


def _value(view: PreviewView, diffs: list[FileDiff]) -> dict[str, object]:
    return {
        "preview_id": view.row.preview_id,
        "applicable": view.refusal is None,
        "warnings": [warning._asdict() for warning in view.warnings],
        "files": [
            {**change._asdict(), "diff": "\n".join(unified(diff))}
            for change, diff in zip(view.files, diffs, strict=True)
        ],
    }
