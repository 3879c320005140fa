"""A search index over a fixed set of documents, which answers with the contract's exact scores in the exact order.

Documents are numbered in the order that breaks ties (fewer words in the body, then path), so that among equals the
lower number wins. A token of a query lies inside one word of the text: so the vocabulary, joined in one string, is
searched for it plainly; one and two letters, which most words contain, have lists of their own.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest
from itertools import accumulate, islice

from dsh_memory.search import bits
from dsh_memory.search.lexicon import Lexicon, Postings, is_dense
from dsh_memory.search.ranking import SearchText, relevance, telling, words_of

# A frequency beyond this is kept as this: the relevance it gives is 1 to three decimals either way.
_LARGEST_FREQUENCY = 0xFFFF
# The documents of a word in more than one of so many are joined with others faster as a bit set.
_COMMON_SHARE = 512


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
        # Counted first and parted again below: the words of all documents at once would take ten times their texts.
        counted = [(len(words_of(document.text.body)), document) for document in documents]
        counted.sort(key=lambda pair: (pair[0], pair[1].path))
        ordered = [document for _, document in counted]
        body = _Words()
        for number, document in enumerate(ordered):
            body.add(number, words_of(document.text.body))
        size = len(ordered)
        return cls(
            [document.key for document in ordered],
            [document.path for document in ordered],
            array("I", (words for words, _ in counted)),
            [document.text.type for document in ordered],
            [document.expires_at for document in ordered],
            [document.id for document in ordered],
            (
                _field(size, _Words.of(document.text.head for document in ordered)),
                _field(size, _Words.of(document.text.id for document in ordered)),
                _field(size, body),
            ),
            body.frequencies(),
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

    def first_by_id(self, members: int, limit: int, apart: Iterable[str]) -> list[int]:
        """The members whose paths are among `apart`, and of the rest the first `limit` by id and path."""
        by_path = self._by_path
        found = [by_path[path] for path in apart if path in by_path]
        known = bits.from_numbers(found, self.size)
        rest = members & ~known
        count = rest.bit_count()
        if count <= limit:
            first = list(bits.numbers(rest))
        elif count * count < limit * self.size:
            first = nsmallest(limit, bits.numbers(rest), key=self._id_and_path)
        else:
            # Of so many, the first ones are found sooner along the order of all.
            octets = rest.to_bytes((self.size >> 3) + 1, "little")
            held = (number for number in self._id_order if octets[number >> 3] >> (number & 7) & 1)
            first = list(islice(held, limit))
        return [*bits.numbers(members & known), *first]

    @cached_property
    def _by_path(self) -> dict[str, int]:
        return {path: number for number, path in enumerate(self.paths)}

    @cached_property
    def _id_order(self) -> Sequence[int]:
        return array("I", sorted(range(self.size), key=self._id_and_path))

    def _id_and_path(self, number: int) -> tuple[str, str]:
        return self.ids[number], self.paths[number]

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


class _Words:
    """The words of documents that are given in the order of their numbers."""

    def __init__(self) -> None:
        self._documents: dict[str, array[int]] = {}
        self._adding = _Adding(self._documents)
        self._repeated: dict[str, list[tuple[int, int]]] = {}

    @classmethod
    def of(cls, texts: Iterable[str]) -> _Words:
        """The words of the texts, the first of which is that of document 0."""
        words = cls()
        for number, text in enumerate(texts):
            words.add(number, words_of(text))
        return words

    def add(self, number: int, words: Sequence[str]) -> None:
        """Adds a document with a number above all before."""
        counts = Counter(words)
        adding = self._adding
        for word in counts:
            adding[word](number)
        if len(counts) < len(words):
            for word, frequency in counts.items():
                if frequency > 1:
                    place = len(self._documents[word]) - 1
                    self._repeated.setdefault(word, []).append((place, min(frequency, _LARGEST_FREQUENCY)))

    def documents(self) -> dict[str, array[int]]:
        """The documents of each word, ascending, in the order of the words."""
        return dict(sorted(self._documents.items()))

    def frequencies(self) -> array[int]:
        """How often each word is in each of its documents, side by side with `documents`."""
        flat = array("H")
        for word, documents in self.documents().items():
            start = len(flat)
            flat += array("H", (1,)) * len(documents)
            for place, frequency in self._repeated.get(word, ()):
                flat[start + place] = frequency
        return flat


class _Adding(dict[str, Callable[[int], None]]):
    """What adds a number to the documents of a word; a word that is new gets its list."""

    def __init__(self, documents: dict[str, array[int]]) -> None:
        super().__init__()
        self._documents = documents

    def __missing__(self, word: str) -> Callable[[int], None]:
        self._documents[word] = numbers = array("I")
        self[word] = numbers.append
        return numbers.append


def _field(size: int, words: _Words) -> FieldIndex:
    documents = words.documents()
    grams = dict(sorted(_grams(size, documents).items()))
    return FieldIndex(
        Lexicon.of(documents),
        Postings.of(size, documents.values()),
        Lexicon.of(grams),
        Postings.of(size, grams.values()),
    )


def _grams(size: int, words: Mapping[str, array[int]]) -> dict[str, array[int] | int]:
    """The documents of each letter and each pair of letters: those of the words that hold it."""
    many: dict[str, int] = {}
    few: dict[str, array[int]] = {}
    for word, documents in words.items():
        members = bits.from_numbers(documents, size) if len(documents) * _COMMON_SHARE > size else 0
        for gram in {*word, *map(str.__add__, word, word[1:])}:
            if members:
                many[gram] = many.get(gram, 0) | members
            elif gram not in few:
                few[gram] = documents[:]
            else:
                numbers = few[gram]
                numbers += documents
                if is_dense(len(numbers), size):
                    many[gram] = many.get(gram, 0) | bits.from_numbers(numbers, size)
                    del few[gram]
    grams: dict[str, array[int] | int] = {**many}
    for gram, numbers in few.items():
        grams[gram] = (
            many[gram] | bits.from_numbers(numbers, size)
            if gram in many
            else array("I", sorted(set(numbers)))
        )
    return grams
