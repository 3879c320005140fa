"""A record as lines: what it is, its body with matches marked, its front matter as typed, its history."""

from __future__ import annotations

import re
from datetime import datetime

from dsh_memory import visible
from dsh_memory.inspection import Mark, MemoryFact, RecordEntry, RecordView, TopicView
from dsh_memory_tui.widgets.lines import EMPTY, Line, Piece, cut, heading, line, pad, pad_left, rule, wrap
from dsh_memory_tui.widgets.rows import Fixed
from dsh_memory_tui.wording import ATTENTION, BAD, GOOD, OFF, age, exact, plural, short, size, who

#: Characters of a body that are shown; the rest is a matter for an editor.
MAX_BODY = 300_000
_LABEL = 16
#: Commits shown under a record; Git has the rest.
_HISTORY = 6

#: Each mark as sign, word and role.
MARKS: dict[Mark, tuple[str, str, str]] = {
    "malformed": (BAD, "malformed", "danger"),
    "conflicted": ("≠", "conflicted", "attention"),
    "legacy": (ATTENTION, "legacy", "attention"),
    "expired": (OFF, "expired", "muted"),
    "expiring": (ATTENTION, "expires soon", "attention"),
    "review": (ATTENTION, "review due", "attention"),
    "dirty": ("~", "unsaved", "accent"),
}


def tokens_pattern(query: str) -> re.Pattern[str] | None:
    """What the contract's search matched, as a pattern: each run of letters and numbers of the query."""
    words = sorted({word for word in re.split(r"[\W_]+", query) if word}, key=lambda word: (-len(word), word))
    return re.compile("|".join(re.escape(word) for word in words), re.IGNORECASE) if words else None


def marked(text: str, pattern: re.Pattern[str] | None, role: str = "text") -> tuple[Piece, ...]:
    """A visible text with its matches marked."""
    if pattern is None:
        return (Piece(text, role),)
    pieces: list[Piece] = []
    at = 0
    for match in pattern.finditer(text):
        if match.start() > at:
            pieces.append(Piece(text[at : match.start()], role))
        pieces.append(Piece(match.group(), "match"))
        at = match.end()
    pieces.append(Piece(text[at:], role))
    return tuple(pieces)


def mark_pieces(marks: tuple[Mark, ...], *, words: bool) -> tuple[Piece, ...]:
    """The marks of a record, worst first, with words where there is room."""
    pieces: list[Piece] = []
    for name, (sign, word, role) in MARKS.items():
        if name in marks:
            pieces.append(Piece(f"{sign} {word}  " if words else f"{sign} ", role))
    return tuple(pieces)


def name_of(entry: RecordEntry) -> str:
    """What a record is called in a list: its id, or its path where the id says nothing."""
    if entry.id is None or entry.id.startswith("legacy-"):
        return visible(entry.path)
    return visible(entry.id)


class RecordText:
    """The lines of one record for one width, and where its matches are."""

    def __init__(
        self, view: RecordView, pattern: re.Pattern[str] | None, now: datetime, topic: TopicView | None
    ) -> None:
        self._view = view
        self._pattern = pattern
        self._now = now
        self._topic = topic
        self.matches: list[int] = []

    def build(self, width: int) -> Fixed:
        """All lines, top to bottom."""
        lines: list[Line] = []
        lines.extend(self._head(width))
        if self._topic is not None:
            lines.extend(topic_lines(self._topic, width))
        self.matches = []
        for body_line, hit in self._body(width):
            if hit:
                self.matches.append(len(lines))
            lines.append(body_line)
        lines.extend(self._foot(width))
        return Fixed(tuple((None, content) for content in lines))

    def _head(self, width: int) -> list[Line]:
        view, entry = self._view, self._view.entry
        words = [word for word in (entry.type, entry.status) if word]
        if view.confidence and view.confidence != "unknown":
            words.append(f"confidence {view.confidence}")
        if entry.updated_at:
            words.append(entry.updated_at)
        if view.usage.usage_count:
            words.append(f"used {view.usage.usage_count:,}")
        lines = [
            line((name_of(entry), "strong"), right=[(visible(entry.path), "muted")])
            if name_of(entry) != visible(entry.path)
            else line((name_of(entry), "strong"))
        ]
        parts = [visible(" · ".join(words))] if words else []
        lines.append(line(*mark_pieces(entry.marks, words=True), (parts[0] if parts else "", "muted")))
        if view.malformed is not None:
            where = f" line {view.malformed.line}" if view.malformed.line else ""
            for index, text in enumerate(
                wrap(f"{view.malformed.code}{where}: {visible(view.malformed.reason)}", width - 2)
            ):
                lines.append(line((f"{BAD} " if index == 0 else "  ", "danger"), (text, "danger")))
        if view.tags:
            lines.append(line((visible("#" + "  #".join(view.tags)), "accent")))
        lines.append(rule(width))
        return lines

    def _body(self, width: int) -> list[tuple[Line, bool]]:
        body = self._view.body
        shown: list[tuple[Line, bool]] = []
        text = visible(body[:MAX_BODY], keep_newlines=True).strip("\n")
        if not text:
            return [(line(("This record has no body.", "muted")), False), (EMPTY, False)]
        for source in text.split("\n"):
            role = "strong" if source.startswith("#") else "text"
            for part in wrap(source, width):
                hit = self._pattern is not None and self._pattern.search(part) is not None
                shown.append((Line(marked(part, self._pattern, role)), hit))
        if len(body) > MAX_BODY:
            rest = size(self._view.entry.size)
            shown.append(
                (line((f"… cut here: the file holds {rest}; e opens all of it", "attention")), False)
            )
        shown.append((EMPTY, False))
        return shown

    def _foot(self, width: int) -> list[Line]:
        view = self._view
        lines: list[Line] = []
        if view.citation:
            lines.extend(labelled("citation", visible(view.citation), width))
        lines.extend(self._usage(width))
        if view.source_rollouts:
            lines.extend(labelled("from", visible(", ".join(view.source_rollouts)), width))
        if view.expires_at:
            lines.extend(labelled("expires", visible(view.expires_at), width))
        if view.review_after:
            lines.extend(labelled("review after", visible(view.review_after), width))
        lines.append(line((pad("content hash", _LABEL), "muted"), visible(view.content_hash)))
        if view.memory is not None:
            lines.extend((EMPTY, heading("Who wrote it", "through the memory API")))
            for label, text in _memory_facts(view.memory):
                lines.extend(labelled(label, text, width))
        if view.fields:
            lines.extend((EMPTY, heading("Front matter", "as typed")))
            for field in view.fields:
                lines.extend(
                    labelled(visible(field.key), visible(field.raw.strip() or ", ".join(field.items)), width)
                )
        if view.history:
            lines.extend((EMPTY, heading("History", plural(len(view.history), "commit"))))
            for commit in view.history[:_HISTORY]:
                hands = who(commit)
                lines.append(
                    line(
                        (pad(short(commit.commit), 9), "accent"),
                        (pad(age(commit.committed_at, self._now), 12), "muted"),
                        (f"{hands}  " if hands else "", "text"),
                        (visible(commit.subject), "muted" if hands else "text"),
                    )
                )
            lines.append(line(("v ", "key"), ("restores one of them", "muted")))
        return lines

    def _usage(self, width: int) -> list[Line]:
        usage = self._view.usage
        if not usage.usage_count and not usage.prior_usage_count:
            return labelled("used", "never by a context", width)
        words = f"{plural(usage.usage_count, 'time')}, last {exact(usage.last_usage)}"
        if usage.generation > 1:
            words += f", generation {usage.generation}, {usage.prior_usage_count:,} before"
        return labelled("used", words, width)


