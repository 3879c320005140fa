"""settings.yaml on disk: the lock shared with the host, links, modes, and edits by others in between."""

from __future__ import annotations

import multiprocessing
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dsh_memory.environment import Environment
from dsh_memory.errors import SettingsFailure
from dsh_memory.hosts import settings as settings_module
from dsh_memory.hosts.settings import STALE_LOCK_SECONDS, Settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "dsh-home"
    folder.mkdir()
    return folder


@pytest.fixture
def settings(home: Path) -> Settings:
    return _settings(home)


def _settings(home: Path) -> Settings:
    return Settings(Environment(dsh_home=str(home), memory_root=str(home / "storages" / "memory")))


def _failure(act: Callable[[], object]) -> SettingsFailure:
    with pytest.raises(SettingsFailure) as caught:
        act()
    return caught.value


def test_no_home_and_no_file_is_on(tmp_path: Path, settings: Settings) -> None:
    assert settings.enabled() is True
    assert _settings(tmp_path / "missing").enabled() is True


def test_off_and_on_again(home: Path, settings: Settings) -> None:
    file = home / "settings.yaml"
    assert settings.set_enabled(False) is False
    assert file.read_bytes() == b"memory:\n  enabled: false\n"
    assert settings.enabled() is False
    assert settings.set_enabled(True) is True
    assert file.read_bytes() == b"memory:\n  enabled: true\n"
    assert os.listdir(home) == ["settings.yaml"]


def test_a_missing_home_is_made_private(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    _settings(home).set_enabled(False)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_the_file_becomes_private_and_keeps_its_other_bytes(home: Path, settings: Settings) -> None:
    file = home / "settings.yaml"
    text = "\ufeff# mine\r\nweb:   {port: 1}   # odd  spacing\r\nmemory:\r\n  enabled: true\r\n\r\n"
    file.write_bytes(text.encode())
    file.chmod(0o644)
    settings.set_enabled(False)
    assert file.read_bytes() == text.replace("true", "false").encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("value", [True, False])
def test_the_value_it_has_writes_nothing(home: Path, settings: Settings, value: bool) -> None:
    file = home / "settings.yaml"
    file.write_text(f"memory: {{ enabled: '{'on' if value else 'No'}' }}")
    (home / "settings.yaml.lock").touch()
    before = file.stat()
    assert settings.set_enabled(value) is value
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_on_by_default_writes_no_file(home: Path, settings: Settings) -> None:
    settings.set_enabled(True)
    assert os.listdir(home) == []


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (b"memory: [", "invalid-yaml"),
        (b"memory:\n  enabled: perhaps\n", "invalid-yaml"),
        (b"a: \xe9\n", "invalid-yaml"),
        ("memory:\n  enabled: false\n".encode("utf-16"), "invalid-yaml"),
        (b"#" * 300_000, "too-large"),
    ],
)
def test_unreadable_content(home: Path, settings: Settings, content: bytes, detail: str) -> None:
    file = home / "settings.yaml"
    file.write_bytes(content)
    for act in (settings.enabled, lambda: settings.set_enabled(False), lambda: settings.set_enabled(True)):
        failure = _failure(act)
        assert (failure.code, failure.detail) == ("settings-unavailable", detail)
    assert file.read_bytes() == content
    assert os.listdir(home) == ["settings.yaml"]


@pytest.mark.parametrize("kind", ["link", "dangling", "folder", "fifo"])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, home: Path, settings: Settings, kind: str) -> None:
    file, outside = home / "settings.yaml", tmp_path / "outside.yaml"
    if kind == "link":
        outside.write_text("memory:\n  enabled: true\n")
    if kind == "folder":
        file.mkdir()
    elif kind == "fifo":
        os.mkfifo(file)
    else:
        file.symlink_to(outside)
    for act in (settings.enabled, lambda: settings.set_enabled(False)):
        failure = _failure(act)
        assert failure.code == "settings-unavailable"
        assert failure.detail == ("symlink" if kind in ("link", "dangling") else "special-file")
    assert outside.exists() == (kind == "link")
    assert kind != "link" or outside.read_text() == "memory:\n  enabled: true\n"


def test_a_file_of_unusual_form_is_left_alone(home: Path, settings: Settings) -> None:
    file = home / "settings.yaml"
    file.write_text("null\n")
    failure = _failure(lambda: settings.set_enabled(False))
    assert (failure.code, failure.detail) == ("settings-write-failed", "unusual-form")
    assert file.read_text() == "null\n"
    assert os.listdir(home) == ["settings.yaml"]


