"""The record schema: what is a record, what is malformed and why."""

from __future__ import annotations

import hashlib
import pickle
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_memory.records import (
    MAX_RECORD_BYTES,
    Malformed,
    Metadata,
    Record,
    edit,
    is_expired,
    is_valid_id,
    oversized,
    read_record,
)

PATH = "handbook/a.md"
MINIMAL = "schema_version: 1\nid: project/a\n"


def read(header: str, body: str = "body\n") -> Record | Malformed:
    return read_record(PATH, f"---\n{header}---\n{body}".encode())


def metadata(header: str) -> Metadata:
    record = read(header)
    assert isinstance(record, Record), record
    assert record.metadata is not None
    return record.metadata


def malformed(header: str) -> Malformed:
    result = read(header)
    assert isinstance(result, Malformed), result
    assert (result.path, result.size) == (PATH, len(f"---\n{header}---\nbody\n".encode()))
    return result


def test_every_field_is_read() -> None:
    header = (
        "schema_version: 1\nid: project/codegen\ntype: decision\nstatus: candidate\nconfidence: high\n"
        "created_at: 2026-08-01\nupdated_at: '2026-08-10'\nsource_hash: 013\ncreated_by: Re: hi\n"
        "content_hash: sha256:ab\nsource_session_digest: d\nsupersedes: project/old\nconflicts_with: b\n"
        'review_after: 2027-01-01\nexpires_at: 2028-02-29\ntags: [10:00, "#a"]\nsource_rollouts:\n'
        "  - rollouts/2026-08-10-session.md\ncontent: x\nhandler: 5\n"
    )
    assert metadata(header) == Metadata(
        id="project/codegen",
        type="decision",
        status="candidate",
        confidence="high",
        created_at="2026-08-01",
        updated_at="2026-08-10",
        source_hash="013",
        created_by="Re: hi",
        content_hash="sha256:ab",
        source_session_digest="d",
        supersedes="project/old",
        conflicts_with="b",
        review_after="2027-01-01",
        expires_at="2028-02-29",
        tags=("10:00", "#a"),
        source_rollouts=("rollouts/2026-08-10-session.md",),
        extra={"content": "x", "handler": 5},
    )


def test_absent_empty_and_null_fields_take_their_defaults() -> None:
    empty = "".join(
        f"{key}:{value}\n"
        for key, value in zip(
            (
                "type",
                "status",
                "confidence",
                "created_at",
                "created_by",
                "expires_at",
                "tags",
                "source_rollouts",
            ),
            ("", " null", " ~", " null", "", " ~", "", " []"),
            strict=True,
        )
    )
    assert metadata(MINIMAL) == metadata(MINIMAL + empty) == Metadata("project/a")
    assert Metadata("project/a").type == "observation"


@pytest.mark.parametrize("text", ["013", "no", "5", "2026-08-10", "a", "project/codegen", "a-/0-", "'true'"])
def test_an_id_is_the_typed_text(text: str) -> None:
    assert metadata(f"schema_version: 1\nid: {text}\n").id == text.strip("'")


@pytest.mark.parametrize(
    "text",
    ["", " true", " false", " null", " ~", " Project/a", " a/b/c", " a/", " /a", " -a", " a_b", " a b", " ä",
     " ../x", "\n  - a", " []", " a\u0660", ' "a\\n"', " [a]"],
)  # fmt: skip
def test_a_wrong_id_is_named(text: str) -> None:
    result = malformed(f"schema_version: 1\nid:{text}\n")
    assert (result.code, result.line) == ("invalid-id", 3)


def test_a_missing_id_is_named() -> None:
    assert malformed("schema_version: 1\n").code == "invalid-id"


@pytest.mark.parametrize(
    "text", ["2", "1.0", '"1"', "01", "+1", "true", "", "null", "[1]", "\n  - 1", "1 # x"]
)
def test_the_schema_version_is_a_bare_one(text: str) -> None:
    result = malformed(f"id: a\nschema_version: {text}\n")
    assert (result.code, result.line) == ("invalid-schema-version", 3)


