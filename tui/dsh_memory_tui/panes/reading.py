"""The record beside a list: read in the background, shown when it comes, the same in Search and Records."""

from __future__ import annotations

import re

from textual.timer import Timer

from dsh_memory import visible
from dsh_memory.inspection import RecordView, TopicView
from dsh_memory_tui.messages import RecordRead, TopicRead
from dsh_memory_tui.panes.pane import Pane
from dsh_memory_tui.widgets.lines import line, wrap
from dsh_memory_tui.widgets.record_list import RecordList
from dsh_memory_tui.widgets.record_view import RecordText
from dsh_memory_tui.widgets.rows import Fixed

#: How long the cursor rests before a record is read, so that a held key does not read every record it passes.
REST_SECONDS = 0.04


class Reader(RecordList):
    """One record, with its topic above the body when asked for."""

    def __init__(self) -> None:
        super().__init__(classes="detail", cursor_on=False)
        self.path: str | None = None
        self.view: RecordView | None = None
        self._topic: TopicView | None = None
        self._topic_open = False
        self._pattern: re.Pattern[str] | None = None
        self._text: RecordText | None = None
        self._rest: Timer | None = None
        self._awaiting: str | None = None

    @property
    def resting(self) -> bool:
        """Whether a record will be asked for once the cursor has rested."""
        return self._rest is not None

    @property
    def pane(self) -> Pane:
        """The pane this stands in."""
        return next(node for node in self.ancestors if isinstance(node, Pane))

    def read(self, path: str, pattern: re.Pattern[str] | None = None) -> None:
        """Read a record, or read it again; what stands there stays until the answer comes."""
        self._pattern = pattern
        moved = path != self.path
        self.path = path
        if moved:
            self._topic = None
            self._stop_resting()
            self._awaiting = None
            self._rest = self.set_timer(REST_SECONDS, lambda: self._ask(path))
        else:
            self._ask(path)

    def empty(self, words: str) -> None:
        """Show a sentence in place of a record."""
        self._stop_resting()
        self.path = self.view = self._topic = self._text = self._awaiting = None
        self.show(
            lambda width: Fixed(tuple((None, line((part, "muted"))) for part in wrap(words, width))), top=True
        )

    def record_read(self, message: RecordRead) -> None:
        """Take the answer, unless the cursor has moved on."""
        if message.path != self.path:
            return
        new = self.view is None or self.view.entry.path != message.path
        self.view = message.view
        if message.failure is not None:
            self._awaiting = None
        if message.failure is not None:
            failure = message.failure
            self._text = None
            words = (f"{failure.code}: {failure.message}", failure.hint)
            self.show(
                lambda width: Fixed(
                    tuple(
                        (None, line((part, "muted")))
                        for word in words
                        for part in (*wrap(visible(word), width), "")
                    )
                ),
                top=True,
            )
            return
        self._draw_record(top=new)
        command, self._awaiting = self._awaiting, None
        if command is not None:
            self.run(command)
        if self._topic_open:
            self.pane.gateway.topic(message.path, self.pane)

    def topic_read(self, message: TopicRead) -> None:
        """Take the topic of the record that is shown."""
        if message.path != self.path or not self._topic_open:
            return
        self._topic = message.view
        if message.view is None:
            self._topic_open = False
            self.pane.post_message(self.pane.Said("Legacy and malformed records belong to no topic."))
        self._draw_record(top=message.view is not None)

    def run(self, command: str) -> None:
        """Carry out a command on the record that is shown."""
        pane, view = self.pane, self.view
        if self.path is not None and (view is None or view.entry.path != self.path):
            # The record under the cursor is on its way; the one that still stands here is not meant.
            self._awaiting = command
        elif view is None:
            pane.post_message(pane.Said("There is no record under the cursor."))
        elif command == "copy-id":
            entry_id = view.entry.id
            pane.post_message(pane.Copied(entry_id or view.entry.path, "id" if entry_id else "path"))
        elif command == "copy-body":
            pane.post_message(pane.Copied(view.body, "body"))
        elif command == "copy-citation":
            if view.citation:
                pane.post_message(pane.Copied(view.citation, "citation"))
            else:
                pane.post_message(pane.Said("A malformed record has no citation."))
        elif command == "edit":
            pane.post_message(pane.EditWanted(view.entry.path))
        elif command == "versions":
            pane.post_message(pane.VersionsWanted(view))
        elif command == "topic":
            self._topic_open = not self._topic_open
            if self._topic_open:
                pane.gateway.topic(view.entry.path, pane)
            else:
                self._topic = None
                self._draw_record(top=True)
        elif command in ("next-match", "previous-match"):
            self._to_match(1 if command == "next-match" else -1)

    def _stop_resting(self) -> None:
        if self._rest is not None:
            self._rest.stop()
            self._rest = None

    def _ask(self, path: str) -> None:
        self._stop_resting()
        if path == self.path and self.is_attached:
            self.pane.gateway.record(path, self.pane)

    def _draw_record(self, *, top: bool) -> None:
        if self.view is None:
            return
        text = RecordText(self.view, self._pattern, self.pane.now, self._topic)
        self._text = text
        self.show(text.build, top=top)

    def _to_match(self, step: int) -> None:
        matches = self._text.matches if self._text is not None else []
        if not matches:
            self.pane.post_message(self.pane.Said("Nothing is marked in this record."))
            return
        here = self.scroll_offset.y + 2
        after = (
            [at for at in matches if at > here] if step > 0 else [at for at in reversed(matches) if at < here]
        )
        self.go_to_line(after[0] if after else matches[0 if step > 0 else -1])
