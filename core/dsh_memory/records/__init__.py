"""Records as pure values: bytes in, values out, no I/O."""

from dsh_memory.records.frontmatter import edit, parse, render, split
from dsh_memory.records.grammar import FrontMatterError
from dsh_memory.records.legacy import generated_header, legacy_id
from dsh_memory.records.metadata import (
    MAX_RECORD_BYTES,
    SCHEMA_VERSION,
    Malformed,
    Metadata,
    Record,
    is_expired,
    is_valid_id,
    oversized,
    read_record,
)
from dsh_memory.records.topics import Topic, Verdict, decide, topic_key, topics

__all__ = [
    "MAX_RECORD_BYTES",
    "SCHEMA_VERSION",
    "FrontMatterError",
    "Malformed",
    "Metadata",
    "Record",
    "Topic",
    "Verdict",
    "decide",
    "edit",
    "generated_header",
    "is_expired",
    "is_valid_id",
    "legacy_id",
    "oversized",
    "parse",
    "read_record",
    "render",
    "split",
    "topic_key",
    "topics",
]
