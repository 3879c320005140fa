"""A core that answers from fixed values, so that every screen is the same on every machine."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from dsh_memory import MemoryFailure
from dsh_memory.errors import PreviewFailure, RepoUnavailable, RollbackFailure
from dsh_memory.inspection import (
    ActivityDay,
    ApplyPlan,
    ClearPlan,
    Count,
    DiscardPlan,
    DueRecord,
    Fact,
    FieldText,
    FileChange,
    FileDiff,
    History,
    MalformedRecord,
    MigratePlan,
    Need,
    Overview,
    PathCommit,
    Plan,
    PreviewRow,
    PreviewView,
    RecordEntry,
    RecordView,
    RecoverPlan,
    Refusal,
    RestorePlan,
    ReviewWarning,
    RollbackPlan,
    RunRow,
    RunView,
    SavePlan,
    Settings,
    Snapshot,
    TopicMember,
    TopicView,
    UsageFact,
    UsedRecord,
)
from dsh_memory_tui.core import SNAPSHOT_RUNS
from dsh_memory_tui.messages import Act

NOW = datetime(2026, 8, 20, 15, 4, 5, tzinfo=UTC)
HEAD = "a41f9c2d0e6b7f8891a2b3c4d5e6f70812345678"
NEW_HEAD = "b52e0d3e1f7c80992b3c4d5e6f7081923456789a"
APPLY = "550010e76d7e5c6995a1e15f7e439873586dff40"


def entry(
    path: str, id: str | None, type: str | None = "fact", status: str | None = "active", **more: Any
) -> RecordEntry:
    """A record in a list."""
    values: dict[str, Any] = {
        "title": path,
        "updated_at": "2026-08-10",
        "marks": (),
        "size": 420,
        "usage_count": 0,
        "last_usage": None,
    }
    values.update(more)
    return RecordEntry(path=path, id=id, type=type, status=status, **values)


ENTRIES = (
    entry(
        "archive/2025/old-codegen.md",
        "project/old-codegen",
        "decision",
        "archived",
        marks=("expired",),
        updated_at="2025-01-20",
    ),
    entry("archive/2025/yarn.md", "project/yarn", "procedure", "superseded", updated_at="2025-03-02"),
    entry("handbook/bad-type.md", None, None, None, marks=("malformed",), updated_at=None),
    entry(
        "handbook/codegen.md",
        "project/codegen",
        "decision",
        usage_count=31,
        last_usage=NOW - timedelta(hours=2),
    ),
    entry(
        "handbook/deploy.md",
        "ops/deploy",
        "procedure",
        marks=("review",),
        usage_count=12,
        updated_at="2026-07-30",
    ),
    entry("handbook/later.md", "project/later", "decision", "candidate", updated_at="2026-08-12"),
    entry(
        "handbook/preferences.md", "user/preferences", "preference", usage_count=22, updated_at="2026-08-18"
    ),
    entry(
        "handbook/tabs.md",
        "user/tabs",
        "preference",
        "conflicted",
        marks=("conflicted",),
        updated_at="2026-08-01",
    ),
    entry(
        "handbook/team/old-note.md", "legacy-4f2b7c1a9e0d3c55", None, None, marks=("legacy",), updated_at=None
    ),
    entry("handbook/team/oncall.md", "team/oncall", "fact", marks=("expiring",), updated_at="2026-06-11"),
    entry("handbook/部署方案.md", "ops/plan-b", "decision", updated_at="2026-08-09", usage_count=3),
    entry("rollouts/2026-08-10-session.md", "rollout/2026-08-10", "observation"),
    entry("rollouts/2026-08-19.md", "rollout/2026-08-19", "observation", updated_at="2026-08-19"),
)


def run_row(run_id: str, operation: str, status: str, ago: timedelta, **more: Any) -> RunRow:
    """A run in a list."""
    values: dict[str, Any] = {
        "started_at": NOW - ago,
        "finished_at": NOW - ago + timedelta(milliseconds=1_234),
        "duration_ms": 1_234,
        "phase": "complete",
        "changed_path_count": 2,
        "error_code": None,
        "recovery_commit": "9f2c4e1a" + "0" * 32,
        "apply_commit": APPLY,
        "rolled_back_by": None,
        "recovered_by": None,
        "undoes": None,
        "recovers": None,
    }
    values.update(more)
    return RunRow(run_id=run_id, operation=operation, status=status, **values)


RUNS = (
    run_row("20260820T120000Z-a1b2c3d4", "sync", "applied", timedelta(hours=3)),
    run_row(
        "20260819T101500Z-77e0aa01",
        "preview",
        "applied",
        timedelta(days=1, hours=5),
        changed_path_count=5,
        apply_commit="77e0aa01" + "1" * 32,
    ),
    run_row(
        "20260818T090000Z-60606060",
        "rollback",
        "rolled_back",
        timedelta(days=2, hours=6),
        changed_path_count=60,
        apply_commit="60e0aa01" + "2" * 32,
        undoes="20260818T080000Z-c1ea2000",
    ),
    run_row(
        "20260818T080000Z-c1ea2000",
        "clear",
        "applied",
        timedelta(days=2, hours=7),
        changed_path_count=60,
        apply_commit="c1ea2000" + "3" * 32,
        rolled_back_by="20260818T090000Z-60606060",
    ),
    run_row(
        "20260816T070000Z-fa11ed00",
        "sync",
        "failed",
        timedelta(days=4),
        error_code="too-many-files",
        changed_path_count=0,
        recovery_commit=None,
        apply_commit=None,
        phase="validating",
    ),
    run_row("20260702T070000Z-0c0ffee0", "migrate", "applied", timedelta(days=49), changed_path_count=9),
)

PREVIEWS = (
    PreviewRow(
        "20260820T150000Z-a1b2c3d4",
        NOW - timedelta(hours=1),
        NOW + timedelta(days=5, hours=2),
        1,
        ("archive/old.md", "handbook/new-tool.md", "handbook/preferences.md", "handbook/project.md"),
    ),
    PreviewRow(
        "20260818T091500Z-0f3e0f3e",
        NOW - timedelta(days=2),
        NOW + timedelta(days=1, hours=9),
        4,
        ("handbook/a.md",),
    ),
)

FILES = (
    FileChange("archive/old.md", "D", 0, 14, 420, 0),
    FileChange("handbook/new-tool.md", "A", 22, 0, 0, 700),
    FileChange("handbook/preferences.md", "M", 3, 1, 500, 560),
    FileChange("handbook/project.md", "M", 1, 96, 6_144, 400),
)

MALFORMED = MalformedRecord("handbook/bad-type.md", "invalid-metadata", 4, 'unknown type "opinion"', 180)

OVERVIEW = Overview(
    read_at=NOW,
    root="/home/dev/.dsh/storages/memory",
    shown_root="~/.dsh/storages/memory",
    settings=Settings(True, None),
    head=HEAD,
    branch="main",
    dirty_paths=(),
    history=History(True, datetime(2026, 5, 2, tzinfo=UTC), 412),
    schema_version=1,
    record_count=62,
    data_file_count=64,
    by_folder=(Count("handbook", 38), Count("rollouts", 18), Count("archive", 6)),
    by_type=(
        Count("fact", 21),
        Count("decision", 14),
        Count("preference", 9),
        Count("procedure", 8),
        Count("observation", 6),
        Count("constraint", 4),
    ),
    by_status=(
        Count("active", 49),
        Count("candidate", 5),
        Count("conflicted", 2),
        Count("superseded", 3),
        Count("archived", 3),
    ),
    legacy_count=4,
    malformed=(MALFORMED,),
    expired_count=1,
    expiring=(DueRecord("handbook/team/oncall.md", "team/oncall", "On call", "2026-08-24", 4),),
    due_for_review=(DueRecord("handbook/deploy.md", "ops/deploy", "Deploy", "2026-08-18", -2),),
    last_run=RUNS[0],
    previews=PREVIEWS,
    activity=tuple(
        ActivityDay(date(2026, 5, 29) + timedelta(days=day), (day * 7 % 11) % 6 * (day % 3 != 1))
        for day in range(84)
    ),
    most_used=(
        UsedRecord("handbook/codegen.md", "project/codegen", 31, NOW - timedelta(hours=2)),
        UsedRecord("handbook/preferences.md", "user/preferences", 22, NOW - timedelta(days=1, hours=1)),
        UsedRecord("handbook/deploy.md", "ops/deploy", 12, NOW - timedelta(days=6)),
        UsedRecord("handbook/部署方案.md", "ops/plan-b", 3, NOW - timedelta(days=20)),
    ),
    lock=None,
    active_run=None,
    interrupted_run=None,
    needs=(
        Need("bad", 1, "1 malformed record cannot be read", "open-malformed"),
        Need("attention", 2, "2 previews wait, the older expires in 33 hours", "open-previews"),
        Need("attention", 4, "4 legacy records have no front matter", "migrate"),
        Need("attention", 1, "1 record expires within 30 days", "open-expiring"),
    ),
    facts=(
        Fact(
            "bad",
            "malformed",
            "1 record cannot be read",
            "Mend its front matter; until then no search finds it.",
            "open-malformed",
            None,
            "handbook/bad-type.md",
            4,
        ),
        Fact(
            "attention",
            "legacy",
            "4 records have no front matter",
            "Migrate them: m",
            "migrate",
            "dsh-memory migrate",
        ),
        Fact("good", "root", "safe layout, owner only"),
        Fact("good", "git", "2.39.5, sealed"),
        Fact("good", "payload", "clean, branch main"),
        Fact("good", "lock", "free"),
        Fact("good", "journal", "128 runs readable"),
        Fact("good", "previews", "2 pending"),
    ),
)

BODY = """# Code generation

