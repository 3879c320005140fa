"""The themes: dark and light with neutral greys and one accent, and the terminal's own sixteen colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

DiffColours = Literal["blue-orange", "green-red"]

DARK = "dark"
LIGHT = "light"
ANSI = "terminal"
#: Names a settings file and the palette may choose from.
THEME_NAMES = (DARK, LIGHT, ANSI)


@dataclass(frozen=True, slots=True)
class Palette:
    """Hex colours of one theme; greys are neutral so that 256 colours do not turn them teal or navy."""

    surface: str
    panel: str
    cursor: str
    rule: str
    text: str
    muted: str
    accent: str
    attention: str
    danger: str
    good: str
    dark: bool


_DARK = Palette(
    surface="#161616",
    panel="#1e1e1e",
    cursor="#303030",
    rule="#3a3a3a",
    text="#d8d8d8",
    muted="#8c8c8c",
    accent="#5aa9e6",
    attention="#e0a34a",
    danger="#e2725b",
    good="#7fb685",
    dark=True,
)
_LIGHT = Palette(
    surface="#fafafa",
    panel="#f0f0f0",
    cursor="#e2e2e2",
    rule="#d0d0d0",
    text="#202020",
    muted="#6a6a6a",
    accent="#1d6fb8",
    attention="#a86400",
    danger="#b3321a",
    good="#2e7d46",
    dark=False,
)


#: Role of a text -> colour of the letters, colour behind them (names of theme variables), text style.
_ROLES: dict[str, tuple[str | None, str | None, str]] = {
    "text": (None, None, ""),
    "strong": (None, None, "bold"),
    "muted": ("muted", None, ""),
    "accent": ("accent", None, ""),
    "key": ("accent", None, "bold"),
    "attention": ("attention", None, ""),
    "danger": ("danger", None, ""),
    "good": ("good", None, ""),
    "rule": ("rule", None, ""),
    "match": (None, "match", "underline"),
    "added": ("added", None, ""),
    "removed": ("removed", None, ""),
    "added-line": (None, "added-line", ""),
    "removed-line": (None, "removed-line", ""),
    "added-word": (None, "added-word", "bold"),
    "removed-word": (None, "removed-word", "bold"),
    "cursor": (None, "cursor", ""),
    "cursor-away": (None, "panel", ""),
}
#: The same where the terminal's own colours leave no tints.
_ANSI_ROLES: dict[str, tuple[str | None, str | None, str]] = {
    **_ROLES,
    "match": (None, None, "bold underline"),
    "added-line": ("added", None, ""),
    "removed-line": ("removed", None, ""),
    "added-word": ("added", None, "bold underline"),
    "removed-word": ("removed", None, "bold underline"),
    "cursor": (None, None, "reverse"),
    "cursor-away": (None, None, "underline"),
}


def fitting_theme(console: Console) -> str:
    """The theme of a person who chose none: the terminal's own colours where it has sixteen, or wants none."""
    return ANSI if console.no_color or console.color_system in (None, "standard") else DARK


def role_style(role: str, variables: Mapping[str, str], *, ansi: bool) -> Style:
    """How a role looks in a theme; a style to lay over the widget's own."""
    letters, behind, style = (_ANSI_ROLES if ansi else _ROLES)[role]
    return Style.parse(style or "none") + Style.from_color(
        Color.parse(variables[letters]).rich_color if letters else None,
        Color.parse(variables[behind]).rich_color if behind else None,
    )


def themes(diff: DiffColours = "blue-orange") -> tuple[Theme, ...]:
    """All themes, with the chosen colours for added and removed lines."""
    return (_theme(DARK, _DARK, diff), _theme(LIGHT, _LIGHT, diff), _ansi_theme(diff))


def _theme(name: str, palette: Palette, diff: DiffColours) -> Theme:
    added = palette.accent if diff == "blue-orange" else palette.good
    removed = palette.attention if diff == "blue-orange" else palette.danger
    return Theme(
        name=name,
        primary=palette.accent,
        secondary=palette.accent,
        accent=palette.accent,
        warning=palette.attention,
        error=palette.danger,
        success=palette.good,
        foreground=palette.text,
        background=palette.surface,
        surface=palette.surface,
        panel=palette.panel,
        boost=palette.panel,
        dark=palette.dark,
        variables={
            "cursor": palette.cursor,
            "rule": palette.rule,
            "muted": palette.muted,
            "attention": palette.attention,
            "danger": palette.danger,
            "good": palette.good,
            "added": added,
            "removed": removed,
            "added-line": _tint(palette.surface, added, 0.12),
            "removed-line": _tint(palette.surface, removed, 0.12),
            "added-word": _tint(palette.surface, added, 0.38),
            "removed-word": _tint(palette.surface, removed, 0.38),
            "match": _tint(palette.surface, palette.accent, 0.30),
            **_widget_variables(palette.surface, palette.cursor, palette.muted, palette.text, palette.accent),
        },
    )


def _ansi_theme(diff: DiffColours) -> Theme:
    added = "ansi_blue" if diff == "blue-orange" else "ansi_green"
    removed = "ansi_yellow" if diff == "blue-orange" else "ansi_red"
    return Theme(
        name=ANSI,
        ansi=True,
        primary="ansi_blue",
        secondary="ansi_cyan",
        accent="ansi_blue",
        warning="ansi_yellow",
        error="ansi_red",
        success="ansi_green",
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        boost="ansi_default",
        variables={
            "cursor": "ansi_default",
            "rule": "ansi_bright_black",
            "muted": "ansi_bright_black",
            "attention": "ansi_yellow",
            "danger": "ansi_red",
            "good": "ansi_green",
            "added": added,
            "removed": removed,
            "added-line": "ansi_default",
            "removed-line": "ansi_default",
            "added-word": "ansi_default",
            "removed-word": "ansi_default",
            "match": "ansi_default",
            "ansi-background": "ansi_default",
            "ansi-foreground": "ansi_default",
            **_widget_variables(
                "ansi_default", "ansi_bright_black", "ansi_bright_black", "ansi_default", "ansi_blue"
            ),
        },
    )


def _widget_variables(surface: str, track: str, muted: str, text: str, accent: str) -> dict[str, str]:
    """Variables of Textual's own widgets that would otherwise be derived in colour."""
    return {
        "border": accent,
        "border-blurred": track,
        "input-cursor-background": text,
        "input-cursor-foreground": surface if surface != "ansi_default" else "ansi_black",
        "input-cursor-text-style": "none",
        "input-selection-background": track,
        "input-selection-foreground": text,
        "screen-selection-background": track,
        "screen-selection-foreground": text,
        "scrollbar": track,
        "scrollbar-hover": muted,
        "scrollbar-active": muted,
        "scrollbar-background": surface,
        "scrollbar-background-hover": surface,
        "scrollbar-background-active": surface,
        "scrollbar-corner-color": surface,
    }


def _tint(surface: str, colour: str, amount: float) -> str:
    return Color.parse(surface).blend(Color.parse(colour), amount).hex
