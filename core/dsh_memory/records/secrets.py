"""One scanner for secrets in text: for transcripts, which are masked, and for changes, which are refused.

Source of the rules: `spec` repository, Redaction of transcripts. Pure and linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Final, NamedTuple

from dsh_memory.records.secret_shapes import SHAPES, Shape

_PEM_HEAD: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_TAIL: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_LINES: Final = re.compile(r"(?:(?:\s|\\[nr]){0,8}[A-Za-z0-9+/=]{16,}+)*+")
_LONGEST_PEM: Final = 64 * 1024
_ENOUGH: Final = 100
_FIELD_NAME: Final = re.compile(
    r"(?:^|_)(?:(?:access|refresh|id|auth|session|bearer|api|csrf|xsrf)?_?token|(?:client|app|shared|api)?_?secrets?"
    r"|(?:x_)?(?:api|access|account|private|secret|signing|encryption|auth|master|secret_access)_?keys?"
    r"|(?:proxy_)?authorization|passwords?|passwd|passphrase|passcode|pwd|credentials?|set_cookie|cookie)$"
)
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_WORD: Final = re.compile(r"[^a-z0-9]+")
_ASCII_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_ALLOWED: Final = re.compile(r"sha256:([0-9a-f]{64})")


class Secret(NamedTuple):
    """Where a secret stands in a text (character offsets) and of what kind it is."""

    start: int
    stop: int
    kind: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret in a changed file: never the secret itself.

    `line` is 1-based; `digest` is the sha256 of the lines it stands on, the form in which the allow-list
    names them.
    """

    path: str
    line: int
    kind: str
    digest: str


def find_secrets(text: str, limit: int | None = None) -> list[Secret]:
    """The secrets in a text, in order, without overlaps; of each kind of pattern the first `limit`."""
    folded = _fold(text)
    found = list(islice(_private_keys(text), limit))
    for shape in SHAPES:
        if any(marker in folded for marker in shape.markers):
            found.extend(islice(_matches(shape, text, folded), limit))
    found.sort(key=lambda secret: (secret.start, secret.kind == "named-secret", -secret.stop))
    separate: list[Secret] = []
    for secret in found:
        if separate and secret.start < separate[-1].stop:
            before = separate[-1]
            separate[-1] = before._replace(stop=max(before.stop, secret.stop))
        else:
            separate.append(secret)
    return separate


def scan(path: str, data: bytes, allowed: frozenset[str] = frozenset()) -> list[Finding]:
    """The secrets in a changed file that the allow-list does not name; of very many the first are enough."""
    text = data.decode(errors="replace")
    findings: list[Finding] = []
    line, counted = 1, 0
    lines_start, lines_stop, digest = -1, -1, ""
    for secret in find_secrets(text, _ENOUGH + len(allowed)):
        line += text.count("\n", counted, secret.start)
        counted = secret.start
        if not lines_start <= secret.start <= secret.stop <= lines_stop:
            lines_start, lines_stop = _lines_of(text, secret)
            digest = sha256(text[lines_start:lines_stop].strip().encode()).hexdigest()
        if digest not in allowed:  # guard: secret-scan
            findings.append(Finding(path, line, secret.kind, digest))
    return findings


def parse_allow_list(data: bytes) -> frozenset[str]:
    """The digests of an allow-list: one `sha256:<hex>` a line, whatever follows it is a comment."""
    return frozenset(
        match[1]
        for line in data.decode(errors="replace").splitlines()
        if (match := _ALLOWED.match(line.strip()))
    )


def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret: `api_key`, `clientSecret`, `X-API-Key`, `DB_PASSWORD`."""
    if len(name) > 200:
        return False
    return _FIELD_NAME.search(_NOT_WORD.sub("_", _CAMEL.sub("_", name).lower()).strip("_")) is not None


def _fold(text: str) -> str:
    """The text in small letters, each at its old place."""
    folded = text.lower()
    return folded if len(folded) == len(text) else text.translate(_ASCII_LOWER)


def _matches(shape: Shape, text: str, folded: str) -> Iterator[Secret]:
    for match in shape.pattern.finditer(folded if shape.folded else text):
        start, stop = match.span("value")
        if shape.accept(match, text[start:stop]):
            yield Secret(start, stop, shape.kind)


def _private_keys(text: str) -> Iterator[Secret]:
    position, tail_start, tail_stop = 0, -1, -1
    while (head := _PEM_HEAD.search(text, position)) is not None:
        if tail_start < head.end():
            tail = _PEM_TAIL.search(text, head.end())
            # Without a tail after this head there is none after a later one: look once.
            tail_start, tail_stop = tail.span() if tail else (len(text) + _LONGEST_PEM, 0)
        if tail_start - head.end() <= _LONGEST_PEM:
            stop = tail_stop
        else:
            lines = _PEM_LINES.match(text, head.end())
            stop = lines.end() if lines else head.end()
        yield Secret(head.start(), stop, "private-key")
        position = stop


def _lines_of(text: str, secret: Secret) -> tuple[int, int]:
    stop = text.find("\n", secret.stop)
    return text.rfind("\n", 0, secret.start) + 1, len(text) if stop < 0 else stop
