"""The memories of one root as they are now: read when something changed, and not more often."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final, NamedTuple

from dsh_memory.api.catalogue import Catalogue
from dsh_memory.environment import Environment
from dsh_memory.errors import MemoryFailure
from dsh_memory.records import Record, read_record
from dsh_memory.repository.content import RecordCache
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.pending_log import NAME as PENDING_NAME
from dsh_memory.repository.pending_log import PendingWrite, read_pending
from dsh_memory.repository.view import read_records

_CACHE_BYTES: Final = 256 * 1024 * 1024
_WRITERS_PATIENCE: Final = 10
_Mark = tuple[tuple[int, int, int] | None, ...]
#: Changed by every commit of any program, and by files that come or go at the top of the folders.
_MARKED: Final = (
    ".git/index",
    ".git/HEAD",
    f".git/{PENDING_NAME}",
    "handbook",
    "rollouts",
    "archive",
    ".sync/last-run.json",
)


class Held(NamedTuple):
    """What a file holds by a write that waits for its commit; None for a file that goes."""

    data: bytes | None
    record: Record | None


class FreshView:
    """The catalogue of a root, and how fresh it is; safe to use from many threads.

    What other programs commit is seen at the next look, what they edit without a commit within `max_age` seconds.
    """

    def __init__(self, environment: Environment, clock: Callable[[], datetime], max_age: float) -> None:
        self.catalogue = Catalogue()
        self.pending: dict[str, Held] = {}
        """What is acknowledged and waits for its commit, by file."""
        self._environment = environment
        self._clock = clock
        self._max_age = max_age
        self._cache = RecordCache(_CACHE_BYTES)
        self._refreshing = threading.Lock()
        self._refreshed_at: float | None = None
        self._mark: _Mark = ()
        self._generation = 0

    @contextmanager
    def reading(self) -> Iterator[Catalogue]:
        """The memories of now, held still; raises MemoryFailure where the repository cannot be read."""
        self._freshen()
        with self.catalogue.lock:
            yield self.catalogue

    def freshen_for_writing(self, repo: Repository) -> None:
        """Has what others committed looked at; what they edited a draft sees in the files that it changes."""
        if not self._is_recent(_WRITERS_PATIENCE * self._max_age):
            self.refresh(repo)

    def forget(self, repo: Repository) -> None:
        """Looks at everything again, whatever was published meanwhile."""
        self._generation += 1
        self.refresh(repo)

    def publish(self, records: Iterable[tuple[str, Record | None]]) -> None:
        """Takes over what this process has written: files and their records, None for a file that goes."""
        with self.catalogue.lock:
            self._generation += 1
            for file, record in records:
                if record is None:
                    self.catalogue.remove(file)
                else:
                    self.catalogue.put(record)
            self._mark = self._current_mark()

    def publish_pending(self, writes: Iterable[PendingWrite]) -> None:
        """Takes over what waits for its commit from now on."""
        with self.catalogue.lock:
            self.pending |= _held(writes)

    def _freshen(self) -> None:
        if self._is_fresh():
            return
        if self._is_recent(2 * self._max_age):
            # So little too old that readers need not wait for the next view.
            if self._refreshing.acquire(blocking=False):
                threading.Thread(target=self._look_aside, daemon=True).start()
            return
        with self._refreshing:
            if not self._is_fresh():
                with Repository.open(self._environment) as repo:
                    self.refresh(repo)

    def _look_aside(self) -> None:
        try:
            with Repository.open(self._environment) as repo:
                self.refresh(repo)
        except MemoryFailure:
            # The next reader that has to wait meets the same, and says so.
            self._refreshed_at = None
        finally:
            self._refreshing.release()

    def _is_fresh(self) -> bool:
        return self._is_recent(self._max_age)

    def _is_recent(self, seconds: float) -> bool:
        """Whether the view is younger than that and nobody has committed since."""
        at = self._refreshed_at
        return at is not None and time.monotonic() - at < seconds and self._mark == self._current_mark()

    def refresh(self, repo: Repository) -> None:
        """Looks at everything again; files that have not changed are not read."""
        generation, mark, at = self._generation, self._current_mark(), time.monotonic()
        # Before the files: what is folded in between is then read twice, and not missed.
        pending = _held(read_pending(repo.git_dir))
        found = read_records(repo, self._clock(), "all", self._cache)
        records = [record for record in found.records if record.path not in pending]
        records += [each.record for each in pending.values() if each.record is not None]
        with self.catalogue.lock:
            # A commit of ours in between is in the catalogue already, and may be missing in what was read.
            if generation == self._generation:
                self.catalogue.replace_all(records)
                self.pending = pending
                self._refreshed_at, self._mark = at, mark

    def _current_mark(self) -> _Mark:
        found: list[tuple[int, int, int] | None] = []
        for name in _MARKED:
            try:
                status = os.lstat(os.path.join(self._environment.memory_root, name))
            except OSError:
                found.append(None)
            else:
                found.append((status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(found)


def _held(writes: Iterable[PendingWrite]) -> dict[str, Held]:
    """What each file holds after these writes."""
    held: dict[str, Held] = {}
    for write in writes:
        for file, text in write.files.items():
            data = None if text is None else text.encode()
            record = None if data is None else read_record(file, data)
            held[file] = Held(data, record if isinstance(record, Record) else None)
    return held
