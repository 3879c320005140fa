"""The retrieval test set: notes of many sessions in eight languages, and questions as people ask them.

`notes-*.txt` hold a session after each `# name`, one note a line; `questions.tsv` names the note that answers, as
`session.number` with numbers from 1. All of it was written by hand for this set.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dsh_memory.api.catalogue import Catalogue
from dsh_memory.api.mapping import record_bytes
from dsh_memory.api.recall import Query, search
from dsh_memory.api.values import Caller, Filter, Memory
from dsh_memory.environment import format_instant
from dsh_memory.records import Record, read_record
from dsh_memory.search.ranking import rank, tokenize

FOLDER = Path(__file__).parent.parent / "data" / "retrieval"
_START = datetime(2026, 1, 1, tzinfo=UTC)
_WORD = re.compile(r"[^\W_]+")

Ranker = Callable[[str, int], list[str]]


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the id of the note that answers it."""

    text: str
    answer: str

    @property
    def script(self) -> str:
        """The script of the question."""
        if re.search("[\u3040-\u9fff]", self.text):
            return "unspaced"
        return "cyrillic" if re.search("[а-я]", self.text) else "latin"


def load() -> tuple[list[Record], list[Question]]:
    """Every note as the record that the memory API would write, and every question."""
    records: list[Record] = []
    ids: dict[str, str] = {}
    for file in sorted(FOLDER.glob("notes-*.txt")):
        session, number = "", 0
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                session, number = line[2:], 0
                continue
            number += 1
            note_id = f"n{len(records):03}"
            ids[f"{session}.{number}"] = note_id
            at = format_instant(_START + timedelta(minutes=len(records)))
            memory = Memory(
                id=note_id,
                content=line,
                path=f"notes/{session}",
                created_at=at,
                updated_at=at,
                metadata={"session_id": session},
            )
            record = read_record(f"handbook/{note_id}.md", record_bytes(memory))
            assert isinstance(record, Record)
            records.append(record)
    lines = (FOLDER / "questions.tsv").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("\t") for line in lines)
    return records, [Question(text, ids[name]) for name, text in pairs]


def recall_ranker(records: list[Record]) -> Ranker:
    """The order in which `/v1` recalls."""
    catalogue = Catalogue()
    catalogue.replace_all(records)

    def ranked(text: str, limit: int) -> list[str]:
        found = search(catalogue, Caller(), Query(text, Filter(), limit=limit), _START)
        return [hit.memory.id for hit in found.hits]

    return ranked


def contract_ranker(records: list[Record]) -> Ranker:
    """The order of the contract's `memory.search`."""

    def ranked(text: str, limit: int) -> list[str]:
        return [hit.record.id for hit in rank(records, tokenize(text), limit)[1]]

    return ranked


def bm25_ranker(records: list[Record]) -> Ranker:
    """Plain Okapi BM25 over lowercased words, k1 = 1.2, b = 0.75, ties by id."""
    documents = {record.id: Counter(_WORD.findall(record.text.lower())) for record in records}
    lengths = {note_id: counts.total() for note_id, counts in documents.items()}
    average = sum(lengths.values()) / len(lengths)
    frequency = Counter(word for counts in documents.values() for word in counts)

    def ranked(text: str, limit: int) -> list[str]:
        scores: dict[str, float] = {}
        for word in _WORD.findall(text.lower()):
            idf = math.log(1 + (len(documents) - frequency[word] + 0.5) / (frequency[word] + 0.5))
            for note_id, counts in documents.items():
                if word in counts:
                    length = 1.2 * (0.25 + 0.75 * lengths[note_id] / average)
                    points = idf * counts[word] * 2.2 / (counts[word] + length)
                    scores[note_id] = scores.get(note_id, 0.0) + points
        return sorted(scores, key=lambda note_id: (-scores[note_id], note_id))[:limit]

    return ranked


def hit_rate(ranker: Ranker, questions: list[Question], limit: int = 5) -> float:
    """The share of questions whose answer is among the first `limit`."""
    return sum(question.answer in ranker(question.text, limit) for question in questions) / len(questions)
