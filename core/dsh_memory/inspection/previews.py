"""One pending preview: the files it would change, both sides of each, and whether it can be applied now."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from dsh_memory.errors import PreviewFailure
from dsh_memory.inspection.changes import change_of, diff_of
from dsh_memory.inspection.facts import counted
from dsh_memory.inspection.looking import busy, ids_elsewhere, lock_fact, obstacle_of, preview_row, refusal_of
from dsh_memory.inspection.reviewing import MOST_BYTES, StagedFile, review
from dsh_memory.inspection.values import FileDiff, PreviewView, Refusal, ReviewWarning
from dsh_memory.inspection.visiting import Visit
from dsh_memory.repository.layout import Reader
from dsh_memory.repository.previews import Preview, Staging, find
from dsh_memory.repository.view import read_head, read_records


def preview_view(visit: Visit, preview_id: str) -> PreviewView:
    """One pending preview, whole; PreviewFailure when it is missing, expired or unreadable."""
    preview = find(visit.repository.root, preview_id, visit.now, visit.memo.previews)
    with Staging(visit.repository.root, preview_id) as staging:
        foreign = staging.foreign
        files = list(_staged_files(visit, preview, staging))
    warnings = (
        *_about_staging(foreign),
        *_about_live(_changed_since(visit, preview)),
        *review(files, ids_elsewhere(visit, preview.changed_paths)),
    )
    return PreviewView(
        row=preview_row(preview),
        files=tuple(change_of(file.path, file.old, file.new) for file in files),
        warnings=warnings,
        refusal=_refusal(visit, warnings),
    )


def preview_diff(visit: Visit, preview_id: str, path: str) -> FileDiff:
    """Both sides of one file: the live one, and the staged one in its place."""
    preview = find(visit.repository.root, preview_id, visit.now, visit.memo.previews)
    if path not in preview.changed_paths:
        raise PreviewFailure(
            "preview-not-found", "That preview does not change this file.", detail="file-not-changed"
        )
    with Staging(visit.repository.root, preview_id) as staging:
        (file,) = _staged_files(visit, preview, staging, only=path)
    return diff_of(path, file.old, file.new)


def _staged_files(
    visit: Visit, preview: Preview, staging: Staging, only: str | None = None
) -> Iterator[StagedFile]:
    paths = preview.changed_paths if only is None else (only,)
    with Reader(visit.repository.root) as live:
        for path in paths:
            try:
                old = live.read(path, MOST_BYTES)
            except FileNotFoundError:
                old = None
            new = staging.read(path, MOST_BYTES) if path in staging.files else None
            yield StagedFile(path, old, new)


def _changed_since(visit: Visit, preview: Preview) -> list[str]:
    """The live payload files that are not what the preview was made from, each read once at most."""
    live = visit.repository.root.scan().files
    expected = preview.manifest.entries
    found = read_records(visit.repository, visit.now, "all", visit.memo.records)
    known = {record.path: record.sha256 for record in found.records}
    changed = sorted(live.keys() ^ expected.keys())
    with Reader(visit.repository.root) as reader:
        for path in sorted(live.keys() & expected.keys()):
            if live[path].size != expected[path].size:
                changed.append(path)
                continue
            digest = known.get(path) or sha256(reader.read(path, live[path].size)).hexdigest()
            if digest != expected[path].sha256:
                changed.append(path)
    return sorted(changed)


def _about_staging(foreign: tuple[str, ...]) -> list[ReviewWarning]:
    if not foreign:
        return []
    sentence = f"holds {counted(len(foreign), 'name')} that belong to no memory"
    return [ReviewWarning("staging-invalid", sentence, None, True)]


def _about_live(changed: list[str]) -> list[ReviewWarning]:
    if not changed:
        return []
    sentence = f"memory changed since it was made: {counted(len(changed), 'file')}"
    return [ReviewWarning("live-memory-changed", sentence, None, True)]


def _refusal(visit: Visit, warnings: tuple[ReviewWarning, ...]) -> Refusal | None:
    blocking = [warning for warning in warnings if warning.blocking]
    for warning in blocking:
        if warning.kind == "live-memory-changed":
            sentence = "Memory changed since the preview was made, so it can only be discarded."
            return refusal_of(PreviewFailure("live-memory-changed", sentence))
    if blocking:
        sentence = f"It would be refused: {blocking[0].sentence}."
        return refusal_of(PreviewFailure("preview-apply-failed", sentence, detail=blocking[0].kind))
    obstacle = obstacle_of(visit, read_head(visit.repository))
    if obstacle is not None:
        return refusal_of(PreviewFailure("preview-apply-failed", obstacle.sentence, detail=obstacle.detail))
    return busy(lock_fact(visit))
