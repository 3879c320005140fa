"""Front matter at the level of bytes: find it, read it, change single fields of it, and write whole ones.

Lines that a change does not concern are kept as they are, so BOM, line ends, comments, key order, unknown
keys and the body stay what they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from dsh_memory.records.grammar import FIRST_HEADER_LINE, Field, FrontMatterError, Item, parse_fields
from dsh_memory.records.writing import field_lines, flow, inline

MAX_HEADER_BYTES: Final = 64 * 1024
CANONICAL_ORDER: Final = (
    "schema_version",
    "id",
    "type",
    "status",
    "confidence",
    "created_at",
    "updated_at",
    "source_hash",
    "created_by",
    "content_hash",
    "source_session_digest",
    "supersedes",
    "conflicts_with",
    "review_after",
    "expires_at",
    "tags",
    "source_rollouts",
)
_BOM: Final = b"\xef\xbb\xbf"
_FENCE: Final = b"---"


class Split(NamedTuple):
    """A file cut at its fences; joining bom, opening, header, closing and body gives the same bytes.

    `header` is None when the file has no front matter; it ends with the line end of its last line.
    """

    bom: bytes
    opening: bytes
    header: bytes | None
    closing: bytes
    body: bytes

    @property
    def newline(self) -> bytes:
        """The line end of the opening fence, which added lines take over."""
        return b"\r\n" if self.opening.endswith(b"\r\n") else b"\n"


@dataclass(frozen=True, slots=True)
class Header:
    """A header that was read: its fields by key, in order, and where they stand."""

    split: Split
    fields: Mapping[str, Field]

    @property
    def values(self) -> dict[str, object]:
        """All fields as the grammar types them, in order."""
        return {key: field.value for key, field in self.fields.items()}


def split(data: bytes) -> Split:
    """Cut a file at its fences; never raises, and a fence that nothing closes is no fence."""
    bom = _BOM if data.startswith(_BOM) else b""
    start = len(bom)
    if data.startswith(b"---\n", start):
        header_start = start + 4
    elif data.startswith(b"---\r\n", start):
        header_start = start + 5
    else:
        return Split(bom, b"", None, b"", data[start:])
    # The search starts on the opening fence's own line end, so that an empty header is found too.
    found = data.find(b"\n---", header_start - 1)
    while found >= 0:
        closing_start = found + 1
        after = closing_start + len(_FENCE)
        if data.startswith(b"\n", after):
            body_start = after + 1
        elif data.startswith(b"\r\n", after):
            body_start = after + 2
        elif after == len(data):
            body_start = after
        else:
            found = data.find(b"\n---", after)
            continue
        return Split(
            bom,
            data[start:header_start],
            data[header_start:closing_start],
            data[closing_start:body_start],
            data[body_start:],
        )
    return Split(bom, b"", None, b"", data[start:])


def header_fields(header: bytes) -> dict[str, Field]:
    """Read the bytes between the fences; raises FrontMatterError (invalid-metadata, binary-file)."""
    if len(header) > MAX_HEADER_BYTES:  # guard: header-size
        raise FrontMatterError(
            "invalid-metadata",
            header.count(b"\n", 0, MAX_HEADER_BYTES) + FIRST_HEADER_LINE,
            f"the front matter has {len(header):,} bytes, more than the {MAX_HEADER_BYTES:,} allowed",
        )
    try:
        text = header.decode()
    except UnicodeDecodeError as error:
        line = header.count(b"\n", 0, error.start) + FIRST_HEADER_LINE
        raise FrontMatterError("binary-file", line, "the front matter is not UTF-8 text") from error
    return parse_fields(text)


def parse(data: bytes) -> Header:
    """Read the front matter of a file; raises FrontMatterError, also when there is none."""
    parts = split(data)
    if parts.header is None:
        raise FrontMatterError("invalid-metadata", 1, "the file has no front matter")
    return Header(parts, header_fields(parts.header))


def render(fields: Mapping[str, object], body: bytes, *, newline: bytes = b"\n") -> bytes:
    """Write a whole file: known keys in canonical order, unknown ones as given after them, then the body.

    Raises ValueError for a value that the grammar cannot hold.
    """
    from dsh_memory.records.handler import FlatHandler  # loads python-frontmatter, which only writers need

    ordered = {key: fields[key] for key in CANONICAL_ORDER if key in fields}
    ordered.update((key, value) for key, value in fields.items() if key not in ordered)
    header = FlatHandler().export(ordered).encode().replace(b"\n", newline)
    return _FENCE + newline + header + _FENCE + newline + body


def edit(data: bytes, changes: Mapping[str, object | None]) -> bytes:
    """Change single fields of a file: a value sets a field, None removes it; every other byte stays.

    A field that is new goes to its canonical place, an unknown one to the end of the header. Raises
    FrontMatterError if there is no readable front matter, ValueError for what the grammar cannot hold.
    """
    header = parse(data)
    for key, value in changes.items():
        parts = header.split
        lines = (parts.header or b"").decode().split("\n")[:-1]
        _change(lines, header.fields, key, value, "\r" if parts.newline == b"\r\n" else "")
        changed = "".join(f"{line}\n" for line in lines).encode()
        header = parse(b"".join((parts.bom, parts.opening, changed, parts.closing, parts.body)))
    parts = header.split
    return b"".join((parts.bom, parts.opening, parts.header or b"", parts.closing, parts.body))


def _change(lines: list[str], fields: Mapping[str, Field], key: str, value: object | None, tail: str) -> None:
    """Apply one change to a header's lines (without their newline; `tail` is the CR of lines to add)."""
    field = fields.get(key)
    if field is None:
        if value is not None:
            at = _place_for(key, fields, len(lines))
            lines[at:at] = [line + tail for line in field_lines(key, value)]
        return
    first, end = field.line - FIRST_HEADER_LINE, field.last_line - FIRST_HEADER_LINE + 1
    if value is None:
        del lines[first:end]
    elif inline(field.value) == inline(value):
        return
    elif isinstance(value, list | tuple) and field.items and value:
        if field.line == field.last_line:
            lines[first] = _with_value(lines[first], field.raw, flow(value))
        else:
            _change_items(lines, field.items, value, tail)
    else:
        written = field_lines(key, value)
        if len(written) == 1:
            lines[first:end] = [_with_value(lines[first], field.raw, inline(value))]
        else:
            lines[first:end] = [line + tail for line in written]


