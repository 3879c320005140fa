"""`memory.enabled` in `$DSH_HOME/settings.yaml`, written the way the DSH host writes that file.

Writers take the host's lock file, check just before the rename that nobody else wrote, and leave every other
byte of the file alone (`settings_text`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dsh_memory.environment import Environment
from dsh_memory.errors import SettingsFailure
from dsh_memory.hosts.settings_text import (
    UnchangeableSettings,
    UnreadableSettings,
    read_enabled,
    with_enabled,
)

FILE = "settings.yaml"
LOCK = "settings.yaml.lock"

#: The host's own deadline.
LOCK_WAIT_SECONDS = 2.0
# The host's lock file names no holder. One write takes milliseconds and gives up after two seconds, so a lock
# of this age belongs to a process that died.
STALE_LOCK_SECONDS = 30.0
_LOCK_POLL_SECONDS = 0.02
_MAX_BYTES = 256 * 1024
_ATTEMPTS = 5
_BOM = "\ufeff"


class Settings:
    """The switch of one DSH home; it keeps nothing between calls, so other programs' edits are seen."""

    def __init__(self, environment: Environment) -> None:
        self._home = environment.dsh_home

    def enabled(self) -> bool:
        """Whether memory is on; True where file, section or key is missing.

        Raises SettingsFailure `settings-unavailable` for a file that cannot be read.
        """
        return _decode(self._read())

    def set_enabled(self, enabled: bool) -> bool:
        """Switches memory on or off and returns the new value; the value it already has writes nothing.

        Raises SettingsFailure `settings-unavailable` for a file that cannot be read, `settings-write-failed`
        for one that cannot be written.
        """
        if self.enabled() is enabled:
            return enabled
        try:
            os.makedirs(self._home, mode=0o700, exist_ok=True)
            home = os.open(self._home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _write_failed(error) from None
        try:
            with _locked(home):
                self._write(home, enabled)
        except OSError as error:
            raise _write_failed(error) from None
        finally:
            os.close(home)
        return enabled

    def _read(self) -> bytes | None:
        """The bytes of the file, or None where there is none."""
        try:
            home = os.open(self._home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unavailable(f"The DSH home cannot be opened: {_reason(error)}.", "unreadable") from None
        try:
            return _read_file(home)
        finally:
            os.close(home)

    def _write(self, home: int, enabled: bool) -> None:
        for _ in range(_ATTEMPTS):
            before = _read_file(home)
            if _decode(before) is enabled:
                return
            if _replace(home, before, _changed(before or b"", enabled)):
                return
        raise _not_written("Another program keeps writing settings.yaml.", "contended")


def _read_file(home: int) -> bytes | None:
    try:
        descriptor = os.open(FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=home)
    except FileNotFoundError:
        return None
    except OSError as error:
        # guard: settings-is-no-link
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise _unavailable("settings.yaml is a symbolic link.", "symlink") from None
        raise _unavailable(f"settings.yaml cannot be opened: {_reason(error)}.", "unreadable") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _unavailable("settings.yaml is no plain file.", "special-file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise _unavailable(f"settings.yaml cannot be read: {_reason(error)}.", "unreadable") from None
    finally:
        os.close(descriptor)
    if len(data) > _MAX_BYTES:
        raise _unavailable("settings.yaml is larger than 256 KiB.", "too-large")
    return data


def _decode(data: bytes | None) -> bool:
    if data is None:
        return True
    try:
        return read_enabled(_text(data).removeprefix(_BOM))
    except UnreadableSettings as fault:
        raise _unavailable(f"settings.yaml cannot be understood: {fault}.", "invalid-yaml") from None


def _changed(data: bytes, enabled: bool) -> bytes:
    text = _text(data)
    bom = _BOM if text.startswith(_BOM) else ""
    try:
        return (bom + with_enabled(text.removeprefix(_BOM), enabled)).encode()
    except UnchangeableSettings:
        raise _not_written(
            "memory.enabled cannot be changed alone in this settings.yaml; edit it by hand.",
            "unusual-form",
        ) from None


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _unavailable("settings.yaml is not UTF-8 text.", "invalid-yaml") from None


def _replace(home: int, before: bytes | None, after: bytes) -> bool:
    """Puts `after` in place of `before`, durably; False when the file is no longer `before`."""
    name = f".{FILE}.{os.getpid()}.{secrets.token_hex(6)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=home)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(after)
            file.flush()
            os.fsync(descriptor)
        # guard: settings-changed-meanwhile (an editor knows nothing of the lock)
        if _read_file(home) != before:
            os.unlink(name, dir_fd=home)
            return False
        os.rename(name, FILE, src_dir_fd=home, dst_dir_fd=home)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=home)
        raise
    os.fsync(home)
    return True


@contextmanager
def _locked(home: int) -> Iterator[None]:
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while (inode := _create_lock(home) or _take_stale_lock(home)) is None:
        if time.monotonic() >= deadline:
            raise _not_written(f"Another program holds {LOCK}.", "lock-held")
        time.sleep(_LOCK_POLL_SECONDS)
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            if os.stat(LOCK, dir_fd=home, follow_symlinks=False).st_ino == inode:
                os.unlink(LOCK, dir_fd=home)


def _create_lock(home: int) -> int | None:
    """The inode of the new lock file, or None when there is one already."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(LOCK, flags, 0o600, dir_fd=home)
    except FileExistsError:
        return None
    try:
        return os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


def _take_stale_lock(home: int) -> int | None:
    """The inode of our lock file put over one whose holder died, or None when it may be alive.

    The dead file's flock decides between several who find it at once: only its owner may replace it, and only
    while the name still means that file.
    """
    try:
        descriptor = os.open(LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=home)
    except OSError:
        return None
    try:
        dead = os.fstat(descriptor)
        # guard: settings-lock-age
        if not stat.S_ISREG(dead.st_mode) or time.time() - dead.st_mtime < STALE_LOCK_SECONDS:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        return _put_over(home, dead.st_ino)
    finally:
        os.close(descriptor)


def _put_over(home: int, dead_inode: int) -> int | None:
    name = f".{LOCK}.{os.getpid()}.{secrets.token_hex(6)}.tmp"
    own = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=home)
    try:
        with suppress(FileNotFoundError):
            # guard: settings-lock-same-inode
            if os.stat(LOCK, dir_fd=home, follow_symlinks=False).st_ino == dead_inode:
                os.rename(name, LOCK, src_dir_fd=home, dst_dir_fd=home)
                return os.fstat(own).st_ino
        os.unlink(name, dir_fd=home)
        return None
    finally:
        os.close(own)


def _unavailable(message: str, detail: str) -> SettingsFailure:
    return SettingsFailure("settings-unavailable", message, detail=detail)


def _not_written(message: str, detail: str) -> SettingsFailure:
    return SettingsFailure("settings-write-failed", message, detail=detail)


def _write_failed(error: OSError) -> SettingsFailure:
    return _not_written(f"settings.yaml cannot be written: {_reason(error)}.", "unwritable")


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else type(error).__name__
