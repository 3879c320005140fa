"""The README says what the program does: its key table and its commands are held to the code."""

from __future__ import annotations

import re
from pathlib import Path

from dsh_memory.cli.parser import build_parser, starting_point
from dsh_memory_tui.commands import key_table

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_key_table_is_the_registry() -> None:
    found = re.search(r"<!-- keys -->\n(.*)\n<!-- end of keys -->", README, re.DOTALL)
    assert found is not None
    assert found[1].strip() == key_table().strip()


def test_every_command_shown_is_one() -> None:
    shown = re.findall(r"^dsh-memory (.+)$", README, re.MULTILINE)
    assert shown
    for line in shown:
        words = re.findall(r"'[^']*'|\S+", line)
        build_parser().parse_args([word.strip("'") for word in words], starting_point())
