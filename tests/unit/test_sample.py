"""The sample memory: believable, complete, and the same bytes for the same moment."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dsh_memory.records import Malformed, Record, decide, is_expired, read_record, topics
from dsh_memory.sample import create_sample

NOW = datetime(2026, 8, 20, 15, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(create_sample(str(tmp_path_factory.mktemp("sample") / "home"), NOW).memory_root)


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def files_of(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(root).parts
    }


def read_all(root: Path) -> list[Record | Malformed]:
    paths = [path for folder in ("handbook", "rollouts", "archive") for path in (root / folder).rglob("*.md")]
    return [read_record(str(path.relative_to(root)), path.read_bytes()) for path in sorted(paths)]


def test_the_numbers_of_its_records(root: Path) -> None:
    found = read_all(root)
    records = [record for record in found if isinstance(record, Record)]
    assert len(found) == 62
    assert sum(record.is_legacy for record in records) == 4
    assert len(found) - len(records) == 2
    today = NOW.date()
    soon = (today + timedelta(days=30)).isoformat()
    expiries = [
        record
        for record in records
        if record.metadata and record.metadata.expires_at and record.metadata.expires_at <= soon
    ]
    assert sum(is_expired(record, today) for record in expiries) == 2
    assert len(expiries) == 5
    undecided = [topic for topic in topics(records, today) if len(topic.verdicts) > 1]
    assert "decision:project" in [topic.key for topic in undecided]


def test_the_project_topic_tells_a_story(root: Path) -> None:
    members = [
        record
        for record in read_all(root)
        if isinstance(record, Record) and record.type == "decision" and record.id.startswith("project/")
    ]
    topic = decide(members, NOW.date())
    assert [(verdict.record.id, verdict.outcome) for verdict in topic.verdicts] == [
        ("project/codegen", "wins"),
        ("project/later", "loses"),
        ("project/old-codegen", "out"),
    ]


def test_six_runs_whose_commits_exist(root: Path) -> None:
    runs = [json.loads(path.read_bytes()) for path in sorted((root / ".sync/runs").glob("*.json"))]
    assert sorted((run["operation"], run["status"]) for run in runs) == [
        ("clear", "applied"),
        ("migrate", "applied"),
        ("preview", "failed"),
        ("rollback", "rolled_back"),
        ("sync", "applied"),
        ("sync", "no_change"),
    ]
    for run in runs:
        if run["apply_commit"]:
            parent = git(root, "rev-parse", run["apply_commit"] + "^").strip()
            assert parent == run["recovery_commit"]
            changed = git(root, "diff", "--name-only", "-z", parent, run["apply_commit"]).split("\0")[:-1]
            assert sorted(changed) == run["changed_paths"]


def test_the_newest_applied_run_is_the_newest_payload_write(root: Path) -> None:
    newest = json.loads((root / ".sync/last-run.json").read_bytes())
    assert newest["operation"] == "sync"
    payload = ["summary.md", "handbook", "rollouts", "archive"]
    assert git(root, "diff", "--name-only", newest["apply_commit"], "HEAD", "--", *payload) == ""
    assert git(root, "status", "--porcelain", "--ignored=no") == ""


def test_previews_fit_the_payload_they_were_made_from(root: Path) -> None:
    shrinking = []
    for folder in sorted((root / ".sync/previews").iterdir()):
        manifest = json.loads((folder / "manifest.json").read_bytes())
        preview = json.loads((folder / "preview.json").read_bytes())
        staging = files_of(folder / "staging")
        base = {entry["path"]: entry["size"] for entry in manifest["entries"]}
        assert set(preview["changed_paths"]) <= base.keys() | staging.keys()
        assert git(root, "cat-file", "-t", manifest["head_sha"]) == "commit\n"
        shrinking += [path for path, data in staging.items() if path in base and len(data) < 0.4 * base[path]]
        assert preview["expires_at"] > NOW.isoformat()
    assert shrinking == ["handbook/project.md"]


def test_the_same_moment_gives_the_same_bytes(root: Path, tmp_path: Path) -> None:
    again = Path(create_sample(str(tmp_path / "again"), NOW).memory_root)
    assert files_of(again) == files_of(root)
    assert git(again, "rev-parse", "HEAD") == git(root, "rev-parse", "HEAD")


def test_another_moment_moves_every_date(tmp_path: Path) -> None:
    later = NOW + timedelta(days=400)
    root = Path(create_sample(str(tmp_path / "later"), later).memory_root)
    assert (root / f"rollouts/{later.date().isoformat()}-side-by-side-diffs.md").is_file()
    assert git(root, "log", "-1", "--format=%ct").strip() > str(int((later - timedelta(days=1)).timestamp()))


def test_only_the_owner_may_read_it(root: Path) -> None:
    assert {path.stat().st_mode & 0o077 for path in (root / "handbook").rglob("*")} == {0}
    assert os.stat(root.parent.parent / "settings.yaml").st_mode & 0o777 == 0o600


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        create_sample(str(tmp_path), NOW)
