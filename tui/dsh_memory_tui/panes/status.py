"""Status: what needs a person, and what is there, in figures."""

from __future__ import annotations

from datetime import datetime

from textual.app import ComposeResult

from dsh_memory import visible
from dsh_memory.inspection import Action, Count, Overview, RunRow, Snapshot
from dsh_memory_tui.panes.pane import Pane
from dsh_memory_tui.widgets.lines import EMPTY, Line, beside, heading, line, pad, pad_left
from dsh_memory_tui.widgets.record_list import RecordList
from dsh_memory_tui.widgets.rows import Fixed
from dsh_memory_tui.wording import (
    ATTENTION,
    BAD,
    GOOD,
    OFF,
    ON,
    UNDONE,
    age,
    bar,
    days_left,
    milliseconds,
    plural,
    sparkline,
)

STATE_SIGNS = {"good": (GOOD, "good"), "attention": (ATTENTION, "attention"), "bad": (BAD, "danger")}
RUN_SIGNS = {
    "applied": (GOOD, "good"),
    "recovered": (GOOD, "good"),
    "rolled_back": (UNDONE, "accent"),
    "no_change": ("·", "muted"),
    "failed": (BAD, "danger"),
    "interrupted": (ATTENTION, "attention"),
}
#: The key that answers an action, and the pane or command behind it.
ACTION_KEYS: dict[Action, str] = {
    "open-malformed": "2",
    "open-previews": "4",
    "open-expiring": "↵",
    "open-review": "↵",
    "open-conflicts": "↵",
    "migrate": "m",
    "save": "s",
    "recover": "R",
    "enable": "space",
    "verify": "",
    "wait": "",
}
_ACTS: frozenset[Action] = frozenset(("migrate", "save", "recover", "enable"))
_LABEL = 15
_BAR_MAX = 26
#: Dates listed under Soon.
_SOON = 8


class StatusPane(Pane):
    """Counts, the last run, what waits; rows that ask for something can be opened."""

    def compose(self) -> ComposeResult:
        yield RecordList(classes="whole")

    @property
    def listing(self) -> RecordList:
        """The only list."""
        return self.query_one(RecordList)

    def show(self, snapshot: Snapshot) -> None:
        super().show(snapshot)
        self.listing.show(
            lambda width: Fixed(status_rows(snapshot.overview, self.now, width, read_only=self.read_only))
        )

    def run(self, command: str) -> None:
        key = self.listing.current_key or ""
        if command == "open":
            self._open(key)
        elif command == "enable" and self.snapshot is not None:
            enabled = self.snapshot.overview.settings.enabled
            self.post_message(self.ActWanted("enable", {"enabled": not enabled}))
        elif command in ("migrate", "save", "recover", "clear"):
            self.post_message(self.ActWanted(command, {}))
        elif command == "copy-id":
            kind, _, value = key.partition(":")
            if kind in ("run", "record") and value:
                self.post_message(self.Copied(value, "run id" if kind == "run" else "path"))
            else:
                self.post_message(self.Said("There is no id on this line."))

    def on_record_list_opened(self, message: RecordList.Opened) -> None:
        self._open(message.key)

    def _open(self, key: str) -> None:
        kind, _, value = key.partition(":")
        if kind == "record":
            self.post_message(self.GoTo("records", value))
        elif kind == "run":
            self.post_message(self.GoTo("runs", value))
        elif kind == "need":
            target = {
                "open-malformed": self.GoTo("health"),
                "open-previews": self.GoTo("previews"),
                "open-expiring": self.GoTo("records", only="expiring"),
                "open-review": self.GoTo("records", only="review"),
                "open-conflicts": self.GoTo("records", only="conflicted"),
                "verify": self.GoTo("health"),
                "wait": self.GoTo("health"),
            }.get(value)
            if target is not None:
                self.post_message(target)
            else:
                self.run(value)


Row = tuple[str | None, Line]