We chose TypeScript for the codegen pipeline, because its types are checked where the templates are written.

- Templates live in `tools/codegen/templates`.
- Run `make codegen` after every change of the schema.
- 代码生成使用 TypeScript 模板。

The Python generator was dropped: see rollouts/2026-08-10-session.md.
"""

OLD_TEXT = (
    "# Preferences\n\n- Answer in short sentences.\n- The user prefers spaces.\n"
    "- Tests before code.\n\nShort answers.\n"
)
NEW_TEXT = (
    "# Preferences\n\n- Answer in short sentences.\n- The user prefers tabs, two columns wide.\n"
    "- Tests before code.\n"
    "- No emoji.\n- 回答用中文。\n\nShort answers.\n"
)


def view_of(found: RecordEntry, body: str = BODY) -> RecordView:
    """A record, whole."""
    malformed = MALFORMED if "malformed" in found.marks else None
    return RecordView(
        entry=found,
        fields=()
        if found.type is None
        else (
            FieldText("schema_version", "1", (), 2),
            FieldText("id", found.id or "", (), 3),
            FieldText("type", found.type, (), 4),
            FieldText("tags", "[codegen, typescript]", ("codegen", "typescript"), 5),
        ),
        body=body,
        citation=f"[source: {found.path} · id: {found.id}]" if found.id else None,
        content_hash="sha256:" + "9f" * 32,
        confidence="high" if found.type else None,
        tags=("codegen", "typescript") if found.type else (),
        source_rollouts=("rollouts/2026-08-10-session.md",) if found.type else (),
        provenance=(("created_by", "dsh-sync"),) if found.type else (),
        expires_at="2026-08-24" if "expiring" in found.marks else None,
        review_after=None,
        usage=UsageFact(
            found.usage_count, 4 if found.usage_count else 0, 2 if found.usage_count else 1, found.last_usage
        ),
        malformed=malformed,
        topic_key=f"{found.type}:project" if found.type else None,
        history=(
            PathCommit(
                APPLY,
                NOW - timedelta(hours=3),
                "DPSK memory sync applied: 20260820T120000Z-a1b2c3d4",
                "DPSK Memory",
                found.path,
            ),
            PathCommit(
                "7c" * 20,
                NOW - timedelta(days=2),
                "DPSK memory write: 20260818T120000Z-0f0f0f0f",
                "DPSK Memory",
                found.path,
                version=2,
                operation="patch",
                agent="claude",
                door="rest",
            ),
            PathCommit(
                "0" * 40, NOW - timedelta(days=49), "Initialize DPSK memory repository", "DPSK Memory", None
            ),
        ),
    )


class FakeLooks:
    """The inspector's answers; tests change `overview`, `entries`, `runs`, and count calls."""

    def __init__(self) -> None:
        self.overview = OVERVIEW
        self.entries: tuple[RecordEntry, ...] = ENTRIES
        self.runs_rows: tuple[RunRow, ...] = RUNS
        self.failure: MemoryFailure | None = None
        self.plan_refusal: Refusal | None = None
        self.bodies: dict[str, str] = {}
        self.version = 0
        self.snapshots = 0
        self.hold: threading.Event | None = None

    def change(self) -> None:
        """Something changed outside."""
        self.version += 1

    def stamp(self) -> Hashable:
        return self.version

    def snapshot(self, run_limit: int = SNAPSHOT_RUNS) -> Snapshot:
        self.snapshots += 1
        version = self.version
        if self.hold is not None:
            self.hold.wait(10)
        if self.failure is not None:
            raise self.failure
        return Snapshot(version, self.overview, self.entries, self.runs_rows[:run_limit])

    def runs(
        self, limit: int | None = None, *, operation: str | None = None, status: str | None = None
    ) -> tuple[RunRow, ...]:
        fitting = [
            row
            for row in self.runs_rows
            if operation in (None, row.operation) and status in (None, row.status)
        ]
        return tuple(fitting[:limit])

    def record(self, path: str) -> RecordView:
        found = next((e for e in self.entries if e.path == path), None)
        if found is None:
            raise RepoUnavailable("The record is gone.", detail="record-missing")
        return view_of(found, self.bodies.get(path, BODY))

    def topic(self, path: str) -> TopicView | None:
        found = next(e for e in self.entries if e.path == path)
        if found.type is None:
            return None
        members = [e for e in self.entries if e.type == found.type][:3]
        rules = (("wins", "active before candidate"), ("loses", "status"), ("out", "expired 2026-01-01"))
        return TopicView(
            f"{found.type}:project",
            members[0].path,
            tuple(
                TopicMember(e, outcome, rule, None)
                for e, (outcome, rule) in zip(members, rules, strict=False)
            ),  # type: ignore[arg-type]
        )

    def run(self, run_id: str) -> RunView:
        row = next((r for r in self.runs_rows if r.run_id == run_id), None)
        if row is None:
            raise RollbackFailure("rollback-run-not-found", "No such run.")
        refusal = None
        newer = 0
        if row is not self.runs_rows[0]:
            newer = 1
            refusal = Refusal(
                "rollback-conflict", None, "Newer writes happened since.", "Roll back the newer runs first."
            )
        journal = (
            ("schema_version", 1),
            ("run_id", row.run_id),
            ("operation", row.operation),
            ("status", row.status),
            ("candidate_sessions", 3),
            ("processed_sessions", 3),
            ("skipped_sessions", 0),
            ("recovery_commit", row.recovery_commit),
            ("apply_commit", row.apply_commit),
            ("error_code", row.error_code),
            ("duration_ms", row.duration_ms),
        )
        files = () if row.error_code else (FILES[2], FILES[1])
        return RunView(
            row=row,
            head=self.overview.head,
            journal=journal,
            files=files,
            files_known=True,
            refusal=refusal,
            newer_writes=newer,
        )

    def run_diff(self, run_id: str, path: str) -> FileDiff:
        return self._diff(path)

    def preview(self, preview_id: str) -> PreviewView:
        row = next((p for p in self.overview.previews if p.preview_id == preview_id), None)
        if row is None:
            raise PreviewFailure("preview-not-found", "No such preview.")
        files = FILES if len(row.changed_paths) > 1 else (FileChange("handbook/a.md", "M", 1, 1, 10, 10),)
        warnings = (
            (
                ReviewWarning("deletes", "is deleted", "archive/old.md", False),
                ReviewWarning("shrinks", "shrinks by 94 %", "handbook/project.md", False),
            )
            if len(files) > 1
            else ()
        )
        return PreviewView(row=row, files=files, warnings=warnings, refusal=None)

    def preview_diff(self, preview_id: str, path: str) -> FileDiff:
        return self._diff(path)

    def _diff(self, path: str) -> FileDiff:
        change = next((f for f in FILES if f.path == path), FileChange(path, "M", 3, 1, 1, 1))
        return FileDiff(
            path,
            change.kind,
            None if change.kind == "A" else OLD_TEXT,
            None if change.kind == "D" else NEW_TEXT,
            False,
            change.old_size,
            change.new_size,
        )

    def _plan(
        self, operation: str, *what: str, word: str | None = None, way_back: str = ""
    ) -> dict[str, Any]:
        return {
            "operation": operation,
            "expected_head": self.overview.head,
            "what": what,
            "git_words": (
                "git commit: an empty payload on top of the recovery commit a41f9c2",
                "git update-ref refs/heads/main",
            ),
            "way_back": way_back,
            "confirm_word": word,
            "refusal": self.plan_refusal,
        }

    def clear_plan(self) -> Plan:
        return ClearPlan(
            **self._plan(
                "clear",
                "62 records in 3 folders and summary.md leave the work tree.",
                "They stay in Git: recovery commit a41f9c2 (HEAD, clean).",
                "Previews (2) stay, bodies included, and apply only after this clear is rolled back.",
                word="clear",
                way_back="Runs, this run, R.",
            ),
            record_count=62,
            by_folder=self.overview.by_folder,
            data_file_count=64,
            ignored_file_count=0,
            dirty_paths=(),
            recovery_commit=HEAD,
            previews_that_stay=tuple(p.preview_id for p in PREVIEWS),
        )

    def rollback_plan(self, run_id: str) -> Plan:
        row = next(r for r in self.runs_rows if r.run_id == run_id)
        return RollbackPlan(
            **self._plan(
                "rollback",
                f"Run {run_id} is undone: 1 file goes back, 1 goes away.",
                word=(row.apply_commit or "")[:7],
                way_back="The run before stays in Git; apply it again with a new sync.",
            ),
            run=row,
            restored=0,
            removed=1,
            changed_back=1,
            recovery_commit=row.recovery_commit,
            apply_commit=row.apply_commit,
        )

    def apply_plan(self, preview_id: str) -> Plan:
        return ApplyPlan(
            **self._plan(
                "preview-apply",
                "4 files change: 1 added, 2 modified, 1 deleted.",
                way_back="Runs, this run, R.",
            ),
            preview=self.preview(preview_id),
        )

    def discard_plan(self, preview_id: str) -> Plan:
        return DiscardPlan(
            **self._plan("discard", f"Preview {preview_id} is removed. Memory stays as it is.", way_back=""),
            preview=next(p for p in self.overview.previews if p.preview_id == preview_id),
        )

    def migrate_plan(self) -> Plan:
        return MigratePlan(
            **self._plan(
                "migrate", "4 records get front matter; their text stays.", way_back="Runs, this run, R."
            ),
            paths=("handbook/team/old-note.md",),
            malformed_count=1,
        )

    def recover_plan(self) -> Plan:
        return RecoverPlan(
            **self._plan(
                "recover", "Run 20260820T100000Z-12345678 is finished.", way_back="Runs, that run, R."
            ),
            run_id="20260820T100000Z-12345678",
            direction="forward",
            target_commit=HEAD,
            recovery_commit=HEAD,
        )

    def save_plan(self) -> Plan:
        return SavePlan(
            **self._plan("save", "1 file that editors left is committed.", way_back="Runs, this run, R."),
            files=(FILES[2],),
            problems=(),
        )

    def restore_plan(self, path: str, commit: str) -> Plan:
        return RestorePlan(
            **self._plan(
                "restore", f"{path} gets the text it had in {commit[:7]}.", way_back="Runs, this run, R."
            ),
            path=path,
            commit=commit,
            diff=FileDiff(path, "M", NEW_TEXT, OLD_TEXT, False, len(NEW_TEXT), len(OLD_TEXT)),
        )


