"""Search: the contract's search as one types, matches marked, the record beside its result."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input

from dsh_memory import visible
from dsh_memory.inspection import RecordEntry, Snapshot
from dsh_memory_tui.frame import Bar
from dsh_memory_tui.messages import Found, RecordRead, TopicRead
from dsh_memory_tui.panes.pane import SplitPane
from dsh_memory_tui.panes.reading import Reader
from dsh_memory_tui.widgets.field import Field
from dsh_memory_tui.widgets.lines import Line, Piece, line, pad, pad_left, wrap
from dsh_memory_tui.widgets.record_list import RecordList
from dsh_memory_tui.widgets.record_view import marked, tokens_pattern
from dsh_memory_tui.widgets.rows import Drawn, Fixed
from dsh_memory_tui.wording import plural

SCOPES = ("active", "archive", "all")


class SearchPane(SplitPane):
    """A query line, results of two lines each, and the record under the cursor."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.scope = "active"
        self._asked: tuple[str, str] | None = None
        self._again = False
        self._pattern: re.Pattern[str] | None = None
        self._found: Found | None = None
        self._entries: dict[str, RecordEntry] = {}

    def compose(self) -> ComposeResult:
        with Horizontal(classes="query"):
            yield Bar(id="query-sign")
            yield Field(id="query", placeholder="words of an id, a tag or a body")
            yield Bar(id="query-count")
        with Horizontal(classes="split"):
            yield RecordList(classes="list")
            yield Reader()

    def on_mount(self) -> None:
        self.query_one("#query-sign", Bar).show_parts([("find", (Piece("/ ", "key"),))])
        self._show_results()
        self._show_count()

    @property
    def reader(self) -> Reader:
        """The record beside the results."""
        return self.query_one(Reader)

    @property
    def detail(self) -> RecordList:
        return self.reader

    @property
    def input(self) -> Input:
        """The query line."""
        return self.query_one("#query", Input)

    def show(self, snapshot: Snapshot) -> None:
        super().show(snapshot)
        self._entries = {entry.path: entry for entry in snapshot.records}
        self._search(again=True)

    def start_focus(self) -> None:
        self.input.focus()

    def run(self, command: str) -> None:
        if command == "scope":
            self.scope = SCOPES[(SCOPES.index(self.scope) + 1) % len(SCOPES)]
            self._show_count()
            self._search(again=True)
        elif command == "open":
            if self.listing.current_key is not None:
                self.open_detail()
        else:
            self.reader.run(command)

    def back(self) -> bool:
        if super().back():
            return True
        if self.input.has_focus:
            # Out of the query line, so that the keys of the panes work again; / leads back.
            self.listing.focus()
            return True
        return False

    def on_input_changed(self, message: Input.Changed) -> None:
        message.stop()
        self._search()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        if self.listing.current_key is not None:
            self.listing.focus()

    def on_key(self, event: events.Key) -> None:
        if event.key == "down" and self.input.has_focus and self.listing.current_key is not None:
            event.stop()
            self.listing.focus()

    def on_record_list_moved(self, message: RecordList.Moved) -> None:
        if message.sender is self.listing:
            self._read_current()

    def on_record_list_opened(self, message: RecordList.Opened) -> None:
        self.open_detail()

    def on_record_read(self, message: RecordRead) -> None:
        self.reader.record_read(message)

    def on_topic_read(self, message: TopicRead) -> None:
        self.reader.topic_read(message)

    def on_found(self, message: Found) -> None:
        asked, self._asked = self._asked, None
        if (message.query, message.scope) != (self._wanted(), self.scope) or self._again:
            self._again = False
            self._search(again=True)
            if asked is not None and message.query != self._wanted():
                return
        changed = (
            self._found is None or self._found.query != message.query or self._found.scope != message.scope
        )
        self._found = message
        self._pattern = tokens_pattern(message.query)
        self._show_results(top=changed)
        self._show_count()
        self._read_current()

    def _wanted(self) -> str:
        # Stored words are as typed; a query from a decomposing keyboard would find nothing.
        return unicodedata.normalize("NFC", self.input.value).strip()

    def _search(self, *, again: bool = False) -> None:
        query = self._wanted()
        if self._asked is not None:
            # One search at a time: the answer that comes starts the newest query.
            self._again = self._again or again
            return
        if not re.search(r"[^\W_]", query):
            self._found = None
            self._show_results(top=True)
            self._show_count()
            return
        if (
            not again
            and self._found is not None
            and (self._found.query, self._found.scope) == (query, self.scope)
        ):
            return
        self._asked = (query, self.scope)
        self.gateway.search(query, self.scope, self)

    def _read_current(self) -> None:
        path = self.listing.current_key
        if path is None:
            self.reader.empty("")
        else:
            self.reader.read(path, self._pattern)

    def _show_results(self, *, top: bool = False) -> None:
        found = self._found
        if found is None or found.value is None or not found.value["results"]:
            words = self._empty_words()
            self.listing.show(
                lambda width: Fixed(tuple((None, line((part, "muted"))) for part in wrap(words, width))),
                top=True,
            )
            self.reader.empty("")
            return
        entries, pattern = self._entries, self._pattern
        results: list[dict[str, Any]] = found.value["results"]
        rows: Drawn[dict[str, Any]] = Drawn(
            results,
            lambda result: str(result["path"]),
            lambda result, width: _draw(result, entries.get(result["path"]), pattern, width),
            height=2,
        )
        self.listing.show(lambda _width: rows, top=top)

    def _empty_words(self) -> str:
        found = self._found
        if found is None:
            if self.input.value.strip():
                return "A query needs a letter or a number."
            if self.snapshot is not None and not self.snapshot.records:
                return "There are no records to search yet."
            return "Type to search ids, tags, types and bodies. ctrl+t changes the scope."
        if found.failure is not None:
            return visible(f"{found.failure.code}: {found.failure.message}")
        where = (
            "active records"
            if self.scope == "active"
            else "the archive"
            if self.scope == "archive"
            else "any record"
        )
        wider = "" if self.scope == "all" else " ctrl+t searches elsewhere."
        return f"No match in {where}. Expired and malformed records never match.{wider}"

    def _show_count(self) -> None:
        pieces = [Piece(f"{self.scope} ▾", "accent")]
        if self._found is not None and self._found.value is not None:
            found = self._found
            value = self._found.value
            shown = len(value["results"])
            count = (
                plural(value["count"], "match", "matches")
                if shown == value["count"]
                else f"{shown:,} of {value['count']:,} matches"
            )
            wide = self.screen.has_class("-wide")
            spent = "" if self.list_only else f", {found.milliseconds:,.0f} ms"
            pieces.append(Piece(f"   {count}{spent} "))
            if value.get("skipped") and wide:
                pieces.append(Piece(f"  {value['skipped']:,} malformed left out", "attention"))
        self.query_one("#query-count", Bar).show_parts([("scope", tuple(pieces))])


def _draw(
    result: dict[str, Any], entry: RecordEntry | None, pattern: re.Pattern[str] | None, width: int
) -> tuple[Line, ...]:
    name = visible(str(result["path"] if str(result["id"]).startswith("legacy-") else result["id"]))
    used = f"used {entry.usage_count:,}" if entry is not None and entry.usage_count else ""
    right: list[tuple[str, str]] = []
    if width >= 48:
        right.append((pad(visible(str(result["type"] or "legacy")), 12), "muted"))
    right.append((pad_left(visible(str(result["updated_at"] or "")), 10), "muted"))
    if width >= 60:
        right.append((pad_left(used, 10), "muted"))
    head = Line(
        (Piece(pad_left(str(result["score"]), 4) + "  ", "accent"), *marked(name, pattern, "strong")),
        tuple(Piece(text, role) for text, role in right),
    )
    return head, Line((Piece("      "), *marked(visible(str(result["snippet"])), pattern, "muted")))
