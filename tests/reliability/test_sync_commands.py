"""The commands around sync as processes: streams, exit codes, previews of one's own, transcripts, timers."""

from __future__ import annotations

import json
import os
import plistlib
import subprocess
import sys
import time
from pathlib import Path

import pytest
import zstandard

from dsh_memory.environment import Environment
from dsh_memory.repository.creation import init
from dsh_memory.sync.timers import KINDS, timer_text
from tests.support import fake_agent
from tests.support.repositories import MemoryRepository, record

SAMPLES = Path(__file__).parent.parent / "data" / "sessions"


@pytest.fixture
def live(tmp_path: Path) -> MemoryRepository:
    """A memory at a root with a space and an umlaut, one session due by the machine's clock."""
    home = tmp_path / "dsh home"
    memory = MemoryRepository(home / "my mem" / "ü", home)
    init(memory.environment)
    memory.write("handbook/kept.md", record("project/kept", "Keep me.\n" * 10))
    memory.write(".last-sync", "1000\n")
    memory.commit()
    path = home / "sessions" / "--w--" / "s1" / "session.jsonl.zstd"
    path.parent.mkdir(parents=True)
    path.write_bytes(zstandard.ZstdCompressor().compress(b'{"type":"session","id":"s1","cwd":"/w"}\n'))
    os.utime(path, (time.time() - 7200,) * 2)
    return memory


def command(
    memory: MemoryRepository, *arguments: str, stdin: bytes = b"", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """One run of the program as a scheduler starts it: a bare environment."""
    environ = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], **variables}
    options = ["--root", str(memory.root), "--dsh-home", memory.environment.dsh_home]
    return subprocess.run(
        [sys.executable, "-m", "dsh_memory", *arguments, *options],
        input=stdin, capture_output=True, env=environ, timeout=60, cwd="/",
    )  # fmt: skip


def agent(role: str, *arguments: object) -> str:
    return " ".join(f"'{word}'" for word in (sys.executable, fake_agent.__file__, role, *arguments))


def value(done: subprocess.CompletedProcess[bytes]) -> dict[str, object]:
    lines = done.stdout.splitlines()
    assert len(lines) == 1, (done.stdout, done.stderr)
    answer = json.loads(lines[0])
    return answer["value"] if answer["ok"] else answer["error"]


def test_a_scheduled_sync_under_a_bare_environment_works(live: MemoryRepository) -> None:
    done = command(live, "sync", "--json", DSH_MEMORY_AGENT=agent("good"))
    assert done.returncode == 0, done.stderr
    report = value(done)
    assert report["status"] == "applied"
    assert report["changed_paths"] == ["handbook/learned.md", "summary.md"]
    assert b"The agent is at work." in done.stderr
    runs = value(command(live, "runs", "--json"))["runs"]
    assert [run["run_id"] for run in runs] == [report["runId"]]  # type: ignore[attr-defined]


def test_a_missing_agent_names_it_and_ends_with_1(live: MemoryRepository) -> None:
    done = command(live, "sync", "--json")
    assert done.returncode == 1
    assert value(done)["code"] == "agent-missing"
    assert b"dsh is not on the PATH (/usr/bin:/bin)" in done.stderr


@pytest.mark.parametrize("text", ["memory:\n  enabled: false\n", 'memory: { enabled: "off" }\n'])
def test_memory_switched_off_is_a_stop_without_any_trace(
    live: MemoryRepository, text: str, tmp_path: Path
) -> None:
    (Path(live.environment.dsh_home) / "settings.yaml").write_text(text)
    head = live.head
    done = command(live, "sync", "--json", DSH_MEMORY_AGENT=agent("witness", tmp_path / "seen"))
    assert (done.returncode, value(done)["status"]) == (0, "disabled")
    assert live.head == head
    assert not (tmp_path / "seen").exists()


def test_settings_that_cannot_be_read_stop_sync(live: MemoryRepository) -> None:
    (Path(live.environment.dsh_home) / "settings.yaml").write_text("memory: [\n")
    done = command(live, "sync", "--json", DSH_MEMORY_AGENT=agent("good"))
    assert (done.returncode, value(done)["code"]) == (1, "settings-unavailable")


def test_a_refusal_names_file_line_and_kind_and_the_allow_list_lets_it_pass(live: MemoryRepository) -> None:
    done = command(live, "sync", DSH_MEMORY_AGENT=agent("secret"))
    assert done.returncode == 1
    words = done.stderr.decode()
    assert "secret-detected" in words
    assert "handbook/secret.md, line 6" in words
    assert "github-token" in words
    assert "a1B2" not in words
    digest = words.partition("sha256:")[2][:64]
    (Path(live.environment.dsh_home) / "memory-allowed-secrets").write_text(
        f"sha256:{digest} a test vector\n"
    )
    assert command(live, "sync", DSH_MEMORY_AGENT=agent("secret")).returncode == 0


