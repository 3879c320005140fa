"""Git's history without some blobs: the same commits, messages and times, only those files were never there.

`git fast-export` tells the history without contents, and `git fast-import` builds the new one into the
repository's own objects but with the refs of a private repository: nothing moves before all of it is there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from dsh_memory.repository.git import GitFailed, WritingGit
from dsh_memory.repository.layout import PAYLOAD

_EXPORT: Final = (
    "fast-export",
    "--all",
    "--no-data",
    "--show-original-ids",
    "--reencode=no",
    "--signed-tags=strip",
    "--tag-of-filtered-object=rewrite",
    "--use-done-feature",
)
_DATA: Final = re.compile(rb"data ([0-9]+)\n")
_ESCAPE: Final = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass(frozen=True, slots=True)
class NewHistory:
    """The refs as they would be, and the new id of every commit that gets one."""

    refs: dict[str, str]
    commits: dict[str, str]


def export_history(git: WritingGit) -> bytes:
    """The whole history of all refs, without contents; raises GitFailed."""
    return git.run(*_EXPORT)


def payload_blobs(history: bytes) -> set[tuple[str, str]]:
    """Every payload path of the history with every blob it ever was."""
    found: set[tuple[str, str]] = set()
    for line in _commands(history):
        if line.startswith(b"M "):
            _, _, blob, name = line.rstrip(b"\n").split(b" ", 3)
            path = os.fsdecode(_unquoted(name))
            if path.partition("/")[0] in PAYLOAD:
                found.add((path, blob.decode("ascii")))
    return found


def import_without(git: WritingGit, folder: str, history: bytes, unwanted: frozenset[str]) -> NewHistory:
    """Builds the history anew without the files that were one of the `unwanted` blobs; raises GitFailed.

    `folder` is where the private repository and the marks lie; the caller removes it.
    """
    private, marks = os.path.join(folder, "rewriting.git"), os.path.join(folder, "rewriting.marks")
    common = os.fsdecode(git.run("rev-parse", "--path-format=absolute", "--git-common-dir")).strip()
    git.run("init", "--quiet", "--bare", "--template=", private)
    here = {"GIT_DIR": private, "GIT_OBJECT_DIRECTORY": os.path.join(common, "objects")}
    git.run(
        "fast-import",
        "--quiet",
        "--force",
        "--done",
        f"--export-marks={marks}",
        stdin=b"".join(_without(history, unwanted)),
        extra_environment=here,
    )
    with open(marks, "rb") as file:
        by_mark = dict(line.split() for line in file)
    commits: dict[str, str] = {}
    mark = b""
    for line in _commands(history):
        if line.startswith(b"mark "):
            mark = line[5:].strip()
        elif line.startswith(b"original-oid ") and mark in by_mark:
            commits[line[13:].strip().decode("ascii")] = by_mark[mark].decode("ascii")
            mark = b""
    return NewHistory(read_refs(git, here), commits)


def read_refs(git: WritingGit, environment: dict[str, str] | None = None) -> dict[str, str]:
    """Every ref with the object it names."""
    answer = git.run("for-each-ref", "--format=%(objectname) %(refname)", extra_environment=environment or {})
    pairs = (line.split(" ", 1) for line in os.fsdecode(answer).splitlines())
    return {name: oid for oid, name in pairs}


def move_refs(
    git: WritingGit, old: dict[str, str], new: dict[str, str], message: str, environment: dict[str, str]
) -> None:
    """Moves all refs from `old` to `new` in one transaction; raises GitFailed where one stands elsewhere."""
    lines = [
        b"update %b\0%b\0%b\0" % (os.fsencode(name), new[name].encode(), oid.encode())
        if name in new
        else b"delete %b\0%b\0" % (os.fsencode(name), oid.encode())
        for name, oid in old.items()
        if new.get(name) != oid
    ]
    # guard: all-refs-or-none
    git.run(
        "update-ref", "-m", message, "--stdin", "-z", stdin=b"".join(lines), extra_environment=environment
    )


def _commands(history: bytes) -> Iterator[bytes]:
    """The lines of a stream; a `data` command comes as one piece with its content."""
    position = 0
    while position < len(history):
        end = history.find(b"\n", position) + 1
        if not end:
            raise GitFailed(("fast-export",), 0, b"its answer ends within a line")
        match = _DATA.fullmatch(history, position, end)
        if match is not None:
            end += int(match[1])
        yield history[position:end]
        position = end


def _without(history: bytes, unwanted: frozenset[str]) -> Iterator[bytes]:
    for line in _commands(history):
        if line.startswith(b"M "):
            _, _, blob, name = line.split(b" ", 3)
            if blob.decode("ascii") in unwanted:
                yield b"D " + name
                continue
        yield line


def _unquoted(name: bytes) -> bytes:
    if not name.startswith(b'"'):
        return name
    letter: Callable[[re.Match[bytes]], bytes] = lambda match: (  # noqa: E731
        bytes([int(match[1], 8)]) if len(match[1]) == 3 else _LETTERS.get(match[1], match[1])
    )
    return _ESCAPE.sub(letter, name[1:-1])
