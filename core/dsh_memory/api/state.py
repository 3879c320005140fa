"""What belongs to a root but not into Git: first answers by idempotency key, embeddings, usage counts
(SQLite).
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from dsh_memory.errors import RepoUnavailable

#: How long a replay gets the first answer.
REPLAY_WINDOW: Final = timedelta(days=1)

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS answers (
    caller TEXT NOT NULL, key TEXT NOT NULL, fingerprint TEXT NOT NULL, answer TEXT NOT NULL,
    memory_id TEXT NOT NULL, version INTEGER NOT NULL, settled INTEGER NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (caller, key)
);
CREATE TABLE IF NOT EXISTS embeddings (
    memory_id TEXT NOT NULL, version INTEGER NOT NULL, vector TEXT NOT NULL, PRIMARY KEY (memory_id, version)
);
CREATE TABLE IF NOT EXISTS usage (memory_id TEXT PRIMARY KEY, count INTEGER NOT NULL, last TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """What a request with an idempotency key was answered; `settled` once its commit is known to exist."""

    fingerprint: str
    answer: dict[str, Any]
    memory_id: str
    version: int
    settled: bool


class State:
    """The database of one memory root, `memories.sqlite3` (0600) in its state folder; made at the first
    use.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "memories.sqlite3")
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close the database; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def first_answer(self, caller: str, key: str, now: datetime) -> FirstAnswer | None:
        """The first answer to a key of this caller within the replay window."""
        oldest = (now - REPLAY_WINDOW).timestamp()
        with self._open() as database:
            row = database.execute(
                "SELECT fingerprint, answer, memory_id, version, settled FROM answers"
                " WHERE caller = ? AND key = ? AND at > ?",
                (caller, key, oldest),
            ).fetchone()
        if row is None:
            return None
        return FirstAnswer(row[0], json.loads(row[1]), row[2], row[3], bool(row[4]))

    def expect(self, caller: str, key: str, answer: FirstAnswer, now: datetime) -> None:
        """Keep the answer that a commit about to be made will give; older answers than the window go."""
        with self._open() as database:
            database.execute("DELETE FROM answers WHERE at <= ?", ((now - REPLAY_WINDOW).timestamp(),))
            database.execute(
                "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    caller,
                    key,
                    answer.fingerprint,
                    json.dumps(answer.answer),
                    answer.memory_id,
                    answer.version,
                    int(answer.settled),
                    now.timestamp(),
                ),
            )

    def settle(self, keys: Sequence[tuple[str, str]], *, kept: bool) -> None:
        """Say whether the commits of expected answers were made."""
        with self._open() as database:
            statement = (
                "UPDATE answers SET settled = 1 WHERE caller = ? AND key = ?"
                if kept
                else "DELETE FROM answers WHERE caller = ? AND key = ?"
            )
            database.executemany(statement, keys)

    def keep_embedding(self, memory_id: str, version: int, vector: Sequence[float]) -> None:
        """Keep a version's embedding."""
        with self._open() as database:
            database.execute(
                "INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?)",
                (memory_id, version, json.dumps(list(vector))),
            )

    def embedding(self, memory_id: str, version: int) -> list[float] | None:
        """A version's embedding; None where its client gave none."""
        with self._open() as database:
            row = database.execute(
                "SELECT vector FROM embeddings WHERE memory_id = ? AND version = ?", (memory_id, version)
            ).fetchone()
        return None if row is None else list(json.loads(row[0]))

    def count_usage(self, memory_id: str, now: str) -> int:
        """Count one use that a client reports; the new count."""
        with self._open() as database:
            database.execute(
                "INSERT INTO usage VALUES (?, 1, ?)"
                " ON CONFLICT (memory_id) DO UPDATE SET count = count + 1, last = excluded.last",
                (memory_id, now),
            )
            row = database.execute("SELECT count FROM usage WHERE memory_id = ?", (memory_id,)).fetchone()
        return int(row[0])

    def usage(self, memory_id: str) -> tuple[int, str | None]:
        """How often clients used a memory, and when last."""
        with self._open() as database:
            row = database.execute(
                "SELECT count, last FROM usage WHERE memory_id = ?", (memory_id,)
            ).fetchone()
        return (0, None) if row is None else (row[0], row[1])

    def erase(self, memory_id: str) -> None:
        """Forget all about a memory; the bytes are overwritten, and the database rewritten without them."""
        with self._open() as database:
            for table in ("answers", "embeddings", "usage"):
                database.execute(f"DELETE FROM {table} WHERE memory_id = ?", (memory_id,))  # noqa: S608
            database.commit()
            database.execute("VACUUM")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """One transaction of the database; raises RepoUnavailable where the system refuses it."""
        try:
            with self._lock:
                if self._connection is None:
                    self._connection = self._connect()
                with self._connection:
                    yield self._connection
        except (sqlite3.Error, OSError) as error:
            raise RepoUnavailable(
                f"The state database cannot be used: {error}.", detail="state-unusable"
            ) from error

    def _connect(self) -> sqlite3.Connection:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self._path, timeout=5, check_same_thread=False)
        # Deleted rows are zeroed: what a client has erased must not stay in free pages.
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA journal_mode = TRUNCATE")
        connection.executescript(_SCHEMA)
        return connection
