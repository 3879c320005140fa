"""What the inspector answers with: frozen values, one family for each pane.

Texts that come from records, paths, ids and commits are as found; whoever shows them makes them visible
first (`dsh_memory.text.visible`). Sentences and words written here hold no record text. Instants are aware
UTC, dates are `YYYY-MM-DD` texts, commit ids are full. They are named tuples, which load in a tenth of the time that
data classes take; the two with a field called `count` cannot be.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal, NamedTuple

State = Literal["good", "attention", "bad"]
Mark = Literal["malformed", "legacy", "expired", "expiring", "review", "conflicted", "dirty"]
ChangeKind = Literal["A", "M", "D"]
Action = Literal[
    "open-malformed",
    "open-previews",
    "open-expiring",
    "open-review",
    "open-conflicts",
    "migrate",
    "save",
    "recover",
    "enable",
    "verify",
    "wait",
]


@dataclass(frozen=True, slots=True)
class Count:
    """How many things share one name (a folder, a type, a status)."""

    name: str
    count: int


class Settings(NamedTuple):
    """The switch; `enabled` is None when `settings.yaml` cannot be read, and `failure` says why."""

    enabled: bool | None
    failure: Refusal | None


class Refusal(NamedTuple):
    """Why something cannot be done: the contract's code, one sentence, and what to do about it."""

    code: str
    detail: str | None
    sentence: str
    hint: str


class DueRecord(NamedTuple):
    """A record whose date comes soon or has passed; `days` is negative for the past."""

    path: str
    id: str
    title: str
    date: str
    days: int


class UsedRecord(NamedTuple):
    """A record and how often a context was answered with it."""

    path: str
    id: str
    usage_count: int
    last_usage: datetime | None


class ActivityDay(NamedTuple):
    """How many commits touched the payload on one UTC day."""

    day: date
    commits: int


class History(NamedTuple):
    """What Git can give back; `first_commit_at` and `commit_count` are of HEAD's ancestry."""

    recoverable: bool
    first_commit_at: datetime | None
    commit_count: int


class MalformedRecord(NamedTuple):
    """A record file that cannot be read: the code, the line (1-based, if known) and the reason in words."""

    path: str
    code: str
    line: int | None
    reason: str
    size: int


class LockFact(NamedTuple):
    """Who holds the operation lock; without `active` the holder is gone, `stale_reason` says how we know."""

    operation: str | None
    pid: int | None
    run_id: str | None
    started_at: datetime | None
    active: bool
    stale_reason: str | None


class ActiveRunFact(NamedTuple):
    """The run that is on its way, or (`interrupted`) whose process is gone."""

    run_id: str
    operation: str
    phase: str
    pid: int | None
    started_at: datetime | None
    interrupted: bool


class Fact(NamedTuple):
    """One line of health: a state, a topic word, what is so, and what to do next (None when all is well).

    `action` names the act that mends it, `command` the same for a shell; `path` and `line` point at a file.
    """

    state: State
    topic: str
    sentence: str
    next_step: str | None = None
    action: Action | None = None
    command: str | None = None
    path: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """One line of "Needs you": how many of what, in one sentence, and the act it asks for."""

    state: State
    count: int
    sentence: str
    action: Action


class RecordEntry(NamedTuple):
    """A record file in a list; `id` is the derived one for a legacy record and None for a malformed one.

    `title` is the body's first heading or first line, else the file's name. `type` and `status` are None
    where there is no readable front matter. `size` is in bytes.
    """

    path: str
    id: str | None
    title: str
    type: str | None
    status: str | None
    updated_at: str | None
    marks: tuple[Mark, ...]
    size: int
    usage_count: int
    last_usage: datetime | None


class FieldText(NamedTuple):
    """One front-matter field as typed; `line` is 1-based in the file, `items` are a list's entries."""

    key: str
    raw: str
    items: tuple[str, ...]
    line: int


class PathCommit(NamedTuple):
    """A commit that touched one record; `path` is where it left the file, None where it removed it.

    `version`, `operation`, `agent` and `door` are what a write of the memory API says of itself, None where other
    hands made the commit. A commit with a `path` can be restored.
    """

    commit: str
    committed_at: datetime
    subject: str
    author: str
    path: str | None = None
    version: int | None = None
    operation: str | None = None
    agent: str | None = None
    door: str | None = None


class UsageFact(NamedTuple):
    """What the usage sidecar knows of one record."""

    usage_count: int
    prior_usage_count: float
    generation: int
    last_usage: datetime | None


class MemoryFact(NamedTuple):
    """What the memory API keeps of a record: through which door it came, from whom, and whom it is for.

    `door` is rest, mcp or skill; `path` is the client's own, `expires_at` a day or an exact instant.
    """

    door: str | None
    agent: str | None
    agent_instance: str | None
    source: str | None
    path: str
    bucket: str
    scope: str | None
    team: str | None
    kind: str
    memory_type: str
    status: str
    version: int
    semantic_key: str | None
    importance: float | None
    confidence: float | None
    expires_at: str | None


