"""Payload states as values: what one holds over another, and what differs between two."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256

from dsh_memory.repository.objects import Entry
from dsh_memory.repository.plan import FileChange

Payload = Mapping[str, Entry]


def overlaid(payload: Payload, changes: Mapping[str, Entry | None]) -> dict[str, Entry]:
    """The payload with the changes made in it; None deletes."""
    merged = dict(payload)
    for path, entry in changes.items():
        if entry is None:
            merged.pop(path, None)
        else:
            merged[path] = entry
    return merged


def difference(before: Payload, after: Payload) -> dict[str, Entry | None]:
    """What makes `after` of `before`, in the order of paths; None deletes."""
    changed = [path for path, entry in before.items() if after.get(path) != entry]
    changed += after.keys() - before.keys()
    return {path: after.get(path) for path in sorted(changed)}


def file_changes(before: Payload, after: Payload) -> tuple[FileChange, ...]:
    """The same with both sides of each path."""
    return tuple(
        FileChange(path, before.get(path), entry) for path, entry in difference(before, after).items()
    )


def digest_of(files: Mapping[str, bytes]) -> str:
    """The journal's `staging_digest`: sha256 over the sorted lines `path NUL sha256`."""
    lines = sorted(
        os.fsencode(path) + b"\0" + sha256(data).hexdigest().encode() for path, data in files.items()
    )
    return sha256(b"\n".join(lines)).hexdigest()
