"""The safe descent: what a walk refuses by name, and that nothing swapped in later is followed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dsh_memory.errors import RepoUnavailable, UnsafeLayout
from dsh_memory.repository.layout import Reader, Root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    for name in ("handbook/deep", "rollouts", "archive"):
        (path / name).mkdir(parents=True)
    (path / "summary.md").write_text("summary")
    (path / "handbook/deep/a.md").write_text("text")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a.md").write_text("secret")
    return path


@pytest.fixture
def root(folder: Path) -> Iterator[Root]:
    with Root(str(folder)) as opened:
        yield opened


def linked_file(folder: Path) -> None:
    (folder / "handbook/x.md").symlink_to("../summary.md")


def dangling_link(folder: Path) -> None:
    (folder / "archive/x").symlink_to("nowhere")


def linked_folder(folder: Path) -> None:
    (folder / "handbook/x").symlink_to(folder.parent / "outside")


def linked_payload_folder(folder: Path) -> None:
    (folder / "rollouts").rmdir()
    (folder / "rollouts").symlink_to(folder.parent / "outside")


def file_for_a_folder(folder: Path) -> None:
    (folder / "rollouts").rmdir()
    (folder / "rollouts").write_text("")


def linked_summary(folder: Path) -> None:
    (folder / "summary.md").unlink()
    (folder / "summary.md").symlink_to("handbook/deep/a.md")


def folder_for_summary(folder: Path) -> None:
    (folder / "summary.md").unlink()
    (folder / "summary.md").mkdir()


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "handbook/x.md")


def hard_link(folder: Path) -> None:
    os.link(folder.parent / "outside/a.md", folder / "handbook/x.md")


def nested_folder(folder: Path) -> None:
    (folder / "handbook/deep/.git").mkdir()


def nested_file_in_capitals(folder: Path) -> None:
    (folder / "handbook/deep/.GIT").write_text("gitdir: elsewhere")


def endless_folders(folder: Path) -> None:
    (folder / "/".join(["archive", *["d"] * 70])).mkdir(parents=True)


@pytest.mark.parametrize(
    ("make", "detail"),
    [
        (linked_file, "symlink: handbook/x.md"),
        (dangling_link, "symlink: archive/x"),
        (linked_folder, "symlink: handbook/x"),
        (linked_payload_folder, "no-folder: rollouts"),
        (file_for_a_folder, "no-folder: rollouts"),
        (linked_summary, "symlink: summary.md"),
        (folder_for_summary, "no-file: summary.md"),
        (pipe, "special-file: handbook/x.md"),
        (hard_link, "hard-link: handbook/x.md"),
        (nested_folder, "nested-git: handbook/deep/.git"),
        (nested_file_in_capitals, "nested-git: handbook/deep/.GIT"),
        (endless_folders, "too-deep: archive" + "/d" * 64),
    ],
)
def test_a_walk_names_what_it_refuses(
    folder: Path, root: Root, make: Callable[[Path], None], detail: str
) -> None:
    make(folder)
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(UnsafeLayout) as caught:
        root.scan()
    assert caught.value.detail == detail
    assert len(os.listdir("/dev/fd")) == before


def test_a_walk_sees_the_payload_and_nothing_else(folder: Path, root: Root) -> None:
    for name in ("README.md", ".last-sync", "notes.txt", ".sync/runs/x.json", "scripts/x.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (folder / "link").symlink_to("/etc")
    found = root.scan()
    assert found.files.keys() == {"summary.md", "handbook/deep/a.md"}
    assert found.unreadable == ()


def swap_in_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parents[2] / "outside/a.md")


def swap_in_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def swap_in_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def swap_in_a_linked_parent(path: Path) -> None:
    path.unlink()
    path.parent.rmdir()
    path.parent.symlink_to(path.parents[3] / "outside")


@pytest.mark.parametrize("swap", [swap_in_a_link, swap_in_a_pipe, swap_in_a_folder, swap_in_a_linked_parent])
def test_what_is_swapped_in_after_the_walk_is_not_followed(
    folder: Path, root: Root, swap: Callable[[Path], None]
) -> None:
    root.scan()
    swap(folder / "handbook/deep/a.md")
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(UnsafeLayout):
        root.read("handbook/deep/a.md", 100)
    assert len(os.listdir("/dev/fd")) == before


def test_a_root_swapped_for_another_is_not_followed(folder: Path, root: Root) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(folder.parent / "outside")
    assert root.read("handbook/deep/a.md", 100) == b"text"
    with pytest.raises(UnsafeLayout):
        Root(str(folder))


@pytest.mark.parametrize("path", ["handbook/none.md", "handbook/none/a.md", "none"])
def test_what_is_missing(root: Root, path: str) -> None:
    with pytest.raises(FileNotFoundError):
        root.read(path, 100)
    assert root.lstat(path) is None


def test_reads_are_bounded(folder: Path, root: Root) -> None:
    assert root.read("summary.md", 7) == b"summary"
    assert root.read("summary.md", 3) == b"summ"
    assert root.read("summary.md", 0) == b"s"
    (folder / "summary.md").write_bytes(b"")
    assert root.read("summary.md", 10) == b""


def test_a_file_that_grows_while_it_is_read_is_read_to_its_end(
    folder: Path, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = os.read

    def growing(descriptor: int, size: int) -> bytes:
        with (folder / "summary.md").open("ab") as file:
            file.write(b"!")
        return read(descriptor, min(size, 2))

    monkeypatch.setattr(os, "read", growing)
    data = root.read("summary.md", 10)
    assert data.startswith(b"summary!")
    assert len(data) == 11


def test_many_folders_need_few_descriptors(folder: Path, root: Root) -> None:
    paths = [f"rollouts/{number // 10}/{number}/a.md" for number in range(300)]
    for path in paths:
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(path)
    before = len(os.listdir("/dev/fd"))
    with Reader(root) as reader:
        for path in paths * 2:
            assert reader.read(path, 100) == path.encode()
            assert len(os.listdir("/dev/fd")) - before <= 65
        assert reader.files_read == 600
    assert len(os.listdir("/dev/fd")) == before


def test_a_folder_as_a_root_of_its_own(folder: Path, root: Root) -> None:
    (folder / "handbook/deep/summary.md").write_text("inner")
    inner = root.below("handbook/deep")
    assert inner.scan().files.keys() == {"summary.md"}
    assert inner.read("a.md", 10) == b"text"
    inner.close()
    linked_folder(folder)
    with pytest.raises(UnsafeLayout):
        root.below("handbook/x")


def test_a_root_is_a_folder(folder: Path) -> None:
    for path, detail in ((folder / "none", "root-missing"), (folder / "summary.md", "root-unreadable")):
        with pytest.raises(RepoUnavailable) as caught:
            Root(str(path))
        assert caught.value.detail == detail
