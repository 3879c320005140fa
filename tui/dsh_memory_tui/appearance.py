"""What a person likes: theme and colours of differences, kept in the settings file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dsh_memory_tui import settings
from dsh_memory_tui.themes import THEME_NAMES, themes

if TYPE_CHECKING:
    from dsh_memory_tui.app import MemoryApp


class Appearance:
    """Changes the looks of one application, and remembers the choice where there is a file for it."""

    def __init__(self, app: MemoryApp, path: str | None) -> None:
        self._app = app
        self._path = path

    def next_theme(self) -> None:
        """Go on to the next theme."""
        app = self._app
        app.theme = THEME_NAMES[(THEME_NAMES.index(app.theme) + 1) % len(THEME_NAMES)]
        self._keep(theme=app.theme)
        app.say(f"Theme: {app.theme}.")

    def other_diff_colours(self) -> None:
        """Change between blue and orange, and green and red."""
        app = self._app
        other: Any = "green-red" if app.preferences.diff == "blue-orange" else "blue-orange"
        self._keep(diff=other)
        for theme in themes(other):
            app.register_theme(theme)
        app.refresh_css(animate=False)
        app.say(f"Diff colours: {other.replace('-', ' and ')}.")

    def _keep(self, **changes: Any) -> None:
        self._app.preferences = replace(self._app.preferences, **changes)
        if self._path is None:
            return
        try:
            settings.save(self._path, self._app.preferences)
        except OSError as error:
            self._app.say(f"The setting holds for this session only: {error}", severity="warning")
