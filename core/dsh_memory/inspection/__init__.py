"""What a person looking at a memory needs beyond the contract: read-only, headless, typed.

`Inspector` answers with the frozen values of `values`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dsh_memory.inspection.inspector import Inspector
from dsh_memory.inspection.values import (
    Action,
    ActiveRunFact,
    ActivityDay,
    ChangeKind,
    Count,
    DueRecord,
    Fact,
    FieldText,
    FileChange,
    FileDiff,
    History,
    LockFact,
    MalformedRecord,
    Mark,
    MemoryFact,
    Need,
    Overview,
    PathCommit,
    PreviewRow,
    PreviewView,
    RecordEntry,
    RecordView,
    Refusal,
    ReviewWarning,
    RunRow,
    RunView,
    Settings,
    Snapshot,
    State,
    TopicMember,
    TopicView,
    UsageFact,
    UsedRecord,
)
from dsh_memory.inspection.watching import Begun

if TYPE_CHECKING:
    from dsh_memory.inspection.plan_values import (
        ApplyPlan,
        ClearPlan,
        DiscardPlan,
        MigratePlan,
        Plan,
        RecoverPlan,
        RestorePlan,
        RollbackPlan,
        SavePlan,
    )

__all__ = [
    "Action",
    "ActiveRunFact",
    "ActivityDay",
    "ApplyPlan",
    "Begun",
    "ChangeKind",
    "ClearPlan",
    "Count",
    "DiscardPlan",
    "DueRecord",
    "Fact",
    "FieldText",
    "FileChange",
    "FileDiff",
    "History",
    "Inspector",
    "LockFact",
    "MalformedRecord",
    "Mark",
    "MemoryFact",
    "MigratePlan",
    "Need",
    "Overview",
    "PathCommit",
    "Plan",
    "PreviewRow",
    "PreviewView",
    "RecordEntry",
    "RecordView",
    "RecoverPlan",
    "Refusal",
    "RestorePlan",
    "ReviewWarning",
    "RollbackPlan",
    "RunRow",
    "RunView",
    "SavePlan",
    "Settings",
    "Snapshot",
    "State",
    "TopicMember",
    "TopicView",
    "UsageFact",
    "UsedRecord",
]


def __getattr__(name: str) -> Any:
    # Plans are wanted once a person asks for an act; the first screen does not wait for them.
    if name.endswith("Plan"):
        return getattr(import_module("dsh_memory.inspection.plan_values"), name)
    raise AttributeError(name)
