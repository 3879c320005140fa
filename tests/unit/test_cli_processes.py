"""The command line as whole processes on real repositories: streams, exit codes, and what a start loads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.repositories import MemoryRepository, record

_MAIN = "import sys; from dsh_memory.cli import main; sys.exit(main())"
_HEAVY = (
    "dsh_memory_tui",
    "fastapi",
    "frontmatter",
    "git",
    "mcp",
    "pydantic",
    "rich",
    "ruamel",
    "starlette",
    "textual",
    "uvicorn",
    "yaml",
    "zstandard",
)
PREVIEW = "20260820T150000Z-a1b2c3d4"


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}


def run(
    memory: MemoryRepository,
    *arguments: str,
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
    program: str = _MAIN,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments, "--root", str(memory.root)],
        input=stdin,
        capture_output=True,
        env=environment(**(variables or {})),
        cwd=cwd,
        timeout=60,
    )


def envelope(done: subprocess.CompletedProcess[bytes]) -> dict[str, object]:
    value: dict[str, object] = json.loads(done.stdout)
    return value


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("health",),
        ("runs",),
        ("previews",),
        ("legacy",),
        ("search", "body"),
        ("context", "body"),
    ],
    ids=" ".join,
)
def test_a_cold_look_loads_nothing_heavy(memory: MemoryRepository, command: tuple[str, ...]) -> None:
    memory.write("handbook/a.md", record("project/a"))
    program = f"""
