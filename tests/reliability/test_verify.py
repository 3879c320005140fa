"""`verify` finds what is wrong, says so for machines, and mends only what loses nothing; `doctor` looks
around.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from dsh_memory.doctor import examine
from dsh_memory.environment import Environment
from dsh_memory.errors import RepoUnavailable
from dsh_memory.repository.clearing import clear
from dsh_memory.repository.usage import read_usage
from dsh_memory.service import MemoryService
from dsh_memory.verify import Report, verify
from tests.reliability.sweep_torn import DAMAGES
from tests.support.clocks import FrozenClock
from tests.support.repositories import MemoryRepository, record

RUN = "20260820T120000Z-a1b2c3d4"


@pytest.fixture
def healthy(memory: MemoryRepository, clock: FrozenClock) -> MemoryRepository:
    """A memory with two records, one journaled run, and closed modes."""
    memory.write_all(
        {"handbook/a.md": record("a"), "handbook/b.md": record("b"), ".last-sync": "1787000000\n"}
    )
    memory.write_run(RUN, status="no_change")
    memory.commit()
    os.chmod(memory.root, 0o700)
    os.chmod(memory.path(".sync/runs"), 0o700)
    return memory


def look(memory: MemoryRepository, clock: FrozenClock, *, repair: bool = False) -> Report:
    return verify(memory.environment, clock, repair=repair)


def kinds(report: Report) -> list[str]:
    return sorted(fault.kind for fault in report.faults)


def test_a_healthy_memory_has_no_fault(healthy: MemoryRepository, clock: FrozenClock) -> None:
    report = look(healthy, clock)
    assert (report.faults, report.ok) == ((), True)
    assert report.checked == {"runs": 1, "records": 2, "previews": 0}


def test_looking_changes_nothing(healthy: MemoryRepository, clock: FrozenClock) -> None:
    healthy.write(".sync/usage.json", "broken")

    def stamps() -> dict[str, int]:
        return {str(path): path.lstat().st_mtime_ns for path in healthy.root.rglob("*")}

    before = stamps()
    look(healthy, clock)
    assert stamps() == before


@pytest.mark.parametrize("damage", [b"", b"damaged", b"\0" * 60])
def test_a_damaged_object_is_made_anew_from_the_file_that_has_its_bytes(
    healthy: MemoryRepository, clock: FrozenClock, damage: bytes
) -> None:
    blob = healthy.git("rev-parse", "HEAD:handbook/a.md").decode().strip()
    path = healthy.path(f".git/objects/{blob[:2]}/{blob[2:]}")
    path.chmod(0o600)
    path.write_bytes(damage)
    assert {"git-damaged", "object-damaged"} <= set(kinds(look(healthy, clock)))
    report = look(healthy, clock, repair=True)
    assert report.ok, report.faults
    assert healthy.git("cat-file", "blob", blob) == healthy.path("handbook/a.md").read_bytes()


@pytest.mark.parametrize("name", [".git/HEAD", ".git/refs/heads/main"])
@pytest.mark.parametrize("keep", [0, 0.5])
def test_a_torn_ref_is_told_by_its_log(
    healthy: MemoryRepository, clock: FrozenClock, name: str, keep: float
) -> None:
    healthy.git("branch", "other", "HEAD~1")
    head = healthy.head
    path = healthy.path(name)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    report = look(healthy, clock)
    assert (kinds(report), report.ok) == (["ref-torn"], False)
    assert look(healthy, clock, repair=True).ok
    assert (path.read_bytes(), healthy.head) == (whole, head)
    assert look(healthy, clock).faults == ()


@pytest.mark.parametrize("damage", [b"", b"ref: refs/he", b"\0" * 21])
def test_a_torn_head_is_no_reason_to_begin_a_new_history(
    healthy: MemoryRepository, clock: FrozenClock, damage: bytes
) -> None:
    healthy.path(".git/HEAD").write_bytes(damage)
    service = MemoryService(healthy.environment)
    answer = service.init()
    assert not answer["ok"] and answer["error"]["detail"] in ("ref-torn", "unborn-head")
    assert kinds(look(healthy, clock)) == ["ref-torn"]
    assert look(healthy, clock, repair=True).ok
    assert service.status()["ok"]


def test_a_torn_head_that_no_log_tells_is_said(healthy: MemoryRepository, clock: FrozenClock) -> None:
    healthy.path(".git/HEAD").write_bytes(b"")
    healthy.path(".git/logs/HEAD").unlink()
    assert kinds(look(healthy, clock)) == ["ref-torn"]
    with pytest.raises(RepoUnavailable):
        look(healthy, clock, repair=True)


def test_damage_in_git_that_no_file_can_mend_is_found(healthy: MemoryRepository, clock: FrozenClock) -> None:
    blob = healthy.git("rev-parse", "HEAD:handbook/a.md").decode().strip()
    path = healthy.path(f".git/objects/{blob[:2]}/{blob[2:]}")
    path.chmod(0o600)
    path.write_bytes(b"damaged")
    healthy.write("handbook/a.md", record("a", "Edited since.\n"))
    report = look(healthy, clock, repair=True)
    assert "git-damaged" in kinds(report)
    assert not report.ok
    assert path.read_bytes() == b"damaged"


@pytest.mark.parametrize("damage", ["emptied", "zeroed", "cut to half"])
def test_a_broken_index_is_made_anew(healthy: MemoryRepository, clock: FrozenClock, damage: str) -> None:
    before = healthy.git("ls-files", "--stage")
    index = healthy.path(".git/index")
    index.write_bytes(DAMAGES[damage](index.read_bytes()))
    assert "index-broken" in kinds(look(healthy, clock))
    assert look(healthy, clock, repair=True).ok
    assert healthy.git("ls-files", "--stage") == before
    assert healthy.git("status", "--porcelain") == b""


def test_a_damaged_tree_ends_no_other_check(healthy: MemoryRepository, clock: FrozenClock) -> None:
    tree = healthy.git("rev-parse", "HEAD^{tree}").decode().strip()
    path = healthy.path(f".git/objects/{tree[:2]}/{tree[2:]}")
    path.chmod(0o600)
    path.write_bytes(b"")
    healthy.write(".sync/usage.json", "broken")
    (Path(healthy.environment.dsh_home) / "settings.yaml").write_bytes(b"\0" * 10)
    report = look(healthy, clock, repair=False)
    assert {"git-damaged", "check-ended", "usage-invalid", "settings-unavailable"} <= set(kinds(report))
    for envelope in (
        MemoryService(healthy.environment).status(),
        MemoryService(healthy.environment).health(),
    ):
        assert envelope["ok"] is False
        assert (envelope["error"]["code"], envelope["error"]["detail"]) == (
            "repo-unavailable",
            "head-unreadable",
        )


def test_a_run_file_that_git_has_whole_is_taken_back(healthy: MemoryRepository, clock: FrozenClock) -> None:
    path = healthy.path(f".sync/runs/{RUN}.json")
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    assert kinds(look(healthy, clock)) == ["journal-broken"]
    assert look(healthy, clock, repair=True).ok
    assert path.read_bytes() == whole
    path.unlink()
    assert kinds(look(healthy, clock)) == ["journal-missing"]
    report = look(healthy, clock, repair=True)
    assert (report.ok, len(report.repaired)) == (True, 1)
    assert path.read_bytes() == whole


def test_a_broken_run_file_that_git_does_not_have_is_left_alone(
    healthy: MemoryRepository, clock: FrozenClock
) -> None:
    path = healthy.write(".sync/runs/20260820T130000Z-a1b2c3d4.json", "{half")
    report = look(healthy, clock, repair=True)
    assert kinds(report) == ["journal-broken"]
    assert path.read_text() == "{half"


def test_commits_that_a_run_names_must_be_in_history(healthy: MemoryRepository, clock: FrozenClock) -> None:
    for number, commit in enumerate(["0" * 40, "--all", healthy.head]):
        healthy.write_run(
            f"20260820T13000{number}Z-a1b2c3d4", apply_commit=commit, recovery_commit=healthy.head
        )
    healthy.commit()
    assert kinds(look(healthy, clock)) == ["journal-commit-invalid", "journal-commit-unreachable"]


def test_a_broken_last_run_is_written_anew(healthy: MemoryRepository, clock: FrozenClock) -> None:
    healthy.write(".sync/last-run.json", "x")
    assert look(healthy, clock, repair=True).ok
    assert json.loads(healthy.path(".sync/last-run.json").read_text())["run_id"] == RUN


def test_records_are_checked_and_never_repaired(healthy: MemoryRepository, clock: FrozenClock) -> None:
    body = b"Some text.\n"
    fresh, stale = sha256(body).hexdigest(), sha256(b"other").hexdigest()
    healthy.write_all(
        {
            "handbook/bad.md": "---\nschema_version: 1\nid: Not Valid\n---\n",
            "archive/twin.md": record("a"),
            "handbook/fresh.md": record("fresh", content_hash=f"sha256:{fresh}"),
            "handbook/stale.md": record("stale", content_hash=f"sha256:{stale}"),
            "handbook/other.md": record("other", content_hash="v7"),
        }
    )
    healthy.commit()
    before = healthy.live_payload()
    report = look(healthy, clock, repair=True)
    assert {(fault.kind, fault.subject) for fault in report.faults} == {
        ("invalid-id", "handbook/bad.md"),
        ("duplicate-id", "archive/twin.md"),
        ("content-hash-mismatch", "handbook/stale.md"),
    }
    assert healthy.live_payload() == before


def test_broken_sidecars_are_found_and_mended(healthy: MemoryRepository, clock: FrozenClock) -> None:
    healthy.write_run("20260820T110000Z-a1b2c3d4", status="applied")
    healthy.commit()
    healthy.write(".sync/usage.json", "{broken")
    healthy.write(".last-sync", "never\n")
    healthy.remove(".sync/.gitignore")
    assert kinds(look(healthy, clock)) == ["sync-gitignore-missing", "usage-invalid", "watermark-invalid"]
    report = look(healthy, clock, repair=True)
    assert report.ok
    assert len(report.repaired) == 3
    with healthy.open() as repo:
        assert read_usage(repo.root).records == {}
    assert "{broken" in {path.read_text() for path in healthy.path(".sync").glob(".usage.*.tmp")}
    assert int(healthy.path(".last-sync").read_text()) == int(clock().timestamp()) - 3600


def test_open_modes_are_closed(healthy: MemoryRepository, clock: FrozenClock) -> None:
    healthy.path("handbook/a.md").chmod(0o644)
    healthy.path("archive").chmod(0o755)
    assert kinds(look(healthy, clock)) == ["mode-too-open", "mode-too-open"]
    assert look(healthy, clock, repair=True).faults == ()
    assert healthy.path("handbook/a.md").stat().st_mode & 0o777 == 0o600


def test_a_stale_lock_and_a_dead_run_are_recovered(healthy: MemoryRepository, clock: FrozenClock) -> None:
    lock = {
        "operation": "sync",
        "pid": 2**22 - 3,
        "runId": "20260820T115900Z-0123abcd",
        "startedAt": "2026-08-20T11:59:00Z",
    }
    active = {
        "schema_version": 1, "run_id": lock["runId"], "operation": "sync", "status": "running",
        "phase": "staging", "pid": lock["pid"], "started_at": lock["startedAt"],
    }  # fmt: skip
    healthy.write(".sync/operation.lock", json.dumps(lock))
    healthy.write(".sync/active-run.json", json.dumps(active))
    assert kinds(look(healthy, clock)) == ["interrupted-run", "stale-lock"]
    assert look(healthy, clock, repair=True).ok
    assert not healthy.path(".sync/operation.lock").exists()
    assert not healthy.path(".sync/active-run.json").exists()


def test_a_broken_preview_is_said(healthy: MemoryRepository, clock: FrozenClock) -> None:
    healthy.write_preview(RUN, {"summary.md": "x\n"})
    healthy.write(f".sync/previews/{RUN}/manifest.json", "x")
    report = look(healthy, clock)
    assert "preview-broken" in kinds(report)
    assert report.ok


def test_the_report_is_plain_json(healthy: MemoryRepository, clock: FrozenClock) -> None:
    healthy.write("handbook/\x1b[31m.md", "\0")
    report = look(healthy, clock).to_json()
    assert "\x1b" not in json.dumps(report, ensure_ascii=False)
    assert report["ok"] is False


def test_verify_agrees_with_what_the_writers_leave(healthy: MemoryRepository, clock: FrozenClock) -> None:
    with healthy.open() as repo:
        clear(repo, clock)
    assert look(healthy, clock).faults == ()


def states(environment: Environment, environ: dict[str, str]) -> dict[str, str]:
    return {check.name: check.state for check in examine(environment, environ)}


def test_doctor_finds_the_surroundings_good(healthy: MemoryRepository, tmp_path: Path) -> None:
    agent = tmp_path / "bin" / "dsh"
    agent.parent.mkdir()
    agent.write_text("#!/bin/sh\n")
    agent.chmod(0o755)
    assert set(states(healthy.environment, {"PATH": str(agent.parent)}).values()) == {"good"}


def test_doctor_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    nowhere = Environment(dsh_home=str(tmp_path / "none"), memory_root=str(tmp_path / "none" / "memory"))
    found = states(nowhere, {"PATH": str(tmp_path)})
    assert found == {
        "python": "good", "git": "bad", "dsh-home": "warning", "memory": "bad", "agent": "warning", "settings": "good",
    }  # fmt: skip
    advice = [check for check in examine(nowhere, {}) if check.state == "bad"]
    assert all(check.advice for check in advice)


def test_doctor_reads_broken_settings_as_bad(healthy: MemoryRepository) -> None:
    home = Path(healthy.environment.dsh_home)
    home.mkdir(exist_ok=True)
    (home / "settings.yaml").write_text("memory: [\n")
    assert states(healthy.environment, {})["settings"] == "bad"
