"""The one table of commands: it feeds bindings, footer, help, palette and the README's key table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from textual.binding import Binding

PANES: Final = ("status", "health", "runs", "previews", "search", "records")
#: The scope of commands that work wherever a list or a text has the focus.
LIST: Final = "list"


@dataclass(frozen=True, slots=True)
class Command:
    """One thing a person can do.

    `keys` are Textual key names, the first is shown. `panes` is empty for a command of every pane, (`list`,)
    for one of the lists. `footer` ranks it in the footer (1 first, 0 never). An `act` changes memory:
    read-only mode switches it off.
    """

    id: str
    keys: tuple[str, ...]
    label: str
    help: str
    panes: tuple[str, ...] = ()
    footer: int = 0
    act: bool = False
    palette: bool = True

    @property
    def shown_keys(self) -> str:
        """The keys as a person reads them."""
        return " ".join(shown_key(key) for key in self.keys)

    def works_in(self, pane: str) -> bool:
        """Whether the command means something in a pane."""
        return not self.panes or pane in self.panes


_READING = ("search", "records")
_COPYING = ("search", "records", "runs", "previews", "health", "status")

COMMANDS: Final[tuple[Command, ...]] = (
    Command("pane-status", ("1",), "Status", "Go to Status"),
    Command("pane-health", ("2",), "Health", "Go to Health"),
    Command("pane-runs", ("3",), "Runs", "Go to Runs"),
    Command("pane-previews", ("4",), "Previews", "Go to Previews"),
    Command("pane-search", ("5",), "Search", "Go to Search"),
    Command("pane-records", ("6",), "Records", "Go to Records"),
    Command("find", ("slash",), "search", "Search all records", footer=5),
    Command("open", ("enter",), "open", "Open what the cursor is on", footer=1, palette=False),
    Command("back", ("escape",), "back", "Leave the detail, or end the search input", palette=False),
    Command("enable", ("space",), "on/off", "Switch memory on or off", ("status",), act=True),
    Command(
        "migrate",
        ("m",),
        "migrate…",
        "Give legacy records front matter",
        ("status", "health"),
        footer=2,
        act=True,
    ),
    Command(
        "recover",
        ("R",),
        "recover…",
        "Finish or undo an interrupted run",
        ("health", "status"),
        footer=6,
        act=True,
    ),
    Command("rollback", ("R",), "roll back…", "Undo this run by a new commit", ("runs",), footer=2, act=True),
    Command("filter", ("f",), "filter", "Show runs of one operation or status only", ("runs",), footer=3),
    Command("apply", ("A",), "apply…", "Apply this preview", ("previews",), footer=2, act=True),
    Command(
        "discard",
        ("X",),
        "discard…",
        "Remove this preview without applying it",
        ("previews",),
        footer=3,
        act=True,
    ),
    Command(
        "layout",
        ("d",),
        "side by side",
        "Show the diff unified or side by side",
        ("runs", "previews"),
        footer=4,
    ),
    Command(
        "next-hunk",
        ("right_square_bracket",),
        "next hunk",
        "Go to the next change of the diff",
        ("runs", "previews"),
    ),
    Command(
        "previous-hunk",
        ("left_square_bracket",),
        "previous hunk",
        "Go to the change before",
        ("runs", "previews"),
    ),
    Command("next", ("n",), "next file", "Diff of the next changed file", ("runs", "previews"), footer=5),
    Command("previous", ("N",), "previous file", "Diff of the file before", ("runs", "previews")),
    Command("next-match", ("n",), "next match", "To the next match in this record", _READING),
    Command("previous-match", ("N",), "previous match", "To the match before", _READING),
    Command(
        "scope", ("ctrl+t",), "scope", "Search active records, the archive, or all", ("search",), footer=3
    ),
    Command(
        "topic", ("t",), "topic", "Records that share this topic, and which one wins", _READING, footer=4
    ),
    Command(
        "versions", ("v",), "versions…", "Earlier versions of this record; one can be restored", _READING
    ),
    Command(
        "edit",
        ("e",),
        "edit",
        "Edit this record in $EDITOR; saved as a run",
        (*_READING, "health"),
        footer=2,
        act=True,
    ),
    Command(
        "save",
        ("s",),
        "save…",
        "Commit what editors left in the work tree",
        ("status", "health", "records"),
        act=True,
    ),
    Command(
        "clear", ("C",), "clear…", "Empty the memory; Git keeps it", ("status", "records"), footer=3, act=True
    ),
    Command("copy-id", ("y",), "copy id", "Copy the id under the cursor", _COPYING),
    Command("copy-body", ("Y",), "copy body", "Copy the body, or the diff", ("runs", "previews", *_READING)),
    Command("copy-citation", ("c",), "copy citation", "Copy the citation of this record", _READING),
    Command("refresh", ("r", "f5"), "read again", "Read the memory again now"),
    Command("init", ("i",), "init", "Create a memory repository here", act=True),
    Command("theme", ("T",), "theme", "Next theme: dark, light, the terminal's own colours"),
    Command("diff-colours", (), "diff colours", "Diff in blue and orange, or green and red"),
    Command("log", ("L",), "log", "What this session did, in order"),
    Command("help", ("question_mark", "f1"), "help", "Keys of this pane", footer=8, palette=False),
    Command(
        "palette", ("colon", "ctrl+p"), "commands", "Find any command by its name", footer=9, palette=False
    ),
    Command("quit", ("q", "ctrl+q"), "quit", "Leave", footer=10),
    Command("down", ("j", "down"), "down", "One line down", (LIST,), palette=False),
    Command("up", ("k", "up"), "up", "One line up", (LIST,), palette=False),
    Command("page-down", ("pagedown",), "page down", "One page down", (LIST,), palette=False),
    Command("page-up", ("pageup",), "page up", "One page up", (LIST,), palette=False),
    Command("first", ("g", "home"), "first", "To the first line", (LIST,), palette=False),
    Command("last", ("G", "end"), "last", "To the last line", (LIST,), palette=False),
    Command(
        "other-side",
        ("tab", "shift+tab"),
        "other side",
        "From the list to the detail and back",
        (LIST,),
        palette=False,
    ),
)

#: Most keys a footer shows.
FOOTER_KEYS: Final = 7
#: Keys a terminal cannot tell apart from others, or that other programs take.
FORBIDDEN_KEYS: Final = frozenset(
    {"ctrl+enter", "ctrl+i", "ctrl+m", "ctrl+j", "ctrl+h", "ctrl+a", "ctrl+b", "ctrl+s", "ctrl+c", "ctrl+z"}
)

_KEY_SIGNS: Final = {
    "enter": "↵",
    "escape": "esc",
    "slash": "/",
    "question_mark": "?",
    "colon": ":",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "down": "↓",
    "up": "↑",
    "pagedown": "pgdn",
    "pageup": "pgup",
}


def shown_key(key: str) -> str:
    """A key name as a person reads it: `slash` is `/`."""
    return _KEY_SIGNS.get(key, key)


def with_overrides(overrides: Mapping[str, str]) -> tuple[tuple[Command, ...], tuple[str, ...]]:
    """The table with a person's own keys (id -> keys with commas), and a sentence for each refused."""
    commands: list[Command] = []
    refused = [
        f"keys: there is no command {name}" for name in overrides if name not in {c.id for c in COMMANDS}
    ]
    for command in COMMANDS:
        wanted = tuple(key.strip() for key in overrides.get(command.id, "").split(",") if key.strip())
        bad = [key for key in wanted if key in FORBIDDEN_KEYS]
        if bad:
            refused.append(f"keys: {command.id} cannot use {', '.join(bad)}")
        commands.append(replace(command, keys=wanted) if wanted and not bad else command)
    return tuple(commands), tuple(refused)