class RecordView(NamedTuple):
    """One record file, whole; `body` is the text after the front matter, or the whole file when malformed.

    Bytes that are not UTF-8 stand in `body` as U+FFFD. `malformed` says why the front matter was refused.
    `history` is newest first. `memory` is None for a record that no client of the memory API wrote.
    """

    entry: RecordEntry
    fields: tuple[FieldText, ...]
    body: str
    citation: str | None
    content_hash: str
    confidence: str | None
    tags: tuple[str, ...]
    source_rollouts: tuple[str, ...]
    provenance: tuple[tuple[str, str], ...]
    expires_at: str | None
    review_after: str | None
    usage: UsageFact
    malformed: MalformedRecord | None
    topic_key: str | None
    history: tuple[PathCommit, ...]
    memory: MemoryFact | None = None


class TopicMember(NamedTuple):
    """One record of a topic and the rule that decided about it."""

    entry: RecordEntry
    outcome: Literal["wins", "loses", "out"]
    rule: str
    expires_at: str | None


class TopicView(NamedTuple):
    """All records of one conflict key, best first; `winner` is a path, None when all have expired."""

    key: str
    winner: str | None
    members: tuple[TopicMember, ...]


class FileChange(NamedTuple):
    """A file that a run, a preview or an editor changed; the line counts are None for what is no text."""

    path: str
    kind: ChangeKind
    added: int | None
    removed: int | None
    old_size: int
    new_size: int


class FileDiff(NamedTuple):
    """Both sides of one changed file; a side is None where the file does not exist there or is `binary`.

    Bytes that are not UTF-8 stand in the texts as U+FFFD.
    """

    path: str
    kind: ChangeKind
    old: str | None
    new: str | None
    binary: bool
    old_size: int
    new_size: int


class RunRow(NamedTuple):
    """A journaled run in a list, with what later records say of it (the journal itself is append-only)."""

    run_id: str
    operation: str
    status: str
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: int | None
    phase: str | None
    changed_path_count: int
    error_code: str | None
    recovery_commit: str | None
    apply_commit: str | None
    rolled_back_by: str | None
    recovered_by: str | None
    undoes: str | None
    recovers: str | None


class RunView(NamedTuple):
    """One run, whole: `journal` holds every field in the journal's order, `files` what the run changed.

    `refusal` is why it cannot be rolled back, None when it can; `newer_writes` counts the payload commits
    above its apply commit, as seen from `head`. `files_known` is false when a commit of the run is gone
    from the repository.
    """

    row: RunRow
    journal: tuple[tuple[str, object], ...]
    files: tuple[FileChange, ...]
    files_known: bool
    head: str | None
    refusal: Refusal | None
    newer_writes: int


class PreviewRow(NamedTuple):
    """A pending preview in a list; the counts come from its staging, never from what its file claims."""

    preview_id: str
    created_at: datetime
    expires_at: datetime
    candidate_sessions: int | None
    changed_paths: tuple[str, ...]


class ReviewWarning(NamedTuple):
    """Something a reviewer should see; a `blocking` one makes an apply fail. No path: it is about all."""

    kind: str
    sentence: str
    path: str | None
    blocking: bool
    line: int | None = None


class PreviewView(NamedTuple):
    """One pending preview with its changed files; `refusal` is why it cannot be applied now."""

    row: PreviewRow
    files: tuple[FileChange, ...]
    warnings: tuple[ReviewWarning, ...]
    refusal: Refusal | None


class Overview(NamedTuple):
    """Everything that Status, Health and the frame show, read at one moment.

    `shown_root` is short (`~/…` or `$DSH_HOME/…`). `branch` is None on a detached HEAD, `head` before the
    first commit. `record_count` counts the `.md` files of the three folders, legacy and malformed ones too;
    `expired` those whose validity ended. `activity` has one entry a day, oldest first, twelve weeks.
    `facts` are worst first.
    """

    read_at: datetime
    root: str
    shown_root: str
    settings: Settings
    head: str | None
    branch: str | None
    dirty_paths: tuple[str, ...]
    history: History
    schema_version: int
    record_count: int
    data_file_count: int
    by_folder: tuple[Count, ...]
    by_type: tuple[Count, ...]
    by_status: tuple[Count, ...]
    legacy_count: int
    malformed: tuple[MalformedRecord, ...]
    expired_count: int
    expiring: tuple[DueRecord, ...]
    due_for_review: tuple[DueRecord, ...]
    last_run: RunRow | None
    previews: tuple[PreviewRow, ...]
    activity: tuple[ActivityDay, ...]
    most_used: tuple[UsedRecord, ...]
    lock: LockFact | None
    active_run: ActiveRunFact | None
    interrupted_run: RunRow | None
    needs: tuple[Need, ...]
    facts: tuple[Fact, ...]


class Snapshot(NamedTuple):
    """One refresh of the screen: all lists read from the same state, and the stamp of that state."""

    stamp: Hashable
    overview: Overview
    records: tuple[RecordEntry, ...]
    runs: tuple[RunRow, ...]
