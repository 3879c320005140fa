"""The plugin's half of the stdio wire, without a host: starts, deaths, back-off, limits, environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dsh_memory.hosts.plugin import plugin_folder

HERE = Path(__file__).parent
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="needs node on the PATH")


def drive(scenario: str, **environment: str) -> dict[str, Any]:
    module = (Path(plugin_folder()) / "server.js").as_uri()
    arguments = [module, scenario, sys.executable, str(HERE / "scripted_server.py")]
    done = subprocess.run(
        [str(NODE), str(HERE / "drive_server.mjs"), *arguments],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


DOWN = {"unavailable": "server-down"}


def test_answers_find_their_call_whatever_the_lines_hold() -> None:
    result = drive("answers")
    assert (result["first"], result["second"]) == ({"n": 1}, {"n": 2})
    assert result["text"] is True
    assert result["garbage"] == "garbage"
    assert result["error"] == {"error": "memory server: Internal error"}
    assert result["long"] == 5_000_000
    assert [line for line in result["logs"] if "not a frame" in line] == [
        "warn: memory server: not a frame: no frame at all",
        "warn: memory server: not a frame: \ufffd\ufffd",
    ]


def test_a_dead_server_fails_its_calls_and_comes_back() -> None:
    result = drive("death")
    assert result["cut"] == [DOWN, DOWN]
    assert result["inBackOff"] == DOWN
    assert result["sameProcess"] is False
    assert any("ended by SIGKILL" in line for line in result["logs"])


def test_a_server_that_is_not_ready_in_time_is_ended() -> None:
    result = drive("silent")
    assert (result["waiting"], result["later"]) == (DOWN, DOWN)
    assert result["logs"] == [
        "warn: memory server: not ready within 100 ms; trying again, at most every 30 s"
    ]


def test_another_protocol_is_not_spoken() -> None:
    result = drive("otherProtocol")
    assert result["call"] == DOWN
    assert any("speaks another protocol" in line for line in result["logs"])


def test_a_missing_server_holds_nobody_up() -> None:
    # that the process ended by itself shows that no timer keeps the host alive
    result = drive("missing")
    assert (result["waiting"], result["later"]) == (DOWN, DOWN)
    assert any("ENOENT" in line for line in result["logs"])


def test_a_call_can_be_given_up() -> None:
    result = drive("givenUp")
    assert result["cancelled"] == result["born"] == {"unavailable": "cancelled"}
    assert result["late"] == {"unavailable": "server-timeout"}
    assert result["after"] == "release"


def test_stop_ends_the_server_for_good() -> None:
    result = drive("stop")
    assert (result["alive"], result["call"]) == (False, DOWN)


def test_the_pause_before_each_start_doubles_and_the_log_says_it_once() -> None:
    result = drive("backOff")
    # timers may be late, never early
    assert all(gap >= expected - 2 for gap, expected in zip(result["gaps"], (16, 32, 64, 128), strict=True))
    assert len(result["logs"]) == 1


def test_only_dsh_names_override_and_only_an_allow_list_is_passed_on() -> None:
    passed = {
        "PATH": "/bin",
        "HOME": "/h",
        "LANG": "C",
        "LC_ALL": "C",
        "TMPDIR": "/t",
        "DSH_HOME": "/d",
        "DSH_MEMORY_ROOT": "/m",
        "XDG_STATE_HOME": "/s",
    }
    dropped = {
        "GIT_DIR": "/x",
        "GIT_SSH_COMMAND": "evil",
        "GIT_CONFIG_COUNT": "1",
        "GIT_TRACE": "1",
        "GH_TOKEN": "secret",
        "DEEPSEEK_API_KEY": "secret",
        "PYTHONPATH": "/x",
        "PYTHONSTARTUP": "/x",
        "LD_PRELOAD": "/x",
        "NODE_OPTIONS": "--x",
        "DSH_PERMISSION_MODE": "x",
        "MYPATH": "/x",
        "PATH_X": "/x",
    }
    result = drive("environment", GIVEN=json.dumps({**passed, **dropped}))
    assert result["passed"] == passed
    serve = ["serve", "--stdio"]
    assert result["configured"] == result["ignored"] == ["/opt/python", "-P", "-m", "dsh_memory", *serve]
    assert result["path"] == ["dsh-memory", *serve]
    assert result["python"] == ["/p", "-P", "-m", "dsh_memory", *serve]
    assert result["command"] == ["/c", *serve]
