"""From text to the terms that recall ranks by: stems without stop words, bigrams where a script has no
spaces.

The language is guessed for each record; a query is stemmed in every language that the index holds, since a
few words tell none. Pure and deterministic.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Final, Protocol

# Function words of each language; where two share one, both count it.
_STOP_TEXTS: Final = {
    "english": "a about after all also am an and any are as at be because been before being but by can"
    " could did do does doing done for from get got had has have having he her here him his"
    " how i if in into is it its just let me more my no not of off on once only or other our"
    " out over own she should so some such than that the their them then there these they this"
    " those to too under until up us very was we were what when where which while who whom why"
    " will with would you your",
    "german": "aber alle als also am an auch auf aus bei beim bin bis bist da dann das dass dein dem"
    " den der des die dies diese dieser dir doch du durch ein eine einem einen einer eines er"
    " es für habe haben hat hatte hier ich ihm ihn ihr im in ist ja jede kann kein keine mein"
    " mir mit nach nicht noch nur oder ob ohne sehr sein seine sich sie sind so über um und"
    " uns unser unter vom von vor war waren warum was weil welche welchem welchen welcher wenn"
    " wer werden wie wieder wir wird wo wurde zu zum zur",
    "french": "à au aux avec ce ces cet cette chez comme comment dans de des donc du elle elles en est"
    " et été être eux fait faut il ils je la le les leur leurs lui ma mais me mes mon ne nos"
    " notre nous on ont ou où par pas pour pourquoi qu quand que quel quelle quelles quels qui"
    " quoi sa sans se ses si son sont sur ta te tes toi ton tu un une vos votre vous y",
    "spanish": "a al algo ante así con como cómo cuál cuando cuándo de del desde donde dónde el ella"
    " ellos en entre era es esa ese eso esta está este esto fue ha hay la las le les lo los me"
    " mi más muy no nos o para pero por porque que qué quien quién se ser si sí sin sobre son"
    " su sus también te tiene tu un una uno y ya yo",
    "italian": "a ad al alla alle anche c che chi ci come con da dal dalla dei del della delle di dove e"
    " è ed era fra gli ha hanno ho i il in io la le lei lo loro lui ma mi nel nella noi non o"
    " per perché più quale quando quello questa questo se si sono su sua sul suo tra un una"
    " uno voi",
    "portuguese": "a ao aos as com como da das de dela dele do dos e é ela ele em entre era essa esse esta"
    " está este eu foi há isso já mais mas me meu minha na nas nem no nos nós o onde os ou"
    " para pela pelo por porque qual quando que quem se sem ser seu sua são também te um uma"
    " você",
    "dutch": "aan al als bij dan dat de deze die dit door een en er geen had heb heeft hem het hij hoe"
    " ik in is je kan maar me met mijn naar niet nog of om onder ons ook op over te tot uit"
    " van voor waar wat we wel welke wie wij worden zal ze zich zij zijn zo",
    "swedish": "alla att av de dem den denna det detta du där efter en ett för från han har hon hur här"
    " i inte jag kan man med men mig när och om oss på sig sin som så till under upp ut var vi"
    " vid vilken är",
    "russian": "а без бы был была были было быть в вам вас весь во вот все всё вы где да даже для до его"
    " ее её если есть еще ещё же за и из или им их к как какая какие какой когда кто ли мне мы"
    " на над нам нас не него нет но ну о об он она они оно от по под почему при с сам свой"
    " себя со так там то того тоже только тот ты у уже чем что чтобы эта эти это я",
}
_SCRIPTS: Final = {"CYRILLIC": "russian", "GREEK": "greek", "ARABIC": "arabic", "DEVANAGARI": "hindi"}
# Han, kana, Hangul, and the scripts of Thailand, Laos, Myanmar and Cambodia: words there have no spaces
# around them.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN: Final = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|(?P<word>[^\W_{_UNSPACED}]+)")
_HUMPS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^A-Za-z0-9]+")
_LONGEST_WORD: Final = 64


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...


class Words:
    """The words of a text as they are to be stemmed: spaced ones in order, and the terms of unspaced runs."""

    __slots__ = ("spaced", "unspaced")

    def __init__(self, text: str) -> None:
        self.spaced: list[str] = []
        self.unspaced: list[str] = []
        for match in _RUN.finditer(unicodedata.normalize("NFKC", text)):
            run = match.group()
            if match.lastgroup == "unspaced":
                self.unspaced += _bigrams(run)
                continue
            self.spaced.append(run.casefold()[:_LONGEST_WORD])
            parts = _HUMPS.findall(run)
            if len(parts) > 1 and not run.islower():
                # An identifier: `maxRetryCount` is found by its parts, too.
                self.spaced += [part.casefold() for part in parts if len(part) > 1]


def guess_language(words: Iterable[str]) -> str:
    """The language that a text's words are most likely in; English where nothing tells."""
    counts = dict.fromkeys(_STOP_TEXTS, 0)
    stop_words = _stop_words()
    for word in words:
        for language in stop_words.get(word, ()):
            counts[language] += 1
    best = max(counts, key=lambda language: counts[language])
    return best if counts[best] > counts["english"] else "english"


