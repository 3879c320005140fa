"""Topics and their deterministic winner (the contract's front-matter section)."""

from __future__ import annotations

import random
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_memory.records import Metadata, Record, Topic, decide, is_expired, topic_key, topics
from dsh_memory.records.metadata import STATUSES

TODAY = date(2026, 8, 20)


def record(
    record_id: str,
    status: str = "active",
    updated: str | None = None,
    expires: str | None = None,
    kind: str = "decision",
    path: str | None = None,
) -> Record:
    metadata = Metadata(record_id, kind, status, updated_at=updated, expires_at=expires)
    return Record(path or f"handbook/{record_id}.md", metadata, b"", 0, "")


def outcomes(topic: Topic) -> list[tuple[str, str, str]]:
    return [(verdict.record.id, verdict.outcome, verdict.rule) for verdict in topic.verdicts]


def test_the_key_is_type_and_namespace() -> None:
    assert topic_key(record("project/a", kind="fact")) == "fact:project"
    assert topic_key(record("plain", kind="fact")) == "fact:"
    assert topic_key(Record("handbook/x.md", None, b"", 0, "")) is None


def test_status_precedes_date_and_the_expired_never_win() -> None:
    topic = decide(
        [
            record("project/old-codegen", "active", "2026-08-20", expires="2020-01-01"),
            record("project/later", "candidate", "2026-08-12"),
            record("project/codegen", "active", "2026-08-10"),
        ],
        TODAY,
    )
    assert topic.key == "decision:project"
    assert topic.winner is not None
    assert topic.winner.id == "project/codegen"
    assert outcomes(topic) == [
        ("project/codegen", "wins", "active before candidate"),
        ("project/later", "loses", "status: candidate after active"),
        ("project/old-codegen", "out", "expired 2020-01-01"),
    ]


def test_status_precedence_is_the_contracts() -> None:
    topic = decide([record(f"p/{status}", status) for status in reversed(STATUSES)], TODAY)
    assert [verdict.record.id for verdict in topic.verdicts] == [
        "p/active", "p/candidate", "p/conflicted", "p/superseded", "p/archived",
    ]  # fmt: skip


def test_then_the_newest_wins_and_no_date_is_the_oldest() -> None:
    members = [record("p/a"), record("p/b", updated="2026-08-01"), record("p/c", updated="2026-08-10")]
    assert outcomes(decide(members, TODAY)) == [
        ("p/c", "wins", "newest: 2026-08-10 over 2026-08-01"),
        ("p/b", "loses", "older: 2026-08-01 under 2026-08-10"),
        ("p/a", "loses", "older: no date under 2026-08-10"),
    ]
    assert outcomes(decide(members[:2], TODAY))[0] == ("p/b", "wins", "newest: 2026-08-01 over no date")


def test_then_the_smallest_id_then_the_first_path() -> None:
    twins = [record("p/b"), record("p/a", path="handbook/z.md"), record("p/a", path="handbook/y.md")]
    topic = decide(twins, TODAY)
    assert outcomes(topic) == [
        ("p/a", "wins", "same id, first path: handbook/y.md before handbook/z.md"),
        ("p/a", "loses", "same id, later path: handbook/z.md after handbook/y.md"),
        ("p/b", "loses", "id: p/b after p/a"),
    ]
    assert outcomes(decide(twins[:2], TODAY))[0] == ("p/a", "wins", "smallest id: p/a before p/b")


def test_alone_and_none_left() -> None:
    expired = record("p/b", expires="2026-08-20")
    assert outcomes(decide([record("p/a")], TODAY)) == [("p/a", "wins", "the only record")]
    assert outcomes(decide([record("p/a"), expired], TODAY))[0][2] == "the only record that has not expired"
    topic = decide([expired], TODAY)
    assert topic.winner is None
    assert not topic.verdicts[0].wins
    assert decide([expired], date(2026, 8, 19)).winner == expired


def test_only_records_of_one_topic_can_be_decided() -> None:
    for members in ([], [record("p/a"), record("q/a")], [Record("handbook/x.md", None, b"", 0, "")]):
        with pytest.raises(ValueError, match="topic"):
            decide(members, TODAY)


records = st.builds(
    record,
    st.sampled_from(["p/a", "p/b", "p/c"]),
    st.sampled_from(STATUSES),
    st.none() | st.sampled_from(["2026-08-01", "2026-08-10"]),
    st.none() | st.sampled_from(["2026-08-20", "2026-08-21"]),
    path=st.sampled_from(["handbook/1.md", "handbook/2.md"]),
)


@settings(max_examples=150)
@given(st.lists(records, min_size=1, max_size=7, unique_by=lambda r: (r.id, r.path)), st.randoms())
def test_the_order_of_the_files_decides_nothing(members: list[Record], shuffle: random.Random) -> None:
    topic = decide(members, TODAY)
    shuffled = members.copy()
    shuffle.shuffle(shuffled)
    assert decide(shuffled, TODAY) == topic
    assert sorted(r.path + r.id for r in members) == sorted(
        v.record.path + v.record.id for v in topic.verdicts
    )
    assert sum(verdict.wins for verdict in topic.verdicts) == (topic.winner is not None)
    assert topic.winner is None or not is_expired(topic.winner, TODAY)


def test_grouping_leaves_legacy_records_out() -> None:
    members = [
        record("q/a"),
        record("p/b"),
        record("p/a"),
        record("p/f", kind="fact"),
        Record("handbook/x.md", None, b"", 0, ""),
    ]
    grouped = topics(members, TODAY)
    assert [(topic.key, len(topic.verdicts)) for topic in grouped] == [
        ("decision:p", 2), ("decision:q", 1), ("fact:p", 1),
    ]  # fmt: skip
    assert grouped[0] == decide(members[1:3], TODAY)
