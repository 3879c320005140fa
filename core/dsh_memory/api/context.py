"""A context for a model under a token budget, in the form `value-density-v2` (`spec`: xmemo). Pure.

The best match comes first, the others by relevance for each token they cost. Tokens are an estimate,
counted on the final text: a character of an unspaced script is one, a word or number one for every four
characters begun, any other sign one, an emoji two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dsh_memory.api.recall import Hit
from dsh_memory.api.shapes import boundary

SNIPPET_CHARACTERS: Final = 240
_LEAST_CONTENT_TOKENS: Final = 8
_TOKEN: Final = re.compile(r"[A-Za-z0-9]+|[\u00c0-\u024f\u0370-\u058f]+|[\U0001f000-\U0001faff]|\S|\n")


@dataclass(frozen=True, slots=True)
class Budget:
    """What the caller allows, and how many candidates its filters took away."""

    max_items: int
    max_tokens: int
    filtered: int = 0


def count_tokens(text: str) -> int:
    """The estimate of a text's tokens, the same wherever it stands."""
    total = 0
    for piece in _TOKEN.findall(text):
        first = piece[0]
        if first.isascii() and first.isalnum():
            total += (len(piece) + 3) // 4
        elif "\U0001f000" <= first <= "\U0001faff":
            total += 2
        else:
            total += (len(piece) + 1) // 2 if len(piece) > 1 else 1
    return total


def assemble(hits: Sequence[Hit], budget: Budget) -> dict[str, Any]:
    """The budget, items and text of a context; hits are in rank order.

    `used_tokens` never exceeds the budget; each candidate is used, filtered, repeated, or over the budget.
    """
    repeated = over = truncated = used_tokens = 0
    items: list[dict[str, Any]] = []
    entries: list[str] = []
    seen: set[str] = set()
    for hit in _by_value(hits):
        if hit.memory.content in seen:
            repeated += 1
            continue
        left = budget.max_tokens - used_tokens - (2 if entries else 0)
        entry, cut = (
            (None, False) if len(items) >= budget.max_items else _fitted(hit, len(items) + 1, left, not items)
        )
        if entry is None:
            over += 1
            continue
        seen.add(hit.memory.content)
        truncated += cut
        used_tokens += count_tokens(entry) + (2 if entries else 0)
        entries.append(entry)
        items.append(_item(hit, truncated=cut))
    text = "\n\n".join(entries)
    used = len(items)
    skipped = budget.filtered + repeated + over
    return {
        "budget": {
            "max_items": budget.max_items,
            "max_tokens": budget.max_tokens,
            "used_items": used,
            "used_tokens": count_tokens(text),
            "skipped_items": skipped,
            "filtered_items": budget.filtered,
            "structured_skipped_items": repeated,
            "budget_skipped_items": over,
            "truncated_items": truncated,
            "candidate_items": used + skipped,
            "selection_strategy": "top-primary-plus-stable-value-density",
            "budget_tradeoff": bool(over or truncated),
            "token_scope": "context_text",
        },
        "items": items,
        "context_text": text,
        "answer_status": "answered" if items else "no_confirmed_answer",
    }


def _by_value(hits: Sequence[Hit]) -> list[Hit]:
    if not hits:
        return []
    first, *rest = hits
    return [
        first,
        *sorted(rest, key=lambda hit: (-hit.score / max(1, count_tokens(hit.memory.content)), hit.memory.id)),
    ]


def _fitted(hit: Hit, number: int, left: int, may_cut: bool) -> tuple[str | None, bool]:
    """The entry if it fits, cut short where the first one would not; None where it does not fit."""
    entry = _entry(hit, number, hit.memory.content)
    if count_tokens(entry) <= left:
        return entry, False
    room = left - count_tokens(_entry(hit, number, "…"))
    if not may_cut or room < _LEAST_CONTENT_TOKENS:
        return None, False
    low, high = 0, len(hit.memory.content)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(_entry(hit, number, hit.memory.content[:middle] + "…")) <= left:
            low = middle
        else:
            high = middle - 1
    return _entry(hit, number, hit.memory.content[:low] + "…"), True


def _entry(hit: Hit, number: int, content: str) -> str:
    # Every line after the first is indented: no memory can look like the head of another entry.
    lines = "\n  ".join(line for line in content.strip().splitlines() if line.strip())
    memory = hit.memory
    return f"[{number}] id={memory.id} path={_one_line(memory.path)}\ncontent: {lines}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _item(hit: Hit, *, truncated: bool) -> dict[str, Any]:
    memory = hit.memory
    return {
        "id": memory.id,
        "memory_id": memory.id,
        "bucket": memory.bucket,
        "scope": memory.scope,
        "team_id": memory.team_id,
        "path": memory.path,
        "kind": memory.kind,
        "memory_type": memory.memory_type,
        "status": memory.status,
        "score": hit.score,
        "similarity": hit.similarity,
        "content": memory.content,
        "snippet": _one_line(memory.content)[:SNIPPET_CHARACTERS],
        "truncated": truncated,
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
        "agent_boundary": boundary(memory),
    }