def terms_of(text: str) -> tuple[str, list[str]]:
    """A record's language and its terms, in order, repeated ones kept."""
    words = Words(text)
    language = guess_language(words.spaced)
    stems = [stem(word, language) for word in words.spaced if not is_stop_word(word, language)]
    return language, stems + words.unspaced


def query_terms(text: str, languages: Iterable[str]) -> list[tuple[str, ...]]:
    """A query's distinct words, each as the terms that may stand for it in a record of one of the
    languages.
    """
    words = Words(text)
    guessed = guess_language(words.spaced)
    telling = [word for word in words.spaced if not is_stop_word(word, guessed)]
    known = sorted({guessed, *languages})
    found: dict[tuple[str, ...], None] = {}
    for word in telling or words.spaced:
        found[tuple(dict.fromkeys([stem(word, language) for language in known] + [fold(word)]))] = None
    for term in words.unspaced:
        # A lone character is a query of its own; inside a run the bigrams say more.
        if len(term) > 1 or len(words.unspaced) == 1:
            found[(term,)] = None
    return list(found)


def stem(word: str, language: str) -> str:
    """A word's stem in a language, without the marks of Latin letters."""
    return _stem(word, _language_of_script(word) or language)


def is_stop_word(word: str, language: str) -> bool:
    """Whether a word says nothing about what a text is about."""
    return language in _stop_words().get(word, ()) or (
        "russian" in _stop_words().get(word, ()) and not word.isascii()
    )


@lru_cache(maxsize=1 << 16)
def fold(word: str) -> str:
    """A word without the marks of Latin letters; other scripts keep theirs."""
    if word.isascii() or _language_of_script(word) is not None:
        return word
    decomposed = unicodedata.normalize("NFD", word)
    return unicodedata.normalize(
        "NFC", "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    )


@lru_cache(maxsize=1 << 17)
def _stem(word: str, language: str) -> str:
    if word.isdigit() or len(word) < 3:
        return fold(word)
    return fold(_stemmer(language).stemWord(word))


@cache
def _stemmer(language: str) -> _Stemmer:
    import snowballstemmer  # type: ignore[import-untyped]

    made: _Stemmer = snowballstemmer.stemmer(language)
    return made


@cache
def _stop_words() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for language, text in _STOP_TEXTS.items():
        for word in text.split():
            found.setdefault(word, []).append(language)
    return {word: tuple(languages) for word, languages in found.items()}


@lru_cache(maxsize=1 << 16)
def _language_of_script(word: str) -> str | None:
    if word.isascii():
        return None
    first = unicodedata.name(word[0], "").partition(" ")[0]
    return _SCRIPTS.get(first)


def _bigrams(run: str) -> list[str]:
    return [*run, *(run[place : place + 2] for place in range(len(run) - 1))]
