"""Recall against plain BM25 and the contract's order, on questions written as people ask them."""

from __future__ import annotations

import pytest

from tests.support.retrieval import bm25_ranker, contract_ranker, hit_rate, load, recall_ranker


def test_recall_finds_more_than_plain_bm25_and_the_contracts_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    records, questions = load()
    assert len(records) >= 500 and len(questions) >= 200
    assert {question.script for question in questions} == {"latin", "cyrillic", "unspaced"}
    rankers = {
        "recall": recall_ranker(records),
        "plain bm25": bm25_ranker(records),
        "contract": contract_ranker(records),
    }
    rates = {name: hit_rate(ranker, questions) for name, ranker in rankers.items()}
    with capsys.disabled():
        print(f"\nhit@5 on {len(questions)} questions over {len(records)} records")
        for name, ranker in rankers.items():
            parts = [
                f"{script} {hit_rate(ranker, [each for each in questions if each.script == script]):.1%}"
                for script in ("latin", "cyrillic", "unspaced")
            ]
            print(f"  {name:10}  {rates[name]:.1%}   ({', '.join(parts)})")
    assert rates["recall"] - rates["plain bm25"] >= 0.08
    assert rates["recall"] - rates["contract"] >= 0.12


def test_the_same_records_give_the_same_order_whatever_order_they_came_in() -> None:
    records, questions = load()
    forwards, backwards = recall_ranker(records), recall_ranker(records[::-1])
    for question in questions[::10]:
        assert forwards(question.text, 20) == backwards(question.text, 20)
