"""Where things are (the DSH home and the memory root), and what time it is."""

from __future__ import annotations

import hashlib
import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from dsh_memory.errors import RepoUnavailable


def utc_now() -> datetime:
    """The clock of everything that is not a test."""
    return datetime.now(UTC)


def format_instant(instant: datetime) -> str:
    """An instant as the contract writes it: ISO 8601, UTC, milliseconds, `Z`."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{instant.microsecond // 1000:03d}Z"


def parse_instant(text: object) -> datetime | None:
    """An instant from ISO 8601 text with or without milliseconds; None for anything else."""
    if not isinstance(text, str) or len(text) > 40:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    if instant.tzinfo is None:
        return None
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        return None


@dataclass(frozen=True, slots=True)
class Environment:
    """The folders of one user, fixed at start: no request can name another.

    `memory_root` and `dsh_home` are absolute and need not exist.
    """

    dsh_home: str
    memory_root: str

    @classmethod
    def from_process(
        cls,
        environ: Mapping[str, str] | None = None,
        *,
        root: str | None = None,
        dsh_home: str | None = None,
    ) -> Environment:
        """The environment from flags first, then `DSH_MEMORY_ROOT` and `DSH_HOME`, then the defaults.

        Raises RepoUnavailable for a relative or NUL-holding path.
        """
        variables = os.environ if environ is None else environ
        home = _home(variables)
        chosen_home = _absolute(
            dsh_home or variables.get("DSH_HOME") or os.path.join(home, ".dsh"), "DSH_HOME"
        )
        default_root = os.path.join(chosen_home, "storages", "memory")
        chosen_root = _absolute(root or variables.get("DSH_MEMORY_ROOT") or default_root, "DSH_MEMORY_ROOT")
        return cls(dsh_home=chosen_home, memory_root=chosen_root)

    @property
    def state_dir(self) -> str:
        """The folder of what belongs to this root but not into Git, such as token hashes; it may not exist."""
        import platformdirs

        return self._of_this_root(platformdirs.user_state_dir("dsh-memory"))

    @property
    def cache_dir(self) -> str:
        """The folder of what can be made anew from this root at any time; it may not exist."""
        import platformdirs

        return self._of_this_root(platformdirs.user_cache_dir("dsh-memory"))

    def _of_this_root(self, folder: str) -> str:
        # Keyed by the real path: a root has one, however it is spelled, and two roots never share one.
        key = hashlib.sha256(os.fsencode(os.path.realpath(self.memory_root))).hexdigest()[:24]
        return os.path.join(folder, "roots", key)

    @property
    def shown_root(self) -> str:
        """The memory root as health shows it: `$DSH_HOME/...` when it lies under the DSH home, else absolute."""
        prefix = self.dsh_home.rstrip("/") + "/"
        if self.memory_root.startswith(prefix):
            return "$DSH_HOME/" + self.memory_root[len(prefix) :]
        return self.memory_root


def _home(variables: Mapping[str, str]) -> str:
    # HOME=/ is what some service managers set; nothing of ours may land in the root folder.
    home = variables.get("HOME", "")
    if os.path.isabs(home) and home.rstrip("/"):
        return home.rstrip("/")
    try:
        entry = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        entry = ""
    return entry.rstrip("/") or "/nonexistent"


def _absolute(path: str, name: str) -> str:
    if path.startswith("~/"):
        path = os.path.join(_home(os.environ), path[2:])
    if not os.path.isabs(path) or "\0" in path:
        raise RepoUnavailable(f"{name} must be an absolute path.", detail="root-not-absolute")
    return os.path.normpath(path)
