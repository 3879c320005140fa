"""Opening a repository: what is one, what is refused, and that nothing of the caller's world matters."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from dsh_memory.environment import Environment
from dsh_memory.errors import MemoryFailure, RepoUnavailable, UnsafeLayout
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.view import payload_view, read_head
from tests.support.privileges import NOBODY, give_to_nobody
from tests.support.repositories import MemoryRepository


def refusal(root: Path) -> MemoryFailure:
    with pytest.raises(MemoryFailure) as caught:
        Repository.open(Environment(dsh_home="/nonexistent", memory_root=str(root)))
    return caught.value


def test_one_git_process_tells_all(memory: MemoryRepository) -> None:
    with memory.open() as repo:
        assert repo.git.spawned == 1
        assert repo.git_dir == repo.common_dir == str(memory.root / ".git")
        assert repo.object_format == "sha1"


def test_a_sha256_repository(tmp_path: Path) -> None:
    memory = MemoryRepository.create(tmp_path / "memory", object_format="sha256")
    with memory.open() as repo:
        assert repo.object_format == "sha256"
        assert read_head(repo).commit == memory.head
        assert len(memory.head) == 64


def test_a_linked_worktree_is_a_root_of_its_own(memory: MemoryRepository, tmp_path: Path) -> None:
    memory.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    with MemoryRepository(tmp_path / "linked").open() as repo:
        assert repo.git_dir == str(memory.root / ".git/worktrees/linked")
        assert repo.common_dir == str(memory.root / ".git")
        assert read_head(repo).branch == "other"


def test_a_separate_git_directory(tmp_path: Path) -> None:
    memory = MemoryRepository.create(tmp_path / "memory")
    (memory.root / ".git").rename(tmp_path / "elsewhere.git")
    (memory.root / ".git").write_text(f"gitdir: {tmp_path / 'elsewhere.git'}\n")
    with memory.open() as repo:
        assert repo.git_dir == str(tmp_path / "elsewhere.git")


@pytest.mark.parametrize("name", ["my mem", "記憶ü", "a:b", "-x", "mem'\"$(x)"])
def test_any_folder_name(tmp_path: Path, name: str) -> None:
    with MemoryRepository.create(tmp_path / name).open() as repo:
        assert read_head(repo).branch == "main"


def test_a_parent_may_be_a_link(memory: MemoryRepository, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(memory.root.parent)
    root = tmp_path / "alias" / memory.root.name
    with Repository.open(Environment(dsh_home="/nonexistent", memory_root=str(root))) as repo:
        assert read_head(repo).commit == memory.head


def no_repository(root: Path) -> None:
    root.mkdir()


def a_file(root: Path) -> None:
    root.write_text("")


def a_socket(root: Path) -> None:
    # Bound by a relative name: the path of a test folder may be longer than a socket's may be.
    here = Path.cwd()
    os.chdir(root.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(root.name)
    finally:
        os.chdir(here)


def a_subfolder(root: Path) -> None:
    MemoryRepository.create(root.parent, {f"{root.name}/note.md": "outer"})


def an_empty_subfolder(root: Path) -> None:
    MemoryRepository.create(root.parent)
    root.mkdir()


def a_bare_repository(root: Path) -> None:
    root.mkdir()
    MemoryRepository(root).git("init", "-q", "--bare", ".")


def a_git_directory(root: Path) -> None:
    MemoryRepository.create(root.parent / "memory")
    (root.parent / "memory/.git").rename(root)


def a_worktree_elsewhere(root: Path) -> None:
    memory = MemoryRepository.create(root)
    (root.parent / "elsewhere").mkdir()
    memory.git("config", "core.worktree", str(root.parent / "elsewhere"))


def a_newer_repository_format(root: Path) -> None:
    MemoryRepository.create(root).git("config", "core.repositoryFormatVersion", "99")


def a_broken_config(root: Path) -> None:
    (MemoryRepository.create(root).root / ".git/config").write_text("[core\n")


@pytest.mark.parametrize(
    ("make", "detail"),
    [
        (no_repository, "not-a-repository"),
        (a_file, "root-unreadable"),
        (a_socket, "root-unreadable"),
        (a_bare_repository, "bare"),
        (a_git_directory, "bare"),
        (a_worktree_elsewhere, "not-toplevel"),
        (a_newer_repository_format, "git-refused"),
        (a_broken_config, "git-refused"),
    ],
)
def test_what_is_no_memory_is_unavailable(tmp_path: Path, make: Callable[[Path], None], detail: str) -> None:
    make(tmp_path / "root")
    failure = refusal(tmp_path / "root")
    assert isinstance(failure, RepoUnavailable)
    assert failure.detail == detail


@pytest.mark.parametrize("make", [a_subfolder, an_empty_subfolder])
def test_a_subfolder_of_another_repository_is_none(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "outer" / "root")
    failure = refusal(tmp_path / "outer" / "root")
    assert isinstance(failure, RepoUnavailable)
    # The ceiling keeps Git from looking above the root at all.
    assert failure.detail == "not-a-repository"


def test_a_subfolder_behind_a_colon_is_none(tmp_path: Path) -> None:
    # A colon ends a ceiling's path, so Git does find the outer repository here.
    a_subfolder(tmp_path / "out:er" / "root")
    assert refusal(tmp_path / "out:er" / "root").detail == "not-toplevel"


def test_a_missing_and_a_vanished_root(memory: MemoryRepository) -> None:
    with memory.open() as repo:
        shutil.rmtree(memory.root)
        with pytest.raises(RepoUnavailable):
            read_head(repo)
    failure = refusal(memory.root)
    assert isinstance(failure, RepoUnavailable)
    assert failure.detail == "root-missing"


@pytest.mark.parametrize("target", ["memory", "nowhere"])
def test_a_link_as_root_is_unsafe(memory: MemoryRepository, tmp_path: Path, target: str) -> None:
    link = tmp_path / "link"
    link.symlink_to(memory.root if target == "memory" else tmp_path / "nowhere")
    failure = refusal(link)
    assert isinstance(failure, UnsafeLayout)
    assert failure.detail == "root-symlink"


def test_a_link_as_git_directory_is_unsafe(memory: MemoryRepository, tmp_path: Path) -> None:
    (memory.root / ".git").rename(tmp_path / "git")
    (memory.root / ".git").symlink_to(tmp_path / "git")
    failure = refusal(memory.root)
    assert isinstance(failure, UnsafeLayout)
    assert failure.detail == "git-symlink"


def test_a_line_break_in_the_path_is_refused(tmp_path: Path) -> None:
    MemoryRepository.create(tmp_path / "a\nb")
    assert refusal(tmp_path / "a\nb").detail == "root-newline"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_repository_of_another_user_is_named_as_such(memory: MemoryRepository) -> None:
    give_to_nobody(memory.root)
    assert memory.root.stat().st_uid == NOBODY
    failure = refusal(memory.root)
    assert isinstance(failure, RepoUnavailable)
    assert failure.detail == "ownership"


def test_git_missing_is_said(memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert refusal(memory.root).detail == "git-missing"


def test_the_callers_git_variables_do_not_matter(
    memory: MemoryRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = MemoryRepository.create(tmp_path / "other", {"handbook/other.md": "other"})
    for name, value in {
        "GIT_DIR": str(other.root / ".git"),
        "GIT_WORK_TREE": str(other.root),
        "GIT_INDEX_FILE": str(other.root / ".git/index"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.worktree",
        "GIT_CONFIG_VALUE_0": str(other.root),
        "GIT_TRACE": "1",
        "GIT_NAMESPACE": "x",
        "GIT_OBJECT_DIRECTORY": "/nonexistent",
    }.items():
        monkeypatch.setenv(name, value)
    memory.write("handbook/a.md", "mine")
    with memory.open() as repo:
        view = payload_view(repo)
    assert view.head.commit == memory.head
    assert view.dirty == {"handbook/a.md"}


def test_no_home_is_needed(memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    with memory.open() as repo:
        assert payload_view(repo).dirty == frozenset()


def test_opening_and_closing_leaks_no_descriptor(memory: MemoryRepository) -> None:
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        with memory.open() as repo:
            payload_view(repo)
    refusal(memory.root / "handbook")
    assert len(os.listdir("/dev/fd")) == before