def test_listing_and_dry_run_leave_no_trace(live: MemoryRepository) -> None:
    listed = value(command(live, "sync", "--list", "--json"))
    assert listed["count"] == 1
    head = live.head
    done = command(live, "sync", "--dry-run", "--json", DSH_MEMORY_AGENT=agent("good"))
    assert value(done)["status"] == "would_apply"
    assert live.head == head
    assert not live.path(".sync/runs").exists()


def test_preview_apply_and_discard_through_sync(live: MemoryRepository) -> None:
    made = value(command(live, "sync", "--preview", "--json", DSH_MEMORY_AGENT=agent("good")))
    assert (
        value(command(live, "sync", "--apply-preview", str(made["previewId"]), "--json"))["status"]
        == "applied"
    )
    chosen = "20260820T150000Z-a1b2c3d4"
    command(live, "sync", "--preview", chosen, DSH_MEMORY_AGENT=agent("move"))
    assert value(command(live, "sync", "--discard-preview", chosen, "--json"))["removed"] is True


@pytest.mark.parametrize(
    "arguments", [["--list", "--dry-run"], ["--time-limit", "0"], ["--print-timer", "cron"]]
)
def test_wrong_usage_ends_with_2(live: MemoryRepository, arguments: list[str]) -> None:
    assert command(live, "sync", *arguments).returncode == 2


# --- previews of one's own --------------------------------------------------------------------------------


def test_a_preview_from_a_folder(live: MemoryRepository, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    (folder / "handbook").mkdir(parents=True)
    (folder / "handbook" / "new.md").write_text(record("project/new", "New.\n"))
    (folder / "notes.txt").write_text("not of the payload")
    made = value(command(live, "preview", "create", "--from", str(folder), "--json"))["preview"]
    assert made["changed_paths"] == ["handbook/kept.md", "handbook/new.md"]  # type: ignore[index]
    (listed,) = value(command(live, "previews", "--json"))["previews"]  # type: ignore[misc]
    assert listed == made
    done = command(live, "preview", "apply", made["preview_id"], "--yes", "--json")  # type: ignore[index]
    assert value(done)["status"] == "applied"
    assert live.path("handbook/new.md").exists()


def test_a_preview_from_a_patch(live: MemoryRepository, tmp_path: Path) -> None:
    patch = (
        b"--- a/handbook/kept.md\n+++ b/handbook/kept.md\n@@ -3,7 +3,7 @@\n id: project/kept\n ---\n \n"
        b"-Keep me.\n+Changed.\n Keep me.\n Keep me.\n Keep me.\n"
        b"--- /dev/null\n+++ b/rollouts/n.md\n@@ -0,0 +1 @@\n+new\n"
    )
    made = value(command(live, "preview", "create", "--patch", "-", "--json", stdin=patch))["preview"]
    assert made["changed_paths"] == ["handbook/kept.md", "rollouts/n.md"]  # type: ignore[index]
    assert "Changed" not in live.path("handbook/kept.md").read_text()


@pytest.mark.parametrize(
    "patch",
    [
        b"no patch",
        b"--- a/handbook/none.md\n+++ b/handbook/none.md\n@@ -1 +1 @@\n-x\n+y\n",
        b"--- /dev/null\n+++ b/../outside.md\n@@ -0,0 +1 @@\n+x\n",
        b"--- /dev/null\n+++ b/.sync/operation.lock\n@@ -0,0 +1 @@\n+x\n",
        b"--- /dev/null\n+++ b/notes.txt\n@@ -0,0 +1 @@\n+x\n",
        b"diff --git a/handbook/l.md b/handbook/l.md\nnew file mode 120000\n--- /dev/null\n"
        b"+++ b/handbook/l.md\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n",
    ],
)
def test_a_patch_that_does_not_fit_or_leads_out_makes_no_preview(
    live: MemoryRepository, patch: bytes
) -> None:
    before = sorted(str(path) for path in live.root.parent.rglob("*"))
    done = command(live, "preview", "create", "--patch", "-", stdin=patch)
    assert done.returncode == 1
    assert sorted(str(path) for path in live.root.parent.rglob("*")) == before


def test_a_preview_from_an_editor(live: MemoryRepository, tmp_path: Path) -> None:
    editor = tmp_path / "my editor"
    editor.write_text('#!/bin/sh\necho "Edited." >> "$1"\n')
    editor.chmod(0o755)
    done = command(live, "preview", "create", "--edit", "handbook/kept.md", "--json", EDITOR=f"'{editor}'")
    assert value(done)["preview"]["changed_paths"] == ["handbook/kept.md"]  # type: ignore[index]
    assert "Edited." not in live.path("handbook/kept.md").read_text()
    assert value(command(live, "preview", "create", "--edit", "summary.md", "--json", EDITOR="true")) == {
        "preview": None
    }
    assert command(live, "preview", "create", "--edit", "../x", EDITOR="true").returncode == 1
    assert command(live, "preview", "create", "--edit", "summary.md", EDITOR="false").returncode == 2


def test_a_preview_over_uncommitted_edits_says_to_save_first(live: MemoryRepository, tmp_path: Path) -> None:
    live.write("handbook/kept.md", "edited\n")
    (tmp_path / "handbook").mkdir()
    done = command(live, "preview", "create", "--from", str(tmp_path))
    assert done.returncode == 1
    assert b"dsh-memory save" in done.stderr


def test_expired_previews_are_swept_a_week_later_by_a_writer(live: MemoryRepository, tmp_path: Path) -> None:
    live.write_preview("20260101T000000Z-a1b2c3d4", {"summary.md": "x"})
    live.path(".sync/previews/.making-20260101T000000Z-a1b2c3d4-00000000").mkdir()
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "rollouts" / "n.md").write_text("new\n")
    command(live, "preview", "create", "--from", str(tmp_path))
    (left,) = live.path(".sync/previews").iterdir()
    assert left.name != "20260101T000000Z-a1b2c3d4"


