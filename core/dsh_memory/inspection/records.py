"""One record file, whole, and the topic it belongs to."""

from __future__ import annotations

from hashlib import sha256

from dsh_memory.errors import RepoUnavailable
from dsh_memory.inspection.history import commits_of_path
from dsh_memory.inspection.listing import NEVER_USED, entry_of, malformed_record
from dsh_memory.inspection.looking import read_usage
from dsh_memory.inspection.values import FieldText, MemoryFact, RecordView, TopicMember, TopicView
from dsh_memory.inspection.visiting import Visit
from dsh_memory.records import (
    MAX_RECORD_BYTES,
    FrontMatterError,
    Malformed,
    Metadata,
    Record,
    decide,
    oversized,
    parse,
    read_record,
    split,
    topic_key,
)
from dsh_memory.records.outline import outline_of
from dsh_memory.repository.content import is_record_path
from dsh_memory.repository.lock import is_applying
from dsh_memory.repository.objects import BlobHasher, Entry, payload_of, read_blobs
from dsh_memory.repository.view import Head, read_head, read_records

_PROVENANCE = (
    "source_hash",
    "created_by",
    "content_hash",
    "source_session_digest",
    "supersedes",
    "conflicts_with",
)


def record_view(visit: Visit, path: str, history_limit: int) -> RecordView:
    """One record file with its header as typed, its usage, and the commits that touched it."""
    head = read_head(visit.repository)
    data, dirty = _read(visit, path, head)
    item = oversized(path, len(data)) if len(data) > MAX_RECORD_BYTES else read_record(path, data)
    usage, _ = read_usage(visit)
    entry = entry_of(
        outline_of(item) if isinstance(item, Record) else item, usage, visit.today, (path,) if dirty else ()
    )
    metadata = item.metadata if isinstance(item, Record) else None
    return RecordView(
        entry=entry,
        fields=_fields(data),
        body=_body(data, item),
        citation=item.citation if isinstance(item, Record) else None,
        content_hash=item.content_hash if isinstance(item, Record) else f"sha256:{sha256(data).hexdigest()}",
        confidence=None if metadata is None else metadata.confidence,
        tags=() if metadata is None else metadata.tags,
        source_rollouts=() if metadata is None else metadata.source_rollouts,
        provenance=() if metadata is None else _provenance(metadata),
        expires_at=None if metadata is None else metadata.expires_at,
        review_after=None if metadata is None else metadata.review_after,
        usage=usage.get(path, NEVER_USED),
        malformed=malformed_record(item) if isinstance(item, Malformed) else None,
        topic_key=topic_key(item) if isinstance(item, Record) else None,
        history=commits_of_path(visit.repository.git, head.commit, path, entry.id, history_limit),
        memory=_memory_fact(item) if isinstance(item, Record) else None,
    )


def source(visit: Visit, path: str) -> bytes:
    """One record file's bytes as readers see them now."""
    return _read(visit, path, read_head(visit.repository))[0]


def topic_view(visit: Visit, path: str) -> TopicView | None:
    """The topic of one record, with the rule that decided about each member."""
    found = read_records(visit.repository, visit.now, "all", visit.memo.records)
    records = {record.path: record for record in found.records}
    if path not in records:
        if any(item.path == path for item in found.malformed):
            return None
        raise _missing()
    key = topic_key(records[path])
    if key is None:
        return None
    today = visit.today
    usage, _ = read_usage(visit)
    topic = decide((record for record in found.records if topic_key(record) == key), today)
    return TopicView(
        key=key,
        winner=None if topic.winner is None else topic.winner.path,
        members=tuple(
            TopicMember(
                entry=entry_of(outline_of(verdict.record), usage, today, ()),
                outcome=verdict.outcome,
                rule=verdict.rule,
                expires_at=None if verdict.record.metadata is None else verdict.record.metadata.expires_at,
            )
            for verdict in topic.verdicts
        ),
    )


def _read(visit: Visit, path: str, head: Head) -> tuple[bytes, bool]:
    """The file's bytes as readers see them now, and whether they differ from HEAD's."""
    # guard: record-path (a caller's path must not climb out of the payload)
    if not is_record_path(path) or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise _missing()
    repo = visit.repository
    committed = _committed(visit, head).get(path)
    if is_applying(repo.root, visit.now):
        if committed is None:
            raise _missing()
        return read_blobs(repo.git, [committed.blob])[committed.blob], False
    try:
        data = repo.root.read(path, MAX_RECORD_BYTES)
    except FileNotFoundError:
        raise _missing() from None
    except OSError as error:
        sentence = f"The record cannot be read: {error.strerror}."
        raise RepoUnavailable(sentence, detail="record-unreadable") from error
    return data, committed is None or committed.blob != BlobHasher(repo.object_format).of(data)


def _committed(visit: Visit, head: Head) -> dict[str, Entry]:
    if head.commit is None:
        return {}
    known = visit.memo.records.committed(head.commit)
    return payload_of(visit.repository.git, head.commit) if known is None else known


def _missing() -> RepoUnavailable:
    return RepoUnavailable("There is no such record any more.", detail="record-missing")


def _fields(data: bytes) -> tuple[FieldText, ...]:
    """The header's fields as typed; none where there is no header or it cannot be taken apart."""
    if split(data).header is None:
        return ()
    try:
        header = parse(data)
    except FrontMatterError:
        return ()
    return tuple(
        FieldText(field.key, field.raw, tuple(item.raw for item in field.items or ()), field.line)
        for field in header.fields.values()
    )


def _body(data: bytes, item: Record | Malformed) -> str:
    if isinstance(item, Record):
        return item.text
    # A malformed record is shown as it stands, so that its fault can be seen.
    return data[:MAX_RECORD_BYTES].decode("utf-8", "replace")


def _memory_fact(record: Record) -> MemoryFact | None:
    from dsh_memory.api.mapping import memory_of

    memory = memory_of(record)
    if not memory.api_written:
        return None
    return MemoryFact(
        door=memory.door,
        agent=memory.agent,
        agent_instance=memory.agent_instance,
        source=memory.source,
        path=memory.path,
        bucket=memory.bucket,
        scope=memory.scope,
        team=memory.team_id,
        kind=memory.kind,
        memory_type=memory.memory_type,
        status=memory.status,
        version=memory.version,
        semantic_key=memory.semantic_key,
        importance=memory.importance,
        confidence=memory.confidence,
        expires_at=memory.expires_at,
    )


def _provenance(metadata: Metadata) -> tuple[tuple[str, str], ...]:
    named = ((key, getattr(metadata, key)) for key in _PROVENANCE)
    return tuple((key, value) for key, value in named if value is not None)
