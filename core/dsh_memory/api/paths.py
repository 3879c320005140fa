"""From a client's path, which is any text, to a safe folder of the repository."""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256
from typing import Final
from urllib.parse import unquote

_SEPARATORS: Final = re.compile(r"[/\\]")
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_UNSAFE: Final = re.compile(r"[^a-z0-9._-]+")
_DEVICES: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
_RESERVED: Final = ("..", ".git", ".sync")
_MAX_SEGMENTS: Final = 8
_MAX_SEGMENT: Final = 48


def path_fault(path: str) -> str | None:
    """Why a client's path is refused, or None; percent-escapes are looked through as well."""
    for form in {path, unquote(path)}:
        # guard: client-path
        if "\0" in form:
            return "a path may not hold NUL"
        if form.startswith(("/", "\\")) or _DRIVE.match(form):
            return "a path must be relative"
        for segment in _SEPARATORS.split(form):
            name = unicodedata.normalize("NFKC", segment).strip(" ").lower()
            if name in _RESERVED or name.rstrip(".") in _RESERVED:
                return 'a path may not hold "..", ".git" or ".sync"'
            if _DEVICES.fullmatch(name):
                return "a path may not hold the name of a device"
    return None


def safe_folder(path: str) -> str:
    """The folder part of a record's file for a client's path: ASCII, without a hidden or reserved name."""
    segments = [_segment(text) for text in _SEPARATORS.split(path) if text.strip()]
    return "/".join(segments[:_MAX_SEGMENTS]) or "memories"


def file_name(memory_id: str) -> str:
    """The file name of a memory's record; the id's one slash is no folder here."""
    return memory_id.replace("/", "--") + ".md"


def _segment(text: str) -> str:
    folded = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    slug = _UNSAFE.sub("-", folded)[:_MAX_SEGMENT].strip(".-")
    # A folder must not take the name that a record file beside it may have.
    slug = re.sub(r"\.md$", "-md", slug)
    return slug or "p-" + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
