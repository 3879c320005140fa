"""Sync with a fake agent in every role: whatever it does, memory changes only by a verified, journaled
run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import zstandard

from dsh_memory.errors import ChangeRefused, MemoryFailure, OperationInProgress, PreviewFailure, SyncFailure
from dsh_memory.repository.clearing import clear
from dsh_memory.repository.journal import Journal, RunRecord
from dsh_memory.repository.preview_runs import apply_preview
from dsh_memory.repository.previews import find
from dsh_memory.repository.rollback import rollback
from dsh_memory.repository.staging import copy_payload, read_change
from dsh_memory.repository.view import payload_view
from dsh_memory.sync.pipeline import SyncOptions, SyncReport, list_candidates, sync
from tests.support import fake_agent
from tests.support.clocks import FrozenClock
from tests.support.repositories import NOON, MemoryRepository, record

AGENT = fake_agent.__file__
HOUR = timedelta(hours=1)
KEPT = record("project/kept", "Keep me.\n")
LONG = record("project/long", "A long story.\n" * 200)


class Stage:
    """A memory with two records, one due session, and a private temporary folder."""

    def __init__(self, memory: MemoryRepository, clock: FrozenClock, temporary: Path) -> None:
        self.memory = memory
        self.clock = clock
        self.temporary = temporary
        self.said: list[str] = []
        memory.write_all({"handbook/kept.md": KEPT, "handbook/long.md": LONG})
        self.set_watermark(int((NOON - 24 * HOUR).timestamp()))
        memory.commit()
        self.session("due", NOON - 2 * HOUR)

    @property
    def home(self) -> Path:
        return Path(self.memory.environment.dsh_home)

    def session(self, name: str, at: object, data: bytes | None = None) -> Path:
        path = self.home / "sessions" / "--work--" / name / "session.jsonl.zstd"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            {"type": "session", "version": 0, "id": name, "cwd": "/home/ada/work"},
            {
                "type": "user/message",
                "data": {"content": [{"type": "text", "text": f"Use TypeScript in {name}"}]},
            },
        ]
        packed = zstandard.ZstdCompressor().compress(
            b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        )
        path.write_bytes(packed if data is None else data)
        os.utime(path, (at.timestamp(), at.timestamp()))  # type: ignore[attr-defined]
        return path

    def set_watermark(self, seconds: int) -> None:
        self.memory.write(".last-sync", f"{seconds}\n")

    @property
    def watermark(self) -> int:
        text = self.memory.path(".last-sync").read_text()
        return int(text) if text else 0

    def run(self, role: str, *arguments: object, **options: object) -> SyncReport:
        words = [sys.executable, AGENT, role, *map(str, arguments)]
        command = " ".join(f"'{word}'" for word in words)
        chosen = SyncOptions(agent=command, **{"time_limit_seconds": 30.0, **options})  # type: ignore[arg-type]
        environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
        return sync(self.memory.environment, self.clock, chosen, environ, self.said.append)

    def runs(self) -> list[RunRecord]:
        with self.memory.open() as repo:
            return Journal(repo.root).runs()

    def payload_at_head(self) -> dict[str, bytes]:
        names = self.memory.git(
            "ls-tree", "-r", "-z", "--name-only", "HEAD", "summary.md", "handbook", "archive"
        )
        return {
            name: self.memory.git("cat-file", "blob", f"HEAD:{name}")
            for name in names.decode().split("\0")[:-1]
        }

    def assert_settled(self) -> None:
        """No lock, no active run, nothing of a dead or living run, no temporary folder, a clean worktree."""
        sync_folder = self.memory.path(".sync")
        left = {path.name for path in sync_folder.iterdir()} - {
            ".gitignore",
            "runs",
            "last-run.json",
            "previews",
        }
        assert left == set()
        assert list(self.temporary.iterdir()) == []
        assert not self.memory.path(".git/index.lock").exists()
        assert not any(self.memory.path(".git/dsh-memory").glob("*"))
        assert self.memory.git("for-each-ref", "refs/dsh-memory") == b""
        self.memory.git("fsck", "--strict", "--no-dangling")


@pytest.fixture
def stage(
    memory: MemoryRepository, clock: FrozenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Stage:
    temporary = tmp_path / "tmp space ü"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return Stage(memory, clock, temporary)


# --- what ends well ---------------------------------------------------------------------------------------


def test_a_good_change_is_applied_journaled_and_moves_the_watermark(stage: Stage) -> None:
    report = stage.run("good")
    assert report.status == "applied"
    assert report.changed_paths == ("handbook/learned.md", "summary.md")
    assert (report.candidates, report.processed, report.skipped) == (1, 1, 0)
    assert stage.memory.path("handbook/learned.md").read_text().endswith("TypeScript for code generation.\n")
    assert stage.payload_at_head() == stage.memory.live_payload()
    (run,) = stage.runs()
    assert (run.operation, run.status, run.run_id) == ("sync", "applied", report.run_id)
    assert (run.candidate_sessions, run.processed_sessions, run.skipped_sessions) == (1, 1, 0)
    assert run.apply_commit == report.apply_commit
    assert run.staging_digest is not None
    assert stage.watermark == int((NOON - HOUR).timestamp())
    assert os.stat(stage.memory.path(".last-sync")).st_mtime == stage.watermark
    assert stage.memory.git("status", "--porcelain", "--ignored=no") == b""
    assert stage.memory.git("log", "-2", "--format=%s").decode().splitlines() == [
        f"DPSK memory journal: {run.run_id}",
        f"DPSK memory sync applied: {run.run_id}",
    ]
    stage.assert_settled()


def test_an_applied_sync_can_be_rolled_back(stage: Stage) -> None:
    before = stage.memory.live_payload()
    report = stage.run("good")
    with stage.memory.open() as repo:
        rollback(repo, stage.clock, report.run_id)
    assert stage.memory.live_payload() == before


def test_a_sync_that_changes_nothing_is_journaled_and_moves_the_watermark(stage: Stage) -> None:
    report = stage.run("nothing")
    assert report.status == "no_change"
    assert report.answer == "Nothing was worth keeping."
    (run,) = stage.runs()
    assert (run.status, run.apply_commit, run.processed_sessions) == ("no_change", None, 1)
    assert stage.watermark == int((NOON - HOUR).timestamp())
    assert stage.run("fail").candidates == 0
    stage.assert_settled()


def test_the_agent_gets_a_copy_a_closed_folder_and_no_more_environment_than_is_named(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen_path = tmp_path / "seen.json"
    environ = {
        "PATH": os.environ["PATH"], "HOME": "/home/x", "LANG": "C", "LC_TIME": "C", "AWS_SECRET": "no",
        "GIT_DIR": "/elsewhere", "MODEL_KEY": "yes", "DSH_MEMORY_PROVIDER_ENV_NAMES": "MODEL_KEY, bad-name",
        "DSH_MEMORY_AGENT": f"'{sys.executable}' '{AGENT}' witness '{seen_path}'",
    }  # fmt: skip
    report = sync(stage.memory.environment, stage.clock, SyncOptions(), environ, stage.said.append)
    assert report.status == "applied"
    seen = json.loads(seen_path.read_text())
    assert not seen["cwd"].startswith(str(stage.memory.root))
    assert seen["mode"] == 0o700
    assert "handbook/kept.md" in seen["files"]
    assert not any(name.startswith((".git", ".sync")) for name in seen["files"])
    variables = seen["environment"]
    assert variables.pop("DSH_MEMORY_ROOT") == seen["cwd"]
    assert variables.pop("TMPDIR").startswith(str(stage.temporary))
    variables.pop("LC_CTYPE", None)
    variables.pop("__CF_USER_TEXT_ENCODING", None)
    assert variables == {
        "PATH": os.environ["PATH"], "HOME": "/home/x", "LANG": "C", "LC_TIME": "C", "MODEL_KEY": "yes",
        "DSH_HOME": str(stage.home), "DSH_PERMISSION_MODE": "workspace-write", "DSH_TELEMETRY_DISABLED": "1",
    }  # fmt: skip
    assert "# Session due" in next(iter(seen["transcripts"].values()))


def test_the_host_is_started_headless_with_its_sessions_in_a_private_folder(
    stage: Stage, tmp_path: Path
) -> None:
    host = tmp_path / "bin" / "dsh"
    host.parent.mkdir()
    host.write_text(
        f'#!/bin/sh\ncat "$4" > {tmp_path}/patch\nexec {sys.executable} {AGENT} witness {tmp_path}/seen "$@"\n'
    )
    host.chmod(0o755)
    environ = {"PATH": f"{host.parent}:{os.environ['PATH']}"}
    assert (
        sync(stage.memory.environment, stage.clock, SyncOptions(), environ, stage.said.append).status
        == "applied"
    )
    arguments = json.loads((tmp_path / "seen").read_text())["arguments"]
    assert arguments[2:5] == ["--profile", "headless", "--patch"]
    patch = (tmp_path / "patch").read_text()
    assert "- id: memory\n  disabled: true" in patch
    assert f'root: "{stage.temporary}' in patch


def test_a_move_to_the_archive_is_no_deletion(stage: Stage) -> None:
    assert stage.run("move").status == "applied"
    assert stage.payload_at_head() == stage.memory.live_payload()
    assert "handbook/kept.md" not in stage.memory.live_payload()


def test_a_file_may_become_a_folder(stage: Stage) -> None:
    assert stage.run("replace_by_folder").status == "applied"
    assert stage.payload_at_head() == stage.memory.live_payload()


def test_uncommitted_edits_are_in_the_recovery_commit(stage: Stage) -> None:
    stage.memory.write("handbook/kept.md", KEPT + "A person's line.\n")
    report = stage.run("good")
    assert report.status == "applied"
    kept = stage.memory.git("cat-file", "blob", f"{report.recovery_commit}:handbook/kept.md").decode()
    assert kept.endswith("A person's line.\n")
    assert stage.payload_at_head() == stage.memory.live_payload()


def test_a_chatty_agent_is_cut_and_redacted(stage: Stage) -> None:
    report = stage.run("noisy")
    assert report.answer.endswith("the last words")
    assert len(report.answer) <= 2001
    assert "hunter2" not in report.answer


# --- hostile edits ----------------------------------------------------------------------------------------

REFUSED = {
    "symlink": "unsafe-layout",
    "folder_link": "unsafe-layout",
    "git": "unsafe-layout",
    "foreign": "staging-invalid",
    "readme": "staging-invalid",
    "many": "too-many-files",
    "large": "file-too-large",
    "heavy": "change-too-large",
    "nul": "binary-file",
    "latin": "binary-file",
    "malformed": "invalid-id",
    "version": "invalid-schema-version",
    "duplicate": "duplicate-id",
    "secret": "secret-detected",
}


@pytest.mark.parametrize(("role", "code"), REFUSED.items())
def test_a_change_that_breaks_a_rule_leaves_memory_alone_and_is_journaled(
    stage: Stage, role: str, code: str
) -> None:
    before, head, watermark = stage.memory.live_payload(), stage.payload_at_head(), stage.watermark
    with pytest.raises(ChangeRefused) as refusal:
        stage.run(role)
    assert refusal.value.code == code
    assert stage.memory.live_payload() == before
    assert stage.payload_at_head() == head
    assert stage.watermark == watermark
    (run,) = stage.runs()
    assert (run.status, run.error_code, run.phase) == (
        "failed",
        code,
        "validating" if run.rejected_file_count else run.phase,
    )
    assert run.apply_commit is None
    stage.assert_settled()


@pytest.mark.parametrize(("role", "code"), [("many", "too-many-files"), ("heavy", "change-too-large")])
def test_a_copy_over_the_limits_is_not_even_read_to_its_end(
    stage: Stage, tmp_path: Path, role: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    with stage.memory.open() as repo:
        base = copy_payload(repo, payload_view(repo), str(copy))
    monkeypatch.chdir(copy)
    getattr(fake_agent, role)()
    with pytest.raises(ChangeRefused) as refusal:
        read_change(str(copy), base)
    assert refusal.value.code == code


def test_one_bad_file_of_five_refuses_all_and_each_has_its_verdict(stage: Stage) -> None:
    before = stage.memory.live_payload()
    with pytest.raises(ChangeRefused):
        stage.run("batch")
    assert stage.memory.live_payload() == before
    said = [sentence for sentence in stage.said if sentence.startswith(("good", "refused"))]
    assert [sentence.split()[0] for sentence in said] == ["good", "good", "good", "refused", "good"]
    assert "handbook/batch-3.md, line 3" in said[3]
    (run,) = stage.runs()
    assert run.rejected_file_count == 5


def test_only_payload_and_journal_are_ever_committed(stage: Stage) -> None:
    stage.memory.write(".env", "PASSWORD=hunter2")
    stage.memory.write("cache/index.bin", "x")
    stage.memory.write(".sync/usage.json", '{"schema_version":1,"records":{}}')
    stage.memory.write_preview("20260820T115900Z-0123abcd", {"summary.md": "x"})
    before = set(stage.memory.git("ls-tree", "-r", "--name-only", "HEAD").decode().split())
    report = stage.run("good")
    after = set(stage.memory.git("ls-tree", "-r", "--name-only", "HEAD").decode().split())
    assert after - before == {
        "handbook/learned.md",
        f".sync/runs/{report.run_id}.json",
        ".sync/last-run.json",
    }


def test_no_git_object_of_a_secret_exists(stage: Stage) -> None:
    with pytest.raises(ChangeRefused) as refusal:
        stage.run("secret")
    assert "a1B2" not in str(refusal.value)
    assert (refusal.value.path, refusal.value.line) == ("handbook/secret.md", 6)
    objects = stage.memory.git("cat-file", "--batch-all-objects", "--batch", "--buffer")
    assert b"a1B2" not in objects


def test_files_that_are_broken_already_do_not_stand_in_the_way(stage: Stage) -> None:
    stage.memory.write_all({"handbook/broken.md": "---\nid: Bad Id\n---\n", "handbook/twin.md": KEPT})
    stage.memory.commit()
    assert stage.run("good").status == "applied"


@pytest.mark.parametrize("role", ["delete_all", "shrink"])
def test_a_change_that_loses_much_waits_for_a_person(stage: Stage, role: str) -> None:
    before = stage.memory.live_payload()
    with pytest.raises(SyncFailure) as failure:
        stage.run(role)
    assert failure.value.detail == "approval-needed"
    assert stage.memory.live_payload() == before
    (run,) = stage.runs()
    assert (run.status, run.error_code) == ("failed", "approval-needed")
    preview_id = stage.memory.path(".sync/previews").iterdir().__next__().name
    assert preview_id in failure.value.message
    with stage.memory.open() as repo:
        assert apply_preview(repo, stage.clock, preview_id)["status"] == "applied"
        after = stage.memory.live_payload()
        rollback(repo, stage.clock, preview_id)
    assert after != before
    assert stage.memory.live_payload() == before
    stage.assert_settled()


def test_what_was_deleted_before_does_not_come_back_by_itself(stage: Stage) -> None:
    stage.memory.write("handbook/old.md", record("project/old", "Forget me.\n", created_at="2026-01-01"))
    stage.memory.commit()
    stage.memory.remove("handbook/old.md")
    stage.memory.commit()
    with pytest.raises(SyncFailure, match="brings back what was deleted"):
        stage.run("again")
    assert not stage.memory.path("handbook/again.md").exists()


# --- an agent that does not end well ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "code", "detail"),
    [
        ("fail", "agent-failed", "status-1"),
        ("killed", "agent-failed", "signal-9"),
        ("hang", "agent-timed-out", None),
    ],
)
def test_an_agent_that_fails_is_journaled_and_changes_nothing(
    stage: Stage, role: str, code: str, detail: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsh_memory.sync.agent._GRACE_SECONDS", 0.2)
    before, watermark = stage.memory.live_payload(), stage.watermark
    with pytest.raises(SyncFailure) as failure:
        stage.run(role, time_limit_seconds=1.0 if role == "hang" else 30.0)
    assert failure.value.code == code
    assert detail in (None, failure.value.detail)
    assert stage.memory.live_payload() == before
    assert stage.watermark == watermark
    (run,) = stage.runs()
    assert (run.status, run.error_code, run.phase, run.processed_sessions) == ("failed", code, "staging", 1)
    stage.assert_settled()


def test_the_words_of_a_failing_agent_are_passed_on(stage: Stage) -> None:
    with pytest.raises(SyncFailure, match="dsh: E_MODEL: no credit"):
        stage.run("fail")


def test_children_of_the_agent_end_with_it_and_what_they_write_late_counts_for_nothing(
    stage: Stage, tmp_path: Path
) -> None:
    with pytest.raises(MemoryFailure):
        # late.md has no header and is legacy: the change with it is refused or applied, but never half read.
        if stage.run("fork", tmp_path / "child").status == "applied":
            assert stage.payload_at_head() == stage.memory.live_payload()
            raise SyncFailure("sync-failed", "as well")
    pid = int((tmp_path / "child").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(_reaped(pid), 0)
    stage.assert_settled()


def _reaped(pid: int) -> int:
    """Waits until a killed orphan is no zombie any more; its new parent reaps it."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        except FileNotFoundError:
            break
        if state == "Z":
            return 2**22 + 1
        time.sleep(0.01)
    return pid


