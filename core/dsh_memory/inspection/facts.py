"""Health in sentences, worst first, and what waits for a person."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from dsh_memory.inspection.listing import SOON_DAYS
from dsh_memory.inspection.looking import Obstacle
from dsh_memory.inspection.values import (
    ActiveRunFact,
    DueRecord,
    Fact,
    LockFact,
    MalformedRecord,
    Need,
    PreviewRow,
    Refusal,
    RunRow,
    Settings,
)
from dsh_memory.inspection.wording import counted

_WORST_FIRST: Final = {"bad": 0, "attention": 1, "good": 2}


class Circumstances(NamedTuple):
    """What the facts are made from, as one look found it; `blocked` is why every write is refused now."""

    now: datetime
    settings: Settings
    git_version: str
    root_mode: int
    blocked: Obstacle | None
    recoverable: bool
    dirty_paths: Sequence[str]
    malformed: Sequence[MalformedRecord]
    duplicate_ids: Sequence[tuple[str, int]]
    legacy_count: int
    expiring: Sequence[DueRecord]
    due_for_review: Sequence[DueRecord]
    leftovers: Sequence[str]
    lock: LockFact | None
    active_run: ActiveRunFact | None
    interrupted_run: RunRow | None
    run_count: int
    broken_runs: Sequence[str]
    previews: Sequence[PreviewRow]
    broken_previews: Sequence[str]
    usage_failure: Refusal | None


def health_facts(found: Circumstances) -> tuple[Fact, ...]:
    """One fact for each topic of health (for each malformed record, too), worst first."""
    facts = [
        *_malformed(found),
        *_runs_under_way(found),
        *_leftovers(found),
        _root(found),
        _head(found),
        _git(found),
        _journal(found),
        _payload(found),
        _lock(found),
        _previews(found),
        _usage(found),
        _settings(found),
        *_ids(found),
        *_legacy(found),
    ]
    return tuple(sorted(facts, key=lambda fact: _WORST_FIRST[fact.state]))


def needs(found: Circumstances) -> tuple[Need, ...]:
    """What asks for a person, worst first."""
    waiting: list[Need] = []
    if _is_interrupted(found):
        waiting.append(Need("bad", 1, "an interrupted run waits for recovery", "recover"))
    if found.broken_runs:
        count = len(found.broken_runs)
        waiting.append(Need("bad", count, f"{counted(count, 'run record')} cannot be read", "verify"))
    if found.malformed:
        count = len(found.malformed)
        waiting.append(Need("bad", count, counted(count, "malformed record"), "open-malformed"))
    if found.settings.enabled is None:
        waiting.append(Need("bad", 1, "settings.yaml cannot be read", "enable"))
    if found.previews:
        waiting.append(Need("attention", len(found.previews), _previews_wait(found), "open-previews"))
    if found.dirty_paths:
        count = len(found.dirty_paths)
        waiting.append(Need("attention", count, f"{counted(count, 'file')} edited and not saved", "save"))
    if found.legacy_count:
        sentence = f"{counted(found.legacy_count, 'legacy record')} without front matter"
        waiting.append(Need("attention", found.legacy_count, sentence, "migrate"))
    soon = [due for due in found.expiring if due.days > 0]
    if soon:
        sentence = (
            f"{counted(len(soon), 'record')} expire{'s' if len(soon) == 1 else ''} within {SOON_DAYS} days"
        )
        waiting.append(Need("attention", len(soon), sentence, "open-expiring"))
    late = [due for due in found.due_for_review if due.days <= 0]
    if late:
        sentence = f"{counted(len(late), 'record')} {'is' if len(late) == 1 else 'are'} due for review"
        waiting.append(Need("attention", len(late), sentence, "open-review"))
    return tuple(sorted(waiting, key=lambda need: _WORST_FIRST[need.state]))


def _malformed(found: Circumstances) -> list[Fact]:
    return [
        Fact(
            "bad",
            "malformed",
            record.reason,
            "Open it, or mend it in the editor.",
            action="open-malformed",
            path=record.path,
            line=record.line,
        )
        for record in found.malformed
    ]


def _is_interrupted(found: Circumstances) -> bool:
    return found.interrupted_run is not None or (
        found.active_run is not None and found.active_run.interrupted
    )


def _runs_under_way(found: Circumstances) -> list[Fact]:
    facts = []
    run = found.active_run
    recover = "Recover it: it is finished or undone, and no byte is lost."
    if run is not None and run.interrupted:
        process = f"its process ({run.pid})" if run.pid else "its process"
        sentence = f"{run.operation} {run.run_id}, phase {run.phase}, {process} is gone"
        facts.append(Fact("bad", "interrupted", sentence, recover, "recover", "dsh-memory recover"))
    elif run is not None:
        sentence = f"{run.operation} {run.run_id}, phase {run.phase}, under way"
        facts.append(Fact("attention", "active run", sentence, "Wait until it is done.", "wait"))
    if found.interrupted_run is not None and (run is None or run.run_id != found.interrupted_run.run_id):
        ended = found.interrupted_run
        sentence = f"{ended.operation} {ended.run_id} was interrupted and is not resolved"
        facts.append(Fact("bad", "interrupted", sentence, recover, "recover", "dsh-memory recover"))
    return facts


def _leftovers(found: Circumstances) -> list[Fact]:
    if not found.leftovers:
        return []
    sentence = f"a dead process left {counted(len(found.leftovers), 'thing')} behind"
    next_step = "Recover: what is safe to remove goes, files go back."
    return [
        Fact(
            "attention", "leftovers", sentence, next_step, "recover", "dsh-memory recover", found.leftovers[0]
        )
    ]


def _root(found: Circumstances) -> Fact:
    if found.root_mode & 0o077:
        sentence = f"safe layout, but other users may look in (mode {found.root_mode & 0o777:o})"
        return Fact("attention", "root", sentence, "Close it to others.", command="dsh-memory init")
    return Fact("good", "root", "safe layout, owner-only")


def _head(found: Circumstances) -> Fact:
    if not found.recoverable:
        sentence = "no commit yet: nothing could be given back"
        return Fact("attention", "branch", sentence, "Make the first commit.", command="dsh-memory init")
    if found.blocked is not None:
        sentence = f"{found.blocked.sentence} Until then memory can only be read."
        return Fact("attention", "branch", sentence, "Bring HEAD back to a branch with Git.")
    return Fact("good", "branch", "HEAD is a commit, every change can be undone")


def _git(found: Circumstances) -> Fact:
    return Fact("good", "git", f"{found.git_version}, sealed")


def _journal(found: Circumstances) -> Fact:
    if found.broken_runs:
        sentence = f"{counted(len(found.broken_runs), 'run record')} of {found.run_count:,} cannot be read"
        path = f".sync/runs/{found.broken_runs[0]}.json"
        return Fact("bad", "journal", sentence, "Look at the file.", "verify", "dsh-memory verify", path)
    return Fact("good", "journal", f"{counted(found.run_count, 'run')} readable")


def _payload(found: Circumstances) -> Fact:
    if found.dirty_paths:
        sentence = f"{counted(len(found.dirty_paths), 'file')} edited and not saved"
        return Fact("attention", "payload", sentence, "Save the edits.", "save", "dsh-memory save")
    return Fact("good", "payload", "clean")


def _lock(found: Circumstances) -> Fact:
    lock = found.lock
    if lock is None:
        return Fact("good", "lock", "free")
    holder = f"{lock.operation or 'an unknown operation'}{f', process {lock.pid}' if lock.pid else ''}"
    if lock.active:
        return Fact("attention", "lock", f"held by {holder}", "Wait until it is done.", "wait")
    return Fact("good", "lock", f"left by {holder}, which is gone; the next writer takes it over")


def _previews(found: Circumstances) -> Fact:
    if found.broken_previews:
        sentence = f"{counted(len(found.broken_previews), 'preview')} cannot be read"
        return Fact("attention", "previews", sentence, "Discard what cannot be read.", "open-previews")
    if found.previews:
        return Fact("good", "previews", f"{len(found.previews):,} pending")
    return Fact("good", "previews", "none pending")


def _usage(found: Circumstances) -> Fact:
    if found.usage_failure is not None:
        sentence = "the usage counts cannot be read"
        return Fact(
            "attention", "usage", sentence, found.usage_failure.hint, "verify", "dsh-memory verify --repair"
        )
    return Fact("good", "usage", "counts readable")


def _settings(found: Circumstances) -> Fact:
    if found.settings.failure is not None:
        return Fact("bad", "settings", found.settings.failure.sentence, found.settings.failure.hint)
    if not found.settings.enabled:
        sentence = "memory is switched off: no agent sees it, no sync runs"
        return Fact("attention", "settings", sentence, "Switch it on.", "enable", "dsh-memory settings on")
    return Fact("good", "settings", "memory is switched on")


def _ids(found: Circumstances) -> list[Fact]:
    return [
        Fact("attention", "ids", f"{count} records share the id {record_id}", "Give each one its own.")
        for record_id, count in found.duplicate_ids
    ]


def _legacy(found: Circumstances) -> list[Fact]:
    if not found.legacy_count:
        return []
    sentence = f"{counted(found.legacy_count, 'record')} without front matter"
    return [Fact("attention", "legacy", sentence, "Migrate them.", "migrate", "dsh-memory migrate")]


def _previews_wait(found: Circumstances) -> str:
    first = min(preview.expires_at for preview in found.previews)
    days = (first - found.now).days
    when = f"in {counted(days, 'day')}" if days else "today"
    if len(found.previews) == 1:
        return f"1 preview waits, it expires {when}"
    return f"{len(found.previews):,} previews wait, the first expires {when}"