# --- transcripts, timers ----------------------------------------------------------------------------------


def test_transcript_reads_files_and_standard_input(live: MemoryRepository) -> None:
    whole = (SAMPLES / "synthetic.md").read_bytes()
    packed = SAMPLES / "synthetic.jsonl.zstd"
    assert command(live, "transcript", str(packed)).stdout == whole
    assert command(live, "transcript", "-", stdin=packed.read_bytes()).stdout == whole
    assert command(live, "transcript", "-", stdin=(SAMPLES / "synthetic.jsonl").read_bytes()).stdout == whole


def test_a_cut_log_is_said_and_a_damaged_one_is_an_error(live: MemoryRepository, tmp_path: Path) -> None:
    cut = tmp_path / "cut.zstd"
    cut.write_bytes((SAMPLES / "synthetic.jsonl.zstd").read_bytes()[:-20])
    done = command(live, "transcript", str(cut))
    assert (done.returncode, b"is cut" in done.stderr) == (0, True)
    cut.write_bytes(b"no log")
    assert command(live, "transcript", str(cut)).returncode == 1
    assert command(live, "transcript", str(tmp_path / "missing")).returncode == 1


def test_the_installed_filter_script_prints_a_transcript(live: MemoryRepository) -> None:
    script = live.path("scripts/filter_session.py")
    folder = Path(sys.executable).parent
    done = subprocess.run(
        [sys.executable, str(script), str(SAMPLES / "synthetic.jsonl.zstd")],
        capture_output=True, env={"PATH": f"{folder}:/usr/bin:/bin", "HOME": os.environ["HOME"]},
    )  # fmt: skip
    assert done.stdout == (SAMPLES / "synthetic.md").read_bytes(), done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_timers_name_this_installation_and_its_paths(live: MemoryRepository, kind: str) -> None:
    done = command(live, "sync", "--print-timer", kind)
    assert done.returncode == 0
    text = done.stdout.decode()
    assert str(live.root) in text
    assert "/usr/bin:/bin" in text
    assert "@" not in text


def test_timers_quote_hostile_paths() -> None:
    environment = Environment("/h & <b>", '/m 100% "q" \\')
    parsed = plistlib.loads(timer_text("launchd", environment, "/bin").encode())
    assert parsed["EnvironmentVariables"]["DSH_MEMORY_ROOT"] == environment.memory_root
    assert '"DSH_MEMORY_ROOT=/m 100%% \\"q\\" \\\\"' in timer_text("systemd", environment, "/bin")


def test_two_syncs_at_once_end_with_3(live: MemoryRepository, tmp_path: Path) -> None:
    running, end = tmp_path / "running", tmp_path / "end"
    words = [sys.executable, "-m", "dsh_memory", "sync", "--root", str(live.root)]
    first = subprocess.Popen(
        [*words, "--dsh-home", live.environment.dsh_home, "--agent-command", agent("wait_for", running, end)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not running.exists():
            assert first.poll() is None
            time.sleep(0.01)
        assert command(live, "sync", DSH_MEMORY_AGENT=agent("good")).returncode == 3
    finally:
        end.touch()
        assert first.wait(60) == 0
