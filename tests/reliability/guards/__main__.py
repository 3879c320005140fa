"""`python -m tests.reliability.guards [--only NAME ...] [--notes FILE]`: breaks each marked check and looks for a
test that fails.

First all fast tests run once, to learn which of them come to which check (with `--notes`, kept in a file for the
next time). Then each check is broken in a copy of its own, and the tests that come to it run until one fails. It
takes about a quarter of a minute a check. Ends with 1 where a check can go without a failing test.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from tests.reliability.guards.breaking import broken
from tests.reliability.guards.markers import Marker, find_markers
from tests.reliability.guards.meetings import copy_project, failures, read_notes, run_tests, write_notes_into

#: So many tests of a check run first: where one of them fails, as mostly, the rest need not be loaded.
_FIRST = 8


def main() -> int:
    """Prints one line a check, and those without a failing test at the end."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.guards", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these checks")
    parser.add_argument(
        "--notes", type=Path, metavar="FILE", help="where to keep which tests come to which check"
    )
    chosen = parser.parse_args()
    markers = [each for each in find_markers() if not chosen.only or each.name in chosen.only]
    with tempfile.TemporaryDirectory(prefix="dsh-memory-guards-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        tests_of = _tests_by_check(place / "notes", chosen.notes)
        sound = place / "sound"
        copy_project(sound)
        missed = {
            marker.name: _failing_test(marker, sound, tests_of.get(marker.name, [])) for marker in markers
        }
        _, said = run_tests(sound, [], sorted({test for test in missed.values() if test is not None}))
    always = failures(said)
    left = [marker for marker in markers if missed[marker.name] in (None, *always)]
    print(f"{len(markers)} checks broken, {len(markers) - len(left)} missed by a test")
    for marker in left:
        print(f"no failing test: {marker.name} ({marker.file}:{marker.line})", file=sys.stderr)
    return 1 if left else 0


def _tests_by_check(copy: Path, kept: Path | None) -> dict[str, list[str]]:
    if kept is not None and kept.exists():
        loaded: dict[str, list[str]] = json.loads(kept.read_text())
        return loaded
    copy_project(copy)
    folder = write_notes_into(copy, find_markers())
    status, said = run_tests(copy, ["-n", "2", "--dist", "loadfile"])
    print(f"tests with notes ended with {status}: {said.splitlines()[-1:]}", flush=True)
    tests_of = read_notes(folder)
    shutil.rmtree(copy)
    if kept is not None:
        kept.write_text(json.dumps(tests_of))
    return tests_of


def _failing_test(marker: Marker, copy: Path, tests: list[str]) -> str | None:
    """The first test that fails without the check."""
    path = copy / marker.file
    source = path.read_text()
    answer = "no test comes to it"
    for part in (tests[:_FIRST], tests[_FIRST:]):
        if not part:
            continue
        _write(path, broken(source, marker))
        try:
            status, answer = run_tests(copy, ["-x", "--timeout", "60"], part)
        finally:
            _write(path, source)
        failed = failures(answer)
        if status == 1 and failed:
            print(f"{marker.name}: {failed[0]}", flush=True)
            return failed[0]
        if status != 0:
            answer = f"pytest ended with {status}: {answer}"
    print(f"{marker.name}: NOT MISSED by {len(tests)} tests: {answer[-300:]}", flush=True)
    return None


def _write(path: Path, source: str) -> None:
    path.write_text(source)
    # Two texts of one length and second look the same to the import system.
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


if __name__ == "__main__":
    sys.exit(main())