def labelled(label: str, text: str, width: int, label_width: int = _LABEL) -> list[Line]:
    """A quiet label and its text, wrapped beside it."""
    room = max(8, width - label_width)
    return [
        line((pad(label if index == 0 else "", label_width), "muted"), part)
        for index, part in enumerate(wrap(text, room))
    ]


def _memory_facts(memory: MemoryFact) -> list[tuple[str, str]]:
    """What the memory API keeps of a record, in the order a reviewer asks; what is not set is left out."""
    by = " / ".join(word for word in (memory.agent, memory.agent_instance) if word)
    facts = (
        ("door", memory.door),
        ("agent", by),
        ("source", memory.source),
        ("version", f"{memory.version:,}, {memory.status}"),
        ("scope", memory.scope),
        ("team", memory.team),
        ("bucket", memory.bucket),
        ("path", memory.path),
        ("kind", f"{memory.kind}, {memory.memory_type}"),
        ("semantic key", memory.semantic_key),
        ("importance", None if memory.importance is None else f"{memory.importance:g}"),
        ("confidence", None if memory.confidence is None else f"{memory.confidence:g}"),
        ("valid until", memory.expires_at),
    )
    return [(label, visible(text)) for label, text in facts if text]


_OUTCOMES = {"wins": (GOOD, "good"), "loses": ("·", "muted"), "out": (OFF, "muted")}


def topic_lines(topic: TopicView, width: int) -> list[Line]:
    """The topic inspector: every record of one topic, the winner, and the rule that decided about each."""
    lines = [
        line(
            (visible(topic.key), "strong"),
            (f"   {plural(len(topic.members), 'record')} share this topic", "muted"),
        )
    ]
    name_width = max(16, min(30, width // 3))
    for member in topic.members:
        sign, role = _OUTCOMES[member.outcome]
        day = pad(visible(member.entry.updated_at or ""), 11) if width >= 80 else ""
        lines.append(
            line(
                (f"{sign} ", role),
                (pad(name_of(member.entry), name_width), "strong" if member.outcome == "wins" else "text"),
                (" " + pad(visible(member.entry.status or ""), 11) + day, "muted"),
                (f"{member.outcome}: {visible(member.rule)}", role),
            )
        )
    lines.append(rule(width))
    return lines


def entry_row(entry: RecordEntry, width: int, *, indent: str = "") -> tuple[Line, ...]:
    """A record in a list: its name, its marks, the day it was last changed."""
    words = width >= 56
    marks = mark_pieces(entry.marks, words=words)
    day = visible(entry.updated_at or "")
    name = name_of(entry)
    if not indent.strip() and "/" in entry.path and name == visible(entry.path):
        name = visible(entry.path.rsplit("/", 1)[1])
    role = "muted" if "expired" in entry.marks or entry.status in ("superseded", "archived") else "text"
    right: list[tuple[str, str]] = [(piece.text, piece.role) for piece in marks]
    if width >= 62:
        right.append((pad(visible(entry.type or ""), 12), "muted"))
    if width >= 36:
        right.append((pad_left(day, 10), "muted"))
    room = width - sum(len(text) for text, _role in right) - 2
    return (line(indent, (cut(name, max(6, room - len(indent))), role), right=right),)
