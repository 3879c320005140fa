"""Access tokens of the HTTP doors: hashed at rest, compared in constant time, shown once.

A token reads `dshm_<id>_<secret>`; the store keeps the id and the SHA-256 of the whole. The secret has 256
random bits, so a slow hash would protect nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from dsh_memory.environment import Environment, format_instant, parse_instant, utc_now

#: What a token may be good for. `memory:write` may also restore and delete for good, as the memory API says.
RIGHTS = ("memory:read", "memory:write", "memory:restore", "memory:delete")

#: What a token looks like anywhere in a text; logs replace it.
TOKEN_PATTERN = re.compile(r"dshm_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")

_MAX_STORE_BYTES = 4 * 1024 * 1024
_UNKNOWN_DIGEST = hashlib.sha256(b"").hexdigest()


class TokenStoreError(Exception):
    """The token store cannot be used; nobody is let in until it can."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token as stored; empty restrictions are none. Instants are ISO 8601 text in UTC."""

    id: str
    name: str
    rights: tuple[str, ...]
    created_at: str
    digest: str = field(repr=False)
    expires_at: str | None = None
    revoked_at: str | None = None
    buckets: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    path_prefixes: tuple[str, ...] = ()
    team: str | None = None
    temporary_agent: bool = False

    @property
    def restricted(self) -> bool:
        """Whether it reaches a part of the memory only, so that no door without filters may take it."""
        return bool(self.buckets or self.scopes or self.path_prefixes or self.team)

    def allows(self, right: str) -> bool:
        """Whether the token is good for one of `RIGHTS`."""
        implied = right in ("memory:restore", "memory:delete") and "memory:write" in self.rights
        return right in self.rights or implied

    def active(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired; an expiry that cannot be read counts as passed."""
        if self.revoked_at is not None:
            return False
        if self.expires_at is None:
            return True
        expires = parse_instant(self.expires_at)
        return expires is not None and now < expires


class TokenStore:
    """The tokens of one memory root, in `tokens.json` (0600) of its state folder.

    Every check sees the file of now: a token revoked in another process is refused at once.
    """

    def __init__(self, folder: str, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._folder = folder
        self._path = os.path.join(folder, "tokens.json")
        self._clock = clock
        self._cached: tuple[tuple[int, int, int], tuple[Token, ...]] | None = None

    @classmethod
    def of(cls, environment: Environment, *, clock: Callable[[], datetime] = utc_now) -> TokenStore:
        """The store of an environment's memory root."""
        return cls(environment.state_dir, clock=clock)

    def tokens(self) -> tuple[Token, ...]:
        """All tokens, revoked and expired ones too, in the order made; raises TokenStoreError."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise TokenStoreError(f"{self._path}: {error.strerror}") from error
        with open(descriptor, "rb") as stream:
            found = os.fstat(descriptor)
            # guard: token-store-private
            if (
                not stat.S_ISREG(found.st_mode)
                or found.st_uid != os.geteuid()
                or stat.S_IMODE(found.st_mode) & 0o077
            ):
                raise TokenStoreError(f"{self._path}: must be a plain file of this user with mode 0600")
            state = (found.st_ino, found.st_mtime_ns, found.st_size)
            if self._cached is None or self._cached[0] != state:
                self._cached = (state, _parse(self._path, stream.read(_MAX_STORE_BYTES + 1)))
        return self._cached[1]

    def find(self, presented: str) -> Token | None:
        """The active token that a client presented; None where it is unknown, revoked or expired."""
        match = TOKEN_PATTERN.fullmatch(presented)
        if match is None:
            return None
        token = next((token for token in self.tokens() if token.id == match[1]), None)
        digest = _UNKNOWN_DIGEST if token is None else token.digest
        # guard: token-constant-time
        same = hmac.compare_digest(_digest(presented), digest)
        return token if same and token is not None and token.active(self._clock()) else None

    def create(
        self,
        name: str,
        rights: Sequence[str],
        *,
        expires_at: datetime | None = None,
        buckets: Sequence[str] = (),
        scopes: Sequence[str] = (),
        path_prefixes: Sequence[str] = (),
        team: str | None = None,
        temporary_agent: bool = False,
    ) -> tuple[Token, str]:
        """Make a token: what is stored, and the text shown this once; ValueError for an unknown right."""
        unknown = [right for right in rights if right not in RIGHTS]
        if unknown or not rights:
            raise ValueError(f"a right is one of: {', '.join(RIGHTS)}")
        token_id = secrets.token_hex(6)
        presented = f"dshm_{token_id}_{secrets.token_urlsafe(32)}"
        token = Token(
            id=token_id,
            name=name,
            rights=tuple(right for right in RIGHTS if right in rights),
            created_at=format_instant(self._clock()),
            digest=_digest(presented),
            expires_at=None if expires_at is None else format_instant(expires_at),
            buckets=tuple(buckets),
            scopes=tuple(scopes),
            path_prefixes=tuple(path_prefixes),
            team=team,
            temporary_agent=temporary_agent,
        )
        with self._writing():
            self._write((*self.tokens(), token))
        return token, presented

    def revoke(self, token_id: str) -> Token | None:
        """Refuse a token from now on; None where none has this id. The first instant of revoking stays."""
        with self._writing():
            tokens = self.tokens()
            token = next((token for token in tokens if token.id == token_id), None)
            if token is None or token.revoked_at is not None:
                return token
            revoked = replace(token, revoked_at=format_instant(self._clock()))
            self._write(tuple(revoked if each is token else each for each in tokens))
            return revoked

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            lock = os.open(os.path.join(self._folder, "tokens.lock"), flags, 0o600)
        except OSError as error:
            raise TokenStoreError(f"{self._folder}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _write(self, tokens: tuple[Token, ...]) -> None:
        content = json.dumps({"schema_version": 1, "tokens": [asdict(token) for token in tokens]}, indent=1)
        temporary = f"{self._path}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with open(descriptor, "w", encoding="utf-8") as stream:
                    stream.write(content + "\n")
                    stream.flush()
                    os.fsync(descriptor)
                os.replace(temporary, self._path)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError as error:
            raise TokenStoreError(f"{self._path}: {error.strerror}") from error


def _digest(presented: str) -> str:
    return hashlib.sha256(presented.encode()).hexdigest()


def _parse(path: str, content: bytes) -> tuple[Token, ...]:
    try:
        document = json.loads(content)
        return tuple(_token(entry) for entry in document["tokens"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise TokenStoreError(f"{path}: is not a token store") from error


def _token(entry: dict[str, Any]) -> Token:
    values = dict(entry)
    for key in ("rights", "buckets", "scopes", "path_prefixes"):
        if not isinstance(values[key], list):
            raise TypeError(f"{key} is no list")
        values[key] = tuple(values[key])
    # guard: token-unknown-restriction (a key of a newer version raises here; left out, it would widen)
    return Token(**values)