import sys
from dsh_memory.cli import main
code = main()
heavy = {_HEAVY!r}
print(sorted(name for name in sys.modules if name.partition(".")[0] in heavy), file=sys.stderr)
sys.exit(code)
"""
    done = run(memory, *command, "--json", program=program)
    assert done.returncode == 0 and envelope(done)["ok"] is True
    assert done.stderr.decode().strip().splitlines()[-1] == "[]"


def test_init_creates_and_verifies(tmp_path: Path) -> None:
    memory = MemoryRepository(tmp_path / "my mem" / "ü")
    created = run(memory, "init", "--json")
    assert envelope(created) == {"ok": True, "value": {"created": True, "restored": []}}
    assert (memory.root / "handbook").is_dir()
    memory.path(".sync/.gitignore").unlink()
    again = run(memory, "init")
    assert again.returncode == 0
    assert again.stdout.decode() == f"{memory.root} is complete\nrestored .sync/.gitignore\n"


def test_a_memory_end_to_end(memory: MemoryRepository) -> None:
    memory.write(
        "handbook/codegen.md", record("project/codegen", "We chose 漢字 for codegen.\n", type="decision")
    )
    memory.write("handbook/old.md", "plain \x1b[2J legacy\n")
    memory.commit()
    assert run(memory, "search", "codegen").stdout.decode().splitlines()[1].split() == [
        "5",
        "project/codegen",
        "decision",
        "handbook/codegen.md",
    ]
    shown = run(memory, "context", "legacy")
    assert shown.returncode == 0 and b"plain \\x1b[2J legacy" in shown.stdout
    assert b"legacy records   1" in run(memory, "status").stdout
    assert b"handbook/old.md" in run(memory, "legacy").stdout
    assert envelope(run(memory, "call", "memory.search", "-", stdin=b'{"query": "none of these"}')) == {
        "ok": True,
        "value": {"query": "none of these", "count": 0, "results": [], "skipped": 0},
    }


def test_no_memory(tmp_path: Path) -> None:
    done = run(MemoryRepository(tmp_path / "nothing"), "status", "--json")
    assert done.returncode == 1
    error = envelope(done)["error"]
    assert isinstance(error, dict) and (error["code"], error["detail"]) == (
        "repo-unavailable",
        "root-missing",
    )
    assert (
        done.stderr.decode().splitlines()[1] == "Check the memory root, or create one with: dsh-memory init"
    )


def test_preview_show(memory: MemoryRepository) -> None:
    memory.write("handbook/a.md", record("project/a", "one\r\ntwo\n"))
    memory.write("handbook/gone.md", record("project/gone"))
    memory.commit()
    created = memory.live_payload()["handbook/a.md"]
    memory.write_preview(
        PREVIEW,
        {
            "handbook/a.md": created.replace(b"two", b"\x1b]0;x\x07 two"),
            "handbook/gone.md": None,
            "handbook/new.md": record("project/new", "no end"),
        },
        lifetime=timedelta(days=100_000),
    )
    done = run(memory, "preview", "show", PREVIEW)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    assert "--- a/handbook/a.md\n+++ b/handbook/a.md\n@@" in text
    assert " one\\r\n-two\n+\\x1b]0;x\\x07 two\n" in text
    assert "--- a/handbook/gone.md\n+++ /dev/null\n" in text
    assert "--- /dev/null\n+++ b/handbook/new.md\n" in text
    assert text.endswith("+no end\n\\ No newline at end of file\n")
    value = envelope(run(memory, "preview", "show", PREVIEW, "--json"))["value"]
    assert isinstance(value, dict) and [file["kind"] for file in value["files"]] == ["M", "D", "A"]
    missing = run(memory, "preview", "show", "20260820T150000Z-00000000")
    assert missing.returncode == 1 and b"preview-not-found" in missing.stderr


def test_settings_are_kept_in_the_dsh_home(memory: MemoryRepository, tmp_path: Path) -> None:
    home = tmp_path / "dsh-home"
    (home / "settings.yaml").write_text("web: 1 # mine\n")
    done = run(memory, "settings", "off", "--dsh-home", "dsh-home", cwd=tmp_path)
    assert done.stdout == b"memory is off\n"
    assert (home / "settings.yaml").read_text() == "web: 1 # mine\nmemory:\n  enabled: false\n"
    (home / "settings.yaml").write_text("[")
    assert run(memory, "settings", "--dsh-home", str(home)).returncode == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_enough_is_no_failure(memory: MemoryRepository, unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [sys.executable, "-c", _MAIN, "status", "--json", "--root", str(memory.root)]
    variables = environment(PYTHONUNBUFFERED=unbuffered)
    done = subprocess.run(arguments, stdout=writer, stderr=subprocess.PIPE, env=variables, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_a_failure(memory: MemoryRepository, unbuffered: str) -> None:
    variables = environment(PYTHONUNBUFFERED=unbuffered)
    with open("/dev/full", "wb") as full:
        arguments = [sys.executable, "-c", _MAIN, "status", "--json", "--root", str(memory.root)]
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, env=variables, timeout=60)
    assert done.returncode == 1
    assert done.stderr == b"dsh-memory: the output could not be written: No space left on device\n"


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_streams(memory: MemoryRepository, closed: str) -> None:
    """Whatever descriptor the program opens first must not become one of the closed streams."""
    script = f'"$0" -c "$1" status --json --root "$2" {closed}'
    command = ["sh", "-c", script, sys.executable, _MAIN, str(memory.root)]
    done = subprocess.run(command, capture_output=True, env=environment(), timeout=60)
    assert done.returncode == 0
    assert memory.git("status", "--porcelain") == b""
    if "1>&-" not in closed:
        assert envelope(done)["ok"] is True


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"}])
def test_any_locale(memory: MemoryRepository, locale: dict[str, str]) -> None:
    memory.write("handbook/漢字.md", record("project/kanji", "漢字 codegen\n"))
    done = run(memory, "search", "codegen", variables=locale)
    assert done.returncode == 0 and b"project/kanji" in done.stdout


def test_the_terminal_ui_needs_a_terminal(memory: MemoryRepository) -> None:
    for arguments in ((), ("--demo",), ("--read-only",)):
        done = run(memory, *arguments)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.startswith(b"dsh-memory: the terminal UI needs a terminal")


def test_a_bare_environment(memory: MemoryRepository) -> None:
    """As a service manager starts things: no HOME, or `/`."""
    for home in ([], ["HOME=/"]):
        command = ["env", "-i", f"PATH={os.environ['PATH']}", *home, sys.executable, "-c"]
        program = f"import sys; sys.path[:0] = {sys.path!r}; {_MAIN}"
        done = subprocess.run(
            [*command, program, "status", "--json", "--root", str(memory.root)],
            capture_output=True,
            cwd="/",
            timeout=60,
        )
        assert done.returncode == 0, done.stderr


def test_serve_stdio_on_a_real_memory(memory: MemoryRepository, tmp_path: Path) -> None:
    memory.write("summary.md", "- prefers tabs\n")
    memory.write("handbook/a.md", record("project/a", "codegen\n"))
    memory.commit()
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "memory.status"},
        {"jsonrpc": "2.0", "id": 2, "method": "memory.clear", "params": {"confirmation": "wrong"}},
        {"jsonrpc": "2.0", "id": 3, "method": "tools.memory_search", "params": {"query": "codegen"}},
        {"jsonrpc": "2.0", "id": 4, "method": "host.promptSection", "params": {"enabled": True}},
        {"jsonrpc": "2.0", "id": 5, "method": "memory.getSettings"},
    ]
    lines = "".join(json.dumps(request) + "\n" for request in requests).encode()
    # The root is named relative to a folder that the server leaves.
    arguments = [
        sys.executable,
        "-c",
        _MAIN,
        "serve",
        "--stdio",
        "--root",
        os.path.relpath(memory.root, tmp_path),
    ]
    done = subprocess.run(
        arguments, input=lines, capture_output=True, env=environment(), cwd=tmp_path, timeout=60
    )
    assert done.returncode == 0, done.stderr
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert frames[0]["method"] == "ready"
    results = {frame["id"]: frame["result"] for frame in frames[1:]}
    assert results[1]["value"]["dataFileCount"] == 2
    assert results[2]["error"]["code"] == "clear-failed"
    assert json.loads(results[3])["results"][0]["id"] == "project/a"
    assert "- prefers tabs" in results[4]["value"]["text"]
    assert results[5] == {"ok": True, "value": {"enabled": True}}


def test_ctrl_c_ends_the_server_quietly(memory: MemoryRepository) -> None:
    arguments = [sys.executable, "-c", _MAIN, "serve", "--stdio", "--root", str(memory.root)]
    server = subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    assert server.stdout is not None
    assert json.loads(server.stdout.readline())["method"] == "ready"
    server.send_signal(signal.SIGINT)
    output, errors = server.communicate(timeout=60)
    assert (server.returncode, output, errors) == (130, b"", b"")
