"""One visit to the memory: the open repository, the moment, and what earlier visits remembered."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime

from dsh_memory.environment import Environment
from dsh_memory.inspection.history import Past
from dsh_memory.inspection.listing import EntryMemo
from dsh_memory.repository.content import RecordCache
from dsh_memory.repository.journal import Journal, JournalMemo
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.outlines import Outlines
from dsh_memory.repository.previews import PreviewMemo


@dataclass(frozen=True, slots=True)
class Memo:
    """What a long-lived inspector remembers of files that have not changed and commits that never do."""

    records: RecordCache = field(default_factory=RecordCache)
    outlines: Outlines = field(default_factory=Outlines)
    runs: JournalMemo = field(default_factory=JournalMemo)
    previews: PreviewMemo = field(default_factory=PreviewMemo)
    entries: EntryMemo = field(default_factory=EntryMemo)
    past: Past = field(default_factory=Past)


@dataclass(frozen=True, slots=True)
class Visit:
    """What every answer is made from."""

    repository: Repository
    now: datetime
    memo: Memo

    @property
    def environment(self) -> Environment:
        return self.repository.environment

    @property
    def journal(self) -> Journal:
        return Journal(self.repository.root, self.memo.runs)

    @property
    def today(self) -> date:
        return self.now.date()
