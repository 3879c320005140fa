"""The watched walk gives what a fresh walk gives, whatever was done before the question."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dsh_memory.errors import UnsafeLayout
from dsh_memory.repository import watch as watch_room
from dsh_memory.repository.layout import Root
from dsh_memory.repository.watch import PayloadWatch

watched_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="watches are Linux's")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    for name in ("handbook/deep", "rollouts", "archive", ".sync/runs"):
        (path / name).mkdir(parents=True)
    (path / "summary.md").write_text("summary")
    (path / "handbook/a.md").write_text("a")
    (path / "handbook/deep/b.md").write_text("b")
    return path


@pytest.fixture
def root(folder: Path) -> Iterator[Root]:
    with Root(str(folder)) as opened:
        yield opened


def edit_in_place(folder: Path) -> None:
    path = folder / "handbook/a.md"
    times = path.stat()
    path.write_text("A")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def replace(folder: Path) -> None:
    (folder / "handbook/new").write_text("new")
    (folder / "handbook/new").rename(folder / "handbook/a.md")


def add(folder: Path) -> None:
    (folder / "handbook/deep/記憶.md").write_text("x")


def remove(folder: Path) -> None:
    (folder / "handbook/deep/b.md").unlink()


def move_away(folder: Path) -> None:
    (folder / "handbook/a.md").rename(folder / "archive/a.md")


def change_mode(folder: Path) -> None:
    (folder / "handbook/a.md").chmod(0o700)


def add_a_folder(folder: Path) -> None:
    (folder / "rollouts/x/y").mkdir(parents=True)
    (folder / "rollouts/x/y/z.md").write_text("z")


def move_a_folder(folder: Path) -> None:
    (folder / "handbook/deep").rename(folder / "archive/deeper")


def move_a_folder_and_write(folder: Path) -> None:
    move_a_folder(folder)
    (folder / "archive/deeper/b.md").write_text("elsewhere")


def remove_a_payload_folder(folder: Path) -> None:
    shutil.rmtree(folder / "handbook")


def edit_the_summary(folder: Path) -> None:
    (folder / "summary.md").write_text("SUMMARY")


def remove_the_summary(folder: Path) -> None:
    (folder / "summary.md").unlink()


def come_and_go(folder: Path) -> None:
    (folder / "handbook/brief.md").write_text("x")
    (folder / "handbook/brief.md").unlink()


CHANGES: list[Callable[[Path], None]] = [
    edit_in_place,
    replace,
    add,
    remove,
    move_away,
    change_mode,
    add_a_folder,
    move_a_folder,
    move_a_folder_and_write,
    remove_a_payload_folder,
    edit_the_summary,
    remove_the_summary,
    come_and_go,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_in_the_next_answer(folder: Path, root: Root, change: Callable[[Path], None]) -> None:
    watch = PayloadWatch()
    watch.scan(root)
    change(folder)
    assert watch.scan(root) == root.scan()
    (folder / "archive/after.md").write_text("and the one after it")
    assert watch.scan(root) == root.scan()


def test_any_sequence_of_changes(folder: Path, root: Root) -> None:
    # The order is drawn, but always the same one.
    chance = random.Random(20260820)
    watch = PayloadWatch()
    names = [
        f"{top}/{sub}{name}.md"
        for top in ("handbook", "archive")
        for sub in ("", "d/", "d/e/")
        for name in "xy"
    ]
    for step in range(300):
        path = folder / chance.choice(names)
        match chance.randrange(5):
            case 0 | 1:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(str(step))
            case 2:
                path.unlink(missing_ok=True)
            case 3:
                shutil.rmtree(folder / "handbook/d", ignore_errors=True)
            case 4 if (folder / "archive/d").exists() and not (folder / "rollouts/d").exists():
                (folder / "archive/d").rename(folder / "rollouts/d")
            case _:
                shutil.rmtree(folder / "rollouts/d", ignore_errors=True)
        if chance.random() < 0.5:
            assert watch.scan(root) == root.scan()
    assert watch.scan(root) == root.scan()


@watched_only
def test_nothing_changed_is_the_same_object(folder: Path, root: Root) -> None:
    watch = PayloadWatch()
    first = watch.scan(root)
    assert watch.scan(root) is first
    # Nothing of the payload.
    (folder / "notes.txt").write_text("x")
    (folder / ".sync/runs/x.json").write_text("{}")
    (folder / ".sync/new").mkdir()
    assert watch.scan(root) is first
    with Root(str(folder)) as opened_again:
        assert watch.scan(opened_again) is first


@watched_only
def test_an_edit_costs_no_walk(folder: Path, root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = PayloadWatch()
    watch.scan(root)
    edit_in_place(folder)
    expected = root.scan()
    monkeypatch.setattr(Root, "scan", lambda *arguments: pytest.fail("it walked"))
    assert watch.scan(root) == expected


def link_a_file(folder: Path) -> None:
    (folder / "handbook/link.md").symlink_to("a.md")


def link_it_hard(folder: Path) -> None:
    os.link(folder / "handbook/a.md", folder / "handbook/twin.md")


def put_a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "handbook/pipe.md")


def nest_a_repository(folder: Path) -> None:
    (folder / "handbook/deep/.git").write_text("gitdir: x")


def link_a_folder(folder: Path) -> None:
    shutil.rmtree(folder / "rollouts")
    (folder / "rollouts").symlink_to("/etc")


def link_the_summary(folder: Path) -> None:
    (folder / "summary.md").unlink()
    (folder / "summary.md").symlink_to("handbook/a.md")


@pytest.mark.parametrize(
    "change",
    [link_a_file, link_it_hard, put_a_pipe, nest_a_repository, link_a_folder, link_the_summary],
)
def test_what_becomes_unsafe_is_refused_as_long_as_it_is(
    folder: Path, root: Root, change: Callable[[Path], None]
) -> None:
    watch = PayloadWatch()
    watch.scan(root)
    change(folder)
    for _ in range(2):
        with pytest.raises(UnsafeLayout):
            watch.scan(root)


def test_another_root_is_another_payload(folder: Path, root: Root, tmp_path: Path) -> None:
    watch = PayloadWatch()
    watch.scan(root)
    folder.rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", folder)
    (folder / "handbook/c.md").write_text("c")
    with Root(str(folder)) as other:
        assert watch.scan(other) == other.scan()


@watched_only
def test_a_queue_that_ran_over_is_not_believed(
    folder: Path, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inotify_simple import Event, INotify

    watch = PayloadWatch()
    watch.scan(root)
    read = INotify.read

    def run_over(queue: INotify, **options: int) -> list[Event]:
        read(queue, **options)
        return [Event(-1, 0x4000, 0, "")]

    edit_in_place(folder)
    monkeypatch.setattr(INotify, "read", run_over)
    assert watch.scan(root) == root.scan()


def test_without_a_watch_every_call_walks(folder: Path, root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_room, "_new_queue", lambda: None)
    watch = PayloadWatch()
    watch.scan(root)
    for change in (edit_in_place, add, move_a_folder):
        change(folder)
        assert watch.scan(root) == root.scan()


MOUNTS = """\
1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 0:5 / /net rw shared:1 - nfs4 host:/x rw
3 1 0:6 / /home/some\\040one/shared rw - fuse.sshfs host: rw
4 1 0:7 / /over rw - cifs //host/x rw
5 1 0:8 / /over rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "remote"),
    [
        ("/srv/memory", False),
        ("/net", True),
        ("/net/memory", True),
        ("/network/memory", False),
        ("/home/some one/shared/memory", True),
        ("/home/some one", True),
        ("/home/some", False),
        ("/over/memory", False),
    ],
)
def test_what_other_machines_change_is_walked(path: str, remote: bool) -> None:
    assert watch_room.has_remote_mount(path, MOUNTS.splitlines()) is remote


@watched_only
def test_a_remote_root_is_not_watched(
    folder: Path, root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mounts").write_text(f"1 0 8:1 / {folder} rw - nfs host:/x rw\n")
    monkeypatch.setattr(watch_room, "_MOUNTS", str(tmp_path / "mounts"))
    watch = PayloadWatch()
    assert watch.scan(root) is not watch.scan(root)


@watched_only
def test_no_watches_left_is_no_failure(folder: Path, root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    from inotify_simple import INotify

    def none_left(queue: INotify, path: str, mask: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(INotify, "add_watch", none_left)
    watch = PayloadWatch()
    watch.scan(root)
    edit_in_place(folder)
    assert watch.scan(root) == root.scan()
