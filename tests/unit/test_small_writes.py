"""Trees, objects and the index as we write them ourselves, held against what git makes of the same."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from dsh_memory.repository.index_file import IndexFile
from dsh_memory.repository.loose_objects import LooseObjects, commit_bytes
from dsh_memory.repository.objects import BlobHasher, Entry
from dsh_memory.repository.trees import TreeEdit, TreeMemo
from dsh_memory.repository.write_memo import WriteMemo, head_and_branch
from tests.support.repositories import NOON, MemoryRepository, record

FORMATS = ("sha1", "sha256")
#: Names whose order in a tree, in an index, and as plain texts differ.
NAMES = ("a", "a.md", "a-b", "a_b", "ab", "a0", "é", "b/c", "b.md", "b/c.md", "b-c/d.md", "z")


def filled(root: Path, object_format: str) -> MemoryRepository:
    files = {f"handbook/{name}/x.md": record(f"x/r{number}") for number, name in enumerate(NAMES)}
    return MemoryRepository.create(root / "memory", files, object_format=object_format)


def tree_of(memory: MemoryRepository, changes: dict[str, Entry | None]) -> str:
    """The tree that git itself makes of HEAD and the changes."""
    index = str(memory.root.parent / "git-index")
    environment = {"GIT_INDEX_FILE": index}
    memory.git("read-tree", "HEAD", environment=environment)
    for path, entry in sorted(changes.items(), key=lambda change: change[1] is not None):
        if entry is None:
            memory.git("update-index", "--force-remove", path, environment=environment)
        else:
            facts = f"{entry.mode},{entry.blob},{path}"
            memory.git("update-index", "--add", "--replace", "--cacheinfo", facts, environment=environment)
    tree = memory.git("write-tree", environment=environment).decode().strip()
    os.unlink(index)
    return tree


@pytest.mark.parametrize("object_format", FORMATS)
def test_trees_are_those_of_git(tmp_path: Path, object_format: str) -> None:
    memory, memo = filled(tmp_path, object_format), TreeMemo()
    chance, hasher = random.Random(7), BlobHasher(object_format)
    with memory.open() as repo:
        for _ in range(25):
            present = (
                memory.git("ls-tree", "-r", "-z", "--name-only", "HEAD", "handbook").decode().split("\0")[:-1]
            )
            changes: dict[str, Entry | None] = dict.fromkeys(chance.sample(present, min(2, len(present))))
            with LooseObjects(repo.common_dir, object_format) as objects:
                for name in chance.sample(NAMES, 2):
                    path, data = f"handbook/{name}/y{chance.randrange(3)}.md", os.urandom(8)
                    changes[path] = Entry("100644", objects.add("blob", data))
                    assert changes[path] == ("100644", hasher.of(data))
                spawned = repo.git.spawned
                folders = memo.folders(repo.git, memory.head, changes)
                tree = TreeEdit(folders, memo, objects).apply(changes)
                data = commit_bytes(tree, memory.head, "m\n", identity="A <a@b>", now=NOON)
                commit = objects.add("commit", data)
                objects.settle()
            assert tree == tree_of(memory, changes)
            memory.git("update-ref", "refs/heads/main", commit)
            memo.keep_root(commit, tree)
            assert repo.git.spawned - spawned <= 1
        spawned = repo.git.spawned
        assert memo.folders(repo.git, memory.head, ["handbook/a/y0.md"])
        assert repo.git.spawned == spawned, "what was written is remembered"
    memory.git("fsck", "--strict", "--full")


def test_a_file_may_become_a_folder_and_a_folder_a_file(tmp_path: Path) -> None:
    memory = MemoryRepository.create(tmp_path / "memory", {"handbook/a/x.md": "1\n", "handbook/b": "2\n"})
    changes: dict[str, Entry | None]
    with memory.open() as repo, LooseObjects(repo.common_dir, "sha1") as objects:
        blob = Entry("100644", objects.add("blob", b"3\n"))
        changes = {"handbook/a": blob, "handbook/b/deep/y.md": blob}
        memo = TreeMemo()
        tree = TreeEdit(memo.folders(repo.git, memory.head, changes), memo, objects).apply(changes)
        # Below a file there is nothing to delete, and the file stays.
        edit = TreeEdit(memo.folders(repo.git, memory.head, ["handbook/b/c"]), memo, objects)
        same = edit.apply({"handbook/b/c": None})
        objects.settle()
    names = memory.git("ls-tree", "-r", "--name-only", tree, "handbook").decode().split()
    assert names == ["handbook/a", "handbook/b/deep/y.md"]
    assert same == memory.git("rev-parse", "HEAD^{tree}").decode().strip()


def test_objects_have_no_name_before_they_are_settled(tmp_path: Path) -> None:
    memory = MemoryRepository.create(tmp_path / "memory")
    with memory.open() as repo:
        before = sorted(memory.root.joinpath(".git/objects").rglob("*"))
        with LooseObjects(repo.common_dir, "sha1") as objects:
            identity = objects.add("blob", b"never settled")
            assert len(objects.descriptors) == 1
            assert not memory.root.joinpath(".git/objects", identity[:2], identity[2:]).exists()
        left = set(memory.root.joinpath(".git/objects").rglob("*")) - set(before)
        assert not [path for path in left if path.is_file()]


def test_a_folder_that_packing_removes_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryRepository.create(tmp_path / "memory")
    make, removed = os.mkdir, []

    def make_and_lose(path: str) -> None:
        make(path)
        if not removed:
            removed.append(path)
            os.rmdir(path)

    with memory.open() as repo, LooseObjects(repo.common_dir, "sha1") as objects:
        monkeypatch.setattr("dsh_memory.repository.loose_objects.os.mkdir", make_and_lose)
        identity = objects.add("blob", b"a text whose folder is new: 1\n")
        monkeypatch.undo()
        objects.settle()
    assert removed == [str(memory.root / ".git/objects" / identity[:2])]
    assert memory.git("cat-file", "-p", identity).startswith(b"a text")


@pytest.mark.parametrize("object_format", FORMATS)
def test_the_index_is_that_of_git(tmp_path: Path, object_format: str) -> None:
    memory = filled(tmp_path, object_format)
    blob = memory.git("hash-object", "-w", "--stdin", stdin=b"new\n").decode().strip()
    memory.git("update-index", "--add", "--cacheinfo", f"100755,{blob},handbook/tool")
    path = memory.root / ".git/index"
    index = IndexFile.parse(path.read_bytes(), object_format, path.stat().st_mtime_ns)
    assert index is not None
    assert index.entry("handbook/tool") == Entry("100755", blob)
    assert index.entry("handbook/nothing") is None
    changes = [
        ("handbook/a/x.md", None),
        ("handbook/a-b/x.md", Entry("100644", blob)),
        ("handbook/a-b/y.md", Entry("100644", blob)),
        ("handbook/" + "n" * 5000, Entry("100644", blob)),
        ("handbook/tool/below.md", Entry("100644", blob)),
        ("handbook/b", Entry("100644", blob)),
        ("handbook/nothing", None),
    ]
    ours = tmp_path / "ours"
    ours.write_bytes(index.changed(changes).to_bytes())
    theirs = tmp_path / "theirs"
    theirs.write_bytes(path.read_bytes())
    for name, entry in changes:
        options = ["--force-remove", name]
        if entry is not None:
            options = ["--add", "--replace", "--cacheinfo", f"{entry.mode},{entry.blob},{name}"]
        memory.git("update-index", *options, environment={"GIT_INDEX_FILE": str(theirs)})
    listed = [
        memory.git("ls-files", "-s", "-z", environment={"GIT_INDEX_FILE": str(each)})
        for each in (ours, theirs)
    ]
    assert listed[0] == listed[1]
    again = IndexFile.parse(ours.read_bytes(), object_format, 1 << 61)
    assert again is not None and again.to_bytes() == ours.read_bytes()


def test_an_entry_as_young_as_the_index_is_compared_by_content(tmp_path: Path) -> None:
    """Edited within one tick of the clock after `git add`, to the same size: Git alone would find it by its caution."""
    memory = MemoryRepository.create(tmp_path / "memory", {"handbook/a.md": "one\n"})
    file, path = memory.path("handbook/a.md"), memory.root / ".git/index"
    os.utime(path, ns=(file.stat().st_mtime_ns,) * 2)
    status = file.stat()
    file.write_text("two\n")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    index = IndexFile.parse(path.read_bytes(), "sha1", path.stat().st_mtime_ns)
    assert index is not None
    path.write_bytes(index.to_bytes())
    changed = memory.git("-c", "core.trustctime=false", "status", "--porcelain", "handbook")
    assert changed == b" M handbook/a.md\n"


@pytest.mark.parametrize(
    "prepare",
    [
        ("update-index", "--split-index"),
        ("update-index", "--index-version", "4"),
        ("update-index", "--force-untracked-cache"),
    ],
)
def test_an_index_with_more_in_it_is_left_to_git(tmp_path: Path, prepare: tuple[str, ...]) -> None:
    memory = MemoryRepository.create(tmp_path / "memory", {"handbook/a.md": record("x/a")})
    memory.git(*prepare)
    data = (memory.root / ".git/index").read_bytes()
    assert IndexFile.parse(data, "sha1", 0) is None


def test_a_damaged_index_is_none(tmp_path: Path) -> None:
    memory = MemoryRepository.create(tmp_path / "memory", {"handbook/a.md": record("x/a")})
    data = (memory.root / ".git/index").read_bytes()
    assert IndexFile.parse(data, "sha1", 0) is not None
    for broken in (b"", data[:-1], data[:50], data[:40] + b"\xff" + data[41:], b"DIRC" + bytes(40)):
        assert IndexFile.parse(broken, "sha1", 0) is None


def test_head_is_read_from_plain_files_or_asked_of_git(tmp_path: Path) -> None:
    memory = MemoryRepository.create(tmp_path / "memory")
    with memory.open() as repo:
        spawned = repo.git.spawned
        assert head_and_branch(repo) == (memory.head, "main")
        assert repo.git.spawned == spawned
        memory.git("pack-refs", "--all")
        assert head_and_branch(repo) == (memory.head, "main")
        assert repo.git.spawned == spawned + 1


def test_settings_are_asked_again_once_the_config_changes(tmp_path: Path) -> None:
    memory, memo = MemoryRepository.create(tmp_path / "memory"), WriteMemo()
    with memory.open() as repo:
        first = memo.settings(repo, repo.git)
        spawned = repo.git.spawned
        assert memo.settings(repo, repo.git) == first
        assert repo.git.spawned == spawned
        memory.git("config", "user.name", "Other")
        memory.git("config", "user.email", "other@example.com")
        memory.git("config", "filter.x.clean", "touch /nowhere")
        assert memo.settings(repo, repo.git).identity == "Other <other@example.com>"
        assert "filter.x.clean=" in repo.git.overrides
        (tmp_path / "more").write_text("[user]\nname = Third\n")
        memory.git("config", "include.path", str(tmp_path / "more"))
        assert memo.settings(repo, repo.git).identity.startswith("Third")
        (tmp_path / "more").write_text("[user]\nname = Fourth\n")
        assert memo.settings(repo, repo.git).identity.startswith("Fourth")
