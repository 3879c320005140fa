"""What the sample previews would change, and how often its records were used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Final

from dsh_memory.sample.content import with_days

#: Path -> how often a context was answered with it, and how many hours ago for the last time.
USES: Final = {
    "handbook/project.md": (31, 3),
    "handbook/preferences.md": (22, 2),
    "handbook/harbor/architecture.md": (17, 27),
    "handbook/codegen/snapshot-tests.md": (14, 30),
    "handbook/harbor/migrations.md": (11, 51),
    "handbook/lantern/部署.md": (9, 74),
    "handbook/team/people.md": (8, 26),
    "handbook/user/commit-messages.md": (8, 5),
    "handbook/codegen/naming.md": (6, 120),
    "handbook/kite/リリース手順.md": (5, 99),
    "handbook/codegen/release.md": (4, 170),
    "handbook/tooling/ci-runners.md": (3, 200),
    "handbook/harbor/release-freeze.md": (2, 44),
    "handbook/git-habits.md": (1, 410),
}

_NEW_LINT_RULE = """---
schema_version: 1
id: codegen/lint-switches
type: constraint
status: candidate
confidence: medium
created_at: <0>
updated_at: <0>
created_by: dsh-sync
tags:
  - codegen
  - typescript
---

# No exhaustive switches over server enums

A switch over an enum that comes from the server has a default branch. The lint rule
`no-exhaustive-server-enum` checks it in the shop and in the back office.

Jonas wrote the rule; two callers in the shop are still to be changed.
"""

_AUDIT = """---
schema_version: 1
id: harbor/audit
type: fact
confidence: high
created_at: <-4>
updated_at: <-4>
created_by: dsh-sync
tags:
  - harbor
---

# The auditors look at corrections

They want every manual correction of an invoice with the name of who signed it. The export is
`harbor export --corrections`, and it takes eight minutes.
"""

_HANDOVER = """---
schema_version: 1
id: rollout/<-4>-on-call-handover
type: observation
created_at: <-4>
updated_at: <-4>
created_by: dsh-sync
tags:
  - harbor
---

Session: Jonas hands the pager to Priya a week earlier, because of the audit.
"""

Edit = Callable[[str], str]


def waiting_changes(day: date) -> Mapping[str, str | Edit | None]:
    """The newer preview, which fits the memory of now: new texts, edits of old ones, None to delete."""
    return {
        "archive/codegen-python-prototype.md": None,
        "handbook/codegen/lint-switches.md": with_days(_NEW_LINT_RULE, day),
        "handbook/preferences.md": _sharpen_preferences,
        "handbook/project.md": _lose_most_of_the_project,
    }


def overtaken_changes(day: date) -> Mapping[str, str | Edit | None]:
    """The older preview, made before the newest sync: it can be read and discarded, not applied."""
    return {
        "handbook/harbor/audit.md": with_days(_AUDIT, day),
        "handbook/harbor/on-call.md": lambda text: text.replace(
            "Jonas until the end of the month, then Priya.", "Priya from this week on, because of the audit."
        ),
        "handbook/kite/offline-sync.md": lambda text: text.replace("status: candidate", "status: active"),
        "handbook/lantern/build.md": lambda text: text.replace("id: lantern/build", "id: lantern/build-site"),
        with_days("rollouts/<-4>-on-call-handover.md", day): with_days(_HANDOVER, day),
    }


def _sharpen_preferences(text: str) -> str:
    return text.replace(
        "- Short answers first, reasons after, no apologies.\n",
        "- Short answers first, reasons after. No apologies, no praise.\n"
        "- A plan only when the work takes more than an hour.\n"
        "- Numbers with their unit, and how they were measured.\n",
    )


def _lose_most_of_the_project(text: str) -> str:
    # What a model in a hurry writes: the reviewer should notice that the rest would be gone.
    head, _, _ = text.partition("## What it does")
    return head + "[rest unchanged]\n"
