"""Creating a memory: what is made, what is restored, what is refused, and deaths on the way."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from dsh_memory.environment import Environment
from dsh_memory.errors import MemoryFailure, RepoUnavailable, UnsafeLayout
from dsh_memory.repository.creation import SYNC_GITIGNORE, InitResult, init
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.view import payload_view
from tests.support.clocks import FrozenClock
from tests.support.privileges import as_nobody, give_to_nobody
from tests.support.repositories import SYNC_GITIGNORE as SYNC_GITIGNORE_TEXT
from tests.support.repositories import MemoryRepository, record

FILES = {"README.md", "summary.md", ".last-sync", "scripts/filter_session.py", SYNC_GITIGNORE}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "dsh" / "storages" / "memory"


def create(root: Path) -> InitResult:
    return init(Environment(dsh_home=str(root.parent.parent), memory_root=str(root)), FrozenClock())


def refusal(root: Path) -> MemoryFailure:
    before = snapshot(root.parent)
    with pytest.raises(MemoryFailure) as caught:
        create(root)
    assert snapshot(root.parent) == before
    return caught.value


def snapshot(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        content: bytes | str = ""
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, content)
    return found


def modes(root: Path) -> dict[str, int]:
    found = {".": stat.S_IMODE(root.stat().st_mode)}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if name != ".git" and not name.startswith(".git/"):
            found[name] = stat.S_IMODE(path.stat().st_mode)
    return found


def is_complete(root: Path) -> bool:
    memory = MemoryRepository(root)
    tree = memory.git("ls-tree", "-r", "--name-only", "HEAD").decode().split()
    return set(tree) == FILES and memory.git("status", "--porcelain", "-uall") == b""


# --- what is made ----------------------------------------------------------------------------------------


def test_a_new_memory(root: Path) -> None:
    assert create(root) == InitResult(True, ())
    memory = MemoryRepository(root)
    log = memory.git("log", "--format=%an <%ae>|%cn <%ce>|%aI|%s|%G?").decode()
    own = "DPSK Memory <dpsk-memory@localhost>"
    assert log == f"{own}|{own}|2026-08-20T12:00:00+00:00|Initialize DPSK memory repository|N\n"
    assert memory.git("symbolic-ref", "HEAD") == b"refs/heads/main\n"
    assert memory.git("config", "--local", "user.name") == b"DPSK Memory\n"
    assert memory.git("config", "--local", "user.email") == b"dpsk-memory@localhost\n"
    assert is_complete(root)
    assert (root / "summary.md").read_bytes() == (root / ".last-sync").read_bytes() == b""
    assert (root / SYNC_GITIGNORE).read_text() == SYNC_GITIGNORE_TEXT
    assert (root / ".git/info/exclude").read_text().splitlines() == [
        ".sync/usage.json",
        ".sync/usage.lock/",
        ".sync/.usage.*.tmp",
    ]


def test_all_is_the_owners_alone(root: Path) -> None:
    old = os.umask(0)
    try:
        create(root)
    finally:
        os.umask(old)
    folders = {".", "handbook", "rollouts", "archive", "scripts", ".sync"}
    expected = dict.fromkeys(folders, 0o700) | dict.fromkeys(FILES, 0o600)
    assert modes(root) == expected | {"scripts/filter_session.py": 0o700}
    for above in (root.parent, root.parent.parent):
        assert stat.S_IMODE(above.stat().st_mode) == 0o700


def test_the_filter_script_hands_its_arguments_on(root: Path, tmp_path: Path) -> None:
    create(root)
    script = root / "scripts/filter_session.py"
    fake = tmp_path / "bin/dsh-memory"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    fake.chmod(0o755)
    command = [sys.executable, str(script), "a log.jsonl", "--x"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PATH": f"{fake.parent}:/bin:/usr/bin"}
    )
    assert done.stdout == "transcript|a log.jsonl|--x|"
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/nonexistent"})
    assert (done.returncode, done.stderr) == (1, "dsh-memory is not on the PATH\n")


def test_an_empty_folder_becomes_a_memory(root: Path) -> None:
    (root / "handbook").mkdir(parents=True)
    assert create(root).created
    assert is_complete(root)


def test_inside_another_repository_it_is_one_of_its_own(tmp_path: Path) -> None:
    outer = MemoryRepository.create(tmp_path / "outer", {"handbook/x.md": "x"})
    before = outer.git("rev-parse", "HEAD")
    create(outer.root / "inner/memory")
    assert is_complete(outer.root / "inner/memory")
    assert outer.git("rev-parse", "HEAD") == before
    with Repository.open(Environment("/nonexistent", str(outer.root / "inner/memory"))) as repo:
        assert repo.git_dir == str(outer.root / "inner/memory/.git")


def test_a_hostile_configuration_changes_nothing(
    root: Path, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = isolated / "hooks"
    hooks.mkdir()
    for hook in ("pre-commit", "commit-msg", "post-commit", "reference-transaction"):
        (hooks / hook).write_text(f"#!/bin/sh\ntouch {isolated}/ran\nexit 1\n")
        (hooks / hook).chmod(0o755)
    template = isolated / "template"
    shutil.copytree(hooks, template / "hooks")
    (isolated / "ignore").write_text("*\n")
    (isolated / ".gitconfig").write_text(
        f"[core]\nhooksPath={hooks}\nautocrlf=true\nexcludesFile={isolated}/ignore\n"
        f"[init]\ntemplateDir={template}\ndefaultBranch=trunk\ndefaultObjectFormat=sha256\n"
        "[commit]\ngpgSign=true\n[user]\nuseConfigOnly=true\n[gpg]\nprogram=/bin/false\n"
    )
    for name, value in {
        "GIT_DIR": str(isolated / "elsewhere.git"),
        "GIT_WORK_TREE": str(isolated),
        "GIT_TEMPLATE_DIR": str(template),
        "GIT_DEFAULT_HASH": "sha256",
        "GIT_AUTHOR_NAME": "Someone",
        "GIT_COMMITTER_EMAIL": "someone@example.org",
    }.items():
        monkeypatch.setenv(name, value)
    create(root)
    assert is_complete(root)
    assert not (isolated / "ran").exists()
    assert not (isolated / "elsewhere.git").exists()
    assert not (root / ".git/hooks").exists()
    assert MemoryRepository(root).git("log", "--format=%an %ce") == b"DPSK Memory dpsk-memory@localhost\n"


def test_no_home_and_no_configuration_are_needed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    assert create(root).created


# --- what is restored ------------------------------------------------------------------------------------


def test_a_complete_memory_is_left_as_it_is(root: Path) -> None:
    create(root)
    (root / "handbook/new.md").write_text("dirty")
    (root / "handbook/new.md").chmod(0o600)
    (root / "notes.txt").write_text("foreign")
    before = snapshot(root)
    assert create(root) == InitResult(False, ())
    assert snapshot(root) == before


def test_what_is_missing_is_restored_and_nothing_deleted(root: Path) -> None:
    create(root)
    memory = MemoryRepository(root)
    memory.write("handbook/deep/a.md", record("a")).chmod(0o644)
    memory.write("handbook/deep/run.sh", "x", executable=True).chmod(0o777)
    memory.commit()
    memory.remove("summary.md")
    memory.write("notes.txt", "foreign").chmod(0o644)
    shutil.rmtree(root / ".sync")
    (root / "rollouts").rmdir()
    (root / "handbook/deep").chmod(0o755)
    (root / "archive").chmod(0o500)
    root.chmod(0o755)
    result = create(root)
    assert not result.created
    assert set(result.restored) == {
        "rollouts/",
        ".sync/",
        SYNC_GITIGNORE,
        "./",
        "archive/",
        "handbook/deep/",
        "handbook/deep/a.md",
        "handbook/deep/run.sh",
    }
    assert memory.git("status", "--porcelain", "-uall") == b" D summary.md\n?? notes.txt\n"
    assert stat.S_IMODE((root / "notes.txt").stat().st_mode) == 0o644
    assert modes(root)["handbook/deep/run.sh"] == 0o700
    with Repository.open(memory.environment) as repo:
        assert payload_view(repo).dirty == {"summary.md"}


def test_a_clone_gets_its_empty_folders(root: Path, tmp_path: Path) -> None:
    create(root)
    MemoryRepository(root).git("clone", "-q", str(root), str(tmp_path / "clone"))
    restored = create(tmp_path / "clone").restored
    assert {"handbook/", "rollouts/", "archive/"} <= set(restored)
    assert is_complete(tmp_path / "clone")


def test_a_linked_worktree_is_restored(root: Path, tmp_path: Path) -> None:
    create(root)
    MemoryRepository(root).git("worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    assert "handbook/" in create(tmp_path / "linked").restored


def test_modes_that_forbid_the_owner_are_mended(open_tmp: Path) -> None:
    memory = MemoryRepository.create(open_tmp / "memory", {"handbook/a.md": "a", "archive/b.md": "b"})
    give_to_nobody(open_tmp)
    memory.path("handbook/a.md").chmod(0)
    memory.path("archive").chmod(0)
    restored = as_nobody(lambda: create(memory.root).restored)
    assert {"handbook/a.md", "archive/"} <= set(restored)
    assert modes(memory.root)["archive/b.md"] == 0o600


# --- what is refused -------------------------------------------------------------------------------------


def a_folder_with_a_file(root: Path) -> None:
    root.mkdir(parents=True)
    (root / "mine.txt").write_text("mine")


def a_folder_with_a_record(root: Path) -> None:
    (root / "handbook").mkdir(parents=True)
    (root / "handbook/a.md").write_text("mine")


def a_folder_of_another_repository(root: Path) -> None:
    MemoryRepository.create(root.parent, {f"{root.name}/a.md": "outer"})


def a_project(root: Path) -> None:
    memory = MemoryRepository.unborn(root)
    for name in ("summary.md", ".last-sync"):
        memory.remove(name)
    shutil.rmtree(memory.path(".sync"))
    memory.write("src/main.py", "print()")
    memory.commit()


def a_project_before_its_first_commit(root: Path) -> None:
    MemoryRepository.unborn(root).write("src/main.py", "print()")


def a_bare_repository(root: Path) -> None:
    root.mkdir(parents=True)
    MemoryRepository(root).git("init", "-q", "--bare", ".")


def a_file(root: Path) -> None:
    root.parent.mkdir(parents=True)
    root.write_text("")


@pytest.mark.parametrize(
    ("make", "detail"),
    [
        (a_folder_with_a_file, "not-empty"),
        (a_folder_with_a_record, "not-empty"),
        (a_folder_of_another_repository, "not-empty"),
        (a_bare_repository, "not-empty"),
        (a_project, "not-a-memory"),
        (a_project_before_its_first_commit, "not-a-memory"),
        (a_file, "root-unreadable"),
    ],
)
def test_what_is_no_memory_is_left_alone(root: Path, make: Callable[[Path], None], detail: str) -> None:
    make(root)
    failure = refusal(root)
    assert isinstance(failure, RepoUnavailable)
    assert failure.detail == detail


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_refused(root: Path, tmp_path: Path, exists: bool) -> None:
    target = tmp_path / "target"
    if exists:
        target.mkdir()
    root.parent.mkdir(parents=True)
    root.symlink_to(target)
    assert isinstance(refusal(root), UnsafeLayout)
    assert not exists or os.listdir(target) == []


@pytest.mark.parametrize("name", ["handbook", ".sync", "scripts", ".git"])
def test_a_link_inside_is_refused(root: Path, tmp_path: Path, name: str) -> None:
    create(root)
    (root / name).rename(tmp_path / "real")
    (root / name).symlink_to(tmp_path / "real")
    assert isinstance(refusal(root), UnsafeLayout)


def test_a_place_that_cannot_be_written_is_named(open_tmp: Path) -> None:
    give_to_nobody(open_tmp)
    open_tmp.chmod(0o500)

    def refused() -> str | None:
        with pytest.raises(RepoUnavailable) as caught:
            create(open_tmp / "a/b/memory")
        return caught.value.detail

    assert as_nobody(refused) == "root-unwritable"


# --- deaths on the way -----------------------------------------------------------------------------------

# Each git process of the creation can be the last thing that happens, before or after it did its work.
_DEADLY_GIT = """\
#!/bin/sh
echo >> {calls}
if [ "$(wc -l < {calls})" -eq {number} ]; then
    [ {when} = after ] && {git} "$@"
    kill -9 $PPID
    exit 1