def test_an_empty_header_lacks_its_schema_version() -> None:
    for header in ("", "\n# note\n", "id: BAD\ntype: bad\n"):
        assert malformed(header).code == "invalid-schema-version"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("type: opinion", 'unknown type "opinion"'),
        ("type: Fact", 'unknown type "Fact"'),
        ("type: true", 'unknown type "true"'),
        ("status: done", 'unknown status "done"'),
        ("confidence: 0.9", 'unknown confidence "0.9"'),
        ("type:\n  - fact", "type takes one value, not a list"),
        ("type: []", "type takes one value, not a list"),
        ("created_by: [a, b]", "created_by takes one value, not a list"),
        ("created_at: 2026-02-30", "created_at must be an existing day"),
        ("created_at: 2026-13-01", "created_at must be an existing day"),
        ("created_at: 0000-01-01", "created_at must be an existing day"),
        ("updated_at: 20260810", "updated_at must be an existing day"),
        ("updated_at: 2026-W33-1", "updated_at must be an existing day"),
        ("updated_at: 2026-8-1", "updated_at must be an existing day"),
        ("updated_at: ٢٠٢٦-08-10", "updated_at must be an existing day"),
        ("expires_at: 2026-08-10T00:00:00Z", "expires_at must be an existing day"),
        ("review_after: soon", "review_after must be an existing day"),
        ('created_by: ""', "created_by must have 1 to 128 characters, not 0"),
        (f"source_hash: {'x' * 129}", "source_hash must have 1 to 128 characters, not 129"),
        ("tags: one", "tags must be a list"),
        ('tags: {"a": 1}', "tags must be a list"),
        ("tags: [null]", "is empty or null"),
        ('tags: [""]', "must have 1 to 64 characters"),
        (f"tags: [{'x' * 65}]", "must have 1 to 64 characters"),
        ("source_rollouts: [handbook/a.md]", "rollouts/….md"),
        ("source_rollouts: [rollouts/a.txt]", "rollouts/….md"),
        ("source_rollouts: [rollouts/../a.md]", "rollouts/….md"),
        ("id: again", "twice"),
    ],
)
def test_a_wrong_field_is_invalid_metadata_with_its_line(line: str, words: str) -> None:
    result = malformed(f"{MINIMAL}x: y\n{line}\n")
    assert (result.code, result.line) == ("invalid-metadata", 5)
    assert words in result.message


def test_a_wrong_list_entry_is_named_with_its_own_line() -> None:
    assert malformed(f"{MINIMAL}tags:\n  - a\n\n  - ~\n").line == 7


def test_limits_are_inclusive_and_count_characters() -> None:
    read_back = metadata(f"{MINIMAL}created_by: {'漢' * 128}\ntags: [{'漢' * 64}]\n")
    assert (read_back.created_by, read_back.tags) == ("漢" * 128, ("漢" * 64,))


def test_crlf_and_a_byte_order_mark_change_nothing() -> None:
    data = b"\xef\xbb\xbf---\r\nschema_version: 1\r\nid: a\r\ntags:\r\n  - b\r\n---\r\nbody\r\n"
    record = read_record(PATH, data)
    assert isinstance(record, Record)
    assert record.metadata == Metadata("a", tags=("b",))
    assert record.body == b"body\r\n"


@pytest.mark.parametrize(
    ("data", "line"),
    [(b"one\ntwo\x00", 2), (b"\xe9", 1), (b"---\nschema_version: 1\nid: a\n---\n\n\xff\n", 6),
     (b"---\nid: \xe9\n---\n", 2), ("a\n".encode("utf-16"), 1), (b"\xed\xa0\x80", 1)],
)  # fmt: skip
def test_what_is_no_text_is_binary(data: bytes, line: int) -> None:
    result = read_record(PATH, data)
    assert isinstance(result, Malformed)
    assert (result.code, result.line, result.size) == ("binary-file", line, len(data))


