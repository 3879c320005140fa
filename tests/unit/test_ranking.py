"""The score of the contract and our tie-break, on records made by hand; exact answers stand in tests/contract."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_memory.records.metadata import Record, read_record
from dsh_memory.search.ranking import rank, relevance, score, search_text, snippet, tokenize


def record(body: str, path: str = "handbook/a.md", **fields: str) -> Record:
    header = "".join(
        f"{key}: {value}\n" for key, value in {"schema_version": "1", "id": "a", **fields}.items()
    )
    read = read_record(path, f"---\n{header}---\n{body}".encode())
    assert isinstance(read, Record)
    return read


@pytest.mark.parametrize(
    ("query", "tokens"),
    [
        ("Codegen", ("codegen",)),
        ("ADR-016", ("adr", "016")),
        ("a a B", ("a", "a", "b")),
        ("snake_case", ("snake", "case")),
        ("'; -- \"NEAR(", ("near",)),
        ("今天 讨论", ("今天", "讨论")),
        ("½ Ⅷ", ("½", "ⅷ")),
        ("?!-", ()),
        ("", ()),
    ],
)
def test_tokens_are_runs_of_letters_and_numbers(query: str, tokens: tuple[str, ...]) -> None:
    assert tokenize(query) == tokens


def test_each_place_of_a_token_adds_its_points() -> None:
    text = search_text(record("We use codegen.", id="project/codegen", type="decision", created_by="bot"))
    assert score(text, ["codegen"]) == 1 + 3 + 1
    assert score(text, ["decision"]) == 1 + 2
    assert score(text, ["bot"]) == 1
    assert score(text, ["codegen", "codegen"]) == 10
    assert score(text, ["nothing"]) == 0


def test_a_legacy_record_is_scored_by_its_body_alone() -> None:
    legacy = read_record("handbook/old.md", b"plain note")
    assert isinstance(legacy, Record)
    assert score(search_text(legacy), ["note"]) == 2
    assert score(search_text(legacy), ["legacy"]) == 0


@pytest.mark.parametrize("query", ["部署", "方案 部署", "案"])
def test_unspaced_scripts_match_inside_a_sentence(query: str) -> None:
    count, _ = rank([record("今天讨论了部署方案")], tokenize(query), 20)
    assert count == 1


def test_equal_scores_are_ordered_by_relevance_then_length_then_path() -> None:
    twice = record("tabs and tabs", path="handbook/z.md")
    short = record("tabs", path="handbook/y.md")
    long = record("tabs here or there", path="handbook/b.md")
    twin = record("tabs here or there", path="handbook/a.md")
    _, hits = rank([long, short, twin, twice], tokenize("tabs"), 20)
    assert [hit.record.path for hit in hits] == [
        "handbook/z.md",
        "handbook/y.md",
        "handbook/a.md",
        "handbook/b.md",
    ]


def test_stop_words_score_but_break_no_ties() -> None:
    many = record("the the the codegen of the day", path="handbook/b.md")
    one = record("the codegen", path="handbook/a.md")
    _, hits = rank([many, one], tokenize("the codegen"), 20)
    assert [hit.record.path for hit in hits] == ["handbook/a.md", "handbook/b.md"]
    assert hits[0].score == hits[1].score == 4


def test_the_limit_cuts_but_the_count_does_not() -> None:
    records = [record("tabs", path=f"handbook/{number}.md") for number in range(9)]
    count, hits = rank(records, ["tabs"], 4)
    assert (count, len(hits)) == (9, 4)


def test_relevance_saturates() -> None:
    assert relevance([3]) == round(3 / 4.2, 3)
    assert relevance([1, 1000]) == round(1 / 2.2 + 1000 / 1001.2, 3)
    assert relevance([]) == 0


def test_a_snippet_shows_the_match_in_its_surroundings() -> None:
    body = "x" * 100 + " codegen\n\n  pipeline " + "y" * 200
    assert snippet(body, ["codegen"]) == "x" * 39 + " codegen pipeline " + "y" * 100
    assert snippet("no match\nhere", ["zzz"]) == "no match here"
    assert snippet("z" * 400, ["q"]) == "z" * 160


def test_a_match_longer_than_the_window_stays_whole() -> None:
    assert snippet("a" * 300, ["a" * 250]) == "a" * 250


def test_letters_that_grow_when_lowercased_do_not_shift_the_snippet() -> None:
    body = "İ" * 60 + " codegen"
    assert snippet(body, ["codegen"]).endswith("İ codegen")


@given(st.text(alphabet="aİß 漢\n", max_size=60), st.text(alphabet="aß漢", min_size=1, max_size=3))
def test_a_snippet_of_a_matching_body_holds_the_match(body: str, token: str) -> None:
    if token.lower() in body.lower():
        assert token.lower() in snippet(body, [token.lower()]).lower()
