"""What the gateway answers with: small frozen values, one message for each call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.message import Message

from dsh_memory.inspection import (
    FileDiff,
    PreviewView,
    RecordView,
    RunRow,
    RunView,
    Snapshot,
    TopicView,
)

if TYPE_CHECKING:
    from dsh_memory.inspection import Plan


@dataclass(frozen=True, slots=True)
class Failure:
    """A refusal or failure of the core, or of the screen itself (`internal-error`)."""

    code: str
    message: str
    detail: str | None
    hint: str


@dataclass(frozen=True, slots=True)
class Act:
    """One change a person confirmed.

    `kind` names the act; `params` go to the core's method; `expected_head` binds it to what was shown.
    """

    kind: str
    params: dict[str, Any]
    expected_head: str | None
    doing: str
    """What the title line says while it runs, with counts: `clearing 62 files`."""
    way_back: str = ""
    """How to undo it afterwards."""


@dataclass
class SnapshotRead(Message):
    """The whole state at one moment."""

    snapshot: Snapshot
    """Every list and figure, read from one state."""


@dataclass
class SnapshotFailed(Message):
    """The memory could not be read at all."""

    failure: Failure
    """Why."""


@dataclass
class StampRead(Message):
    """The cheap look whether anything changed."""

    changed: bool
    """Whether the screen is behind."""


@dataclass
class RecordRead(Message):
    """One record file, whole."""

    path: str
    view: RecordView | None
    failure: Failure | None = None


@dataclass
class TopicRead(Message):
    """The records that share a topic."""

    path: str
    view: TopicView | None


@dataclass
class RunsRead(Message):
    """All runs that fit a filter."""

    operation: str | None
    """The operation asked for."""
    status: str | None
    """The status asked for."""
    rows: tuple[RunRow, ...]
    """The runs, newest first."""
    failure: Failure | None = None
    """Why there are none."""


@dataclass
class RunRead(Message):
    """One run, whole."""

    run_id: str
    view: RunView | None
    failure: Failure | None = None


@dataclass
class PreviewRead(Message):
    """One preview, whole."""

    preview_id: str
    view: PreviewView | None
    failure: Failure | None = None


@dataclass
class DiffRead(Message):
    """Both sides of one changed file of a run or a preview."""

    owner: str
    path: str
    diff: FileDiff | None
    failure: Failure | None = None


@dataclass
class Found(Message):
    """The answer to a search."""

    query: str
    scope: str
    value: dict[str, Any] | None
    milliseconds: float
    failure: Failure | None = None


@dataclass
class PlanRead(Message):
    """What an act would do, ready for the dialog."""

    kind: str
    plan: Plan | None
    params: dict[str, Any]
    failure: Failure | None = None


@dataclass
class SourceRead(Message):
    """The bytes of one record file, to be edited."""

    path: str
    data: bytes | None
    failure: Failure | None = None


@dataclass
class ActEnded(Message):
    """An act is over: a value, or the reason why not."""

    act: Act
    value: dict[str, Any] | None
    failure: Failure | None = None
