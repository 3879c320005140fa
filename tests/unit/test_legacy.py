"""Legacy ids and the headers that a migration generates."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_memory.records import Metadata, Record, generated_header, legacy_id, read_record


def test_ids_are_those_of_the_conformance_vectors() -> None:
    assert legacy_id("handbook/no-fm.md") == "legacy-a31e66d8273b3de2"
    assert legacy_id("rollouts/2026-08-11.md") == "legacy-e0ff1d953d4ec41c"


def test_a_name_that_is_no_utf8_has_an_id_too() -> None:
    assert legacy_id("handbook/caf\udce9.md").startswith("legacy-")
    assert legacy_id("handbook/caf\udce9.md") != legacy_id("handbook/café.md")


def test_the_generated_header_is_the_contracts_byte_for_byte() -> None:
    assert generated_header("handbook/no-fm.md", "2026-08-19", "2026-08-20") == (
        b"---\nschema_version: 1\nid: legacy-a31e66d8273b3de2\n"
        b"created_at: 2026-08-19\nupdated_at: 2026-08-20\n---\n\n"
    )


@settings(max_examples=100)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_migrated_file_is_a_record_and_keeps_its_bytes(text: str) -> None:
    header = generated_header("handbook/a.md", "2026-08-19", "2026-08-20")
    record = read_record("handbook/a.md", header + text.encode())
    assert isinstance(record, Record)
    assert record.body == b"\n" + text.encode()
    expected = Metadata(legacy_id("handbook/a.md"), created_at="2026-08-19", updated_at="2026-08-20")
    assert record.metadata == expected