def bindings(commands: Iterable[Command], *, lists: bool = False) -> list[Binding]:
    """Textual bindings of the global table, or of the lists."""
    return [
        Binding(key, f"run('{command.id}')", command.label, show=False)
        for command in commands
        if (LIST in command.panes) == lists and command.id != "other-side"
        for key in command.keys
    ]


def available(commands: Iterable[Command], pane: str, *, read_only: bool) -> list[Command]:
    """The commands that work in a pane, in table order."""
    return [c for c in commands if c.works_in(pane) and not (read_only and c.act)]


def footer(commands: Iterable[Command], pane: str, *, read_only: bool) -> list[Command]:
    """At most seven commands for a pane's footer: its own first; help, commands and quit always."""
    ranked = sorted(
        (c for c in available(commands, pane, read_only=read_only) if c.footer),
        key=lambda command: command.footer,
    )
    always = [c for c in ranked if c.id in ("help", "palette", "quit")]
    rest = [c for c in ranked if c not in always and not (c.id == "find" and pane == "search")]
    return rest[: FOOTER_KEYS - len(always)] + always


def key_table() -> str:
    """The key table of the README, as Markdown."""
    rows = ["| keys | where | what |", "|---|---|---|"]
    for command in COMMANDS:
        if not command.keys:
            continue
        keys = " ".join(f"`{shown_key(key)}`" for key in command.keys)
        where = ", ".join(command.panes) if command.panes else "everywhere"
        rows.append(f"| {keys} | {where.replace(LIST, 'lists and texts')} | {command.help} |")
    return "\n".join(rows) + "\n"
