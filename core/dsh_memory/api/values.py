"""A memory as the API knows it, and what a caller may see of the whole."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from dsh_memory.environment import parse_instant
from dsh_memory.tokens import Token

MEMORY_TYPES: Final = ("auto", "semantic", "episodic", "procedural", "working", "identity")
STATUSES: Final = ("active", "archived", "superseded", "deleted", "redacted")
KINDS: Final = ("memory", "reminder", "decision", "event", "state", "snapshot")
#: What no search, list or context of any door shows.
GONE: Final = ("deleted", "redacted")


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory: a record file seen through the API.

    `path` is the client's own, `file` the record's place in the repository. Instants are ISO 8601 texts in
    UTC; a record that no API client wrote knows days only. `api_written` tells the two apart.
    """

    id: str
    content: str
    path: str
    file: str = ""
    kind: str = "memory"
    bucket: str = "public"
    scope: str | None = None
    team_id: str | None = None
    memory_type: str = "semantic"
    status: str = "active"
    version: int = 1
    semantic_key: str | None = None
    importance: float | None = None
    confidence: float | None = None
    created_at: str | None = None
    updated_at: str | None = None
    expires_at: str | None = None
    source: str | None = None
    logic_path: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    provenance: Mapping[str, object] = field(default_factory=dict)
    supersedes: str | None = None
    superseded_by: str | None = None
    conflicts_with: str | None = None
    embedding_provider: str | None = None
    embedding_model: str | None = None
    embedding_dimension: int | None = None
    deleted_at: str | None = None
    delete_reason: str | None = None
    agent: str | None = None
    agent_instance: str | None = None
    door: str | None = None
    tags: tuple[str, ...] = ()
    source_rollouts: tuple[str, ...] = ()
    api_written: bool = True

    @property
    def is_gone(self) -> bool:
        """Whether it was deleted or redacted, so that no search may show it."""
        return self.status in GONE

    def is_expired(self, now: datetime) -> bool:
        """Whether its validity has ended; a date-only expiry ends at 00:00 UTC of that day."""
        if self.expires_at is None:
            return False
        text = f"{self.expires_at}T00:00:00Z" if len(self.expires_at) == 10 else self.expires_at
        instant = parse_instant(text)
        return instant is not None and instant <= now


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the token (None for an open read on loopback, or the local user over stdio), and its own
    words about itself, which are provenance and never give a right.
    """

    token: Token | None = None
    agent: str | None = None
    agent_instance: str | None = None
    door: str = "rest"

    @property
    def key(self) -> str:
        """What rate limits and idempotency keys are kept by."""
        return "local" if self.token is None else self.token.id

    def may_see(self, memory: Memory) -> bool:
        """Whether the token's restrictions let this memory through; each one given must hold."""
        token = self.token
        if token is None:
            return True
        # guard: token-restrictions
        return (
            (not token.buckets or memory.bucket in token.buckets)
            and (not token.scopes or memory.scope in token.scopes)
            and (
                not token.path_prefixes or any(_below(memory.path, prefix) for prefix in token.path_prefixes)
            )
            and (token.team is None or memory.team_id == token.team)
        )


@dataclass(frozen=True, slots=True)
class Filter:
    """What a request narrows to. `%` matches anything; in `path` it may stand anywhere, `_` is literal."""

    path: str = "%"
    bucket: str = "%"
    scope: str | None = None
    team_id: str | None = None
    memory_type: str = "%"
    status: str = "active"
    kinds: tuple[str, ...] | None = None

    def matcher(self) -> Matcher:
        """The filter made ready for many memories."""
        return Matcher(self, None if _matches_all(self.path) else _path_pattern(self.path))


@dataclass(frozen=True, slots=True)
class Matcher:
    """A filter with its path pattern compiled."""

    wanted: Filter
    path: re.Pattern[str] | None

    def __call__(self, memory: Memory) -> bool:
        wanted = self.wanted
        return (
            (_matches_all(wanted.status) or memory.status == wanted.status)
            and (_matches_all(wanted.bucket) or memory.bucket == wanted.bucket)
            and (wanted.scope is None or _matches_all(wanted.scope) or memory.scope == wanted.scope)
            and (wanted.team_id is None or _matches_all(wanted.team_id) or memory.team_id == wanted.team_id)
            and (wanted.memory_type in ("%", "", "auto") or memory.memory_type == wanted.memory_type)
            and (wanted.kinds is None or memory.kind in wanted.kinds)
            and (self.path is None or self.path.fullmatch(canonical(memory.path)) is not None)
        )


def canonical(text: str) -> str:
    """A text in the one form that its twins (`é` as one letter or as two) share; for comparing, never for keeping."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _matches_all(text: str) -> bool:
    return text in ("%", "")


def _path_pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in re.split("%+", canonical(text))), re.DOTALL)


def _below(path: str, prefix: str) -> bool:
    path, prefix = canonical(path), canonical(prefix)
    # A prefix names a folder: `projects/a` must not open `projects/ab`.
    return path == prefix or path.startswith(prefix if prefix.endswith("/") else f"{prefix}/")
