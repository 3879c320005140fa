"""Hostile surroundings at every door: the caller's variables, configuration and disk change nothing but a code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.doors import CliDoor, Door, HttpDoor, McpDoor, ServiceDoor, StdioDoor
from tests.reliability.invariants import assert_clean, assert_sound
from tests.support.isolation import isolated_variables
from tests.support.repositories import MemoryRepository, record
from tests.tui.terminal import Terminal

pytestmark = pytest.mark.slow

DOORS = ("service", "cli", "stdio", "http", "mcp", "tui")
HOOKS = (
    "pre-commit",
    "post-commit",
    "reference-transaction",
    "post-index-change",
    "post-checkout",
    "pre-auto-gc",
)


@dataclass
class Place:
    """A memory with a record and a legacy one, the variables of the processes on it, and a file that only what
    must never run would make."""

    folder: Path
    memory: MemoryRepository
    variables: dict[str, str]

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def spy(self) -> Path:
        return self.folder / "ran"

    @property
    def spying(self) -> str:
        return f"touch '{self.spy}'; cat"


Surrounding = Callable[[Place], None]


# --- surroundings that change nothing -----------------------------------------------------------------


def variables_of_git(place: Place) -> None:
    other = MemoryRepository.create(place.folder / "other")
    git = str(other.root / ".git")
    place.variables |= {
        "GIT_DIR": git,
        "GIT_WORK_TREE": str(other.root),
        "GIT_INDEX_FILE": f"{git}/index",
        "GIT_OBJECT_DIRECTORY": f"{git}/objects",
        "GIT_NAMESPACE": "elsewhere",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "core.bare",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_CONFIG_KEY_1": "alias.status",
        "GIT_CONFIG_VALUE_1": f"!{place.spying}",
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={place.spying}'",
        "GIT_EXTERNAL_DIFF": place.spying,
        "GIT_SSH_COMMAND": place.spying,
        "GIT_ASKPASS": place.spying,
        "GIT_EDITOR": place.spying,
        "GIT_PAGER": place.spying,
        "GIT_TRACE": str(place.spy),
        "GIT_TRACE2_EVENT": str(place.spy),
        "GIT_PYTHON_TRACE": "full",
        "GIT_PYTHON_GIT_EXECUTABLE": _script(place, "not-git"),
        "GIT_DEFAULT_HASH": "sha256",
        "GIT_TEMPLATE_DIR": str(place.folder),
        "GIT_REFLOG_ACTION": "\x1b[31m",
        "GH_TOKEN": "t",
    }


def configuration_of_the_user(place: Place) -> None:
    hooks = place.home / "hooks"
    hooks.mkdir()
    for name in HOOKS:
        _write_script(hooks / name, place)
    settings = {
        "core": f'hooksPath = "{hooks}"\nfsmonitor = "{place.spying}"\nautocrlf = true\nsafecrlf = true\n'
        f'attributesFile = "{place.home}/attributes"\nexcludesFile = "{place.home}/excludes"\nquotePath = false\n',
        "commit": "gpgSign = true\n",
        "tag": "gpgSign = true\n",
        "gpg": f'program = "{_script(place, "gpg")}"\n',
        "user": "useConfigOnly = true\n",
        "diff": f'external = "{place.spying}"\nnoprefix = true\nmnemonicPrefix = true\n',
        "color": "ui = always\n",
        "log": "showSignature = true\n",
        "status": "showUntrackedFiles = no\nshort = true\n",
        "init": 'defaultObjectFormat = "sha256"\n',
        'filter "spy"': f'clean = "{place.spying}"\nsmudge = "{place.spying}"\nrequired = true\n',
        'protocol "ext"': "allow = always\n",
        'url "ext::sh -c touch% ran"': 'insteadOf = "/"\n',
        "safe": 'directory = ""\n',
        "alias": f'ls-files = "!{place.spying}"\n',
    }
    text = "".join(f"[{section}]\n{lines}" for section, lines in settings.items())
    (place.home / ".gitconfig").write_text(text)
    (place.home / "attributes").write_text("* filter=spy text eol=crlf\n")
    (place.home / "excludes").write_text("*.md\n")


def configuration_of_the_repository(place: Place) -> None:
    git = place.memory.root / ".git"
    (git / "hooks").mkdir(exist_ok=True)
    for name in HOOKS:
        _write_script(git / "hooks" / name, place)
    for key, value in {
        "core.fsmonitor": place.spying,
        "core.autocrlf": "true",
        "filter.spy.clean": place.spying,
        "filter.spy.smudge": place.spying,
        "filter.spy.process": place.spying,
        "filter.spy.required": "true",
        "diff.spy.textconv": place.spying,
        "diff.external": place.spying,
        "commit.gpgSign": "true",
        "gc.auto": "1",
        "core.sshCommand": place.spying,
        "remote.origin.url": f"ext::sh -c 'touch {place.spy}'",
        "remote.origin.fetch": "+refs/*:refs/*",
        "branch.main.remote": "origin",
        "submodule.recurse": "true",
    }.items():
        place.memory.git("config", key, value)
    (git / "info").mkdir(exist_ok=True)
    (git / "info" / "attributes").write_text("* filter=spy diff=spy text eol=crlf\n")
    (place.memory.root / ".gitattributes").write_text("* filter=spy\n")


def nothing_around(place: Place) -> None:
    place.variables.clear()
    place.variables |= {"PATH": os.environ["PATH"], "LANG": "C", "LC_ALL": "C", "TZ": "Pacific/Apia"}
    place.variables["XDG_CACHE_HOME"] = place.variables["XDG_STATE_HOME"] = str(place.folder / "state")


def places_that_are_none(place: Place) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        place.variables[name] = "/nonexistent"
    place.variables |= {
        "TZ": "No/Where",
        "LANG": "xx_YY.bad",
        "TERM": "dumb",
        "COLUMNS": "0",
        "PYTHONUTF8": "0",
    }


def odd_files(place: Place) -> None:
    memory = place.memory
    memory.write(b"handbook/\xff\xfe.md", record("bytes", "not UTF-8 by name\n"))
    memory.write("handbook/-x \\ \x1b[31m\n$(touch ran).md", record("odd-name"))
    memory.write("handbook/binary.md", b"---\0\xff")
    memory.write("handbook/huge.md", record("huge", "w " * 5_000_000))
    memory.write("handbook/image.png", os.urandom(10_000))
    memory.write("stray.txt", "no payload\n")
    memory.write(".env", "TOKEN=t\n")
    os.mkfifo(memory.root / "fifo")
    (memory.root / "loop").symlink_to("loop")


HARMLESS: tuple[Surrounding, ...] = (
    variables_of_git,
    configuration_of_the_user,
    configuration_of_the_repository,
    nothing_around,
    places_that_are_none,
    odd_files,
)

# --- disks that lead elsewhere --------------------------------------------------------------------------


def a_folder_that_is_a_link(place: Place) -> None:
    (place.folder / "outside").mkdir()
    (place.folder / "outside" / "secret.md").write_text(record("secret", "quokka\n"))
    (place.memory.root / "handbook" / "deep").symlink_to(place.folder / "outside")


def a_record_that_is_a_link(place: Place) -> None:
    place.memory.path("handbook/link.md").symlink_to("../.git/config")


def a_record_with_two_names(place: Place) -> None:
    (place.folder / "secret.md").write_text(record("secret", "quokka\n"))
    os.link(place.folder / "secret.md", place.memory.path("handbook/hard.md"))


def a_record_that_is_a_pipe(place: Place) -> None:
    os.mkfifo(place.memory.path("handbook/pipe.md"))


def a_repository_inside(place: Place) -> None:
    place.memory.path("handbook/sub/.GIT").mkdir(parents=True)


UNSAFE: tuple[Surrounding, ...] = (
    a_folder_that_is_a_link,
    a_record_that_is_a_link,
    a_record_with_two_names,
    a_record_that_is_a_pipe,
    a_repository_inside,
)


@pytest.fixture
def place(tmp_path: Path, isolated: Path) -> Place:
    folder = tmp_path / "a place"
    (folder / "home").mkdir(parents=True)
    files: dict[str, str | bytes] = {
        "handbook/a.md": record("a", "quokka\n"),
        "rollouts/old.md": b"old\r\nlegacy\n",
    }
    memory = MemoryRepository.create(
        folder / "dsh-home" / "my mem" / "\u00fc", files, dsh_home=folder / "dsh-home"
    )
    return Place(folder, memory, isolated_variables(folder / "home"))


def _script(place: Place, name: str) -> str:
    return str(_write_script(place.folder / name, place))


def _write_script(path: Path, place: Place) -> Path:
    path.write_text(f"#!/bin/sh\ntouch '{place.spy}'\nexit 1\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def doors(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Door]]:
    opened: list[Door] = []

    def open_door(name: str) -> Door:
        environment = place.memory.environment
        door: Door
        if name == "service":
            for each in set(os.environ) - set(place.variables):
                monkeypatch.delenv(each)
            for each, value in place.variables.items():
                monkeypatch.setenv(each, value)
            door = ServiceDoor(environment)
        else:
            kinds: Mapping[str, Callable[..., Door]] = {
                "cli": CliDoor,
                "stdio": StdioDoor,
                "http": HttpDoor,
                "mcp": McpDoor,
            }
            door = kinds[name](environment, place.variables)
        opened.append(door)
        return door

    yield open_door
    for door in opened:
        with suppress(BrokenPipeError):
            door.close()


def _on_a_terminal(place: Place, words: str) -> None:
    places = ["--root", place.memory.environment.memory_root, "--dsh-home", place.memory.environment.dsh_home]
    variables = {**place.variables, "TERM": "xterm-256color"}
    variables.pop("COLUMNS", None)
    screen = Terminal([sys.executable, "-m", "dsh_memory", *places], variables)
    try:
        screen.wait_for(words)
        screen.press("q")
        assert screen.exit_code() == 0
    finally:
        screen.close()


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("surround", HARMLESS, ids=lambda surround: surround.__name__)
def test_a_door_works_as_ever(
    place: Place, doors: Callable[[str], Door], surround: Surrounding, name: str
) -> None:
    surround(place)
    if name == "tui":
        _on_a_terminal(place, "records")
        assert not place.spy.exists()
        return
    door = doors(name)
    found = door.call("search", {"query": "quokka"})
    assert [hit["path"] for hit in found["value"]["results"]] == ["handbook/a.md"], found
    old = place.memory.path("rollouts/old.md").read_bytes()
    if isinstance(door, McpDoor):
        made = json.loads(
            _text_of(door.tool("remember", {"content": "x\r\ny", "path": "p", "output_json": True}))
        )
        [path] = place.memory.root.rglob(f"{made['id']}.md")
        assert path.read_bytes().endswith(b"x\r\ny")
    else:
        done = door.call("migrateLegacy", {"dryRun": False})
        assert done["ok"] and "rollouts/old.md" in done["value"]["changedPaths"], done
        assert place.memory.path("rollouts/old.md").read_bytes().endswith(b"---\n\n" + old)
    assert not place.spy.exists()
    _without_hooks(place)
    if surround is not odd_files:
        assert_clean(place.memory)
    else:
        staged = set(place.memory.git("ls-files").decode().split("\n"))
        assert not staged & {"stray.txt", ".env", "fifo", "loop"}
        (place.memory.root / "fifo").unlink()
    assert_sound(place.memory)


def _without_hooks(place: Place) -> None:
    """The test's own git looks at what is left without what it would obey itself."""
    git = place.memory.root / ".git"
    for name in HOOKS:
        (git / "hooks" / name).unlink(missing_ok=True)
    (git / "info" / "attributes").unlink(missing_ok=True)
    (place.memory.root / ".gitattributes").unlink(missing_ok=True)
    for section in ("core", "filter.spy", "commit"):
        for key in ("fsmonitor", "autocrlf", "clean", "smudge", "process", "required", "gpgSign"):
            with suppress(AssertionError):
                place.memory.git("config", "--unset", f"{section}.{key}")


