"""The pictures of the screens: what the README shows is what the tests compare with, byte by byte.

`pytest --update-screenshots` writes them anew. A plugin of its own, so that the option is known to every run.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from textual.app import App

FOLDER = Path(__file__).parents[2] / "screenshots"
_OPTION = "--update-screenshots"
_FONT_FACE = re.compile(r"\s*@font-face \{[^}]*\}")
_TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(_OPTION, action="store_true", help="write the pictures in screenshots/ anew")


class Screenshots:
    """Compares the screen with its picture, or writes the picture."""

    def __init__(self, *, update: bool) -> None:
        self._update = update

    def check(self, app: App[object], name: str) -> None:
        """The screen of now is the picture of that name."""
        svg = normalised(app.export_screenshot(title="dsh-memory"))
        path = FOLDER / f"{name}.svg"
        if self._update:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(svg, encoding="utf-8", newline="\n")
            return
        assert path.exists(), f"there is no picture {name}; make it with: pytest {_OPTION}"
        picture = path.read_text(encoding="utf-8")
        if picture != svg:
            pytest.fail(f"{name} looks different:\n{_difference(picture, svg)}")


@pytest.fixture
def screenshots(request: pytest.FixtureRequest) -> Screenshots:
    """The pictures."""
    return Screenshots(update=request.config.getoption(_OPTION))


def normalised(svg: str) -> str:
    """The picture without what differs between runs (ids made of hashes) and without fonts from afar."""
    svg = re.sub(r"terminal-\d+-", "terminal-", svg)
    svg = _FONT_FACE.sub("", svg).replace("\r\n", "\n")
    return svg if svg.endswith("\n") else svg + "\n"


def text_of(svg: str) -> list[str]:
    """The texts of a picture, one a line, for a difference a person can read."""
    return [text.replace("&#160;", " ") for text in _TEXT.findall(svg)]


def _difference(before: str, after: str) -> str:
    lines = list(difflib.unified_diff(text_of(before), text_of(after), "picture", "screen", lineterm="", n=1))
    return "\n".join(lines) if lines else "the texts are the same; colours or styles differ"
