"""The parts of the screens: lines that fit, diffs with marks, settings, the clipboard, the editor's copy."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from textual.app import App, ComposeResult

from dsh_memory.inspection import FileDiff
from dsh_memory_tui import clipboard, editing, settings
from dsh_memory_tui.panes.health import health_rows
from dsh_memory_tui.panes.records import Branch, tree
from dsh_memory_tui.panes.status import status_rows
from dsh_memory_tui.themes import ANSI, DARK, LIGHT, fitting_theme, role_style, themes
from dsh_memory_tui.widgets.diff import side_by_side, unified
from dsh_memory_tui.widgets.lines import Line, Piece, cut, fit, line, pad, pad_left, wrap
from dsh_memory_tui.widgets.record_list import RecordList
from dsh_memory_tui.widgets.record_view import marked, tokens_pattern
from dsh_memory_tui.widgets.rows import Drawn
from dsh_memory_tui.wording import age, bar, duration, milliseconds, plural, size, sparkline
from tests.tui.fakes import ENTRIES, NEW_TEXT, NOW, OLD_TEXT, FakeCore, entry
from tests.tui.hostile import EVIL

ANY_TEXT = st.text(st.one_of(st.characters(), st.sampled_from("漢字🤭é\u200d\x1b\u202e ")), max_size=40)


@given(ANY_TEXT, st.integers(0, 30))
def test_cut_and_pad_keep_to_their_cells(text: str, width: int) -> None:
    shown = cut(text, width)
    assert cell_len(shown) <= max(0, width)
    assert cell_len(pad(shown, width)) == cell_len(pad_left(shown, width)) == width


@given(st.lists(st.tuples(ANY_TEXT, st.just("text")), max_size=5), ANY_TEXT, st.integers(1, 60))
def test_a_line_never_exceeds_its_width_and_never_acts(
    parts: list[tuple[str, str]], right: str, width: int
) -> None:
    pieces = fit(line(*parts, right=[(right, "muted")] if right else ()), width)
    assert sum(cell_len(piece.text) for piece in pieces) <= width
    text = "".join(piece.text for piece in pieces)
    assert not any(
        ord(character) < 32 or 127 <= ord(character) < 160 or character in "\u202e\u2028"
        for character in text
    )


@given(ANY_TEXT.filter(lambda text: "\n" not in text), st.integers(2, 30))
def test_wrapping_loses_nothing_but_the_spaces_it_breaks_at(text: str, width: int) -> None:
    parts = wrap(text, width)
    assert "".join(parts).replace(" ", "") == text.replace(" ", "")
    assert all(cell_len(part) <= max(2, width) for part in parts)


def test_hostile_text_is_shown_as_text() -> None:
    [piece, *_] = fit(Line((Piece(EVIL),)), 200)
    assert "\x1b" not in piece.text and "[/x]" in piece.text and "{{date}} $& {0} %s" in piece.text


def diff(old: str | None, new: str | None, kind: str = "M") -> FileDiff:
    return FileDiff("handbook/a.md", kind, old, new, False, len(old or ""), len(new or ""))  # type: ignore[arg-type]


def roles(lines: list[Line]) -> set[tuple[str, str]]:
    return {(piece.role, piece.text) for content in lines for piece in content.pieces if piece.text.strip()}


def test_a_diff_marks_the_words_that_differ() -> None:
    lines, starts = unified(diff(OLD_TEXT, NEW_TEXT), 80)
    texts = [content.text for content in lines]
    assert any("- - The user prefers spaces." in text for text in texts)
    assert any("+ - The user prefers tabs, two columns wide." in text for text in texts)
    assert ("removed-word", "spaces") in roles(lines)
    assert starts == [3, 6]
    assert [content.fill for content in lines].count("added-line") == 3


def test_both_sides_stand_beside_each_other() -> None:
    lines, _starts = side_by_side(diff(OLD_TEXT, NEW_TEXT), 100)
    row = next(content.text for content in lines if "spaces" in content.text)
    assert row.index("spaces") < row.index("│") < row.index("tabs")
    assert all(cell_len(content.text) <= 100 for content in lines)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, "a\n"),
        ("a\n", None),
        ("", "a"),
        ("\n" * 50 + "x\n" + "\n" * 50, "\n" * 50 + "y\n" + "\n" * 50),
    ],
)
def test_every_kind_of_change_has_lines(old: str | None, new: str | None) -> None:
    for made in (unified, side_by_side):
        lines, starts = made(diff(old, new), 70)
        assert lines and starts


@given(st.text(max_size=200), st.text(max_size=200), st.integers(20, 90))
def test_no_text_breaks_a_diff(old: str, new: str, width: int) -> None:
    for made in (unified, side_by_side):
        lines, _starts = made(diff(old, new), width)
        for content in lines:
            assert sum(cell_len(piece.text) for piece in fit(content, width)) <= width


def test_what_is_no_text_is_said() -> None:
    lines, _ = unified(FileDiff("a", "M", None, None, True, 10, 2_048), 80)
    assert lines[0].text == "Not text: 10 B before, 2.0 KiB after."


def test_matches_are_marked_whatever_their_case_and_script() -> None:
    pattern = tokens_pattern("CODE 部署")
    marks = [piece.text for piece in marked("Codegen: 今天讨论了部署方案", pattern) if piece.role == "match"]
    assert marks == ["Code", "部署"]
    assert tokens_pattern("'; --") is None


def test_the_tree_has_folders_first_in_their_order_and_counts() -> None:
    nodes = tree(ENTRIES, set())
    tops = [node.path for node in nodes if isinstance(node, Branch) and node.depth == 0]
    assert tops == ["handbook", "rollouts", "archive"]
    assert isinstance(nodes[1], Branch) and nodes[1].path == "handbook/team"
    assert sum(not isinstance(node, Branch) for node in nodes) == len(ENTRIES)
    closed = tree(ENTRIES, {"handbook"})
    assert len(closed) == len(nodes) - 10


def test_words_for_figures() -> None:
    from datetime import timedelta

    ages = [age(NOW - timedelta(seconds=s), NOW) for s in (5, 300, 7_200, 90_000, 200_000, 9_000_000, -7_200)]
    assert ages == ["just now", "5 min ago", "2 h ago", "yesterday", "2 d ago", "14 wk ago", "in 2 h"]
    assert [age(None, NOW), duration(timedelta(0)), plural(1, "file"), plural(1_200, "file")] == [
        "never",
        "0 s",
        "1 file",
        "1,200 files",
    ]
    assert [milliseconds(None), milliseconds(820), milliseconds(1_234)] == ["–", "820 ms", "1.2 s"]
    assert [size(0), size(4_300), size(3_145_728)] == ["0 B", "4.2 KiB", "3.0 MiB"]
    assert sparkline([0, 1, 8]) == "▁▂█" and sparkline([]) == "" and sparkline([0, 0]) == "▁▁"
    assert [bar(0, 5, 10), bar(1, 100, 10), bar(5, 5, 4)] == ["", "━", "━━━━"]


def test_greys_are_neutral_and_every_role_has_a_style() -> None:
    dark, light, ansi = themes()
    assert [dark.name, light.name, ansi.name] == [DARK, LIGHT, ANSI]
    for theme in (dark, light):
        for name in (
            theme.surface,
            theme.panel,
            theme.foreground,
            theme.variables["rule"],
            theme.variables["muted"],
        ):
            assert name is not None and name[1:3] == name[3:5] == name[5:7]
        variables = {**theme.to_color_system().generate(), **theme.variables}
        assert role_style("cursor", variables, ansi=False).bgcolor is not None
    assert role_style("cursor", {}, ansi=True).reverse
    blue, green = themes("blue-orange")[0], themes("green-red")[0]
    assert blue.variables["added"] != green.variables["added"]


def test_settings_survive_a_round_and_broken_ones_are_told(tmp_path: Path) -> None:
    path = str(tmp_path / "config" / "tui.toml")
    assert settings.load(path) == settings.Settings()
    wanted = settings.Settings("light", "green-red", "records", {"clear": 'ctrl+x,"'})
    settings.save(path, wanted)
    assert settings.load(path) == wanted
    Path(path).write_text('theme = "pink"\nstart_pane = 3\nkeys = 7\n')
    loaded = settings.load(path)
    assert (loaded.theme, loaded.start_pane, loaded.keys, len(loaded.problems)) == ("dark", "status", {}, 3)
    Path(path).write_bytes(b"\xff = [")
    assert "was not read" in settings.load(path).problems[0]


def test_a_clipboard_tool_is_used_only_where_it_reaches_the_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pbcopy", "wl-copy", "xclip"):
        (tmp_path / name).write_text(f"#!/bin/sh\ncat > {tmp_path}/copied\n")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert clipboard.tool({}, "linux") is None
    assert clipboard.tool({}, "darwin") == ["pbcopy"]
    assert clipboard.tool({"WAYLAND_DISPLAY": "w"}, "linux") == ["wl-copy"]
    assert clipboard.tool({"DISPLAY": ":0"}, "linux") == ["xclip", "-selection", "clipboard"]
    assert clipboard.tool({"DISPLAY": ":0", "SSH_TTY": "/dev/pts/1"}, "linux") is None
    assert not clipboard.copy_by_tool("x")
    monkeypatch.setenv("DISPLAY", ":0")
    assert clipboard.copy_by_tool("漢字\udcff")
    assert (tmp_path / "copied").read_bytes() == "漢字".encode() + b"\xff"


def _editor(tmp_path: Path, script: str) -> dict[str, str]:
    path = tmp_path / "my editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return {"EDITOR": f"'{path}' --flag"}


def test_the_editor_works_on_a_private_copy(tmp_path: Path) -> None:
    edited = editing.edit("handbook/a b.md", b"old\n", _editor(tmp_path, 'echo new >> "$2"'))
    assert edited.changed and edited.after == b"old\nnew\n"
    assert stat.S_IMODE(os.stat(edited.copy).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(edited.copy)).st_mode) == 0o700
    edited.forget()
    assert not os.path.exists(os.path.dirname(edited.copy))


def test_an_editor_that_fails_applies_nothing(tmp_path: Path) -> None:
    for environ in (
        _editor(tmp_path, 'echo new >> "$2"; exit 3'),
        {"EDITOR": "/nowhere/ed"},
        {"EDITOR": "'"},
    ):
        edited = editing.edit("a.md", b"old\n", environ)
        assert edited.problem and not edited.changed
        edited.forget()


async def test_a_long_list_draws_what_is_seen_only() -> None:
    drawn: list[int] = []

    class ListApp(App[None]):
        def compose(self) -> ComposeResult:
            yield RecordList(id="list")

    app = ListApp()
    for theme in themes():
        app.register_theme(theme)
    app.theme = DARK
    async with app.run_test(size=(80, 24)) as pilot:
        numbers = range(100_000)

        def draw(number: int, _width: int) -> tuple[Line, ...]:
            drawn.append(number)
            return (line(f"record {number}"),)

        found = app.query_one("#list", RecordList)
        found.show(lambda _width: Drawn(numbers, str, draw))
        await pilot.pause()
        found.action_run("last")
        await pilot.pause()
        assert found.current_key == "99999"
        assert len(drawn) < 200
        assert sys.getsizeof(numbers) < 100


def test_an_entry_of_a_malformed_record_has_a_name() -> None:
    from dsh_memory_tui.widgets.record_view import entry_row, name_of

    odd = entry("handbook/\x1b[31m.md", None, None, None, marks=("malformed",))
    assert "\x1b" not in name_of(odd)
    assert "malformed" in entry_row(odd, 70)[0].text


@pytest.mark.parametrize(
    ("environ", "theme"),
    [
        ({"TERM": "xterm-256color"}, "dark"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "dark"),
        ({"TERM": "screen"}, "terminal"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "terminal"),
    ],
)
def test_a_poor_terminal_gets_its_own_colours(environ: dict[str, str], theme: str) -> None:
    assert fitting_theme(Console(force_terminal=True, _environ=environ)) == theme


def test_a_chosen_theme_goes_before_the_fitting_one(tmp_path: Path) -> None:
    path = tmp_path / "tui.toml"
    path.write_text('theme = "light"\n')
    assert settings.load(str(path), "terminal").theme == "light"
    assert settings.load(str(tmp_path / "none"), "terminal").theme == "terminal"


@pytest.mark.parametrize("read_only", [False, True])
def test_a_row_names_the_key_of_an_act_only_where_acts_are_on(read_only: bool) -> None:
    overview = FakeCore().looks.snapshot().overview
    status = status_rows(overview, NOW, 80, read_only=read_only)
    health = health_rows(overview, NOW, 80, read_only=read_only)
    hints = {piece.text for _key, row in (*status, *health) for piece in row.right if piece.role == "key"}
    assert bool(hints & {"m", "s", "R", "space"}) is not read_only
