"""The watermark `.last-sync`: up to when the sessions have been consolidated, in whole Unix seconds.

Its content counts; its mtime says the same for the other program that shares the root, which knows nothing
else (`spec`: repository, Lock, active run, journal).
"""

from __future__ import annotations

import os
import re
from typing import Final

from dsh_memory.repository.layout import Root

WATERMARK: Final = ".last-sync"
_FORM: Final = re.compile(rb"\s*([0-9]{1,12})(?:\.[0-9]{0,9})?\s*")
_LARGEST: Final = 64


class WatermarkInvalid(ValueError):
    """A watermark that is no number."""


def read_watermark(root: Root) -> int | None:
    """The watermark; None where it is missing or empty, as before the first sync.

    Raises WatermarkInvalid, UnsafeLayout for a link, OSError.
    """
    try:
        data = root.read(WATERMARK, _LARGEST)
    except FileNotFoundError:
        return None
    if not data.strip():
        return None
    match = _FORM.fullmatch(data)
    if match is None:
        raise WatermarkInvalid("the watermark .last-sync is no number")
    return int(match[1])


def watermark_bytes(seconds: int) -> bytes:
    """The file's content."""
    return b"%d\n" % seconds


def set_mtime(root: Root) -> None:
    """Gives the file the modification time that its content names."""
    seconds = read_watermark(root)
    if seconds is not None:
        os.utime(WATERMARK, (seconds, seconds), dir_fd=root.descriptor, follow_symlinks=False)
