"""Masking secrets and home folders in what a transcript shows (`spec`: repository, Redaction of
transcripts).
"""

from __future__ import annotations

import re
from typing import Final

from dsh_memory.records.secrets import find_secrets, is_secret_name

REDACTED: Final = "[REDACTED]"
_DEEPEST: Final = 64
_HOME: Final = re.compile(
    r"(?<![\w.~$}-])(?:/mnt/[a-z])?/(?:Users|home)/[^\s/\\\"'`:;,()<>|*?]{1,64}"
    r"|(?<![\w.~$}-])/root(?![\w.-])"
    r"|(?<![A-Za-z0-9])[A-Za-z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/)[^\s/\\\"'`:;,()<>|*?]{1,64}"
)


def redact_text(text: str) -> str:
    """The text with `[REDACTED]` for every secret and `$HOME` for every home folder."""
    pieces: list[str] = []
    position = 0
    for secret in find_secrets(text):
        pieces += (text[position : secret.start], REDACTED)
        position = secret.stop
    pieces.append(text[position:])
    return _HOME.sub("$HOME", "".join(pieces))


def redact(value: object, depth: int = 0) -> object:
    """A JSON value with its texts and keys redacted, and the whole value of every field named like a
    secret.
    """
    if isinstance(value, str):
        return redact_text(value)
    if depth >= _DEEPEST and isinstance(value, (dict, list)):
        return REDACTED
    if isinstance(value, list):
        return [redact(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {
            redact_text(str(key)): REDACTED
            if is_secret_name(str(key)) and _is_filled(item)
            else redact(item, depth + 1)
            for key, item in value.items()
        }
    return value


def _is_filled(value: object) -> bool:
    return value not in (None, True, False, "", [], {}) or (
        isinstance(value, int) and not isinstance(value, bool)
    )
