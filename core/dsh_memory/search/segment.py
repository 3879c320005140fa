"""A search index over a fixed set of documents, which answers with the contract's exact scores in the exact order.

Documents are numbered in the order that breaks ties (fewer words in the body, then path), so that among equals the
lower number wins. A token of a query lies inside one word of the text: so the vocabulary, joined in one string, is
searched for it plainly; one and two letters, which most words contain, have lists of their own.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import accumulate

from dsh_memory.search import bits
from dsh_memory.search.lexicon import Lexicon, Postings
from dsh_memory.search.ranking import SearchText, relevance, telling, words_of

# A frequency beyond this is kept as this: the relevance it gives is 1 to three decimals either way.
_LARGEST_FREQUENCY = 0xFFFF


@dataclass(frozen=True, slots=True)
class Document:
    """What is indexed of one record: its `key` (its content's blob id), its path, its texts, and when it expires.

    `id` is the logical id, which a context is ordered by; `expires_at` a `YYYY-MM-DD` text or None.
    """

    key: str
    path: str
    text: SearchText
    id: str
    expires_at: str | None


@dataclass(frozen=True, slots=True)
class Match:
    """A document that matches: its contract score, and what breaks ties before the path does."""

    document: int
    score: int
    relevance: float
    words: int


class FieldIndex:
    """One searched text of every document: its words, and its single letters and pairs of letters."""

    def __init__(
        self, words: Lexicon, word_documents: Postings, grams: Lexicon, gram_documents: Postings
    ) -> None:
        self.words = words
        self.word_documents = word_documents
        self.grams = grams
        self.gram_documents = gram_documents

    def holding(self, token: str) -> int:
        """The documents whose text contains `token`, as a bit set."""
        if len(token) <= 2:
            number = self.grams.find(token)
            return 0 if number is None else self.gram_documents.union([number])
        return self.word_documents.union(self.words.containing(token))


class Segment:
    """The index of `size` documents; everything else goes by document number.

    `frequencies` are the occurrences of each word of the body, side by side with its documents.
    """

    def __init__(
        self,
        keys: Sequence[str],
        paths: Sequence[str],
        word_counts: Sequence[int],
        types: Sequence[str],
        expiries: Sequence[str | None],
        ids: Sequence[str],
        fields: Sequence[FieldIndex],
        frequencies: Sequence[int],
    ) -> None:
        self.size = len(keys)
        self.paths = paths
        self.keys = keys
        self.numbers = {pair: number for number, pair in enumerate(zip(paths, keys, strict=True))}
        """Document numbers by (path, key)."""
        self.word_counts = word_counts
        self.types = types
        self.expiries = expiries
        self.ids = ids
        self.head, self.identity, self.body = fields
        self.frequencies = frequencies
        self._frequency_starts = array("Q", accumulate(self.body.word_documents.counts, initial=0))
        of_type: dict[str, list[int]] = {}
        for number, name in enumerate(types):
            of_type.setdefault(name, []).append(number)
        self._of_type = {name: bits.from_numbers(members, self.size) for name, members in of_type.items()}

    @classmethod
    def build(cls, documents: Iterable[Document]) -> Segment:
        """The index of these documents."""
        counted = [(words_of(document.text.body), document) for document in documents]
        counted.sort(key=lambda pair: (len(pair[0]), pair[1].path))
        ordered = [document for _, document in counted]
        size = len(ordered)
        frequencies: dict[str, array[int]] = {}
        body_words: dict[str, array[int]] = {}
        for number, (words, _) in enumerate(counted):
            for word, frequency in Counter(words).items():
                if word in body_words:
                    body_words[word].append(number)
                    frequencies[word].append(min(frequency, _LARGEST_FREQUENCY))
                else:
                    body_words[word] = array("I", (number,))
                    frequencies[word] = array("H", (min(frequency, _LARGEST_FREQUENCY),))
        flat = array("H")
        for word in sorted(frequencies):
            flat += frequencies[word]
        return cls(
            [document.key for document in ordered],
            [document.path for document in ordered],
            array("I", (len(words) for words, _ in counted)),
            [document.text.type for document in ordered],
            [document.expires_at for document in ordered],
            [document.id for document in ordered],
            (
                _field(size, [document.text.head for document in ordered]),
                _field(size, [document.text.id for document in ordered]),
                _field(size, [document.text.body for document in ordered], body_words),
            ),
            flat,
        )

    def groups(self, tokens: Iterable[str], live: int) -> Iterator[tuple[int, int]]:
        """The matching ones of the `live` documents, parted by score: (score, bit set), highest score first."""
        counter = bits.Counter()
        for token in tokens:
            in_identity, in_body = self.identity.holding(token) & live, self.body.holding(token) & live
            counter.add((self.head.holding(token) & live) | in_body, 1)
            counter.add(in_identity, 3)
            counter.add(self._of_type.get(token, 0) & live, 2)
            counter.add(in_body, 1)
        yield from counter.groups(live)

    def best(self, tokens: Sequence[str], live: int, limit: int) -> tuple[int, list[Match]]:
        """The number of all matches among the `live` documents, and the best `limit` of them in the final order."""
        count = 0
        best: list[Match] = []
        tie_tokens = telling(tokens)
        for score, members in self.groups(tokens, live):
            count += members.bit_count()
            if len(best) < limit:
                best.extend(self._ordered(score, members, tie_tokens, limit - len(best)))
        return count, best

    def _ordered(self, score: int, members: int, tie_tokens: Iterable[str], wanted: int) -> list[Match]:
        octets = members.to_bytes((self.size >> 3) + 1, "little")
        found: dict[int, list[int]] = {}
        for token in tie_tokens:
            number = self.body.words.find(token)
            if number is None:
                continue
            start, stop = self._frequency_starts[number : number + 2]
            documents = self.body.word_documents.documents(number)
            for document, frequency in zip(documents, self.frequencies[start:stop], strict=True):
                if octets[document >> 3] >> (document & 7) & 1:
                    found.setdefault(document, []).append(frequency)
        relevant = {document: relevance(frequencies) for document, frequencies in found.items()}
        order = nsmallest(wanted, relevant, key=lambda document: (-relevant[document], document))
        if len(order) < wanted:
            order += bits.first(members & ~bits.from_numbers(relevant, self.size), wanted - len(order))
        return [
            Match(document, score, relevant.get(document, 0.0), self.word_counts[document])
            for document in order
        ]


def _field(size: int, texts: Sequence[str], words: dict[str, array[int]] | None = None) -> FieldIndex:
    if words is None:
        words = _inverted(set(words_of(text)) for text in texts)
    grams = _inverted(_grams(text) for text in texts)
    word_terms = sorted(words)
    gram_terms = sorted(gram for gram in grams if gram.isalnum())
    return FieldIndex(
        Lexicon.of(word_terms),
        Postings.of(size, (words[term] for term in word_terms)),
        Lexicon.of(gram_terms),
        Postings.of(size, (grams[term] for term in gram_terms)),
    )


def _grams(text: str) -> set[str]:
    return {*text, *map(str.__add__, text, text[1:])}


def _inverted(terms_of_documents: Iterable[Iterable[str]]) -> dict[str, array[int]]:
    documents: dict[str, array[int]] = {}
    for number, terms in enumerate(terms_of_documents):
        for term in terms:
            if term in documents:
                documents[term].append(number)
            else:
                documents[term] = array("I", (number,))
    return documents