fi
exec {git} "$@"
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 6))
def test_a_creation_that_was_killed_is_finished_by_the_next(
    root: Path, tmp_path: Path, number: int, when: str
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    script = _DEADLY_GIT.format(
        calls=tmp_path / "calls", number=number, when=when, git=shutil.which("git", path=os.environ["PATH"])
    )
    (folder / "git").write_text(script)
    (folder / "git").chmod(0o755)
    child = os.fork()
    if child == 0:
        os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
        try:
            create(root)
        finally:
            os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    for left in (".git/index.lock", ".git/config.lock"):
        if (root / ".git").is_dir() and number < 5:
            (root / left).touch()
    result = create(root)
    # A death after the commit leaves a complete memory.
    assert result.created == (number < 5 or when == "before")
    assert is_complete(root)
    assert create(root) == InitResult(False, ())


def test_what_was_written_into_a_half_made_memory_stays(root: Path) -> None:
    memory = MemoryRepository.unborn(root)
    memory.write_all({"summary.md": "mine", "handbook/a.md": record("a")})
    assert create(root).created
    assert memory.git("show", "HEAD:summary.md") == b"mine"
    assert memory.git("status", "--porcelain", "-uall") == b"?? handbook/a.md\n"


@pytest.mark.parametrize("step", ["mkdir", "fsync", "rename_exclusive"])
@pytest.mark.parametrize("number", [1, 3, 5])
def test_a_creation_that_failed_at_a_file_is_finished_by_the_next(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str, number: int
) -> None:
    place = "dsh_memory.repository.creation.rename_exclusive" if step == "rename_exclusive" else f"os.{step}"
    original = (
        getattr(os, step, None)
        or __import__("dsh_memory.repository.creation", fromlist=["x"]).rename_exclusive
    )
    calls = iter(range(1, 1000))

    def failing(*arguments: object, **options: object) -> object:
        if next(calls) == number:
            raise OSError(28, "No space left on device")
        return original(*arguments, **options)

    with monkeypatch.context() as full:
        full.setattr(place, failing)
        with pytest.raises(RepoUnavailable) as caught:
            create(root)
    assert caught.value.detail == "root-unwritable"
    assert create(root).created
    assert is_complete(root)


def test_two_creations_at_once(root: Path) -> None:
    script = textwrap.dedent(
        f"""
        from dsh_memory.environment import Environment
        from dsh_memory.repository.creation import init
        print(init(Environment("/nonexistent", {str(root)!r})).created)
        """
    )
    command = [sys.executable, "-c", script]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    children = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(3)
    ]
    answers = [child.communicate()[0].strip() for child in children]
    assert sorted(answers) == ["False", "False", "True"]
    assert is_complete(root)
