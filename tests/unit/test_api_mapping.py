"""A memory as a record file and back: nothing lost, and every file good for the contract."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dsh_memory.api.context import Budget, assemble, count_tokens
from dsh_memory.api.mapping import memory_of, record_bytes
from dsh_memory.api.recall import Hit, Parts
from dsh_memory.api.values import MEMORY_TYPES, STATUSES, Memory
from dsh_memory.records import Record, edit, read_record

TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=60)
SHARES = st.floats(0, 1).map(lambda value: round(value, 6))
JSON = st.recursive(
    st.booleans() | st.integers(-1000, 1000) | TEXTS, lambda inner: st.lists(inner, max_size=3)
)
MEMORIES = st.builds(
    Memory,
    id=st.just("some/id"),
    content=TEXTS,
    path=TEXTS,
    file=st.just("handbook/x.md"),
    bucket=TEXTS,
    scope=st.none() | TEXTS,
    team_id=st.none() | TEXTS,
    memory_type=st.sampled_from(MEMORY_TYPES),
    status=st.sampled_from(STATUSES),
    version=st.integers(1, 1000),
    semantic_key=st.none() | TEXTS,
    importance=st.none() | SHARES,
    confidence=st.none() | SHARES,
    created_at=st.just("2026-08-20T12:00:00.000Z"),
    updated_at=st.just("2026-08-21T12:00:00.000Z"),
    expires_at=st.sampled_from([None, "2031-08-10", "2031-08-10T10:00:00.000Z"]),
    metadata=st.dictionaries(TEXTS, JSON, max_size=3),
    agent=st.none() | st.just("agent-x"),
)


def read(data: bytes) -> Record:
    record = read_record("handbook/x.md", data)
    assert isinstance(record, Record), record
    return record


@given(MEMORIES)
def test_every_memory_comes_back_as_it_was(memory: Memory) -> None:
    assert memory_of(read(record_bytes(memory))) == memory


@given(MEMORIES, MEMORIES)
def test_a_new_version_over_an_old_file_says_the_same(old: Memory, new: Memory) -> None:
    assert memory_of(read(record_bytes(new, record_bytes(old)))) == new


def test_a_change_of_one_field_is_a_change_of_its_lines() -> None:
    memory = Memory(id="a", content="text\n", path="p", file="handbook/x.md", importance=0.5)
    before = record_bytes(memory)
    after = record_bytes(replace(memory, importance=0.9), before)
    changed = [
        pair for pair in zip(before.splitlines(), after.splitlines(), strict=True) if pair[0] != pair[1]
    ]
    assert changed == [(b"memory_importance: 0.5", b"memory_importance: 0.9")]


def test_what_a_person_edited_in_the_contracts_keys_counts() -> None:
    data = record_bytes(Memory(id="a", content="x", path="p", file="handbook/x.md", confidence=0.9))
    edited = edit(data, {"status": "archived", "type": "preference", "confidence": "low"})
    memory = memory_of(read(edited))
    assert (memory.status, memory.memory_type, memory.confidence) == ("archived", "identity", 0.3)


def test_tokens_are_counted_alike_in_every_script() -> None:
    assert count_tokens("") == 0
    assert count_tokens("word") == 1 and count_tokens("internationalisation") == 5
    assert count_tokens("数据库") == 3 and count_tokens("しりとり") == 4
    assert count_tokens("🤭🤭") == 4 and count_tokens("a, b.") == 4


@given(st.lists(TEXTS, max_size=8), st.integers(1, 200), st.integers(1, 5))
def test_a_context_keeps_its_budget_and_its_sums(texts: list[str], tokens: int, items: int) -> None:
    hits = [
        Hit(Memory(id=f"m{number}", content=text, path="p"), Parts(9.0 - number, 0, 0, 0, 0), 0.5, 1)
        for number, text in enumerate(texts)
    ]
    value = assemble(hits, Budget(items, tokens, filtered=3))
    budget = value["budget"]
    assert budget["used_items"] == len(value["items"]) <= items
    assert budget["used_tokens"] == count_tokens(value["context_text"]) <= tokens
    assert budget["skipped_items"] == (
        budget["filtered_items"] + budget["structured_skipped_items"] + budget["budget_skipped_items"]
    )
    assert budget["candidate_items"] == budget["used_items"] + budget["skipped_items"] == len(texts) + 3
