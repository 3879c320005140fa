"""What is remembered of payload files between calls, and when it no longer holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsh_memory.repository.content import Content, ContentReader, Kind, RecordCache, is_record_path
from dsh_memory.repository.layout import LiveFile
from tests.support.repositories import MemoryRepository, record

PATH = "handbook/a.md"


def content(
    memory: MemoryRepository, cache: RecordCache, path: str = PATH, *, parsed: bool = True
) -> Content:
    with memory.open() as repo, ContentReader(repo.root, repo.object_format, cache) as reader:
        found = reader.read(repo.root.scan().files[path], blob=True, record=parsed)
        assert found is not None
        return found


@pytest.mark.parametrize(
    ("path", "is_record"),
    [
        ("handbook/a.md", True),
        ("rollouts/deep/er/a.md", True),
        ("archive/.md", True),
        ("handbook/a.MD", False),
        ("handbook/a.txt", False),
        ("handbook.md", False),
        ("summary.md", False),
        ("handbooks/a.md", False),
    ],
)
def test_record_paths(path: str, is_record: bool) -> None:
    assert is_record_path(path) is is_record


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        (PATH, record("a"), Kind.RECORD),
        (PATH, "no header", Kind.LEGACY),
        (PATH, "---\nid: x\n---\n", Kind.MALFORMED),
        ("summary.md", record("a"), Kind.OTHER),
        ("handbook/a.txt", record("a"), Kind.OTHER),
    ],
)
def test_kinds_and_blob_ids(memory: MemoryRepository, path: str, text: str, kind: Kind) -> None:
    memory.write(path, text)
    memory.commit()
    found = content(memory, RecordCache(), path)
    assert found.kind is kind
    assert found.blob == memory.git("rev-parse", f"HEAD:{path}").decode().strip()


def test_blob_ids_of_a_sha256_repository(tmp_path: Path) -> None:
    memory = MemoryRepository.create(tmp_path / "memory", {PATH: record("a")}, object_format="sha256")
    assert content(memory, RecordCache()).blob == memory.git("rev-parse", f"HEAD:{PATH}").decode().strip()


def test_records_beyond_the_bound_are_known_but_not_kept(
    memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsh_memory.repository.content.SETTLED_NS", -(10**18))
    memory.write_all({f"handbook/{name}.md": record(name, "x" * 5000) for name in "abc"})
    cache = RecordCache(max_bytes=14_000)
    for name in "abc":
        assert content(memory, cache, f"handbook/{name}.md").parsed is not None
    kept = {name: cache.get(f"handbook/{name}.md") for name in "abc"}
    assert [known is not None and known.parsed is not None for known in kept.values()] == [True, True, False]
    third = kept["c"]
    assert third is not None
    # Enough for a survey; a reader of records reads the file again.
    assert content(memory, cache, "handbook/c.md", parsed=False) is third
    assert content(memory, cache, "handbook/c.md").parsed is not None
    cache.forget_others(["handbook/a.md"])
    assert content(memory, cache, "handbook/c.md").parsed is not None
    known = cache.get("handbook/c.md")
    assert known is not None
    assert known.parsed is not None


def test_a_file_changed_just_before_it_was_read_is_not_trusted() -> None:
    live = LiveFile(PATH, 1, mtime_ns=10**18, ctime_ns=10**18, inode=1, executable=False)
    fresh = Content(live, 10**18 + 1_999_999_999, "blob", Kind.OTHER, None)
    settled = fresh._replace(read_at_ns=10**18 + 2_000_000_001)
    assert not fresh.holds_for(live)
    assert settled.holds_for(live)
    for change in ({"size": 2}, {"mtime_ns": 0}, {"ctime_ns": 0}, {"inode": 2}, {"executable": True}):
        assert not settled.holds_for(live._replace(**change))
    # A clock that was wrong once proves nothing.
    future = live._replace(mtime_ns=10**19)
    assert not settled._replace(live=future).holds_for(future)