class FakeCore:
    """Looks, searches and acts from fixed values; `acts` keeps what was asked for."""

    def __init__(self) -> None:
        self._looks = FakeLooks()
        self.acts: list[Act] = []
        self.searches: list[tuple[str, str]] = []
        self.warmed = 0
        self.act_error: dict[str, Any] | None = None

    @property
    def looks(self) -> FakeLooks:
        return self._looks

    def snapshot(self) -> Snapshot:
        return self._looks.snapshot()

    def warm(self) -> None:
        self.warmed += 1

    def search(self, query: str, scope: str) -> dict[str, Any]:
        self.searches.append((query, scope))
        results = [
            {
                "path": e.path,
                "score": max(1, 7 - index),
                "id": e.id,
                "type": e.type,
                "updated_at": e.updated_at,
                "content_hash": "sha256:x",
                "generation": 1,
                "source_rollouts": [],
                "snippet": "We chose TypeScript for the codegen pipeline, because its types are checked",
                "citation": f"[source: {e.path} · id: {e.id}]",
            }
            for index, e in enumerate(self._looks.entries)
            if e.type is not None and e.path.startswith(("handbook", "rollouts"))
        ]
        if "nothing" in query:
            results = []
        return {
            "ok": True,
            "value": {"query": query, "count": len(results), "results": results, "skipped": 1},
        }

    def act(self, act: Act) -> dict[str, Any]:
        self.acts.append(act)
        if self.act_error is not None:
            return {"ok": False, "error": self.act_error}
        looks = self._looks
        looks.overview = looks.overview._replace(head=NEW_HEAD)
        looks.change()
        values: dict[str, dict[str, Any]] = {
            "clear": {
                "alreadyEmpty": False,
                "clearedFileCount": 64,
                "recoveryCommit": HEAD,
                "clearCommit": NEW_HEAD,
            },
            "rollback": {"rollbackCommit": NEW_HEAD, "runId": act.params.get("runId", "")},
            "apply": {
                "status": "applied",
                "previewId": "x",
                "changed_paths": ["a", "b"],
                "apply_commit": NEW_HEAD,
            },
            "discard": {"removed": True, "previewId": act.params.get("previewId", "")},
            "migrate": {"status": "applied", "migratedCount": 4, "applyCommit": NEW_HEAD},
            "restore": {"path": act.params.get("path"), "restoredCommit": act.params.get("commit")},
            "enable": {"enabled": bool(act.params.get("enabled"))},
        }
        return {"ok": True, "value": values.get(act.kind, {})}


def empty_looks(looks: FakeLooks) -> None:
    """A repository right after init."""
    looks.entries = ()
    looks.runs_rows = ()
    looks.overview = OVERVIEW._replace(
        record_count=0,
        data_file_count=0,
        by_folder=(Count("handbook", 0), Count("rollouts", 0), Count("archive", 0)),
        by_type=(),
        by_status=(),
        legacy_count=0,
        malformed=(),
        expired_count=0,
        expiring=(),
        due_for_review=(),
        last_run=None,
        previews=(),
        activity=(),
        most_used=(),
        needs=(),
        facts=tuple(fact for fact in OVERVIEW.facts if fact.state == "good"),
        history=History(True, NOW, 1),
    )