def action_key(action: Action, *, read_only: bool) -> str:
    """The key shown beside what it answers; none for an act where acts are off."""
    return "" if read_only and action in _ACTS else ACTION_KEYS[action]


def status_rows(overview: Overview, now: datetime, width: int, *, read_only: bool = False) -> tuple[Row, ...]:
    """All rows of the pane: in two columns where there is room, else one under the other."""
    two = width >= 96
    column = (width - 4) * 54 // 100 if two else width
    left = [*_needs(overview, read_only), *_facts(overview, now, column, read_only), *_soon(overview, column)]
    right_width = width - column - 4 if two else width
    right = [
        *_counts(overview, right_width),
        *_activity(overview, right_width),
        *_used(overview, now, right_width),
    ]
    if not two:
        return (*left, (None, EMPTY), *((None, content) for content in right))
    rows: list[Row] = []
    for index in range(max(len(left), len(right))):
        key, content = left[index] if index < len(left) else (None, EMPTY)
        rows.append((key, beside(content, right[index] if index < len(right) else EMPTY, column, gap=4)))
    return tuple(rows)


def _needs(overview: Overview, read_only: bool) -> list[Row]:
    rows: list[Row] = [(None, heading("Needs you"))]
    for need in overview.needs:
        sign, role = STATE_SIGNS[need.state]
        key = action_key(need.action, read_only=read_only)
        content = line((f"{sign} ", role), visible(need.sentence), right=[(key, "key")] if key else ())
        rows.append((f"need:{need.action}", content))
    if not overview.needs:
        rows.append(
            (None, line((f"{GOOD} ", "good"), ("Nothing. All is read, saved and in order.", "muted")))
        )
    rows.append((None, EMPTY))
    return rows


def _facts(overview: Overview, now: datetime, width: int, read_only: bool) -> list[Row]:
    switch_key = action_key("enable", read_only=read_only)
    rows: list[Row] = [(None, heading("State"))]
    enabled = overview.settings.enabled
    if enabled is None:
        failure = overview.settings.failure
        why = failure.sentence if failure else "unknown"
        rows.append(("switch:", _fact("Memory", ATTENTION, "attention", visible(why))))
    else:
        words = "enabled, agents see it" if enabled else "off: no prompt section, no sync"
        rows.append(
            (
                "switch:",
                _fact("Memory", ON if enabled else OFF, "accent" if enabled else "muted", words, switch_key),
            )
        )
    run = overview.last_run
    if run is None:
        rows.append(
            (None, _fact("Last run", OFF, "muted", "none yet; a sync, an edit or a clear makes the first"))
        )
    else:
        sign, role = RUN_SIGNS.get(run.status, ("·", "muted"))
        rows.append((f"run:{run.run_id}", _fact("Last run", sign, role, run_words(run, now))))
    history = overview.history
    if history.recoverable:
        since = f" since {history.first_commit_at:%Y-%m-%d}" if history.first_commit_at else ""
        words = f"every commit{since} ({history.commit_count:,})"
        rows.append((None, _fact("Recoverable", GOOD, "good", words)))
    else:
        rows.append((None, _fact("Recoverable", ATTENTION, "attention", "not yet: there is no commit")))
    if overview.dirty_paths:
        count = len(overview.dirty_paths)
        words = f"{plural(count, 'file')} changed outside, not saved"
        rows.append(
            (None, _fact("Work tree", ATTENTION, "attention", words, action_key("save", read_only=read_only)))
        )
    else:
        branch = f", branch {visible(overview.branch)}" if overview.branch else ", HEAD detached"
        rows.append((None, _fact("Work tree", GOOD, "good", f"clean{branch}")))
    legacy = f", {overview.legacy_count:,} legacy" if overview.legacy_count else ""
    rows.append((None, _fact("Schema", GOOD, "good", f"version {overview.schema_version}{legacy}")))
    rows.append((None, EMPTY))
    return rows


