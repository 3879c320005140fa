"""Everything that reads bytes of other hands is given bytes that nobody would write, from one seed.

Each target takes one input and raises what it may not; a fault is one sentence with the input. The inputs are good
ones, cut, doubled, mixed and sprinkled with what readers stumble over.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from dsh_memory.backup import export_backup, import_backup
from dsh_memory.environment import utc_now
from dsh_memory.errors import BackupFailure, MemoryFailure, SessionFailure
from dsh_memory.hosts.jsonrpc import BadFrame, BadJson, read_call, strict_json
from dsh_memory.hosts.settings_text import (
    UnchangeableSettings,
    UnreadableSettings,
    read_enabled,
    with_enabled,
)
from dsh_memory.records.frontmatter import edit, parse, render, split
from dsh_memory.records.metadata import Malformed, Record, read_record
from dsh_memory.records.secrets import scan
from dsh_memory.sync.proposing import from_patch, propose
from dsh_memory.sync.redaction import redact_text
from dsh_memory.sync.sessions import open_session
from dsh_memory.sync.transcript import transcript
from dsh_memory.text import visible
from tests.reliability.figures import Figures
from tests.support.repositories import MemoryRepository, record

#: One input may take so long; a reader that needs more hangs, for whoever waits.
_PATIENCE_SECONDS: Final = 10.0

_STUMBLES: Final = (
    b"", b"\0", b"\xff", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n", b"\n\n", b"---\n", b"...\n", b"-", b": ", b":", b"#",
    b"'", b'"', b"\\", b"\\u", b"\\ud800", b"[", b"]", b"{", b"}", b",", b"&a ", b"*a", b"!!python/object", b"|", b">",
    b"\t", b" ", b"\xc2\x85", b"\xe2\x80\xa8", b"\xed\xa0\x80", b"\xf0\x9f\xa4\xad", b"1e999", b"-0", b"0x1", b"NaN",
    b"null", b"true", b"9" * 400, b"[" * 300, b"a" * 3000, b"id: x\n", b"tags:\n  - a\n", b"  - b\n", b"\x1b[31m",
    b"../", b"/etc/passwd", b".git/", b"<<: *a\n",
)  # fmt: skip
_RECORDS: Final = (
    record("a", "Some text.\n").encode(),
    record(
        "p/b", "x", type="fact", tags="[a, 'b c', \"d\"]", created_at="2026-08-10", created_by="Re: hi"
    ).encode(),
    b"\xef\xbb\xbf---\r\nschema_version: 1\r\nid: c\r\n# note\r\ntags:\r\n  - '#a'\r\n  - |c\r\n---\r\n\r\nbody\r\n",
    b"a legacy note\n",
    b'---\nschema_version: 1\nid: d\nextra: {"a": [1, 2]}\nquoted: "\\u00e9\\n"\n---\nbody',
)
FRAMES: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"memory.status","params":{}}',
    b'{"jsonrpc":"2.0","id":"x","method":"memory.search","params":{"query":"a","limit":3,"scope":null}}',
    b'[{"jsonrpc":"2.0","method":"initialize"}]',
    b'{"jsonrpc":"2.0","id":null,"method":"memory.clear","params":{"confirmation":"DELETE_MEMORY"}}',
)
_SESSIONS: Final = (
    b'{"type":"session","version":0,"id":"due","cwd":"/home/ada/work"}\n'
    b'{"type":"user/message","data":{"content":[{"type":"text","text":"Use TypeScript."}]}}\n'
    b'{"type":"agent/tool-call","data":{"name":"bash","arguments":{"command":"ls","api_key":"x"}}}\n',
)
_SETTINGS: Final = (
    b"memory:\n  enabled: true  # on\nother: [a, b]\n",
    b"theme: dark\nmemory: {enabled: false, x: 1}\n",
    b"# nothing\n",
    b"a: &x 1\nb: *x\nmemory:\n",
)


@dataclass(frozen=True, slots=True)
class Target:
    """One reader: its good inputs, and how many mutated ones the short and the long form give it."""

    name: str
    seeds: tuple[bytes, ...]
    run: Callable[[bytes], None]
    short: int
    long: int


def mutated(chance: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    """One input."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        at, to = sorted((chance.randrange(len(data) + 1), chance.randrange(len(data) + 1)))
        match chance.randrange(6):
            case 0:
                data[at:at] = chance.choice(_STUMBLES)
            case 1:
                data[at:to] = chance.choice(_STUMBLES)
            case 2:
                del data[at:to]
            case 3:
                data[at:at] = data[at:to]
            case 4:
                data[at:at] = chance.choice(seeds)
            case _:
                if data:
                    data[at % len(data)] = chance.randrange(256)
    return bytes(data)


