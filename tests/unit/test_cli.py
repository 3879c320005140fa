"""The command line in front of a service that answers from a script: what is asked, shown, and returned."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import dsh_memory
from dsh_memory.cli import main
from dsh_memory.contract import METHODS
from dsh_memory.environment import Environment
from tests.support.services import FakeService

HOSTILE = "\x1b]0;owned\x07 \u202e \x9b2J"
INERT = "\\x1b]0;owned\\x07 \\u202e \\x9b2J"
RUN = "20260819T120000Z-a1b2c3d4"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeService:
    """The service that the command line gets, whatever environment it asks for."""
    fake = FakeService(Environment(str(tmp_path), str(tmp_path / "memory")))

    def make(environment: Environment) -> FakeService:
        fake.environment = environment
        return fake

    monkeypatch.setattr("dsh_memory.service.MemoryService", make)
    return fake


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--version"], ["status", "--version"], ["preview", "show", "--version"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        assert capsys.readouterr().out == f"dsh-memory {dsh_memory.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--root", "/a/root", "--dsh-home", "/a/home", "status"],
        ["status", "--root", "/a/root", "--dsh-home", "/a/home"],
        ["--root", "/else", "status", "--root", "/a/root", "--dsh-home=/a/home"],
        ["--dsh-home", "/a/home", "call", "--root", "/a/root", "memory.status"],
        ["--root", "/a/root", "preview", "--dsh-home", "/a/home", "apply", "x", "--yes"],
    ],
)
def test_roots_are_named_in_front_or_behind(service: FakeService, arguments: list[str]) -> None:
    service.fail("memory.status", "repo-unavailable")
    main(arguments)
    assert service.environment == Environment(dsh_home="/a/home", memory_root="/a/root")


def test_relative_roots_are_below_the_current_folder(
    service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["call", "memory.status", "--root", "my mem/ü", "--dsh-home", "../x"])
    assert service.environment.memory_root == str(tmp_path / "my mem/ü")
    assert service.environment.dsh_home == str(tmp_path.parent / "x")


def test_the_environment_names_roots_too(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSH_HOME", "/b/home")
    main(["call", "memory.status"])
    assert service.environment.memory_root == "/b/home/storages/memory"


def test_a_root_that_no_path_can_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DSH_MEMORY_ROOT", "relative")
    assert main(["status", "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["code"] == "repo-unavailable"
    assert captured.err.startswith("dsh-memory: repo-unavailable (root-not-absolute)")


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["status", "too", "many"],
        ["--demo", "status"],
        ["status", "--js"],
        ["search"],
        ["search", "x", "--limit", "0"],
        ["search", "x", "--limit", "many"],
        ["search", "x", "--scope", "everything"],
        ["settings", "maybe"],
        ["preview"],
        ["preview", "show"],
        ["rollback"],
        ["serve"],
        ["serve", "--stdio", "--http"],
        ["edit"],
    ],
)
def test_wrong_usage(service: FakeService, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "usage: dsh-memory" in captured.err
    assert service.calls == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["call", "memory.nothing"],
        ["call", "status"],
        ["call", "__init__"],
        ["call", "memory.status", "[]"],
        ["call", "memory.status", "null"],
        ["call", "memory.status", "{"],
        ["call", "memory.search", '{"query": NaN}'],
        ["call", "memory.clear", '{"confirmation": "x", "confirmation": "DELETE_MEMORY"}'],
        ["status", "--root", ""],
        ["clear"],
        ["rollback", RUN],
        ["migrate"],
        ["recover"],
        ["save"],
        ["preview", "apply", RUN],
        ["preview", "discard", RUN],
        ["edit", "handbook/a.md"],
        [],
        ["--demo"],
        ["--read-only"],
    ],
)
def test_what_cannot_be_done_like_this_calls_nothing(
    service: FakeService,
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open(os.devnull) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("dsh-memory: ")
    assert captured.err.count("\n") == 1
    assert service.calls == []


def test_foreign_arguments_are_shown_inert(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", HOSTILE]) == 2
    with pytest.raises(SystemExit):
        main(["settings", HOSTILE])
    captured = capsys.readouterr()
    assert captured.err.count("owned") == 2
    assert "\x1b" not in captured.err and "\x9b" not in captured.err


@pytest.mark.parametrize(
    ("arguments", "method", "params"),
    [
        (["status"], "memory.status", None),
        (["health"], "memory.health", None),
        (["runs"], "memory.runs", {"limit": 20, "operation": None, "status": None}),
        (
            ["runs", "--limit", "3", "--operation", "sync", "--status", "applied"],
            "memory.runs",
            {"limit": 3, "operation": "sync", "status": "applied"},
        ),
        (["previews"], "memory.previews", None),
        (["search", "two", "words"], "memory.search", {"query": "two words", "limit": 20, "scope": "active"}),
        (
            ["search", "--scope", "all", "--limit", "5", "--", "-x"],
            "memory.search",
            {"query": "-x", "limit": 5, "scope": "all"},
        ),
        (["context"], "memory.context", {"query": None, "limit": 10, "scope": "active"}),
        (
            ["context", "a", "b", "--limit", "20", "--scope", "archive"],
            "memory.context",
            {"query": "a b", "limit": 20, "scope": "archive"},
        ),
        (["legacy"], "memory.legacyRecords", None),
        (["settings"], "memory.getSettings", None),
        (["settings", "on"], "memory.setEnabled", {"enabled": True}),
        (["settings", "off"], "memory.setEnabled", {"enabled": False}),
        (["migrate", "--dry-run"], "memory.migrateLegacy", {"dryRun": True}),
        (["migrate", "--yes"], "memory.migrateLegacy", {"dryRun": False}),
        (["clear", "--confirm", "DELETE_MEMORY"], "memory.clear", {"confirmation": "DELETE_MEMORY"}),
        (["clear", "--confirm", ""], "memory.clear", {"confirmation": ""}),
        (["clear", "--confirm", "yes"], "memory.clear", {"confirmation": "yes"}),
        (
            ["rollback", RUN, "--confirm", "ROLLBACK_MEMORY"],
            "memory.rollback",
            {"runId": RUN, "confirmation": "ROLLBACK_MEMORY"},
        ),
        (["preview", "apply", RUN, "--yes"], "memory.applyPreview", {"previewId": RUN}),
        (["preview", "discard", RUN, "--yes"], "memory.discardPreview", {"previewId": RUN}),
        (["recover", "--yes"], "recover", None),
        (["save", "--yes"], "save", None),
        (["save", "--yes", "-m", "as they were"], "save", "as they were"),
    ],
)
def test_what_each_command_asks(
    service: FakeService,
    arguments: list[str],
    method: str,
    params: object,
    capsys: pytest.CaptureFixture[str],
) -> None:
    service.succeed(method, answer="漢 \x1b \ud800")
    words = 2 if arguments[0] == "preview" else 1
    assert main([*arguments[:words], "--json", *arguments[words:]]) == 0
    assert service.calls == [(method, params)]
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.isascii() and captured.out.count("\n") == 1
    assert json.loads(captured.out) == {"ok": True, "value": {"answer": "漢 \x1b \ud800"}}


@pytest.mark.parametrize("method", METHODS)
def test_call_writes_the_envelope(
    service: FakeService, method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["call", method, '{"a": ["漢"]}']) == 0
    assert json.loads(capsys.readouterr().out)["value"] == {"method": method, "params": {"a": ["漢"]}}
    assert main(["call", method]) == 0
    assert service.calls[-1] == (method, None)


@pytest.mark.parametrize(
    ("code", "ends_with"),
    [("repo-unavailable", 1), ("clear-failed", 1), ("never-heard-of", 1), ("operation-in-progress", 3)],
)
@pytest.mark.parametrize(
    "arguments",
    [["clear", "--confirm", "x"], ["clear", "--confirm", "x", "--json"], ["call", "memory.clear"]],
)
def test_failures(
    service: FakeService,
    code: str,
    ends_with: int,
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    service.fail("memory.clear", code, f"Because {HOSTILE}.", detail=f"why {HOSTILE}")
    assert main(arguments) == ends_with
    captured = capsys.readouterr()
    assert "\x1b" not in captured.err + captured.out and "\x9b" not in captured.err + captured.out
    if arguments[0] == "clear":
        assert captured.err.splitlines()[0] == f"dsh-memory: {code} (why {INERT}): Because {INERT}."
        assert len(captured.err.splitlines()) == (1 if code == "never-heard-of" else 2)
    if arguments == ["clear", "--confirm", "x"]:
        assert captured.out == ""
    else:
        assert json.loads(captured.out)["error"]["code"] == code


def test_a_fault_of_ours_is_shown_inert(service: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    def fault() -> None:
        raise RuntimeError(HOSTILE)

    service.answers["memory.status"] = fault
    assert main(["status"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and f"RuntimeError: {INERT}" in captured.err and "\x1b" not in captured.err


def test_interrupted(service: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    service.answers["memory.status"] = interrupt
    assert main(["status"]) == 130
    assert capsys.readouterr().out == ""


def test_call_reads_the_request_from_standard_input(
    service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = tmp_path / "request.json"
    request.write_text('{"query": "漢"}')
    with request.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert main(["call", "memory.search", "-"]) == 0
    assert service.calls == [("memory.search", {"query": "漢"})]


class TestForPeople:
    """What each reading command shows without `--json`."""

    def test_status(self, service: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
        service.succeed(
            "memory.status",
            empty=False,
            dataFileCount=6,
            targetDirty=True,
            recoverable=True,
            schemaVersion=1,
            legacyFileCount=2,
            malformedFileCount=0,
            pendingMigration=True,
            lastRun={"runId": RUN, "status": "applied", "changedFileCount": 2, "applyCommit": "55"},
            pendingPreview=None,
        )
        assert main(["status", "--root", "/a"]) == 0
        captured = capsys.readouterr()
        assert captured.out == (
            "memory           /a\n"
            "data files       6\n"
            "state            changed since the last commit\n"
            "recoverable      yes\n"
            "schema version   1\n"
            "legacy records   2\n"
            "malformed files  0\n"
            f"last run         {RUN}  applied, 2 changed\n"
            "pending preview  none\n"
        )
        assert captured.err == "Give the legacy records front matter with: dsh-memory migrate\n"

    def test_health(self, service: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
        service.succeed(
            "memory.health",
            memoryRoot="$DSH_HOME/storages/memory",
            rootSafe=True,
            gitAvailable=True,
            dataFileCount=6,
            payloadDirty=False,
            operationLock={"operation": HOSTILE, "pid": 12, "runId": RUN, "startedAt": None, "active": False},
            activeRun={"run_id": RUN, "operation": "sync", "phase": "applying", "state": "interrupted"},
            interruptedRun={"run_id": RUN, "operation": "sync", "phase": "applying"},
            pendingPreview=None,
            pendingPreviewCount=0,
            journalReadable=True,
            needsManualRecovery=True,
            malformedRecords=[
                {"path": "handbook/\x1b.md", "code": "invalid-id", "line": 3},
                {"path": "handbook/b.md", "code": "binary-file", "line": None},
            ],
        )
        assert main(["health"]) == 0
        captured = capsys.readouterr()
        lines = captured.out.splitlines()
        assert f"lock              left behind by {INERT}, process 12, since" in lines
        assert f"interrupted run   {RUN}  sync, phase applying" in lines
        assert "malformed         handbook/\\x1b.md:3  invalid-id" in lines
        assert "malformed         handbook/b.md  binary-file" in lines
        assert captured.err == "Finish or undo the interrupted run with: dsh-memory recover\n"

    def test_runs(self, service: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
        service.succeed(
            "memory.runs",
            runs=[
                {
                    "run_id": RUN,
                    "started_at": "2026-08-19T12:00:00Z",
                    "operation": "sync",
                    "status": "applied",
                    "changed_path_count": 12,
                    "apply_commit": "550010e76d7e5c69",
                    "error_code": None,
                },
                {"run_id": "20260818T120000Z-migrate-7", "status": HOSTILE},
            ],
        )
        assert main(["runs"]) == 0
        assert capsys.readouterr().out == (
            "run                         started               operation  status                         "
            " files  commit   error\n"
            f"{RUN}   2026-08-19T12:00:00Z  sync       applied                            12  550010e\n"
            f"20260818T120000Z-migrate-7                                   {INERT}\n"
        )

    def test_nothing_to_list(self, service: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
        service.succeed("memory.runs", runs=[])
        service.succeed("memory.previews", previews=[])
        service.succeed("memory.legacyRecords", count=0, pendingMigration=False, records=[])
        for command, words in (("runs", "No run"), ("previews", "No preview"), ("legacy", "No legacy")):
            assert main([command]) == 0
            captured = capsys.readouterr()
            assert captured.out == "" and captured.err.startswith(words)

    def test_previews(self, service: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
        preview = {
            "preview_id": RUN,
            "created_at": "2026-08-20T15:00:00Z",
            "expires_at": "2026-08-27T15:00:00Z",
            "candidate_sessions": None,
            "changed_paths": ["a", "b"],
            "status": "pending",
        }
        service.succeed("memory.previews", previews=[preview])
        assert main(["previews"]) == 0
        assert capsys.readouterr().out.splitlines()[1] == (
            f"{RUN}  2026-08-20T15:00:00Z  2026-08-27T15:00:00Z                2"
        )

    def test_search(self, service: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
        hits = [
            {
                "score": 12,
                "id": "project/漢字",
                "type": "decision",
                "updated_at": "2026-08-10",
                "path": "handbook/漢字.md",
                "snippet": f"We {HOSTILE} chose\nit",
            },
            {
                "score": 3,
                "id": "legacy-4f2b7c1a9e0d3c55",
                "type": None,
                "updated_at": None,
                "path": "rollouts/a.md",
                "snippet": "text",
            },
        ]
        service.succeed("memory.search", query="x", count=7, results=hits, skipped=1)
        assert main(["search", "x"]) == 0
        captured = capsys.readouterr()
        assert captured.out == (
            "score  id                       type      updated     path\n"
            "   12  project/漢字             decision  2026-08-10  handbook/漢字.md\n"
            f"       We {INERT} chose\\nit\n"
            "    3  legacy-4f2b7c1a9e0d3c55                        rollouts/a.md\n"
            "       text\n"
        )
        assert captured.err.splitlines() == [
            "2 of 7 matches",
            "1 malformed files were left out; they are listed by: dsh-memory health",
        ]

    def test_context(self, service: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
        records = [
            {
                "citation": "[source: handbook/a.md · id: a]",
                "usage_count": 3,
                "content": f"one\n{HOSTILE}\n",
                "truncated": True,
            }
        ]
        service.succeed("memory.context", query=None, count=1, records=records, skipped=0)
        assert main(["context"]) == 0
        assert capsys.readouterr().out == (
            f"[source: handbook/a.md · id: a]  used 3\none\n{INERT}\n(cut at 4 KiB)\n\n"
        )

    def test_legacy(self, service: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
        record = {
            "path": "handbook/old\n.md",
            "id": "legacy-1",
            "frontMatter": "---\n",
            "createdAt": "2026-08-20",
            "updatedAt": "2026-08-21",
            "bytes": 128,
        }
        service.succeed("memory.legacyRecords", count=1, pendingMigration=True, records=[record])
        assert main(["legacy"]) == 0
        assert capsys.readouterr().out.splitlines()[1] == (
            "handbook/old\\n.md  legacy-1  2026-08-20  2026-08-21    128"
        )

    def test_settings(self, service: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
        service.succeed("memory.setEnabled", enabled=False)
        assert main(["settings", "off"]) == 0
        assert capsys.readouterr().out == "memory is off\n"

    def test_what_a_change_did(self, service: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
        service.succeed(
            "memory.applyPreview",
            status="applied",
            previewId=RUN,
            changed_paths=["handbook/a.md", "handbook/\x1b.md"],
            recovery_commit=None,
            journaled=True,
            records=[{"path": "x"}],
            empty=[],
        )
        assert main(["preview", "apply", RUN, "--yes"]) == 0
        assert capsys.readouterr().out == (
            "status           applied\n"
            f"preview id       {RUN}\n"
            "changed paths    handbook/a.md\n"
            "changed paths    handbook/\\x1b.md\n"
            "recovery commit  none\n"
            "journaled        yes\n"
            "records          1\n"
            "empty            none\n"
        )
