"""Previews decided: applied as one journaled run under the preview's own id, or discarded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from dsh_memory.errors import (
    ChangeRefused,
    PreviewFailure,
    RepoUnavailable,
)
from dsh_memory.records.metadata import Record
from dsh_memory.repository.allowed_secrets import read_allowed_secrets
from dsh_memory.repository.changes import MAX_FILE_BYTES, StagedFile, check_change
from dsh_memory.repository.content import RecordCache
from dsh_memory.repository.descriptors import remove_tree
from dsh_memory.repository.editing import ids_elsewhere
from dsh_memory.repository.failures import TransactionFailed
from dsh_memory.repository.journal import Journal, RunRecord
from dsh_memory.repository.layout import Reader
from dsh_memory.repository.lock import Clock
from dsh_memory.repository.mutation import answering, locked, transaction
from dsh_memory.repository.objects import EXECUTABLE_MODE, FILE_MODE, Entry
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.previews import (
    PREVIEWS_FOLDER,
    README,
    ManifestEntry,
    Preview,
    Staging,
    exists,
    find,
    validate_preview_id,
)
from dsh_memory.repository.states import digest_of
from dsh_memory.repository.transaction import Applied, Change, Transaction

_LIVE_CHANGED = ("head-moved", "live-memory-changed")


def apply_preview(
    repo: Repository,
    clock: Clock,
    preview_id: object,
    *,
    expected_head: str | None = None,
    cache: RecordCache | None = None,
) -> dict[str, Any]:
    """Applies a pending preview, consumes it, and answers the contract's value; raises PreviewFailure.

    A change that breaks a rule of staging is journaled as failed with its code, and the preview stays.
    """
    if (
        not isinstance(preview_id, str)
        or not validate_preview_id(preview_id)
        or not exists(repo.root, preview_id)
    ):
        raise _not_found()
    with (
        answering(_refusal),
        transaction(
            repo, clock, "preview-apply", run_id=preview_id, expected_head=expected_head, cache=cache
        ) as changing,
    ):
        preview = find(repo.root, preview_id, clock())
        earlier = Journal(repo.root).find(preview_id)
        # An attempt that failed or died left the preview as it was: it may be tried again under its id.
        if earlier is not None and earlier.status not in ("failed", "interrupted"):
            raise PreviewFailure(
                "preview-apply-failed", "A run of the preview's id is journaled already.", detail="run-exists"
            )
        _check_live_is_manifest(changing, preview)
        try:
            return _apply(changing, preview, clock)
        except ChangeRefused as refused:
            changing.journal(
                _run(preview, "failed", error_code=refused.code, rejected=len(preview.changed_paths))
            )
            raise PreviewFailure("preview-apply-failed", refused.message, detail=refused.code) from refused


def discard_preview(
    repo: Repository, clock: Clock, preview_id: object, *, expected_head: str | None = None
) -> dict[str, Any]:
    """Removes a preview, expired and broken ones too, and answers the contract's value; raises
    PreviewFailure."""
    del expected_head  # nothing of HEAD is at stake
    if not isinstance(preview_id, str) or not exists(repo.root, preview_id):
        raise _not_found()
    with answering(_discard_refusal), locked(repo, clock, "discard"):
        if not remove_tree(repo.root, f"{PREVIEWS_FOLDER}/{preview_id}"):
            raise _not_found()
        return {"removed": True, "previewId": preview_id}


def _apply(changing: Transaction, preview: Preview, clock: Clock) -> dict[str, Any]:
    repo = changing.repo
    with Staging(repo.root, preview.preview_id) as staging:
        _check_frame(changing, staging)
        target: dict[str, Entry | None] = {}
        contents: dict[str, bytes] = {}
        files: list[StagedFile] = []
        live = changing.read_live(path for path in preview.changed_paths if path in changing.view.files)
        for path in preview.changed_paths:
            data = None
            if path in staging.files:
                # One byte over the limit is enough to be refused.
                data = staging.read(path, MAX_FILE_BYTES)
                mode = EXECUTABLE_MODE if staging.files[path].executable else FILE_MODE
                entry = Entry(mode, changing.entry_of(data).blob)
                contents[entry.blob] = data
                target[path] = entry
            else:
                target[path] = None
            files.append(StagedFile(path, live.get(path), data))
    check_change(
        files,
        ids_elsewhere(changing, clock, preview.changed_paths),
        allowed_secrets=read_allowed_secrets(repo.environment),
    )
    if all(changing.live(path) == entry for path, entry in target.items()):
        applied = changing.journal(_run(preview, "no_change"), preview_id=preview.preview_id)
        return _value("no_change", preview, applied)
    digest = digest_of({file.path: file.new for file in files if file.new is not None})
    change = Change(
        target,
        f"DPSK memory sync applied: {preview.preview_id}",
        contents=contents,
        preview_id=preview.preview_id,
    )
    applied = changing.apply(change, _run(preview, "applied", digest=digest))
    return _value("applied", preview, applied)


def _check_live_is_manifest(changing: Transaction, preview: Preview) -> None:
    """HEAD's payload and the live one must still be the tree that the preview was made from."""
    view, entries = changing.view, preview.manifest.entries
    # guard: preview-base
    if view.dirty or view.files.keys() != entries.keys() or not all(_equal(changing, entries)):
        raise PreviewFailure("live-memory-changed", "Memory is no longer what the preview was made from.")


