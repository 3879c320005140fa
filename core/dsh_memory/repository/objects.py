"""Git objects of a transaction: blob ids, and commits built by one `git fast-import` whatever their size.

Contents go to Git as bytes on its standard input: no filter, no attribute and no link is ever applied to
them.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import NamedTuple

from dsh_memory.repository.git import OWN_IDENTITY, GitFailed, SealedGit, WritingGit
from dsh_memory.repository.layout import PAYLOAD

FILE_MODE = "100644"
EXECUTABLE_MODE = "100755"
FILE_MODES = (FILE_MODE, EXECUTABLE_MODE)

_PIECE = 1 << 20
_CRASH_REPORT = re.compile(r"fast_import_crash_[0-9]+")


class Entry(NamedTuple):
    """A file as Git knows it: its mode and its blob's id."""

    mode: str
    blob: str


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """One commit: what it changes relative to its parent (None deletes a path)."""

    message: str
    changes: Mapping[str, Entry | None]


class BlobHasher:
    """Blob ids of one object format, of bytes or of an open file."""

    def __init__(self, object_format: str) -> None:
        # Git's own choice of hash, not ours: names of content, no secret rests on them.
        self._new: Callable[[bytes], hashlib._Hash] = partial(
            getattr(hashlib, object_format), usedforsecurity=False
        )

    def of(self, data: bytes) -> str:
        """The id of the blob that holds `data`."""
        return self._new(b"blob %d\0%b" % (len(data), data)).hexdigest()

    def of_file(self, descriptor: int) -> str:
        """The id of the blob of an open file's content, read in pieces from its start."""
        size = os.fstat(descriptor).st_size
        if size < _PIECE:
            data = os.pread(descriptor, size + 1, 0)
            if len(data) == size:
                return self.of(data)
        digest = self._new(b"blob %d\0" % size)
        position = 0
        while piece := os.pread(descriptor, _PIECE, position):
            digest.update(piece)
            position += len(piece)
        return digest.hexdigest()


def null_id(object_format: str) -> str:
    """The id that stands for no object."""
    return "0" * (64 if object_format == "sha256" else 40)


