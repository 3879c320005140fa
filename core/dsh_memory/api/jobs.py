"""Requests to write, worked out one after the other on the memories of now: drafts, answers and their replays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dsh_memory.api.draft import Batch, Draft, Stale
from dsh_memory.api.failures import conflict
from dsh_memory.api.state import FirstAnswer, State
from dsh_memory.api.values import Caller
from dsh_memory.api.view import FreshView
from dsh_memory.environment import Environment
from dsh_memory.repository.allowed_secrets import read_allowed_secrets
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.record_commits import FileWrite

Answer = dict[str, Any]
Work = Callable[[Draft], Answer]


@dataclass(frozen=True, slots=True)
class Replay:
    """A client's idempotency key and what it stands for: method, path and body."""

    key: str
    fingerprint: str


@dataclass(slots=True, eq=False)
class Job:
    """One request, and what came of it; a `coalesced` one need not be a commit of its own."""

    work: Work
    caller: Caller
    operation: str
    replay: Replay | None
    coalesced: bool
    done: bool = False
    answer: Answer | None = None
    error: BaseException | None = None


@dataclass(slots=True)
class Prepared:
    """What a batch of requests wants to write, and the idempotency keys whose answers depend on it."""

    writes: list[FileWrite] = field(default_factory=list)
    drafts: list[tuple[Job, Draft]] = field(default_factory=list)
    expected: list[tuple[str, str]] = field(default_factory=list)


class Preparation:
    """Works requests out over one view."""

    def __init__(
        self, environment: Environment, clock: Callable[[], datetime], view: FreshView, state: State
    ) -> None:
        self._environment = environment
        self._clock = clock
        self._view = view
        self._state = state

    def of(self, repo: Repository, jobs: list[Job]) -> Prepared:
        """The writes of all jobs that have not failed; every other one has its answer or its error."""
        self._view.freshen_for_writing(repo)
        try:
            return self._prepare(repo, jobs)
        except Stale:
            self._view.refresh(repo)
            return self._prepare(repo, jobs)

    def _prepare(self, repo: Repository, jobs: list[Job]) -> Prepared:
        prepared = Prepared()
        now = self._clock()
        batch = Batch(
            self._view.catalogue,
            repo.root,
            read_allowed_secrets(self._environment),
            now,
            {file: each.data for file, each in self._view.pending.items()},
            {file: each.record for file, each in self._view.pending.items()},
        )
        answers: dict[tuple[str, str], FirstAnswer] = {}
        for job in jobs:
            draft = Draft(batch, job.caller, job.operation, None if job.replay is None else job.replay.key)
            job.answer, job.error = None, None
            try:
                job.answer = self._replayed(job, answers, now)
                if job.answer is not None:
                    continue
                job.answer = job.work(draft)
            except Stale:
                raise
            except Exception as error:
                # One request's fault is its own; the others of the batch go on.
                job.error = error
                continue
            if draft.files:
                prepared.writes.append(FileWrite(draft.message(), draft.files))
                prepared.drafts.append((job, draft))
                draft.merge()
            if job.replay is not None:
                key = (job.caller.key, job.replay.key)
                answers[key] = self._expect(key, job.replay, job.answer, draft, now)
                if draft.files:
                    prepared.expected.append(key)
        return prepared

    def _replayed(
        self, job: Job, answers: dict[tuple[str, str], FirstAnswer], now: datetime
    ) -> Answer | None:
        if job.replay is None:
            return None
        key = (job.caller.key, job.replay.key)
        first = answers.get(key) or self._state.first_answer(*key, now)
        if first is None:
            return None
        if not first.settled and key not in answers and not self._was_committed(first):
            # The process that expected this commit died before it; the request has to be carried out.
            return None
        check_same(first, job.replay)
        return first.answer

    def _was_committed(self, first: FirstAnswer) -> bool:
        return any(memory.version >= first.version for memory in self._view.catalogue.of_id(first.memory_id))

    def _expect(
        self, key: tuple[str, str], replay: Replay, answer: Answer, draft: Draft, now: datetime
    ) -> FirstAnswer:
        saved = draft.saved
        memory_id = str(answer.get("id", "")) if saved is None else saved.id
        version = 1 if saved is None else saved.version
        first = FirstAnswer(replay.fingerprint, answer, memory_id, version, not draft.files)
        self._state.expect(*key, first, now)
        return first


def check_same(first: FirstAnswer, replay: Replay) -> None:
    """Raises conflict where the key of a replay stood for another request."""
    # guard: one-key-one-request
    if first.fingerprint != replay.fingerprint:
        raise conflict("This idempotency key was used for another request.")