def _equal(changing: Transaction, entries: Mapping[str, ManifestEntry]) -> Iterator[bool]:
    """Whether each live file is its entry."""
    with Reader(changing.repo.root) as reader:
        for path, file in changing.view.files.items():
            expected = entries[path]
            if file.size != expected.size or expected.executable not in (None, file.executable):
                yield False
                continue
            known = changing.cache.get(path)
            if known is not None and known.live == file and isinstance(known.parsed, Record):
                yield known.parsed.sha256 == expected.sha256
            else:
                yield sha256(reader.read(path, file.size)).hexdigest() == expected.sha256


def _check_frame(changing: Transaction, staging: Staging) -> None:
    """Outside the payload a staging holds README.md alone, unchanged."""
    if staging.foreign:
        raise ChangeRefused(
            "staging-invalid", "The preview holds files that are no memory.", path=staging.foreign[0]
        )
    live = changing.repo.root.lstat(README)
    try:
        staged = staging.read(README, MAX_FILE_BYTES)
    except FileNotFoundError:
        staged = None
    current = None if live is None else changing.repo.root.read(README, MAX_FILE_BYTES)
    # guard: readme-unchanged
    if staged != current:
        raise ChangeRefused("staging-invalid", "The preview changes README.md.", path=README)


def _run(
    preview: Preview,
    status: str,
    *,
    digest: str | None = None,
    error_code: str | None = None,
    rejected: int = 0,
) -> RunRecord:
    sessions = preview.candidate_sessions
    return RunRecord(
        run_id=preview.preview_id,
        operation="preview",
        status=status,
        candidate_sessions=sessions,
        processed_sessions=sessions,
        skipped_sessions=None if sessions is None else 0,
        staging_digest=digest,
        error_code=error_code,
        rejected_file_count=rejected,
        phase="validating" if error_code else "complete",
    )


def _value(status: str, preview: Preview, applied: Applied) -> dict[str, Any]:
    changed = status == "applied"
    return {
        "status": status,
        "previewId": preview.preview_id,
        "changed_paths": list(applied.run.changed_paths),
        "recovery_commit": applied.recovery_commit if changed else None,
        "apply_commit": applied.apply_commit if changed else None,
        "journaled": True,
    }


def _not_found() -> PreviewFailure:
    return PreviewFailure("preview-not-found", "There is no preview of that id.")


def _refusal(failure: TransactionFailed) -> PreviewFailure:
    code = "live-memory-changed" if failure.detail in _LIVE_CHANGED else "preview-apply-failed"
    return PreviewFailure(code, failure.message, detail=failure.detail)


def _discard_refusal(failure: TransactionFailed) -> RepoUnavailable:
    return RepoUnavailable(failure.message, detail=failure.detail)
