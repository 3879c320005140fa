"""The private folder of one sync, outside the memory root; what a killed sync left is removed by the next
one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from types import TracebackType
from typing import Final, Self

_PREFIX: Final = "dsh-memory-sync-"
_OWNER: Final = "owner"
# Between its making and its lock a folder has no owner for an instant.
_NEW_SECONDS: Final = 60.0


class WorkFolder:
    """A folder with an unpredictable name, open to nobody else: `staging`, `transcripts`, `sessions`,
    `temporary`.

    Its owner holds a lock in it, so that another sync knows a folder in use from a left one.
    """

    def __init__(self) -> None:
        """Makes the folder below the system's temporary folder; raises OSError."""
        sweep()
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX))
        self._owner = os.open(
            os.path.join(self.path, _OWNER), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
        fcntl.flock(self._owner, fcntl.LOCK_EX)
        self.staging = self._make("staging")
        self.transcripts = self._make("transcripts")
        self.sessions = self._make("sessions")
        self.temporary = self._make("tmp")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _remove(self.path)
        os.close(self._owner)

    def _make(self, name: str) -> str:
        path = os.path.join(self.path, name)
        os.mkdir(path, 0o700)
        return path


def sweep() -> None:
    """Removes this user's work folders whose sync is gone."""
    parent = tempfile.gettempdir()
    for name in os.listdir(parent):
        if name.startswith(_PREFIX) and _is_abandoned(os.path.join(parent, name)):
            _remove(os.path.join(parent, name))


def _is_abandoned(path: str) -> bool:
    try:
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return False
        owner = os.open(os.path.join(path, _OWNER), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return time.time() - status.st_mtime > _NEW_SECONDS
    except OSError:
        return False
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(owner)
    return True


def _remove(path: str) -> None:
    # An agent may have taken rights away from its folders, or write until it is dead: mend, and try again.
    for _ in range(3):
        for folder, names, _ in os.walk(path):
            for name in names:
                below = os.path.join(folder, name)
                if not os.path.islink(below):
                    os.chmod(below, 0o700)
        shutil.rmtree(path, ignore_errors=True)
        if not os.path.lexists(path):
            return
