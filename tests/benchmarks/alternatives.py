"""What people would use instead, on the same data: git itself, grep, and SQLite's full-text search."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from pathlib import Path

from tests.benchmarks.measuring import Timed, timed

_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "b",
    "GIT_AUTHOR_EMAIL": "b@localhost",
    "GIT_COMMITTER_NAME": "b",
    "GIT_COMMITTER_EMAIL": "b@localhost",
}


def git(root: Path, *arguments: str) -> None:
    """One git process without any configuration of the user's."""
    command = ["git", "-C", str(root), *arguments]
    subprocess.run(command, env=_ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)


def git_status(root: Path, repeat: int) -> Timed:
    """`git status` of the payload, ignored files included, as our own status counts it."""
    return timed(
        lambda: git(root, "status", "--porcelain", "--ignored=matching", "-uall"), repeat=repeat, before=None
    )


def grep(root: Path, word: str, repeat: int) -> Timed:
    """`grep -ril` over the record folders."""
    command = ["grep", "-ril", "--include=*.md", word, "handbook", "rollouts"]
    return timed(
        lambda: subprocess.run(
            command, cwd=root, stdout=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]}
        ),
        repeat=repeat,
    )


class FullText:
    """An SQLite FTS5 table over the same files, in memory; trigrams, so that it finds parts of words too."""

    def __init__(self, root: Path) -> None:
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute(
            "create virtual table records using fts5(path unindexed, body, tokenize='trigram')"
        )
        rows = [
            (str(path.relative_to(root)), path.read_text("utf-8"))
            for folder in ("handbook", "rollouts")
            for path in sorted((root / folder).rglob("*.md"))
        ]
        self._connection.executemany("insert into records values (?, ?)", rows)

    def search(self, query: str, repeat: int) -> Timed:
        """The best twenty by bm25 that hold any of the words."""
        match = " OR ".join(f'"{word}"' for word in query.split())
        sql = "select path, bm25(records) from records where records match ? order by bm25(records) limit 20"
        return timed(lambda: self._connection.execute(sql, (match,)).fetchall(), repeat=repeat)
