"""A person's settings of the screen (theme, diff colours, start pane, keys) in a TOML file."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from typing import Literal, cast

from dsh_memory_tui.commands import PANES
from dsh_memory_tui.themes import DARK, THEME_NAMES, DiffColours

FILE_NAME = "tui.toml"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the file says, with defaults for the rest; `problems` has a sentence for each part not taken."""

    theme: str = DARK
    diff: DiffColours = "blue-orange"
    start_pane: str = "status"
    keys: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def load(path: str, theme: str = DARK) -> Settings:
    """The settings of a file, with `theme` for one that names none; a problem where it cannot be read."""
    try:
        with open(path, "rb") as file:
            data = tomllib.load(file)
    except FileNotFoundError:
        return Settings(theme=theme)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return Settings(theme=theme, problems=(f"{FILE_NAME} was not read: {error}",))
    problems: list[str] = []

    def one_of(name: str, allowed: tuple[str, ...], default: str) -> str:
        value = data.get(name, default)
        if value in allowed:
            return cast(str, value)
        problems.append(f"{FILE_NAME}: {name} is one of {', '.join(allowed)}")
        return default

    keys = data.get("keys", {})
    if not isinstance(keys, dict) or not all(isinstance(value, str) for value in keys.values()):
        problems.append(f'{FILE_NAME}: [keys] holds lines like  copy-id = "y"')
        keys = {}
    return Settings(
        theme=one_of("theme", THEME_NAMES, theme),
        diff=cast(
            Literal["blue-orange", "green-red"], one_of("diff", ("blue-orange", "green-red"), "blue-orange")
        ),
        start_pane=one_of("start_pane", PANES, "status"),
        keys=dict(keys),
        problems=tuple(problems),
    )


def save(path: str, settings: Settings) -> None:
    """Write the settings, whole, replacing the file at once; raises OSError."""
    lines = [
        f'theme = "{settings.theme}"',
        f'diff = "{settings.diff}"',
        f'start_pane = "{settings.start_pane}"',
    ]
    if settings.keys:
        lines.append("\n[keys]")
        lines.extend(f"{name} = {_quoted(value)}" for name, value in settings.keys.items())
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    os.replace(temporary, path)


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def default_path() -> str:
    """Where the settings are on this platform."""
    from platformdirs import user_config_dir

    return os.path.join(user_config_dir("dsh-memory"), FILE_NAME)