# --- records --------------------------------------------------------------------------------------


def read_a_record(data: bytes) -> None:
    """Every input is a record, a legacy one, or malformed with a code and a line; nothing of its body is lost."""
    found = read_record("handbook/x.md", data)
    if isinstance(found, Malformed):
        assert found.code and found.line is not None and found.message
        return
    assert isinstance(found, Record)
    parts = split(data)
    assert b"".join((parts.bom, parts.opening, parts.header or b"", parts.closing, parts.body)) == data
    if parts.header is None:
        assert found.body == data
        return
    assert found.body == parts.body
    values = parse(data).values
    _check_rendered(values, found.body)
    changed = edit(data, {"updated_at": "2026-08-20"})
    before, after = data.splitlines(keepends=True), changed.splitlines(keepends=True)
    assert split(changed).body == parts.body
    assert sum(line not in after for line in before) <= 1 or b"updated_at" in (parts.header or b"")
    again = read_record("handbook/x.md", changed)
    assert isinstance(again, Record) and again.metadata is not None
    assert again.metadata.updated_at == "2026-08-20"


def _check_rendered(values: dict[str, object], body: bytes) -> None:
    try:
        rendered = render(values, body)
    except ValueError:
        # What the grammar reads but cannot write (a number with no exact form) is refused, not bent.
        return
    assert parse(rendered).values == values and split(rendered).body == body


def scan_for_secrets(data: bytes) -> None:
    scan("handbook/x.md", data, frozenset())
    redact_text(data.decode("utf-8", "replace"))


# --- the wire -------------------------------------------------------------------------------------


def read_a_frame(data: bytes) -> None:
    try:
        call = read_call(data)
    except BadFrame:
        return
    assert call is None or isinstance(call.method, str)


def read_strict_json(data: bytes) -> None:
    try:
        value = strict_json(data)
    except BadJson:
        return
    assert json.loads(data) == value or value != value


def read_settings(data: bytes) -> None:
    """The switch is read or refused, and set without a change elsewhere or not at all."""
    text = data.decode("utf-8", "replace")
    try:
        read_enabled(text)
        changed = with_enabled(text, False)
    except (UnreadableSettings, UnchangeableSettings):
        return
    assert read_enabled(changed) is False


def read_a_session(data: bytes) -> None:
    with TemporaryDirectory(prefix="dsh-memory-fuzz-") as folder:
        path = Path(folder, "session.jsonl")
        path.write_bytes(data)
        log = open_session(str(path))
        with log.stream:
            try:
                for line in transcript(log.events()):
                    visible(line)
            except SessionFailure as refused:
                assert refused.code


# --- terminal text --------------------------------------------------------------------------------


def show(data: bytes) -> None:
    for text in (data.decode("utf-8", "surrogateescape"), data.decode("latin-1")):
        for keep in (False, True):
            check_shown(text, keep_newlines=keep)


def check_shown(text: str, *, keep_newlines: bool) -> None:
    """Nothing in what is shown acts on a terminal, hides, or changes direction; shown again it is the same."""
    shown = visible(text, keep_newlines=keep_newlines)
    rest = shown.replace("\n", "") if keep_newlines else shown
    for character in set(rest):
        category = unicodedata.category(character)
        assert category not in ("Cc", "Cs", "Cn", "Co", "Zl", "Zp"), ascii(character)
        assert category != "Cf" or character == "\u200d", ascii(character)
    assert visible(shown, keep_newlines=keep_newlines) == shown
    shown.encode()


def every_character(*, long: bool) -> Iterator[str]:
    """Every code point there is, in rows; in the long form between letters and emoji, too."""
    for begin in range(0, sys.maxunicode + 1, 1024):
        row = [chr(code) for code in range(begin, begin + 1024)]
        yield "".join(row)
        if long:
            yield "a".join(row)
            yield "\u2764\ufe0f".join(row)


# --- what git reads -------------------------------------------------------------------------------


