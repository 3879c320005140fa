"""The payload beside HEAD's: byte-true whatever Git's index, attributes or configuration say."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dsh_memory.errors import RepoUnavailable, UnsafeLayout
from dsh_memory.records.metadata import Malformed, Record, read_record
from dsh_memory.repository.content import RecordCache
from dsh_memory.repository.layout import Root, Scan
from dsh_memory.repository.lock import ActiveRun, hold
from dsh_memory.repository.view import (
    PayloadView,
    Scope,
    in_progress,
    payload_view,
    read_head,
    read_index,
    read_records,
    survey,
)
from tests.support.clocks import FrozenClock
from tests.support.privileges import as_nobody, give_to_nobody
from tests.support.repositories import NOON, MemoryRepository, record

#: Names that programs trip over: each is a record below handbook/.
NAMES = [
    "記憶と部署.md",
    "a -> b.md",
    "tab\there.md",
    "line\nbreak.md",
    "\"quoted\" and 'more'.md",
    "one, two.md",
    " leading and trailing .md",
    "-rf.md",
    ":(top)*.md",
    "v1..v2.md",
    b"latin-\xe9.md",
    "back\\slash.md",
]


def view_of(memory: MemoryRepository, cache: RecordCache | None = None) -> PayloadView:
    with memory.open() as repo:
        return payload_view(repo, cache)


def dirty(memory: MemoryRepository) -> set[str]:
    return set(view_of(memory).dirty)


@contextmanager
def applying(memory: MemoryRepository) -> Iterator[None]:
    """A live run in phase applying, as its holder leaves it on disk."""
    with memory.open() as repo, hold(repo.root, "write", "20260820T120000Z-0000000a", FrozenClock()) as lock:
        head = memory.head
        lock.record(
            ActiveRun(
                lock.run.run_id,
                "write",
                "running",
                "applying",
                os.getpid(),
                lock.run.started_at,
                head,
                head,
                head,
            )
        )
        yield
        lock.forget_run()


# --- what is dirty ---------------------------------------------------------------------------------------


def test_a_clean_memory(memory: MemoryRepository) -> None:
    memory.write_all({"handbook/a.md": "a", "archive/deep/er/b.txt": "b", "handbook/empty.md": ""})
    commit = memory.commit()
    view = view_of(memory)
    assert (view.head.commit, view.head.branch) == (commit, "main")
    assert view.dirty == frozenset()
    assert view.committed.keys() == view.files.keys() == view.blobs.keys()
    assert view.committed["handbook/a.md"] == ("100644", view.blobs["handbook/a.md"])
    assert view.data_file_count == 2


@pytest.mark.parametrize("name", NAMES)
def test_any_name(memory: MemoryRepository, name: str | bytes) -> None:
    path = "handbook/" + os.fsdecode(name)
    memory.write(path, record("a"))
    assert dirty(memory) == {path}
    memory.commit()
    assert dirty(memory) == set()
    memory.write(path, record("b"))
    assert dirty(memory) == {path}
    with memory.open() as repo:
        assert [found.path for found in read_records(repo, NOON).records] == [path]
        assert path in read_index(repo)


def test_edits_deletions_additions_and_modes(memory: MemoryRepository) -> None:
    memory.write_all({f"handbook/{name}.md": name for name in ("edited", "gone", "run", "same")})
    memory.commit()
    memory.write("handbook/edited.md", "EDITED")
    memory.remove("handbook/gone.md")
    memory.write("handbook/run.md", "run", executable=True)
    memory.write("handbook/new.md", "new")
    memory.write("notes.txt", "foreign")
    assert dirty(memory) == {f"handbook/{name}.md" for name in ("edited", "gone", "run", "new")}


def test_ignored_files_are_payload(memory: MemoryRepository) -> None:
    memory.write(".gitignore", "*.log\nprivate/\n")
    memory.commit()
    memory.write_all({"handbook/x.log": "x", "rollouts/private/y.md": record("y")})
    view = view_of(memory)
    assert view.dirty == {"handbook/x.log", "rollouts/private/y.md"}
    assert view.data_file_count == 2


def test_the_index_does_not_decide(memory: MemoryRepository) -> None:
    memory.write_all({f"handbook/{name}.md": "old" for name in ("reverted", "skipped", "assumed", "dropped")})
    memory.commit()
    memory.write("handbook/reverted.md", "staged")
    memory.git("add", "handbook/reverted.md")
    memory.write("handbook/reverted.md", "old")
    memory.git("update-index", "--skip-worktree", "handbook/skipped.md")
    memory.git("update-index", "--assume-unchanged", "handbook/assumed.md")
    memory.write("handbook/skipped.md", "new")
    memory.write("handbook/assumed.md", "new")
    memory.git("rm", "-q", "--cached", "handbook/dropped.md")
    memory.write("handbook/intended.md", "x")
    memory.git("add", "-N", "handbook/intended.md")
    assert dirty(memory) == {f"handbook/{name}.md" for name in ("skipped", "assumed", "intended")}
    with memory.open() as repo:
        entries = read_index(repo)
    assert entries["handbook/skipped.md"][0].tag == "S"
    assert entries["handbook/assumed.md"][0].tag == "h"
    assert "handbook/dropped.md" not in entries


def test_an_equal_size_and_an_old_time_hide_nothing(memory: MemoryRepository) -> None:
    memory.write("handbook/a.md", "one")
    memory.set_times()
    memory.commit()
    cache = RecordCache()
    view_of(memory, cache)
    memory.write("handbook/a.md", "two")
    memory.set_times()
    assert view_of(memory, cache).dirty == {"handbook/a.md"}


@pytest.mark.parametrize("place", [".gitattributes", "handbook/.gitattributes", ".git/info/attributes"])
def test_filters_neither_run_nor_hide(memory: MemoryRepository, tmp_path: Path, place: str) -> None:
    memory.write("handbook/a.md", "one\n")
    memory.commit()
    ran = tmp_path / "ran"
    memory.git("config", "filter.evil.clean", f"touch {ran}; printf 'one\\n'")
    memory.write(place, "*.md filter=evil text eol=crlf ident\n")
    memory.write("handbook/a.md", "two\n")
    assert "handbook/a.md" in dirty(memory)
    with memory.open() as repo:
        survey(repo, NOON)
    assert not ran.exists()


def test_line_endings_that_git_converted_are_dirty(memory: MemoryRepository) -> None:
    memory.git("config", "core.autocrlf", "input")
    memory.write("handbook/a.md", "one\r\n")
    memory.commit()
    # Git's own status is content: it stored other bytes than stand in the worktree.
    assert memory.git("status", "--porcelain") == b""
    assert dirty(memory) == {"handbook/a.md"}


def test_file_modes_that_git_was_told_to_ignore_count(memory: MemoryRepository) -> None:
    memory.write("handbook/a.md", "one")
    memory.commit()
    memory.git("config", "core.fileMode", "false")
    memory.path("handbook/a.md").chmod(0o700)
    assert dirty(memory) == {"handbook/a.md"}


def test_a_conflicted_merge(memory: MemoryRepository) -> None:
    memory.write("handbook/a.md", record("a", "base\n"))
    memory.commit()
    memory.git("checkout", "-q", "-b", "other")
    memory.write("handbook/a.md", record("a", "theirs\n"))
    memory.commit()
    memory.git("checkout", "-q", "main")
    memory.write("handbook/a.md", record("a", "ours\n"))
    memory.commit()
    with pytest.raises(AssertionError, match="ended with 1"):
        memory.git("merge", "other")
    with memory.open() as repo:
        assert in_progress(repo) == "merge"
        assert payload_view(repo).dirty == {"handbook/a.md"}
        assert [entry.stage for entry in read_index(repo)["handbook/a.md"]] == [1, 2, 3]
        assert [found.path for found in read_records(repo, NOON).records] == ["handbook/a.md"]


def test_before_the_first_commit(tmp_path: Path) -> None:
    memory = MemoryRepository.unborn(tmp_path / "memory")
    memory.write("handbook/a.md", record("a"))
    view = view_of(memory)
    assert (view.head.commit, view.head.branch) == (None, "main")
    assert view.dirty == {"summary.md", "handbook/a.md"}
    with memory.open() as repo:
        assert survey(repo, NOON).head.commit is None
        assert len(read_records(repo, NOON).records) == 1


def test_a_detached_head_and_strange_branches(memory: MemoryRepository) -> None:
    memory.git("checkout", "-q", "--detach")
    with memory.open() as repo:
        assert read_head(repo).branch is None
        assert read_head(repo).commit == memory.head
    memory.git("update-ref", "refs/heads/-x", "HEAD")
    memory.git("symbolic-ref", "HEAD", "refs/heads/-x")
    for ref in ("refs/heads/HEAD", "refs/tags/HEAD", "refs/heads/main"):
        memory.git("update-ref", ref, memory.head)
    with memory.open() as repo:
        assert (read_head(repo).branch, read_head(repo).commit) == ("-x", memory.head)
        assert payload_view(repo).dirty == frozenset()


def test_missing_payload_folders_are_empty_ones(memory: MemoryRepository) -> None:
    for folder in ("handbook", "rollouts", "archive"):
        memory.path(folder).rmdir()
    memory.remove("summary.md")
    memory.commit()
    view = view_of(memory)
    assert (dict(view.files), view.dirty, view.data_file_count) == ({}, frozenset(), 0)


def test_a_payload_emptied_by_hand_is_dirty(memory: MemoryRepository) -> None:
    memory.write("handbook/a.md", "a")
    memory.commit()
    shutil.rmtree(memory.path("handbook"))
    view = view_of(memory)
    assert view.dirty == {"handbook/a.md"}
    assert view.data_file_count == 0


@pytest.mark.parametrize(
    "name", ["MERGE_HEAD", "rebase-merge", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG"]
)
def test_what_was_begun_is_named(memory: MemoryRepository, name: str) -> None:
    with memory.open() as repo:
        assert in_progress(repo) is None
        memory.write(f".git/{name}", "")
        assert in_progress(repo) in ("merge", "rebase", "cherry-pick", "revert", "bisect")


def test_a_hostile_configuration_changes_nothing(memory: MemoryRepository, isolated: Path) -> None:
    (isolated / "ignore").write_text("*\n")
    (isolated / "attributes").write_text("* text=auto eol=crlf\n")
    (isolated / ".gitconfig").write_text(
        "[core]\nautocrlf=true\nquotePath=true\nfsmonitor=/bin/false\nuntrackedCache=true\n"
        f"excludesFile={isolated}/ignore\nattributesFile={isolated}/attributes\nhooksPath={isolated}\n"
        "[status]\nshowUntrackedFiles=no\nrelativePaths=true\n[color]\nui=always\n[diff]\nexternal=/bin/false\n"
        "noprefix=true\n[commit]\ngpgSign=true\n[log]\nshowSignature=true\n[safe]\nbareRepository=explicit\n"
    )
    memory.write("handbook/a.md", "one\n")
    assert dirty(memory) == {"handbook/a.md"}
    memory.commit()
    assert dirty(memory) == set()


# --- what is unsafe --------------------------------------------------------------------------------------


def a_link(memory: MemoryRepository) -> None:
    memory.path("handbook/link.md").symlink_to("/etc/passwd")


def a_folder_link(memory: MemoryRepository) -> None:
    memory.path("handbook").rmdir()
    memory.path("handbook").symlink_to("/etc")


def a_summary_link(memory: MemoryRepository) -> None:
    memory.remove("summary.md")
    memory.path("summary.md").symlink_to("README.md")


def a_summary_folder(memory: MemoryRepository) -> None:
    memory.remove("summary.md")
    memory.path("summary.md").mkdir()


def a_pipe(memory: MemoryRepository) -> None:
    os.mkfifo(memory.path("rollouts/pipe.md"))


def a_hard_link(memory: MemoryRepository) -> None:
    os.link(memory.path("README.md"), memory.path("handbook/twin.md"))


def a_nested_repository(memory: MemoryRepository) -> None:
    MemoryRepository.create(memory.path("archive/inner"))


def a_sync_link(memory: MemoryRepository) -> None:
    memory.path(".sync").rename(memory.root.parent / "sync")
    memory.path(".sync").symlink_to(memory.root.parent / "sync")


def a_socket(memory: MemoryRepository) -> None:
    here = Path.cwd()
    os.chdir(memory.path("handbook"))
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("s.md")
    finally:
        os.chdir(here)


@pytest.mark.parametrize(
    "make",
    [
        a_link,
        a_folder_link,
        a_summary_link,
        a_summary_folder,
        a_pipe,
        a_hard_link,
        a_nested_repository,
        a_sync_link,
        a_socket,
    ],
)
def test_unsafe_layouts_stop_every_reading(
    memory: MemoryRepository, make: Callable[[MemoryRepository], None]
) -> None:
    make(memory)
    with memory.open() as repo:
        with pytest.raises(UnsafeLayout):
            survey(repo, NOON)
        with pytest.raises(UnsafeLayout):
            read_records(repo, NOON)


# --- reading records -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "ids"),
    [("active", ["h", "r"]), ("archive", ["a"]), ("all", ["a", "h", "r"])],
)
def test_scopes(memory: MemoryRepository, scope: Scope, ids: list[str]) -> None:
    memory.write_all(
        {
            "handbook/h.md": record("h"),
            "handbook/n.txt": "no record",
            "rollouts/r.md": record("r"),
            "archive/a.md": record("a"),
            "archive/bad.md": "---\nid: x\n---\n",
        }
    )
    with memory.open() as repo:
        found = read_records(repo, NOON, scope)
        assert [one.id for one in found.records] == ids
        assert [bad.code for bad in found.malformed] == (
            [] if scope == "active" else ["invalid-schema-version"]
        )
        assert set(found.paths) == {
            "summary.md",
            "handbook/h.md",
            "handbook/n.txt",
            "rollouts/r.md",
            "archive/a.md",
            "archive/bad.md",
        }
        assert repo.git.spawned == 1


def test_a_survey_tells_records_legacy_and_malformed_apart(memory: MemoryRepository) -> None:
    memory.write_all(
        {
            "summary.md": "no header, yet never legacy",
            "handbook/a.md": record("a"),
            "handbook/old.md": "# old",
            "handbook/other.txt": "no record",
            "archive/latin.md": b"\xe9",
            "rollouts/nul.md": "a\0b",
        }
    )
    with memory.open() as repo:
        found = survey(repo, NOON)
    assert found.legacy == ("handbook/old.md",)
    assert [(bad.path, bad.code) for bad in found.malformed] == [
        ("archive/latin.md", "binary-file"),
        ("rollouts/nul.md", "binary-file"),
    ]
    assert found.data_file_count == 6
    assert len(found.dirty) == 6


def test_a_record_over_the_limit_is_never_loaded(memory: MemoryRepository) -> None:
    with memory.write("handbook/huge.md", b"").open("wb") as huge:
        huge.truncate(300 * 1024 * 1024)
    with memory.open() as repo:
        found = read_records(repo, NOON)
    assert [(bad.code, bad.size) for bad in found.malformed] == [("file-too-large", 300 * 1024 * 1024)]


def test_a_large_file_is_compared_whole(memory: MemoryRepository) -> None:
    memory.write("handbook/large.bin", bytes(9 * 1024 * 1024))
    memory.commit()
    assert dirty(memory) == set()
    memory.write("handbook/large.bin", bytes(9 * 1024 * 1024 - 1) + b"x")
    assert dirty(memory) == {"handbook/large.bin"}


def test_what_may_not_be_read_is_malformed_and_not_legacy(open_tmp: Path) -> None:
    memory = MemoryRepository.create(
        open_tmp / "memory",
        {
            "handbook/closed.md": "x",
            "handbook/open.md": record("open"),
            "archive/locked/in.md": record("in"),
            "handbook/closed.txt": "x",
        },
    )
    give_to_nobody(open_tmp)
    for name in ("handbook/closed.md", "handbook/closed.txt", "archive/locked"):
        memory.path(name).chmod(0)

    def read() -> tuple[list[str], list[tuple[str, str]], tuple[str, ...], set[str]]:
        with memory.open() as repo:
            found = survey(repo, NOON)
            view = payload_view(repo)
            records = [one.path for one in read_records(repo, NOON).records]
        return records, [(bad.path, bad.code) for bad in found.malformed], view.unreadable, set(view.dirty)

    records, malformed, unreadable, changed = as_nobody(read)
    assert records == ["handbook/open.md"]
    assert malformed == [("archive/locked", "unreadable-file"), ("handbook/closed.md", "unreadable-file")]
    assert unreadable == ("archive/locked", "handbook/closed.md", "handbook/closed.txt")
    # Nothing proves that they are what HEAD holds.
    assert changed == {"archive/locked/in.md", "handbook/closed.md", "handbook/closed.txt"}
    memory.path("archive/locked").chmod(0o700)


def test_files_that_come_and_go_during_a_walk(
    memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.write_all({f"handbook/{number}.md": record(f"r{number}") for number in range(4)})
    stat = os.stat

    def vanishing(path: object, **options: object) -> os.stat_result:
        if path == "2.md":
            memory.path("handbook/2.md").unlink(missing_ok=True)
            memory.write("handbook/late.md", record("late"))
        return stat(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", vanishing)
    with memory.open() as repo:
        found = read_records(repo, NOON)
    assert {one.id for one in found.records} >= {"r0", "r1", "r3"}
    assert not {one.id for one in found.records} & {"r2"}


def test_a_file_that_goes_between_walk_and_reading(memory: MemoryRepository) -> None:
    memory.write_all({"handbook/a.md": record("a"), "handbook/b.md": record("b")})
    memory.commit()
    with memory.open() as repo:
        scan = repo.root.scan

        def then_remove(*arguments: Any) -> object:
            found = scan(*arguments)
            memory.path("handbook/b.md").unlink(missing_ok=True)
            return found

        repo.root.scan = then_remove  # type: ignore[assignment,method-assign]
        assert [one.id for one in read_records(repo, NOON).records] == ["a"]
        assert payload_view(repo).dirty == {"handbook/b.md"}


# --- costs -----------------------------------------------------------------------------------------------


def test_the_number_of_git_processes_does_not_grow(memory: MemoryRepository) -> None:
    def processes() -> int:
        with memory.open() as repo:
            survey(repo, NOON)
            return repo.git.spawned

    few = processes()
    memory.write_all({f"handbook/{number}.md": record(f"r{number}") for number in range(300)})
    assert processes() == few == 4


def test_no_process_starts_behind_the_counters_back(
    memory: MemoryRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.write_all({f"handbook/{number}.md": record(f"r{number}") for number in range(50)})
    memory.commit()
    calls = tmp_path / "calls"
    wrapper = tmp_path / "bin/git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexec {shutil.which("git")} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    with memory.open() as repo:
        survey(repo, NOON)
        read_records(repo, NOON)
        assert len(calls.read_text().splitlines()) == repo.git.spawned == 4


def test_a_read_only_memory_is_read_and_left_as_it_is(open_tmp: Path) -> None:
    memory = MemoryRepository.create(open_tmp / "memory", {"handbook/a.md": record("a")})
    # The index no longer knows the file's times: git status would write it anew.
    os.utime(memory.path("handbook/a.md"), (1, 1))
    index = memory.path(".git/index")
    before = index.read_bytes(), index.stat().st_mtime_ns
    give_to_nobody(open_tmp)
    for path in sorted(memory.root.rglob("*"), reverse=True):
        path.chmod(0o500 if path.is_dir() else 0o400)
    memory.root.chmod(0o500)

    def read() -> tuple[set[str], int]:
        with memory.open() as repo:
            return set(survey(repo, NOON).dirty), len(read_records(repo, NOON).records)

    assert as_nobody(read) == (set(), 1)
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before
    for path in (memory.root, *memory.root.rglob("*")):
        path.chmod(0o700)


def test_an_unchanged_file_is_read_once(memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.write_all({f"handbook/{number}.md": record(f"r{number}") for number in range(3)})
    memory.commit()
    read: list[str] = []
    monkeypatch.setattr("dsh_memory.repository.content.SETTLED_NS", -(10**18))

    def counting(path: str, data: bytes) -> Record | Malformed:
        read.append(path)
        return read_record(path, data)

    monkeypatch.setattr("dsh_memory.repository.content.read_record", counting)
    cache = RecordCache()
    with memory.open() as repo:
        survey(repo, NOON, cache)
        assert sorted(read) == ["handbook/0.md", "handbook/1.md", "handbook/2.md"]
        assert len(read_records(repo, NOON, "all", cache).records) == 3
        survey(repo, NOON, cache)
        memory.write("handbook/1.md", record("r1", "another text\n"))
        assert [one.text for one in read_records(repo, NOON, "all", cache).records][1] == "\nanother text\n"
    assert read[3:] == ["handbook/1.md"]


# --- while a run applies its change ----------------------------------------------------------------------


def test_readers_see_head_while_a_run_applies(memory: MemoryRepository) -> None:
    memory.write_all(
        {"handbook/a.md": record("a", "whole\n"), "handbook/old.md": "legacy", "archive/z.md": "\0"}
    )
    memory.commit()
    memory.write("handbook/a.md", "---\nhalf a reco")
    memory.remove("handbook/old.md")
    with applying(memory), memory.open() as repo:
        found = read_records(repo, NOON)
        seen = survey(repo, NOON)
    assert found.source == seen.source == "head"
    assert [one.text for one in found.records] == ["\nwhole\n", "legacy"]
    assert seen.legacy == ("handbook/old.md",)
    assert [bad.code for bad in seen.malformed] == ["binary-file"]
    assert (seen.dirty, seen.data_file_count) == (frozenset(), 3)
    with memory.open() as repo:
        assert read_records(repo, NOON).source == "worktree"


def test_what_the_cache_knows_of_head_is_not_fetched_again(memory: MemoryRepository) -> None:
    memory.write_all({f"handbook/{number}.md": record(f"r{number}") for number in range(3)})
    memory.commit()
    cache = RecordCache()
    with applying(memory), memory.open() as repo:
        read_records(repo, NOON, "all", cache)
        without = repo.git.spawned
    with memory.open() as repo:
        payload_view(repo, cache)
    with applying(memory), memory.open() as repo:
        assert len(read_records(repo, NOON, "all", cache).records) == 3
        assert repo.git.spawned < without


def test_a_run_that_passes_during_a_reading_makes_it_begin_again(memory: MemoryRepository) -> None:
    memory.write("handbook/a.md", record("a", "before\n"))
    memory.commit()
    passes = iter([True, False])
    with memory.open() as repo:
        scan = repo.root.scan

        def in_between(*arguments: Any) -> object:
            found = scan(*arguments)
            if next(passes, False):
                with applying(memory):
                    memory.write("handbook/b.md", record("b"))
                    memory.commit("by a run")
                memory.write_run("20260820T120000Z-0000000a")
            return found

        repo.root.scan = in_between  # type: ignore[assignment,method-assign]
        assert [one.id for one in read_records(repo, NOON).records] == ["a", "b"]


def test_runs_without_end_leave_head_as_the_steady_place(memory: MemoryRepository) -> None:
    memory.write("handbook/a.md", record("a"))
    memory.commit()

    class Restless(RecordCache):
        def scan(self, root: Root) -> Scan:
            memory.write(".sync/next", "{}").rename(memory.path(".sync/last-run.json"))
            return root.scan()

    with memory.open() as repo:
        assert read_records(repo, NOON, "all", Restless()).source == "head"


def test_a_head_that_cannot_be_read_is_said(memory: MemoryRepository) -> None:
    memory.write("handbook/a.md", record("a"))
    memory.commit()
    tree = memory.git("rev-parse", "HEAD:handbook").decode().strip()
    memory.path(f".git/objects/{tree[:2]}/{tree[2:]}").unlink()
    with memory.open() as repo, pytest.raises(RepoUnavailable) as caught:
        payload_view(repo)
    assert caught.value.detail == "head-unreadable"
    with memory.open() as repo:
        assert len(read_records(repo, NOON).records) == 1