def is_object_id(text: object, object_format: str) -> bool:
    """Whether `text` is a full object id of that format; nothing else is ever given to git as one."""
    length = 64 if object_format == "sha256" else 40
    # guard: object-id-form
    return (
        isinstance(text, str) and len(text) == length and all(digit in "0123456789abcdef" for digit in text)
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """What the repository's own config says that changes obey: who commits."""

    identity: str


def read_settings(git: SealedGit) -> Settings:
    """The repository's settings through one git process; the identity is ours unless config names both its
    parts.

    Filter programs that the config names are switched off for this `git` from here on.
    """
    answer = git.run("config", "-z", "--get-regexp", r"^(user\.(name|email)|filter\..*)$", accept=(0, 1))
    values: dict[str, str] = {}
    for item in answer.split(b"\0")[:-1]:
        key, _, value = item.partition(b"\n")
        values[os.fsdecode(key)] = re.sub(r"[<>\x00-\x1f]", "", value.decode("utf-8", "replace")).strip()
    # guard: no-filters (Git runs them even to compare, whenever an index is written)
    filters = sorted({key.rpartition(".")[0] for key in values if key.startswith("filter.")})
    git.overrides = tuple(
        word
        for name in filters
        for setting in ("clean=", "smudge=", "process=", "required=false")
        for word in ("-c", f"{name}.{setting}")
    )
    name, email = values.get("user.name"), values.get("user.email")
    return Settings(f"{name} <{email}>" if name and email else OWN_IDENTITY)


def identity_environment(identity: str) -> dict[str, str]:
    """The same identity for git processes that write a reflog."""
    name, _, email = identity.removesuffix(">").rpartition(" <")
    return {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": email}


def import_commits(
    git: WritingGit,
    git_dir: str,
    ref: str,
    parent: str,
    plans: Sequence[CommitPlan],
    contents: Mapping[str, bytes],
    *,
    identity: str,
    now: datetime,
) -> list[str]:
    """Builds a chain of commits above `parent` on the private ref `ref`; their ids.

    `contents` holds the bytes of blobs, by id, that Git may not have yet. Raises GitFailed.
    """
    signature = f"{identity} {int(now.timestamp())} +0000".encode()
    stream: list[bytes] = [b"feature done\n"]
    previous = parent
    for mark, plan in enumerate(plans, 1):
        stream.append(b"commit %s\nmark :%d\n" % (ref.encode(), mark))
        stream.append(b"author %s\ncommitter %s\n" % (signature, signature))
        stream.append(_data(plan.message.encode()))
        stream.append(b"from %s\n" % previous.encode())
        stream += _file_commands(plan.changes, contents)
        previous = f":{mark}"
    stream += [b"get-mark :%d\n" % mark for mark in range(1, len(plans) + 1)]
    stream.append(b"done\n")
    try:
        answer = git.run("fast-import", "--quiet", "--done", "--date-format=raw", stdin=b"".join(stream))
    except GitFailed as failure:
        _remove_crash_report(git_dir, failure)
        raise
    commits = answer.decode("ascii").split()
    if len(commits) != len(plans):
        raise GitFailed(("fast-import",), 0, b"it named too few commits")
    return commits


def read_blobs(git: SealedGit, blobs: Iterable[str]) -> dict[str, bytes]:
    """The bytes of blobs by id, through one git process; raises GitFailed for one that is missing."""
    wanted = sorted(set(blobs))
    if not wanted:
        return {}
    answer = git.run(
        "cat-file", "--batch", "--buffer", stdin="".join(f"{blob}\n" for blob in wanted).encode()
    )
    found: dict[str, bytes] = {}
    position = 0
    for blob in wanted:
        line_end = answer.index(b"\n", position)
        words = answer[position:line_end].split()
        if len(words) != 3 or words[1] != b"blob":
            raise GitFailed(("cat-file",), 0, b"object missing: " + blob.encode())
        start, size = line_end + 1, int(words[2])
        found[blob] = answer[start : start + size]
        position = start + size + 1
    return found


def payload_of(git: SealedGit, commit: str) -> dict[str, Entry]:
    """Every payload file of a commit; raises GitFailed where the commit is missing."""
    answer = git.run(
        "ls-tree", "-r", "-z", "--full-tree", "--end-of-options", f"{commit}^{{commit}}", *PAYLOAD
    )
    entries: dict[str, Entry] = {}
    for line in os.fsdecode(answer).split("\0")[:-1]:
        facts, _, path = line.partition("\t")
        mode, _, blob = facts.split(" ")
        entries[path] = Entry(mode, blob)
    return entries


def _file_commands(changes: Mapping[str, Entry | None], contents: Mapping[str, bytes]) -> Iterable[bytes]:
    # Deletes first: a file may become a folder, or the other way round, within one commit.
    for path, entry in changes.items():
        if entry is None:
            yield b"D %s\n" % _quoted(path)
    for path, entry in changes.items():
        if entry is None:
            continue
        data = contents.get(entry.blob)
        if data is None:
            yield b"M %s %s %s\n" % (entry.mode.encode(), entry.blob.encode(), _quoted(path))
        else:
            yield b"M %s inline %s\n" % (entry.mode.encode(), _quoted(path))
            yield _data(data)


def _data(data: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(data), data)


def _quoted(path: str) -> bytes:
    if path.isascii() and path.isprintable() and '"' not in path and "\\" not in path:
        return b'"%b"' % path.encode()
    quoted = bytearray(b'"')
    for byte in os.fsencode(path):
        if byte < 0x20 or byte >= 0x7F or byte in b'"\\':
            quoted += b"\\%03o" % byte
        else:
            quoted.append(byte)
    return bytes(quoted + b'"')


def _remove_crash_report(git_dir: str, failure: GitFailed) -> None:
    # fast-import leaves a report beside the repository's own files; its words are in the failure already.
    report = _CRASH_REPORT.search(failure.message)
    if report is not None:
        try:
            os.unlink(os.path.join(git_dir, report.group()))
        except FileNotFoundError:
            return
