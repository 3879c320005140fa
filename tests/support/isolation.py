"""The environment variables of a test: nothing of the developer's machine reaches it."""

from __future__ import annotations

import os
from pathlib import Path

_FOREIGN_PREFIXES = ("GIT_", "DSH_", "XDG_", "EMAIL", "LC_", "LANG", "SSH_", "EDITOR", "VISUAL", "PAGER")


def isolated_variables(home: Path) -> dict[str, str]:
    """This process's variables with `home` as the home folder, less those that Git or the program read."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN_PREFIXES)}
    folders = {"CONFIG": ".config", "CACHE": ".cache", "STATE": ".local/state", "DATA": ".local/share"}
    return {
        **kept,
        "HOME": str(home),
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"XDG_{name}_HOME": str(home / folder) for name, folder in folders.items()},
    }