def _fact(label: str, sign: str, role: str, words: str, key: str = "") -> Line:
    return line((pad(label, _LABEL), "muted"), (f"{sign} ", role), words, right=[(key, "key")] if key else ())


def run_words(run: RunRow, now: datetime) -> str:
    """A run in one line: what became of it, what it was, when, how much, how long."""
    words = [visible(run.status.replace("_", " ")), visible(run.operation), age(run.started_at, now)]
    if run.error_code:
        words.append(visible(run.error_code))
    elif run.changed_path_count:
        words.append(plural(run.changed_path_count, "file"))
    if run.duration_ms is not None:
        words.append(milliseconds(run.duration_ms))
    return " · ".join(words)


def _soon(overview: Overview, width: int) -> list[Row]:
    due = [(record, "expires") for record in overview.expiring]
    due.extend((record, "review") for record in overview.due_for_review)
    if not due:
        return []
    # What has expired already asks for nothing: it comes last.
    due.sort(key=lambda item: (item[1] == "expires" and item[0].days <= 0, item[0].days, item[0].path))
    rows: list[Row] = [(None, heading("Soon"))]
    for record, what in due[:_SOON]:
        gone = what == "expires" and record.days <= 0
        role = "muted" if gone else "attention" if record.days <= 7 else "text"
        rows.append(
            (
                f"record:{record.path}",
                line(
                    (pad("expired" if gone else what, 8), "muted"),
                    (pad(days_left(record.days), 13), role),
                    (visible(record.id), "muted" if gone else "text"),
                    right=[(visible(record.date), "muted")],
                ),
            )
        )
    if len(due) > _SOON:
        rows.append((None, line((f"{'':8}and {len(due) - _SOON:,} more", "muted"))))
    return rows


def _counts(overview: Overview, width: int) -> list[Line]:
    lines = [heading("Memory", plural(overview.record_count, "record"))]
    if not overview.record_count:
        lines.append(
            line(("No records yet. Agents write them through a sync; see dsh-memory --help.", "muted"))
        )
        return [*lines, EMPTY]
    lines.extend(_bars(overview.by_folder, width))
    lines.append(EMPTY)
    lines.extend(_bars(overview.by_type, width))
    lines.append(EMPTY)
    lines.extend(_bars(overview.by_status, width))
    return [*lines, EMPTY]


def _bars(counts: tuple[Count, ...], width: int) -> list[Line]:
    top = max((count.count for count in counts), default=0)
    room = max(4, min(_BAR_MAX, width - 24))
    return [
        line(
            (pad(visible(count.name), 13), "muted"),
            pad_left(f"{count.count:,}", 7),
            "  ",
            (bar(count.count, top, room), "accent"),
        )
        for count in counts
    ]


def _activity(overview: Overview, width: int) -> list[Line]:
    days = [day.commits for day in overview.activity]
    if not any(days):
        return []
    room = max(12, min(len(days), width - 2))
    per = -(-len(days) // room)
    grouped = [sum(days[at : at + per]) for at in range(0, len(days), per)]
    weeks = len(days) // 7
    unit = "a day" if per == 1 else f"every {per} days"
    return [
        heading("Activity", f"{weeks} weeks, commits {unit}"),
        line((sparkline(grouped), "accent")),
        EMPTY,
    ]


def _used(overview: Overview, now: datetime, width: int) -> list[Line]:
    if not overview.most_used:
        return []
    lines = [heading("Most used", "by contexts")]
    top = overview.most_used[0].usage_count
    name_width = max(12, min(28, width - 30))
    for used in overview.most_used[:6]:
        lines.append(
            line(
                pad(visible(used.id), name_width),
                pad_left(f"{used.usage_count:,}", 5),
                ("  " + pad(bar(used.usage_count, top, 8), 8), "accent"),
                ("  " + age(used.last_usage, now), "muted"),
            )
        )
    return lines
