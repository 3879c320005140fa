"""Records: the tree of the three folders, a record beside it, its topic on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.app import ComposeResult

from dsh_memory import visible
from dsh_memory.inspection import Mark, RecordEntry, Snapshot
from dsh_memory_tui.messages import RecordRead, TopicRead
from dsh_memory_tui.panes.pane import SplitPane
from dsh_memory_tui.panes.reading import Reader
from dsh_memory_tui.widgets.lines import Line, line, pad_left
from dsh_memory_tui.widgets.record_list import RecordList
from dsh_memory_tui.widgets.record_view import entry_row
from dsh_memory_tui.widgets.rows import Drawn
from dsh_memory_tui.wording import CLOSED, OPEN

NO_RECORDS = (
    "No records yet. An agent writes them through a sync; "
    "a Markdown file under handbook/ is one too (s saves it)."
)
NONE_MARKED = "No record has this mark any more. esc shows all."
FOLDERS = ("handbook", "rollouts", "archive")


@dataclass(frozen=True, slots=True)
class Branch:
    """A folder in the tree, with the number of records under it."""

    path: str
    depth: int
    count: int
    closed: bool


Node = Branch | RecordEntry


class RecordsPane(SplitPane):
    """Browse, read, copy, edit; `only` limits the tree to records with one mark."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._folded: set[str] = set()
        self._only: Mark | None = None
        self._wanted: str | None = None

    def compose(self) -> ComposeResult:
        yield RecordList(classes="list")
        yield Reader()

    @property
    def reader(self) -> Reader:
        """The record beside the tree."""
        return self.query_one(Reader)

    @property
    def detail(self) -> RecordList:
        return self.reader

    def show(self, snapshot: Snapshot) -> None:
        super().show(snapshot)
        self._show_tree()
        self._read_current()

    def select(self, key: str) -> None:
        self._only = None
        self._wanted = key
        parts = key.split("/")
        self._folded -= {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        self._show_tree()

    def limit_to(self, mark: Mark | None) -> None:
        """Show records with one mark only, or all again."""
        self._only = mark
        self._show_tree(top=True)

    def run(self, command: str) -> None:
        key = self.listing.current_key
        if command == "open":
            self._open(key)
        elif command in ("clear", "save"):
            self.post_message(self.ActWanted(command, {}))
        elif command == "copy-id" and key is not None and key.startswith("folder:"):
            self.post_message(self.Copied(key.removeprefix("folder:"), "path"))
        else:
            self.reader.run(command)

    def back(self) -> bool:
        if super().back():
            return True
        if self._only is not None:
            self.limit_to(None)
            return True
        return False

    def on_record_list_moved(self, message: RecordList.Moved) -> None:
        if message.sender is self.listing:
            self._read_current()

    def on_record_list_opened(self, message: RecordList.Opened) -> None:
        self._open(message.key)

    def on_record_read(self, message: RecordRead) -> None:
        self.reader.record_read(message)

    def on_topic_read(self, message: TopicRead) -> None:
        self.reader.topic_read(message)

    def _open(self, key: str | None) -> None:
        if key is None:
            return
        if key.startswith("folder:"):
            self._folded ^= {key.removeprefix("folder:")}
            self._show_tree()
        else:
            self.open_detail()

    def _read_current(self) -> None:
        key = self.listing.current_key
        if key is None or key.startswith("folder:"):
            self.reader.empty("↵ closes or opens this folder." if key else "")
        else:
            self.reader.read(key)

    def _show_tree(self, *, top: bool = False) -> None:
        if self.snapshot is None:
            return
        entries = self.snapshot.records
        if self._only is not None:
            wanted = self._only
            entries = tuple(entry for entry in entries if wanted in entry.marks)
        if not entries:
            self.show_empty(NO_RECORDS if self._only is None else NONE_MARKED)
            self.reader.empty("")
            return
        nodes = tree(entries, self._folded)
        rows: Drawn[Node] = Drawn(nodes, _key, _draw)
        self.listing.show(lambda _width: rows, top=top)
        if self._wanted is not None and self.listing.select(self._wanted):
            self._wanted = None
        elif top or self.listing.current_key is None or (not top and self.listing.cursor == 0):
            self._to_first_record(nodes)

    def _to_first_record(self, nodes: Sequence[Node]) -> None:
        """A tree opens on its first record, not on a folder."""
        if self.listing.cursor == 0 and self.reader.path is None:
            first = next((node.path for node in nodes if isinstance(node, RecordEntry)), None)
            if first is not None:
                self.listing.select(first)


def tree(entries: Sequence[RecordEntry], closed: set[str]) -> list[Node]:
    """The open part of the tree: folders before records, the three top folders in their order."""
    records: dict[str, list[RecordEntry]] = {}
    for entry in entries:
        records.setdefault(entry.path.rpartition("/")[0], []).append(entry)
    counts: dict[str, int] = {}
    folders: dict[str, list[str]] = {}
    for folder, found in records.items():
        while folder:
            if folder not in counts:
                folders.setdefault(folder.rpartition("/")[0], []).append(folder)
            counts[folder] = counts.get(folder, 0) + len(found)
            folder = folder.rpartition("/")[0]
    rank = {name: index for index, name in enumerate(FOLDERS)}
    nodes: list[Node] = []

    def add(folder: str, depth: int) -> None:
        for inner in sorted(folders.get(folder, ()), key=lambda path: (rank.get(path, len(rank)), path)):
            nodes.append(Branch(inner, depth, counts[inner], inner in closed))
            if inner not in closed:
                add(inner, depth + 1)
        nodes.extend(records.get(folder, ()))

    add("", 0)
    return nodes


def _key(node: Node) -> str:
    return f"folder:{node.path}" if isinstance(node, Branch) else node.path


def _draw(node: Node, width: int) -> tuple[Line, ...]:
    if isinstance(node, RecordEntry):
        return entry_row(node, width, indent="  " * node.path.count("/"))
    name = visible(node.path.rsplit("/", 1)[-1])
    return (
        line(
            ("  " * node.depth + f"{CLOSED if node.closed else OPEN} ", "muted"),
            (name, "strong"),
            right=[(pad_left(f"{node.count:,}", 6), "muted")],
        ),
    )
