"""The overview and the lists of one refresh, all made from one look."""

from __future__ import annotations

import os
import stat
from collections.abc import Hashable

from dsh_memory.environment import Environment
from dsh_memory.errors import SettingsFailure
from dsh_memory.hosts.settings import Settings as SettingsFile
from dsh_memory.inspection.facts import Circumstances, health_facts, needs
from dsh_memory.inspection.listing import figures
from dsh_memory.inspection.looking import Look, look, refusal_of
from dsh_memory.inspection.runs import rows_of, run_rows
from dsh_memory.inspection.values import (
    Overview,
    RecordEntry,
    Settings,
    Snapshot,
)
from dsh_memory.inspection.visiting import Visit
from dsh_memory.records import SCHEMA_VERSION
from dsh_memory.repository.journal import RUNS_FOLDER, validate_run_id


def overview(visit: Visit) -> Overview:
    """Everything Status, Health and the frame show."""
    return _overview(visit, look(visit))


def entries(visit: Visit, found: Look) -> tuple[RecordEntry, ...]:
    """All record files as rows, by path."""
    return visit.memo.entries.entries(found.items, found.usage, visit.today, frozenset(found.dirty_paths))


def snapshot(visit: Visit, stamp: Hashable, run_limit: int) -> Snapshot:
    """The overview and all lists, from one look."""
    found = look(visit)
    return Snapshot(
        stamp=stamp,
        overview=_overview(visit, found),
        records=entries(visit, found),
        runs=run_rows(visit.journal, run_limit),
    )


def _overview(visit: Visit, found: Look) -> Overview:
    today = visit.today
    git, head = visit.repository.git, found.head.commit
    counted = figures(found.items, found.usage, today)
    journal = visit.journal
    state = journal.state()
    last = journal.last_run()
    interrupted = rows_of(journal, [] if state.interrupted is None else [state.interrupted])
    settings = read_settings(visit.environment)
    circumstances = Circumstances(
        now=visit.now,
        settings=settings,
        git_version=visit.memo.past.git_version(git),
        root_mode=stat.S_IMODE(os.fstat(visit.repository.root.descriptor).st_mode),
        blocked=found.obstacle,
        recoverable=found.head.commit is not None,
        dirty_paths=found.dirty_paths,
        malformed=counted.malformed,
        duplicate_ids=counted.duplicate_ids,
        legacy_count=counted.legacy_count,
        expiring=counted.expiring,
        due_for_review=counted.due_for_review,
        leftovers=found.leftovers,
        lock=found.lock,
        active_run=found.active_run,
        interrupted_run=next(iter(interrupted), None),
        run_count=_run_count(visit),
        broken_runs=state.broken,
        previews=found.previews,
        broken_previews=found.broken_previews,
        usage_failure=found.usage_failure,
    )
    return Overview(
        read_at=visit.now,
        root=visit.environment.memory_root,
        shown_root=short_root(visit.environment),
        settings=settings,
        head=found.head.commit,
        branch=found.head.branch,
        dirty_paths=found.dirty_paths,
        history=visit.memo.past.history(git, head),
        schema_version=SCHEMA_VERSION,
        record_count=len(found.items),
        data_file_count=found.data_file_count,
        by_folder=counted.by_folder,
        by_type=counted.by_type,
        by_status=counted.by_status,
        legacy_count=counted.legacy_count,
        malformed=counted.malformed,
        expired_count=counted.expired_count,
        expiring=counted.expiring,
        due_for_review=counted.due_for_review,
        last_run=next(iter(rows_of(journal, [] if last is None else [last])), None),
        previews=found.previews,
        activity=visit.memo.past.activity(git, head, today),
        most_used=counted.most_used,
        lock=found.lock,
        active_run=found.active_run,
        interrupted_run=circumstances.interrupted_run,
        needs=needs(circumstances),
        facts=health_facts(circumstances),
    )


def read_settings(environment: Environment) -> Settings:
    """The switch, or why it cannot be read."""
    try:
        return Settings(SettingsFile(environment).enabled(), None)
    except SettingsFailure as failure:
        return Settings(None, refusal_of(failure))


def short_root(environment: Environment) -> str:
    """The memory root as a person knows it: `~/…`, else as health shows it."""
    home = os.path.expanduser("~").rstrip("/")
    if home and environment.memory_root.startswith(home + "/"):
        return "~" + environment.memory_root[len(home) :]
    return environment.shown_root


def _run_count(visit: Visit) -> int:
    try:
        with visit.repository.root.folder(RUNS_FOLDER) as folder:
            names = os.listdir(folder)
    except FileNotFoundError:
        return 0
    return sum(name.endswith(".json") and validate_run_id(name[:-5]) for name in names)