class Bundles:
    """A backup, cut and mixed: it is refused and leaves nothing, or restores the very memory."""

    def __init__(self, folder: Path) -> None:
        memory = MemoryRepository.create(
            folder / "memory", {"handbook/a.md": record("a"), "handbook/b.md": "b\n"}
        )
        export_backup(memory.environment, str(folder / "good.bundle"), utc_now())
        self._folder = folder
        self._payload = memory.live_payload()
        self.seeds = ((folder / "good.bundle").read_bytes(),)
        self._manifest = (folder / "good.bundle.json").read_bytes()

    def run(self, data: bytes) -> None:
        bundle, target = self._folder / "bad.bundle", self._folder / "restored"
        bundle.write_bytes(data)
        Path(f"{bundle}.json").write_bytes(self._manifest)
        before = set(os.listdir(self._folder))
        try:
            import_backup(str(bundle), str(target))
        except BackupFailure as refused:
            assert refused.code and set(os.listdir(self._folder)) == before, refused
            return
        assert MemoryRepository(target).live_payload() == self._payload
        subprocess.run(["rm", "-rf", str(target)], check=True)


class Patches:
    """A patch, cut and mixed: it is refused, or puts up a preview of the payload alone; the memory stays."""

    def __init__(self, folder: Path) -> None:
        self._memory = MemoryRepository.create(
            folder / "memory", {"handbook/a.md": record("a", "one\ntwo\n")}
        )
        self._outside = folder / "outside"
        self._outside.write_text("kept\n")
        self._before = self._memory.live_payload()
        self.seeds = (
            b"--- a/handbook/a.md\n+++ b/handbook/a.md\n@@ -6,2 +6,2 @@\n one\n-two\n+three\n",
            b"diff --git a/handbook/n.md b/handbook/n.md\nnew file mode 100644\n--- /dev/null\n+++ b/handbook/n.md\n"
            b"@@ -0,0 +1 @@\n+new\n",
            b"diff --git a/handbook/l.md b/handbook/l.md\nnew file mode 120000\n--- /dev/null\n+++ b/handbook/l.md\n"
            b"@@ -0,0 +1 @@\n+../../outside\n\\ No newline at end of file\n",
            b"diff --git a/../outside b/../outside\n--- a/../outside\n+++ b/../outside\n@@ -1 +1 @@\n-kept\n+lost\n",
            b"diff --git a/handbook/a.md b/rollouts/a.md\nrename from handbook/a.md\nrename to rollouts/a.md\n",
        )

    def run(self, data: bytes) -> None:
        try:
            made = propose(self._memory.environment, utc_now, from_patch(data))
        except MemoryFailure as refused:
            assert refused.code
        else:
            paths = [] if made is None else made["changed_paths"]
            assert all(re.match(r"summary\.md$|(handbook|rollouts|archive)/", path) for path in paths), paths
        assert self._memory.live_payload() == self._before
        assert self._outside.read_text() == "kept\n"


# --- all of it ------------------------------------------------------------------------------------


def targets(folder: Path) -> list[Target]:
    """Every reader; `folder` is for those that need files."""
    for name in ("bundles", "patches"):
        (folder / name).mkdir()
    bundles, patches = Bundles(folder / "bundles"), Patches(folder / "patches")
    return [
        Target("front matter", _RECORDS, read_a_record, 3_000, 200_000),
        Target("secrets", _RECORDS + _SESSIONS, scan_for_secrets, 200, 20_000),
        Target("JSON-RPC frames", FRAMES, read_a_frame, 2_000, 200_000),
        Target("JSON", FRAMES + _SESSIONS, read_strict_json, 1_000, 100_000),
        Target("settings", _SETTINGS, read_settings, 150, 10_000),
        Target("session logs", _SESSIONS, read_a_session, 300, 20_000),
        Target("terminal text", _RECORDS + FRAMES, show, 500, 50_000),
        Target("bundles", bundles.seeds, bundles.run, 3, 500),
        Target("patches", patches.seeds, patches.run, 6, 1_000),
    ]


def faults(target: Target, count: int) -> Iterator[str]:
    """One sentence for each input of `count` that went wrong."""
    chance = random.Random(target.name)
    for number in range(count):
        data = target.seeds[number] if number < len(target.seeds) else mutated(chance, target.seeds)
        begun = time.monotonic()
        try:
            target.run(data)
        except Exception as fault:
            yield f"{target.name}: {data!r}: {type(fault).__name__}: {fault}"
        if time.monotonic() - begun > _PATIENCE_SECONDS:
            yield f"{target.name}: {data!r} takes {time.monotonic() - begun:.0f} s"


def figures(long: bool) -> Figures:
    """The inputs tried; each that went wrong is a loss."""
    tried = 0
    losses: list[str] = []
    with TemporaryDirectory(prefix="dsh-memory-fuzz-") as folder:
        for target in targets(Path(folder)):
            count = target.long if long else target.short
            tried += count
            losses += faults(target, count)
    for text in every_character(long=long):
        tried += 1
        check_shown(text, keep_newlines=False)
    return Figures(tried, tuple(losses))