def test_a_folder_closed_by_the_agent_is_refused_and_removed(stage: Stage) -> None:
    if os.getuid() == 0:
        # Root reads it: the empty folder is no change at all.
        assert stage.run("locked_away").status == "no_change"
    else:
        with pytest.raises(ChangeRefused):
            stage.run("locked_away")
    stage.assert_settled()


def test_a_missing_agent_is_named_with_the_path_that_was_searched(stage: Stage) -> None:
    with pytest.raises(SyncFailure) as failure:
        sync(stage.memory.environment, stage.clock, SyncOptions(), {"PATH": "/usr/bin"}, stage.said.append)
    assert failure.value.code == "agent-missing"
    assert "dsh" in failure.value.message
    assert "/usr/bin" in failure.value.message


def test_an_agent_program_that_cannot_run_is_an_error(stage: Stage, tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("no program\n")
    program.chmod(0o755)
    with pytest.raises(SyncFailure) as failure:
        sync(stage.memory.environment, stage.clock, SyncOptions(agent=str(program)), {}, stage.said.append)
    assert (failure.value.code, failure.value.detail) == ("agent-missing", "agent-not-started")
    stage.assert_settled()


# --- previews and dry runs --------------------------------------------------------------------------------


def test_a_preview_waits_and_can_be_applied(stage: Stage) -> None:
    before, watermark = stage.memory.live_payload(), stage.watermark
    report = stage.run("good", preview=True, preview_id="20260820T115900Z-0123abcd")
    assert (report.status, report.preview_id) == ("preview", "20260820T115900Z-0123abcd")
    assert stage.memory.live_payload() == before
    assert stage.runs() == []
    assert stage.watermark == watermark
    with stage.memory.open() as repo:
        preview = find(repo.root, report.preview_id, stage.clock())
        assert preview.changed_paths == ("handbook/learned.md", "summary.md")
        assert preview.candidate_sessions == 1
        assert preview.expires - preview.created == timedelta(days=7)
        folder = stage.memory.path(f".sync/previews/{report.preview_id}")
        assert os.stat(folder).st_mode & 0o777 == 0o700
        assert apply_preview(repo, stage.clock, report.preview_id)["status"] == "applied"
    assert stage.memory.path("handbook/learned.md").exists()
    stage.assert_settled()


@pytest.mark.parametrize(
    "preview_id", ["latest", "../x", "20260820T115900Z-0123ABCD", "20260820T115900Z-0123abcd"]
)
def test_a_bad_or_taken_preview_id_is_refused_before_the_agent_runs(
    stage: Stage, preview_id: str, tmp_path: Path
) -> None:
    stage.memory.write_preview("20260820T115900Z-0123abcd", {"summary.md": "x"})
    with pytest.raises(PreviewFailure) as failure:
        stage.run("witness", tmp_path / "seen", preview=True, preview_id=preview_id)
    assert failure.value.code == "preview-invalid-request"
    assert not (tmp_path / "seen").exists()


def test_a_preview_over_uncommitted_edits_is_refused_before_the_agent_runs(
    stage: Stage, tmp_path: Path
) -> None:
    stage.memory.write("handbook/kept.md", "edited\n")
    with pytest.raises(SyncFailure) as failure:
        stage.run("witness", tmp_path / "seen", preview=True)
    assert failure.value.detail == "dirty-payload"
    assert not (tmp_path / "seen").exists()


def test_a_dry_run_touches_nothing_of_the_root(stage: Stage) -> None:
    def everything() -> dict[str, tuple[int, bytes]]:
        return {
            str(path): (path.lstat().st_mtime_ns, path.read_bytes())
            for path in stage.memory.root.rglob("*")
            if path.is_file()
        }

    before = everything()
    report = stage.run("good", dry_run=True)
    assert (report.status, report.changed_paths) == ("would_apply", ("handbook/learned.md", "summary.md"))
    assert stage.run("shrink", dry_run=True).reasons
    assert stage.run("nothing", dry_run=True).status == "no_change"
    with pytest.raises(ChangeRefused):
        stage.run("secret", dry_run=True)
    assert everything() == before
    stage.assert_settled()


def test_a_dry_run_creates_no_repository(tmp_path: Path, clock: FrozenClock) -> None:
    nowhere = MemoryRepository(tmp_path / "nowhere" / "memory")
    with pytest.raises(MemoryFailure) as failure:
        sync(nowhere.environment, clock, SyncOptions(dry_run=True), {}, print)
    assert failure.value.code == "repo-unavailable"
    assert not (tmp_path / "nowhere").exists()


def test_listing_starts_nothing_and_writes_nothing(stage: Stage) -> None:
    head = stage.memory.head
    _, sessions = list_candidates(stage.memory.environment, stage.clock)
    assert [Path(session.path).parent.name for session in sessions] == ["due"]
    assert stage.memory.head == head


# --- the watermark ----------------------------------------------------------------------------------------


def test_the_first_sync_skips_history(stage: Stage) -> None:
    stage.memory.write(".last-sync", "")
    report = stage.run("fail")
    assert (report.status, report.candidates) == ("no_change", 0)
    assert stage.watermark == int((NOON - HOUR).timestamp())
    stage.memory.remove(".last-sync")
    assert stage.run("fail").candidates == 0
    assert stage.watermark == int((NOON - HOUR).timestamp())
    stage.assert_settled()


def test_a_session_that_was_not_idle_yet_is_a_candidate_next_time_and_none_is_twice(stage: Stage) -> None:
    stage.session("busy", NOON - HOUR / 2)
    stage.session("edge", NOON - HOUR)
    stage.session("just-after", NOON - HOUR + timedelta(milliseconds=1))
    assert stage.run("nothing").candidates == 2
    stage.clock.advance(hours=1)
    assert stage.run("nothing").candidates == 2
    stage.clock.advance(hours=1)
    assert stage.run("nothing").candidates == 0


def test_a_sub_second_start_processes_no_session_twice(stage: Stage) -> None:
    stage.clock.advance(milliseconds=700)
    stage.session("edge", NOON - HOUR + timedelta(milliseconds=600))
    assert stage.run("nothing").candidates == 1
    stage.clock.advance(seconds=1)
    assert stage.run("nothing").candidates == 1
    stage.clock.advance(seconds=1)
    assert stage.run("nothing").candidates == 0


def test_a_checkout_that_changed_the_mtime_loses_no_session(stage: Stage) -> None:
    os.utime(stage.memory.path(".last-sync"))
    assert stage.run("nothing").candidates == 1


def test_a_clock_that_went_back_reads_nothing_twice(stage: Stage) -> None:
    assert stage.run("nothing").candidates == 1
    mark = stage.watermark
    stage.clock.advance(minutes=-30)
    assert stage.run("nothing").candidates == 0
    assert stage.watermark == mark


def test_a_watermark_from_the_future_is_mended_by_the_journal(stage: Stage) -> None:
    stage.run("nothing")
    stage.set_watermark(int((NOON + 1000 * HOUR).timestamp()))
    stage.clock.advance(hours=5)
    stage.session("later", NOON + HOUR)
    report = stage.run("nothing")
    assert report.candidates == 1
    assert any("future" in note for note in report.notes)
    assert stage.watermark == int((NOON + 4 * HOUR).timestamp())


def test_a_broken_watermark_stops_before_the_agent(stage: Stage) -> None:
    stage.memory.write(".last-sync", "yesterday\n")
    with pytest.raises(SyncFailure) as failure:
        stage.run("good")
    assert failure.value.detail == "watermark-invalid"
    stage.assert_settled()


def test_a_damaged_session_is_skipped_counted_and_said(stage: Stage) -> None:
    stage.session("damaged", NOON - 3 * HOUR, b"not zstd")
    report = stage.run("nothing")
    assert (report.candidates, report.processed, report.skipped) == (2, 1, 1)
    assert any("damaged was skipped" in note for note in report.notes)
    (run,) = stage.runs()
    assert (run.candidate_sessions, run.processed_sessions, run.skipped_sessions) == (2, 1, 1)


# --- others at work ---------------------------------------------------------------------------------------


def test_an_edit_while_the_agent_works_is_kept_and_so_is_the_agents_text(stage: Stage) -> None:
    edited = stage.memory.path("handbook/kept.md")
    with pytest.raises(SyncFailure) as failure:
        stage.run("edit_live", edited)
    assert failure.value.detail == "live-memory-changed"
    assert edited.read_text() == "A person wrote this.\n"
    (run,) = stage.runs()
    assert (run.status, run.error_code) == ("failed", "live-memory-changed")
    (preview,) = stage.memory.path(".sync/previews").iterdir()
    assert "TypeScript" in (preview / "staging/handbook/learned.md").read_text()
    assert stage.watermark == int((NOON - 24 * HOUR).timestamp())
    with stage.memory.open() as repo, pytest.raises(PreviewFailure) as refusal:
        apply_preview(repo, stage.clock, preview.name)
    assert refusal.value.code == "live-memory-changed"
    stage.assert_settled()


def test_a_folder_that_vanished_is_no_mass_deletion(stage: Stage, tmp_path: Path) -> None:
    os.rename(stage.memory.path("handbook"), tmp_path / "unmounted")
    head = stage.memory.head
    with pytest.raises(SyncFailure) as failure:
        stage.run("witness", tmp_path / "seen")
    assert failure.value.detail == "payload-vanished"
    assert not (tmp_path / "seen").exists()
    assert stage.memory.head == head
    stage.memory.path("handbook").mkdir()
    with pytest.raises(SyncFailure):
        stage.run("good")
    stage.assert_settled()


@contextmanager
def _syncing(stage: Stage, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Another process's sync whose agent is at work, and the file that lets it end."""
    running, end = tmp_path / "running", tmp_path / "end"
    agent = f"'{sys.executable}' '{AGENT}' wait_for '{running}' '{end}'"
    script = (
        "import os, sys, tempfile\n"
        "from dsh_memory.environment import Environment, parse_instant\n"
        "from dsh_memory.sync.pipeline import SyncOptions, sync\n"
        "home, root, temporary, agent = sys.argv[1:]\n"
        "tempfile.tempdir = temporary\n"
        "now = parse_instant('2026-08-20T12:00:00Z')\n"
        "sync(Environment(home, root), lambda: now, SyncOptions(agent=agent), dict(os.environ), print)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(stage.home), str(stage.memory.root), str(stage.temporary), agent],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        while not running.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        yield process, end
    finally:
        end.touch()
        process.kill()
        process.communicate()


def test_two_syncs_and_a_clear_at_once(stage: Stage, tmp_path: Path) -> None:
    with _syncing(stage, tmp_path) as (process, end):
        with pytest.raises(OperationInProgress):
            stage.run("good")
        with stage.memory.open() as repo, pytest.raises(OperationInProgress):
            clear(repo, stage.clock)
        end.touch()
        assert process.wait(30) == 0
    assert [run.status for run in stage.runs()] == ["applied"]
    stage.assert_settled()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_sync_that_is_told_to_end_cleans_up(stage: Stage, tmp_path: Path, number: signal.Signals) -> None:
    before = stage.memory.live_payload()
    with _syncing(stage, tmp_path) as (process, _):
        process.send_signal(number)
        process.wait(30)
    assert stage.memory.live_payload() == before
    (run,) = stage.runs()
    assert (run.status, run.error_code) == ("failed", "interrupted")
    stage.assert_settled()


def test_a_killed_sync_is_journaled_interrupted_and_cleaned_up_by_the_next(
    stage: Stage, tmp_path: Path
) -> None:
    with _syncing(stage, tmp_path) as (process, _):
        process.kill()
        process.wait(30)
    assert stage.run("nothing").status == "no_change"
    assert {run.status for run in stage.runs()} == {"no_change", "interrupted", "recovered"}
    stage.assert_settled()