def test_the_size_limit_is_checked_before_anything_else() -> None:
    assert isinstance(read_record(PATH, b"x" * MAX_RECORD_BYTES), Record)
    result = read_record(PATH, b"\x00" * (MAX_RECORD_BYTES + 1))
    assert result == oversized(PATH, MAX_RECORD_BYTES + 1)
    assert isinstance(result, Malformed)
    assert result.code == "file-too-large"


def test_a_file_without_front_matter_is_legacy_and_whole() -> None:
    for data in (b"", b"note\n", b"\xef\xbb\xbfnote", b"----\nid: x\n----\n", b"---\nid: x\n"):
        record = read_record("handbook/no-fm.md", data)
        assert isinstance(record, Record)
        assert record.is_legacy
        assert (record.body, record.size) == (data, len(data))
        assert (record.id, record.type, record.updated_at) == ("legacy-a31e66d8273b3de2", None, None)
        assert not record.text.startswith("\ufeff")


def test_identity_of_a_record() -> None:
    data = f"---\n{MINIMAL}updated_at: 2026-08-10\n---\nbody\n".encode()
    record = read_record(PATH, data)
    assert isinstance(record, Record)
    assert record.citation == "[source: handbook/a.md · id: project/a]"
    assert record.sha256 == hashlib.sha256(data).hexdigest()
    assert record.content_hash == f"sha256:{record.sha256}"
    assert (record.id, record.type, record.updated_at) == ("project/a", "observation", "2026-08-10")
    assert (record.text, record.size, record.is_legacy) == ("body\n", len(data), False)
    stated = read_record(PATH, edit(data, {"content_hash": "sha256:own"}))
    assert isinstance(stated, Record)
    assert stated.content_hash == "sha256:own"
    assert pickle.loads(pickle.dumps(record)) == record


def test_a_record_expires_at_the_start_of_the_day_it_names() -> None:
    record = read(f"{MINIMAL}expires_at: 2026-08-20\n")
    assert isinstance(record, Record)
    assert not is_expired(record, date(2026, 8, 19))
    assert is_expired(record, date(2026, 8, 20))
    assert record.metadata is not None
    assert is_expired(record.metadata, date(9999, 12, 31))
    assert not is_expired(Metadata("a"), date(9999, 12, 31))
    legacy = read_record(PATH, b"note")
    assert isinstance(legacy, Record)
    assert not is_expired(legacy, date(9999, 12, 31))


def test_the_form_of_ids_is_public() -> None:
    assert is_valid_id("project/codegen")
    assert not is_valid_id("project/codegen\n")


FRAGMENTS = (
    b"---\n",
    b"---\r\n",
    b"schema_version: 1\n",
    b"id: a\n",
    b"tags:\n",
    b"  - x\n",
    b"type: fact\n",
    b"k: |\n",
    b"tags: [a, 'b', \"c\"]\n",
    b'm: {"a": [1]}\n',
    b"expires_at: 2026-02-29\n",
    b"\xef\xbb\xbf",
    b"\x00",
    b"\xff",
    b":",
    b"'",
    b'"',
    b"[",
    b"{",
    b"\\",
    b"\t",
    b" ",
    b"\r",
    b"\n",
    b"#",
    b"-",
    b"&a",
    b"1",
    "漢\u2028".encode(),
)
pieces = st.sampled_from(FRAGMENTS)


@settings(max_examples=400)
@given(st.lists(pieces | st.binary(max_size=6), max_size=14).map(b"".join), st.booleans())
def test_any_bytes_give_an_answer(data: bytes, in_header: bool) -> None:
    if in_header:
        data = b"---\nschema_version: 1\nid: a\n" + data + b"\n---\nbody"
    result = read_record(PATH, data)
    assert result.size == len(data)
    if isinstance(result, Malformed):
        assert result.code in {"invalid-metadata", "invalid-id", "invalid-schema-version", "binary-file"}
        assert result.message
        assert result.line is None or 1 <= result.line <= data.count(b"\n") + 1
    else:
        assert data.endswith(result.body)
        result.text.encode()