def _place_for(key: str, fields: Mapping[str, Field], end: int) -> int:
    if key not in CANONICAL_ORDER:
        return end
    before = CANONICAL_ORDER[: CANONICAL_ORDER.index(key)]
    predecessors = [field for field in fields.values() if field.key in before]
    if not predecessors:
        return 0
    nearest = max(predecessors, key=lambda field: before.index(field.key))
    return nearest.last_line - FIRST_HEADER_LINE + 1


def _with_value(line: str, raw: str, value: str) -> str:
    name, _, rest = line.partition(":")
    if not raw:
        return f"{name}: {value}" + ("\r" if rest.endswith("\r") else "")
    start = len(name) + 1 + rest.index(raw)
    return line[:start] + value + line[start + len(raw) :]


def _change_items(lines: list[str], items: Sequence[Item], values: Sequence[object], tail: str) -> None:
    """Replace only the entries between the common start and end of the old and the new list."""
    old = [inline(item.value) for item in items]
    new = [inline(value) for value in values]
    shortest = min(len(old), len(new))
    same_start = next((n for n in range(shortest) if old[n] != new[n]), shortest)
    longest_end = shortest - same_start
    same_end = next((n for n in range(longest_end) if old[-1 - n] != new[-1 - n]), longest_end)
    kept_until, kept_from = same_start, len(old) - same_end
    at = items[kept_until - 1].line + 1 if kept_until else items[0].line
    if kept_until < kept_from:
        at = items[kept_until].line
    end = items[kept_from - 1].line + 1 if kept_until < kept_from else at
    model = lines[items[0].line - FIRST_HEADER_LINE]
    indent = model[: model.index("-")]
    added = [f"{indent}- {text}{tail}" for text in new[same_start : len(new) - same_end]]
    lines[at - FIRST_HEADER_LINE : end - FIRST_HEADER_LINE] = added
