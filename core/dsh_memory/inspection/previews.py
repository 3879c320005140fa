"""One pending preview: the files it would change, both sides of each, and whether it can be applied now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

from dsh_memory.errors import PreviewFailure
from dsh_memory.inspection.changes import change_of, diff_of
from dsh_memory.inspection.looking import busy, lock_fact, obstacle_of, preview_row, refusal_of
from dsh_memory.inspection.reviewing import MOST_BYTES, review_of
from dsh_memory.inspection.values import FileDiff, PreviewView, Refusal, ReviewWarning
from dsh_memory.inspection.visiting import Visit
from dsh_memory.inspection.wording import counted
from dsh_memory.repository.changes import StagedFile
from dsh_memory.repository.layout import Reader
from dsh_memory.repository.previews import README, Preview, Staging, find
from dsh_memory.repository.view import PayloadView, payload_view, read_records


def preview_view(visit: Visit, preview_id: str) -> PreviewView:
    """One pending preview, whole; PreviewFailure when it is missing, expired or unreadable."""
    preview = find(visit.repository.root, preview_id, visit.now, visit.memo.previews)
    payload = payload_view(visit.repository, visit.memo.records)
    with Staging(visit.repository.root, preview_id) as staging:
        frame = _about_frame(visit, staging)
        files = list(_staged_files(visit, preview.changed_paths, staging))
    warnings = (*_about_live(visit, preview, payload), *frame, *review_of(visit, files, limited=True))
    return PreviewView(
        row=preview_row(preview),
        files=tuple(change_of(file.path, file.old, file.new) for file in files),
        warnings=warnings,
        refusal=_refusal(visit, preview, payload, warnings),
    )


def preview_diff(visit: Visit, preview_id: str, path: str) -> FileDiff:
    """Both sides of one file: the live one, and the staged one in its place."""
    preview = find(visit.repository.root, preview_id, visit.now, visit.memo.previews)
    if path not in preview.changed_paths:
        sentence = "That preview does not change this file."
        raise PreviewFailure("preview-not-found", sentence, detail="file-not-changed")
    with Staging(visit.repository.root, preview_id) as staging:
        (file,) = _staged_files(visit, [path], staging)
    return diff_of(path, file.old, file.new)


def _staged_files(visit: Visit, paths: Sequence[str], staging: Staging) -> Iterator[StagedFile]:
    with Reader(visit.repository.root) as live:
        for path in paths:
            new = staging.read(path, MOST_BYTES) if path in staging.files else None
            yield StagedFile(path, _read(live, path), new)


def _read(reader: Reader, path: str) -> bytes | None:
    try:
        return reader.read(path, MOST_BYTES)
    except FileNotFoundError:
        return None


def _about_frame(visit: Visit, staging: Staging) -> list[ReviewWarning]:
    """Outside the payload a staging may hold README.md alone, unchanged."""
    found = []
    if staging.foreign:
        sentence = f"holds {counted(len(staging.foreign), 'name')} that belong to no memory"
        found.append(ReviewWarning("staging-invalid", sentence, staging.foreign[0], True))
    try:
        staged = staging.read(README, MOST_BYTES)
    except FileNotFoundError:
        staged = None
    with Reader(visit.repository.root) as live:
        if staged != _read(live, README):
            found.append(ReviewWarning("staging-invalid", "changes README.md", README, True))
    return found


def _about_live(visit: Visit, preview: Preview, payload: PayloadView) -> list[ReviewWarning]:
    """A preview fits only the payload it was made from, and that with nothing unsaved in it."""
    changed = _changed_since(visit, preview, payload)
    found = []
    if changed:
        sentence = f"memory changed since it was made: {counted(changed, 'file')}"
        found.append(ReviewWarning("live-memory-changed", sentence, None, True))
    if payload.dirty:
        sentence = f"{counted(len(payload.dirty), 'file')} edited outside and not saved"
        found.append(ReviewWarning("live-memory-changed", sentence, None, True))
    return found


def _changed_since(visit: Visit, preview: Preview, payload: PayloadView) -> int:
    """How many live files are not what the preview was made from; each is read once at most."""
    expected = preview.manifest.entries
    found = read_records(visit.repository, visit.now, "all", visit.memo.records)
    known = {record.path: record.sha256 for record in found.records}
    changed = len(payload.files.keys() ^ expected.keys())
    with Reader(visit.repository.root) as reader:
        for path in payload.files.keys() & expected.keys():
            live, entry = payload.files[path], expected[path]
            if live.size != entry.size or entry.executable not in (None, live.executable):
                changed += 1
                continue
            digest = known.get(path)
            if digest is None:
                digest = sha256(reader.read(path, live.size)).hexdigest()
            changed += digest != entry.sha256
    return changed


def _refusal(
    visit: Visit, preview: Preview, payload: PayloadView, warnings: Sequence[ReviewWarning]
) -> Refusal | None:
    obstacle = obstacle_of(visit, payload.head)
    if obstacle is not None:
        return _not_applied(obstacle.detail, obstacle.sentence)
    earlier = visit.journal.find(preview.preview_id)
    if earlier is not None and earlier.status not in ("failed", "interrupted"):
        return _not_applied("run-exists", "A run of the preview's id is journaled already.")
    blocking = [warning for warning in warnings if warning.blocking]
    if blocking and blocking[0].kind == "live-memory-changed":
        sentence = f"Memory is no longer what the preview was made from: {blocking[0].sentence}."
        return refusal_of(PreviewFailure("live-memory-changed", sentence))
    if blocking:
        return _not_applied(blocking[0].kind, f"It would be refused: {blocking[0].sentence}.")
    return busy(lock_fact(visit))


def _not_applied(detail: str, sentence: str) -> Refusal:
    return refusal_of(PreviewFailure("preview-apply-failed", sentence, detail=detail))
