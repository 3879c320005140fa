"""Which tests come to which check: learnt once, from a copy of the project that writes it down.

A copy lies in a folder of its own, so that a broken check reaches nobody else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.reliability.guards.markers import PROJECT, Marker

#: Checks that are met when their module is loaded, whatever the test, or in other processes alone, with the tests
#: that show what they do.
_SHOWN_BY: Final = {
    "sealed-config": ("tests/reliability/test_surroundings.py", "tests/unit/test_repository_view.py"),
    "sealed-import": (
        "tests/reliability/test_hostile_doors.py::test_a_door_works_as_ever[variables_of_git-cli]",
    ),
    "tool-public-keys": (
        "tests/unit/test_stdio.py",
        "tests/unit/test_prompt.py",
        "tests/reliability/test_poisoning.py",
    ),
}

_COPIED: Final = ("core", "tui", "tests", "screenshots", "pyproject.toml", "README.md", ".github", ".ci")
_TIME_LIMIT_SECONDS: Final = 1800

#: What a copy calls at each check. A process that may not write its notes there (no root) leaves none.
_NOTING: Final = """
import os
_seen = set()
def met(name):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if test and (name, test) not in _seen:
        _seen.add((name, test))
        try:
            with open(os.path.join({folder!r}, str(os.getpid())), "a") as notes:
                notes.write(f"{{name}}\\t{{test}}\\n")
        except OSError:
            return
"""


def copy_project(target: Path) -> None:
    """Copies what the tests need."""
    for name in _COPIED:
        source = PROJECT / name
        if source.is_dir():
            shutil.copytree(
                source, target / name, ignore=shutil.ignore_patterns("__pycache__", ".mypy_cache")
            )
        elif source.exists():
            shutil.copy2(source, target / name)


def write_notes_into(copy: Path, markers: Iterable[Marker]) -> Path:
    """Lets every check of a copy write down which test came to it; the folder of those notes."""
    folder = copy / "met"
    folder.mkdir(mode=0o777)
    (copy / "core" / "guard_meetings.py").write_text(_NOTING.format(folder=str(folder)))
    by_file: dict[str, list[Marker]] = defaultdict(list)
    for marker in markers:
        if marker.in_function:
            by_file[marker.file].append(marker)
    for file, found in by_file.items():
        path = copy / file
        lines = path.read_text().splitlines(keepends=True)
        for marker in sorted(found, key=lambda each: each.outermost.lineno, reverse=True):
            at = marker.outermost.lineno - 1
            indent = " " * marker.outermost.col_offset
            lines.insert(at, f'{indent}__import__("guard_meetings").met({marker.name!r})\n')
        path.write_text("".join(lines))
    return folder


def read_notes(folder: Path) -> dict[str, list[str]]:
    """The tests that came to each check, those first that come to few."""
    tests_of: dict[str, set[str]] = defaultdict(set)
    checks_of: dict[str, set[str]] = defaultdict(set)
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            name, _, test = line.partition("\t")
            if "::" not in test:
                # Two processes with one number, in turn or forked, may have mixed their notes.
                continue
            tests_of[name].add(test)
            checks_of[test].add(name)
    ranked = {
        name: sorted(tests, key=lambda test: (len(checks_of[test]), test)) for name, tests in tests_of.items()
    }
    return {**ranked, **{name: list(files) for name, files in _SHOWN_BY.items()}}


def run_tests(copy: Path, arguments: Sequence[str], tests: Sequence[str] = ()) -> tuple[int, str]:
    """Runs pytest in a copy: its exit status (1: a test failed; -1: no end), and the last lines it said."""
    if tests:
        (copy / "chosen.txt").write_text("\n".join(tests) + "\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    command += ["-m", "slow or not slow", "@chosen.txt"] if tests else []
    variables = {**os.environ, "PYTHONPATH": f"{copy / 'core'}{os.pathsep}{copy / 'tui'}"}
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIME_LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return -1, "no end"
    return done.returncode, "\n".join(done.stdout.decode(errors="replace").splitlines()[-200:])


def failures(said: str) -> list[str]:
    """The tests that a run's summary names."""
    named = [line for line in said.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
    return [line.partition(" ")[2].partition(" - ")[0] for line in named]