def _text_of(result: Mapping[str, Any]) -> str:
    assert not result.get("isError"), result
    return _any_text_of(result)


def _any_text_of(result: Mapping[str, Any]) -> str:
    text: str = result["content"][0]["text"]
    return text


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("surround", UNSAFE, ids=lambda surround: surround.__name__)
def test_a_door_leads_nowhere_else(
    place: Place, doors: Callable[[str], Door], surround: Surrounding, name: str
) -> None:
    surround(place)
    head = place.memory.head
    if name == "tui":
        _on_a_terminal(place, "unsafe")
    else:
        door = doors(name)
        answers = [door.call("search", {"query": "quokka"}), door.call("context", {"query": "quokka"})]
        if not isinstance(door, McpDoor):
            answers += [
                door.call("migrateLegacy", {"dryRun": False}),
                door.call("clear", {"confirmation": "DELETE_MEMORY"}),
            ]
        for answer in answers:
            text = json.dumps(answer)
            assert "unsafe-layout" in text and "secret" not in text, answer
    assert place.memory.head == head
    assert place.memory.path("handbook/a.md").read_text() == record("a", "quokka\n")


@pytest.fixture
def read_only(place: Place) -> Iterator[Place]:
    root = str(place.memory.root)
    if os.getuid() or subprocess.run(["mount", "--bind", root, root]).returncode:
        pytest.skip("a folder can be mounted read-only by root alone")
    subprocess.run(["mount", "-o", "remount,bind,ro", root], check=True)
    yield place
    subprocess.run(["umount", "-l", root], check=True)


@pytest.mark.parametrize("name", DOORS)
def test_a_door_reads_what_it_cannot_change(
    read_only: Place, doors: Callable[[str], Door], name: str
) -> None:
    if name == "tui":
        _on_a_terminal(read_only, "records")
        return
    door = doors(name)
    found = door.call("context", {"query": "quokka"})
    assert [each["path"] for each in found["value"]["records"]] == ["handbook/a.md"], found
    if isinstance(door, McpDoor):
        refused = door.tool("remember", {"content": "x", "path": "p"})
        assert refused["isError"] and "internal_error" not in _any_text_of(refused), refused
        return
    assert found["value"]["usageRecorded"] is False
    refused = door.call("clear", {"confirmation": "DELETE_MEMORY"})
    assert refused["error"]["code"] in ("clear-failed", "repo-unavailable"), refused
    assert refused["error"].get("detail") != "unexpected", refused
    assert door.call("health")["ok"] is True