def test_a_held_lock_ends_the_wait(home: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_module, "LOCK_WAIT_SECONDS", 0.05)
    (home / "settings.yaml.lock").touch()
    failure = _failure(lambda: settings.set_enabled(False))
    assert (failure.code, failure.detail) == ("settings-write-failed", "lock-held")
    assert os.listdir(home) == ["settings.yaml.lock"]


def test_the_lock_is_waited_for(home: Path, settings: Settings) -> None:
    lock = home / "settings.yaml.lock"
    lock.touch()
    release = threading.Timer(0.1, lock.unlink)
    release.start()
    assert settings.set_enabled(False) is False
    release.join()
    assert os.listdir(home) == ["settings.yaml"]


def test_a_dead_lock_is_taken_over(home: Path, settings: Settings) -> None:
    lock = home / "settings.yaml.lock"
    lock.touch()
    old = lock.stat().st_mtime - STALE_LOCK_SECONDS - 1
    os.utime(lock, (old, old))
    settings.set_enabled(False)
    assert os.listdir(home) == ["settings.yaml"]


def test_a_dead_lock_that_somebody_else_takes_is_not_taken_twice(
    home: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our look at the dead lock and our rename another writer replaced it."""
    lock = home / "settings.yaml.lock"
    lock.touch()
    old = lock.stat().st_mtime - STALE_LOCK_SECONDS - 1
    os.utime(lock, (old, old))
    take_over = settings_module._put_over

    def replaced_first(descriptor: int, inode: int) -> int | None:
        if lock.stat().st_ino == inode:
            (home / "theirs").touch()
            (home / "theirs").rename(lock)
        return take_over(descriptor, inode)

    monkeypatch.setattr(settings_module, "_put_over", replaced_first)
    monkeypatch.setattr(settings_module, "LOCK_WAIT_SECONDS", 0.05)
    assert _failure(lambda: settings.set_enabled(False)).detail == "lock-held"
    assert os.listdir(home) == ["settings.yaml.lock"]


def test_an_edit_without_the_lock_is_not_lost(
    home: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor saves between our read and our rename; both changes are there afterwards."""
    file = home / "settings.yaml"
    file.write_text("memory:\n  enabled: true\n")
    fsync = os.fsync
    edited: list[bool] = []

    def edit_then_fsync(descriptor: int) -> None:
        if not edited:
            edited.append(True)
            file.write_text("web: 1\nmemory:\n  enabled: true\n")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", edit_then_fsync)
    settings.set_enabled(False)
    assert file.read_text() == "web: 1\nmemory:\n  enabled: false\n"
    assert os.listdir(home) == ["settings.yaml"]


def test_a_failing_disk_leaves_the_old_file(
    home: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home / "settings.yaml"
    file.write_text("memory:\n  enabled: true\n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    failure = _failure(lambda: settings.set_enabled(False))
    assert (failure.code, failure.detail) == ("settings-write-failed", "unwritable")
    assert "No space left" in failure.message
    assert file.read_text() == "memory:\n  enabled: true\n"
    assert os.listdir(home) == ["settings.yaml"]


def _as_nobody(home: str, answers: multiprocessing.queues.Queue[tuple[str, str | None]]) -> None:
    os.setuid(65534)
    for act in (_settings(Path(home)).enabled, lambda: _settings(Path(home)).set_enabled(False)):
        try:
            act()
        except SettingsFailure as failure:
            answers.put((failure.code, failure.detail))


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
def test_permissions(tmp_path: Path, home: Path) -> None:
    for folder in (home, *tmp_path.parents):
        if "pytest" in str(folder):
            folder.chmod(0o755)
    tmp_path.chmod(0o755)
    file = home / "settings.yaml"
    file.write_text("memory:\n  enabled: true\n")
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.queues.Queue[tuple[str, str | None]] = context.Queue()
    for mode in (0o000, 0o644):
        file.chmod(mode)
        child = context.Process(target=_as_nobody, args=(str(home), answers))
        child.start()
        child.join(30)
    assert answers.get(timeout=5) == ("settings-unavailable", "unreadable")
    assert answers.get(timeout=5) == ("settings-unavailable", "unreadable")
    assert answers.get(timeout=5) == ("settings-write-failed", "unwritable")


def _flip(home: str, key: int) -> None:
    for value in (False, True, False):
        _settings(Path(home)).set_enabled(value)


def test_many_writers_never_tear_the_file(home: Path, settings: Settings) -> None:
    file = home / "settings.yaml"
    file.write_text("# kept\nmemory:\n  enabled: true\nweb: 1\n")
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_flip, args=(str(home), key)) for key in range(4)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert file.read_text() in (
            "# kept\nmemory:\n  enabled: true\nweb: 1\n",
            "# kept\nmemory:\n  enabled: false\nweb: 1\n",
        )
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert os.listdir(home) == ["settings.yaml"]
