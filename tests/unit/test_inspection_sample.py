"""The inspector on the sample memory: every figure and word that the screens show."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dsh_memory import MemoryService
from dsh_memory.errors import MemoryFailure, PreviewFailure, RollbackFailure
from dsh_memory.inspection import Inspector, Snapshot
from dsh_memory.sample import create_sample

NOW = datetime(2026, 8, 20, 15, 30, tzinfo=UTC)
SYNC = "20260820T123000Z-4d2a1b3c"
CLEAR = "20260818T150500Z-1f37ac04"
UNDO = "20260818T152100Z-3a9be512"
WAITING = "20260820T142500Z-2c9a1b3d"
OVERTAKEN = "20260816T173000Z-0b60f3e1"


@pytest.fixture(scope="module")
def inspector(tmp_path_factory: pytest.TempPathFactory) -> Inspector:
    environment = create_sample(str(tmp_path_factory.mktemp("sample") / "home"), NOW)
    return Inspector(environment, lambda: NOW)


@pytest.fixture(scope="module")
def snapshot(inspector: Inspector) -> Snapshot:
    return inspector.snapshot()


@pytest.fixture
def fresh(tmp_path: Path) -> Inspector:
    """An inspector of a sample that the test may change."""
    return Inspector(create_sample(str(tmp_path / "dsh"), NOW), lambda: NOW)


def test_the_frame(snapshot: Snapshot) -> None:
    overview = snapshot.overview
    assert overview.shown_root == "$DSH_HOME/storages/memory"
    assert overview.settings.enabled is True
    assert overview.branch == "main"
    assert overview.dirty_paths == ()
    assert overview.read_at == NOW


def test_counts(snapshot: Snapshot) -> None:
    overview = snapshot.overview
    assert overview.record_count == len(snapshot.records) == 62
    assert [(count.name, count.count) for count in overview.by_folder] == [
        ("handbook", 38),
        ("rollouts", 18),
        ("archive", 6),
    ]
    assert sum(count.count for count in overview.by_type) == 56
    assert sum(count.count for count in overview.by_status) == 56
    assert overview.legacy_count == 4
    assert overview.expired_count == 2
    assert overview.data_file_count == 63
    assert [(record.path, record.line) for record in overview.malformed] == [
        ("handbook/bad-type.md", 4),
        ("handbook/lantern/release-checklist.md", 7),
    ]


def test_what_is_due(snapshot: Snapshot) -> None:
    overview = snapshot.overview
    assert [due.days for due in overview.expiring] == sorted(due.days for due in overview.expiring)
    assert [due.id for due in overview.expiring if due.days > 0] == [
        "harbor/release-freeze",
        "harbor/staging-access",
        "harbor/on-call",
    ]
    assert [(due.id, due.days) for due in overview.due_for_review][:2] == [
        ("user/review-style", -3),
        ("harbor/on-call", 5),
    ]


def test_what_needs_a_person_comes_worst_first(snapshot: Snapshot) -> None:
    assert [(need.state, need.sentence, need.action) for need in snapshot.overview.needs] == [
        ("bad", "2 malformed records", "open-malformed"),
        ("attention", "2 previews wait, the first expires in 3 days", "open-previews"),
        ("attention", "4 legacy records without front matter", "migrate"),
        ("attention", "3 records expire within 30 days", "open-expiring"),
        ("attention", "1 record is due for review", "open-review"),
    ]


def test_health_facts_come_worst_first(snapshot: Snapshot) -> None:
    facts = snapshot.overview.facts
    order = {"bad": 0, "attention": 1, "good": 2}
    assert [order[fact.state] for fact in facts] == sorted(order[fact.state] for fact in facts)
    assert {fact.topic for fact in facts if fact.state == "good"} == {
        "root",
        "branch",
        "git",
        "journal",
        "payload",
        "lock",
        "previews",
        "usage",
        "settings",
    }
    assert all(fact.next_step for fact in facts if fact.state != "good")
    assert next(fact.sentence for fact in facts if fact.topic == "journal") == "6 runs readable"


def test_history_and_activity(snapshot: Snapshot) -> None:
    overview = snapshot.overview
    assert overview.history.first_commit_at == datetime(2026, 5, 28, 15, 30, tzinfo=UTC)
    assert overview.history.commit_count > 80
    assert len(overview.activity) == 84
    assert overview.activity[-1].day == NOW.date()
    assert overview.activity[-1].commits == 1
    assert overview.activity[-3].commits == 2


def test_most_used(snapshot: Snapshot) -> None:
    used = snapshot.overview.most_used
    assert [(entry.id, entry.usage_count) for entry in used[:2]] == [
        ("project/codegen", 31),
        ("user/preferences", 22),
    ]


def test_rows_of_records(snapshot: Snapshot) -> None:
    rows = {row.path: row for row in snapshot.records}
    assert list(rows) == sorted(rows)
    project = rows["handbook/project.md"]
    assert project.title == "Codegen: the generator is written in TypeScript"
    assert (project.type, project.status, project.usage_count) == ("decision", "active", 31)
    marks = Counter(mark for row in rows.values() for mark in row.marks)
    assert marks == {
        "legacy": 4,
        "malformed": 2,
        "expired": 2,
        "expiring": 3,
        "review": 1,
        "conflicted": 4,
    }
    assert rows["handbook/bad-type.md"].id is None
    assert (rows["handbook/ideas.md"].id or "").startswith("legacy-")


def test_a_second_refresh_gives_the_same_rows(inspector: Inspector, snapshot: Snapshot) -> None:
    again = inspector.snapshot()
    assert all(before is after for before, after in zip(snapshot.records, again.records, strict=True))
    assert again.stamp == snapshot.stamp


def test_runs_say_what_became_of_them(snapshot: Snapshot) -> None:
    assert [(run.operation, run.status) for run in snapshot.runs] == [
        ("sync", "applied"),
        ("sync", "no_change"),
        ("rollback", "rolled_back"),
        ("clear", "applied"),
        ("preview", "failed"),
        ("migrate", "applied"),
    ]
    by_id = {run.run_id: run for run in snapshot.runs}
    assert by_id[CLEAR].rolled_back_by == UNDO
    assert by_id[UNDO].undoes == CLEAR
    assert snapshot.overview.last_run == by_id[SYNC]


def test_filters_come_before_the_limit(inspector: Inspector) -> None:
    assert [run.run_id for run in inspector.runs(1, status="applied", operation="clear")] == [CLEAR]
    assert inspector.runs(operation="clear")[0].rolled_back_by == UNDO


def test_a_run_whole(inspector: Inspector) -> None:
    view = inspector.run(SYNC)
    assert [(change.kind, change.path, change.added, change.removed) for change in view.files] == [
        ("M", "handbook/preferences.md", 3, 1),
        ("A", "rollouts/2026-08-20-side-by-side-diffs.md", 20, 0),
    ]
    assert view.refusal is None
    journal = dict(view.journal)
    assert journal["candidate_sessions"] == 3
    assert next(iter(journal)) == "schema_version"
    diff = inspector.run_diff(SYNC, "handbook/preferences.md")
    assert diff.old is not None and diff.new is not None
    assert "two columns wide" in diff.new and "two columns wide" not in diff.old
    added = inspector.run_diff(SYNC, "rollouts/2026-08-20-side-by-side-diffs.md")
    assert added.old is None


@pytest.mark.parametrize(
    ("run_id", "code", "detail"),
    [
        (CLEAR, "rollback-conflict", "newer-writes"),
        (UNDO, "rollback-not-applicable", "not-applied"),
        ("20260819T133000Z-08f4417b", "rollback-not-applicable", "not-applied"),
        ("20260815T103000Z-2b1e90f4", "rollback-not-applicable", "not-applied"),
        ("20260728T123000Z-0c85d1e7", "rollback-conflict", "newer-writes"),
    ],
)
def test_why_a_run_cannot_be_rolled_back(inspector: Inspector, run_id: str, code: str, detail: str) -> None:
    refusal = inspector.run(run_id).refusal
    assert refusal is not None
    assert (refusal.code, refusal.detail) == (code, detail)
    answer = MemoryService(inspector.environment, clock=lambda: NOW).rollback(run_id, "ROLLBACK_MEMORY")
    assert answer["ok"] is False
    assert (answer["error"]["code"], answer["error"]["detail"]) == (code, detail)


def test_the_waiting_preview(inspector: Inspector) -> None:
    view = inspector.preview(WAITING)
    assert [(change.kind, change.path) for change in view.files] == [
        ("D", "archive/codegen-python-prototype.md"),
        ("A", "handbook/codegen/lint-switches.md"),
        ("M", "handbook/preferences.md"),
        ("M", "handbook/project.md"),
    ]
    assert [(warning.kind, warning.path, warning.blocking) for warning in view.warnings] == [
        ("delete", "archive/codegen-python-prototype.md", False),
        ("shrinks", "handbook/project.md", False),
    ]
    assert view.refusal is None
    diff = inspector.preview_diff(WAITING, "handbook/project.md")
    assert diff.new is not None and diff.new.endswith("[rest unchanged]\n")


def test_the_overtaken_preview(inspector: Inspector) -> None:
    view = inspector.preview(OVERTAKEN)
    assert [warning.kind for warning in view.warnings] == ["live-memory-changed", "id-changed"]
    assert view.refusal is not None
    assert view.refusal.code == "live-memory-changed"


def test_a_record_whole(inspector: Inspector) -> None:
    view = inspector.record("handbook/project.md")
    assert [field.key for field in view.fields][:3] == ["schema_version", "id", "type"]
    assert next(field for field in view.fields if field.key == "tags").items == (
        "codegen",
        "typescript",
        "architecture",
    )
    assert view.body.startswith("\n# Codegen") or view.body.startswith("# Codegen")
    assert view.citation == "[source: handbook/project.md · id: project/codegen]"
    assert view.usage.usage_count == 31
    assert view.provenance == (("created_by", "dsh-sync"),)
    assert view.topic_key == "decision:project"
    assert view.history[0].subject.startswith("DPSK memory rollback: ")
    assert view.history[-1].subject == "Remember handbook/project.md"
    assert inspector.source("handbook/project.md").endswith(view.body.encode())


def test_a_malformed_record_shows_its_fault_and_its_text(inspector: Inspector) -> None:
    view = inspector.record("handbook/bad-type.md")
    assert view.malformed is not None
    assert view.malformed.line == 4
    assert [field.key for field in view.fields] == [
        "schema_version",
        "id",
        "type",
        "created_at",
        "updated_at",
    ]
    assert view.body.startswith("---\n")
    assert inspector.topic("handbook/bad-type.md") is None


def test_a_topic_names_the_rule(inspector: Inspector) -> None:
    topic = inspector.topic("handbook/project-later.md")
    assert topic is not None
    assert topic.winner == "handbook/project.md"
    assert [(member.entry.id, member.outcome) for member in topic.members] == [
        ("project/codegen", "wins"),
        ("project/later", "loses"),
        ("project/old-codegen", "out"),
    ]
    assert topic.members[2].rule == "expired 2026-07-27"


def test_the_clear_plan_is_what_clear_does(fresh: Inspector) -> None:
    plan = fresh.clear_plan()
    assert plan.confirm_word == "clear"
    assert plan.refusal is None
    assert plan.what[0] == "62 records in 3 folders and summary.md leave the work tree."
    assert plan.previews_that_stay == (WAITING, OVERTAKEN)
    answer = MemoryService(fresh.environment, clock=lambda: NOW).clear(
        "DELETE_MEMORY", expected_head=plan.expected_head
    )
    assert answer["ok"] is True
    assert answer["value"]["recoveryCommit"] == plan.recovery_commit
    assert answer["value"]["clearedFileCount"] == plan.data_file_count
    empty = fresh.clear_plan().refusal
    assert empty is not None and empty.detail == "already-empty"


def test_the_rollback_plan_is_what_rollback_does(fresh: Inspector) -> None:
    plan = fresh.rollback_plan(SYNC)
    assert plan.apply_commit is not None
    assert plan.confirm_word == plan.apply_commit[:7]
    assert (plan.restored, plan.changed_back, plan.removed) == (0, 1, 1)
    service = MemoryService(fresh.environment, clock=lambda: NOW)
    answer = service.rollback(SYNC, "ROLLBACK_MEMORY", expected_head=plan.expected_head)
    assert answer["ok"] is True
    assert len(answer["value"]["changedPaths"]) == 2
    view = fresh.run(SYNC)
    assert view.row.rolled_back_by == answer["value"]["rollbackRunId"]
    assert view.refusal is not None


def test_the_apply_plan_is_what_apply_does(fresh: Inspector) -> None:
    plan = fresh.apply_plan(WAITING)
    assert plan.refusal is None
    assert plan.what[0] == "4 files change: 1 new, 2 edited, 1 deleted."
    service = MemoryService(fresh.environment, clock=lambda: NOW)
    answer = service.apply_preview(WAITING, expected_head=plan.expected_head)
    assert answer["ok"] is True
    assert answer["value"]["changed_paths"] == [change.path for change in plan.preview.files]
    refused = service.apply_preview(OVERTAKEN)
    assert refused["ok"] is False
    assert refused["error"]["code"] == "live-memory-changed"


def test_the_migrate_plan_is_what_migrate_does(fresh: Inspector) -> None:
    plan = fresh.migrate_plan()
    assert plan.refusal is None
    assert plan.malformed_count == 2
    answer = MemoryService(fresh.environment, clock=lambda: NOW).migrate_legacy(dry_run=False)
    assert answer["ok"] is True
    assert tuple(answer["value"]["changedPaths"]) == plan.paths
    refusal = fresh.migrate_plan().refusal
    assert refusal is not None and refusal.detail == "no-change"


def test_the_discard_plan_says_there_is_no_way_back(inspector: Inspector) -> None:
    plan = inspector.discard_plan(OVERTAKEN)
    assert plan.expected_head is None
    assert plan.refusal is None
    assert plan.way_back.startswith("There is none")


def test_nothing_to_recover_and_nothing_to_save(inspector: Inspector) -> None:
    for plan in (inspector.recover_plan(), inspector.save_plan()):
        assert plan.refusal is not None
        assert plan.refusal.detail == "no-change"


def test_the_save_plan_shows_edits_and_their_faults(fresh: Inspector) -> None:
    root = Path(fresh.environment.memory_root)
    (root / "handbook/ideas.md").write_text("# Ideas\n\nOne.\n")
    (root / "handbook/new.md").write_text("---\nschema_version: 2\n---\n")
    (root / "rollouts/2026-06-05-first-session.md").unlink(missing_ok=True)
    plan = fresh.save_plan()
    assert [(change.kind, change.path) for change in plan.files][:2] == [
        ("M", "handbook/ideas.md"),
        ("A", "handbook/new.md"),
    ]
    assert ("invalid-schema-version", "handbook/new.md") in [
        (problem.kind, problem.path) for problem in plan.problems
    ]
    assert plan.refusal is not None
    assert plan.refusal.code == "invalid-schema-version"
    assert MemoryService(fresh.environment, clock=lambda: NOW).save()["ok"] is False
    (root / "handbook/new.md").unlink()
    assert fresh.save_plan().refusal is None


@pytest.mark.parametrize(
    "path",
    [
        "handbook/gone.md",
        "handbook/../../settings.yaml",
        "summary.md",
        "/etc/passwd.md",
        "handbook//x.md",
        "",
    ],
)
def test_a_path_that_is_no_record_is_refused(inspector: Inspector, path: str) -> None:
    with pytest.raises(MemoryFailure) as caught:
        inspector.record(path)
    assert caught.value.detail == "record-missing"


def test_unknown_ids_are_refused(inspector: Inspector) -> None:
    with pytest.raises(RollbackFailure):
        inspector.run("20200101T000000Z-00000000")
    with pytest.raises(RollbackFailure):
        inspector.run("../../x")
    with pytest.raises(RollbackFailure):
        inspector.run_diff(SYNC, "handbook/project.md")
    with pytest.raises(PreviewFailure):
        inspector.preview("20200101T000000Z-00000000")
    with pytest.raises(PreviewFailure):
        inspector.preview_diff(WAITING, "handbook/ideas.md")
