"""Invented languages: sounds, words, endings and word order.

Four languages differ as natural ones do. `qaa` has articles, prepositions and few endings, `qab`
long words with cases and vowel harmony, `qac` puts the verb last and has postpositions, `qad` puts
the verb first, and its articles and adjectives agree with the gender of the noun. The codes are
those that ISO 639-3 reserves for local use.
"""

import copy
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# What the world has words for.
PEOPLE = ("king", "baker", "child", "farmer", "doctor", "soldier")
ANIMALS = ("horse", "dog", "cat", "goat", "bear", "bird")
THINGS = ("apple", "book", "lamp", "knife", "coat", "boat")
FOODS = ("bread", "honey", "soup", "rice", "cheese")
PLACES = ("market", "forest", "river", "house", "bridge")
JOBS = ("smith", "weaver", "miller", "judge", "sailor")
NOUNS = (*PEOPLE, *ANIMALS, *THINGS, *FOODS, *PLACES, *JOBS, "capital", "friend")
ADJECTIVES = ("red", "black", "green", "old", "small", "cold")
# Verbs by the parts that they take: object; object and receiver; none.
WITH_OBJECT = ("see", "buy", "find", "lose", "carry", "hide")
WITH_RECEIVER = ("give", "sell")
WITHOUT = ("sleep", "wait", "sing", "work")
OF_FACTS = ("live", "own", "love", "make")
VERBS = (*WITH_OBJECT, *WITH_RECEIVER, *WITHOUT, *OF_FACTS)
TIMES = ("today", "always", "winter", "night")

_BACK, _FRONT = "aou", "äöy"


@dataclass(frozen=True)
class Sounds:
    """Syllables are onset + vowel, sometimes + coda."""

    onsets: str
    vowels: str
    codas: str
    syllables: tuple[int, int]
    harmony: bool = False


@dataclass(frozen=True)
class Grammar:
    """How a language builds a clause.

    Attributes:
        order: places of subject (S), verb (V), receiver (R), object (O), place (P) and time (T).
        marks: role (subject, object, receiver, place, owner) → ending of the noun; with
            `free_marks`, a word of its own.
        before: whether words that mark a role precede the noun phrase.
        free_marks: whether roles are marked by words instead of endings.
        articles: definite article of each gender; none if empty.
        plural: ending of a plural noun.
        past, habit: endings of the verb.
        adjective_first: whether adjectives precede the noun.
        genders: endings that adjectives take, by gender of the noun; one gender if empty.
    """

    order: str
    marks: Mapping[str, str]
    plural: str
    past: str
    habit: str
    free_marks: bool = False
    before: bool = True
    articles: tuple[str, ...] = ()
    adjective_first: bool = True
    genders: tuple[str, ...] = ()


LANGUAGES: dict[str, tuple[Sounds, Grammar]] = {
    "qaa": (
        Sounds("b,d,f,g,h,k,l,m,n,p,r,s,t,w,st,tr", "a,e,i,o,u", ",n,t,k,r,d", (1, 2)),
        Grammar(
            order="TSVROP",
            marks={"receiver": "ti", "place": "en", "owner": "ov"},
            plural="es", past="ed", habit="s", free_marks=True, articles=("du",),
        ),
    ),
    "qab": (
        Sounds("h,j,k,l,m,n,p,r,s,t,v", "a,e,i,o,u,aa,ii", ",n,s,l", (2, 3), harmony=True),
        Grammar(
            order="SVORPT",
            marks={"object": "n", "receiver": "lle", "place": "ssa", "owner": "nu"},
            plural="ja", past="ivat", habit="pi",
        ),
    ),
    "qac": (
        Sounds("b,ch,d,g,k,m,n,r,sh,t,y,z", "a,e,i,o,u", ",n,m", (2, 3)),
        Grammar(
            order="STPROV",
            marks={"subject": "wa", "object": "om", "receiver": "ni", "place": "de", "owner": "no"},
            plural="tachi", past="mashi", habit="ru", free_marks=True, before=False,
        ),
    ),
    "qad": (
        Sounds("b,c,d,f,g,l,m,p,r,s,t,v,br,fl", "a,e,i,o,ai,eu", ",l,r,s", (1, 3)),
        Grammar(
            order="VSORPT",
            marks={"receiver": "al", "place": "dans", "owner": "di"},
            plural="z", past="ait", habit="e", free_marks=True,
            articles=("lo", "la"), adjective_first=False, genders=("o", "a"),
        ),
    ),
}  # fmt: skip


@dataclass
class Language:
    """One invented language with its words, all drawn from `seed`.

    Attributes:
        code: its code.
        words: concept → stem.
        gender: noun → index of its gender.
    """

    code: str
    seed: int
    words: dict[str, str] = field(default_factory=dict)
    gender: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sounds, self.grammar = LANGUAGES[self.code]
        draw = random.Random(f"{self.seed} {self.code}")
        grammar = self.grammar
        taken = {*grammar.marks.values(), *grammar.articles}
        for concept in (*NOUNS, *ADJECTIVES, *VERBS, *TIMES, "be"):
            while (word := self._word(draw)) in taken or len(word) < 2:
                pass
            taken.add(word)
            self.words[concept] = word
        for noun in NOUNS:
            self.gender[noun] = draw.randrange(max(1, len(grammar.genders)))

    def _word(self, draw: random.Random) -> str:
        sounds = self.sounds
        onsets, vowels, codas = (
            part.split(",") for part in (sounds.onsets, sounds.vowels, sounds.codas)
        )
        fronted = sounds.harmony and draw.random() < 0.5
        parts = []
        for _ in range(draw.randint(*sounds.syllables)):
            vowel = draw.choice(vowels)
            if fronted:
                vowel = vowel.translate(str.maketrans(_BACK, _FRONT))
            parts.append(draw.choice(onsets) + vowel + draw.choice(codas))
        return "".join(parts)

    def synonyms(self, count: int) -> dict[str, list[str]]:
        """Concept → its word and `count` further ones; all are different."""
        draw = random.Random(f"{self.seed} {self.code} synonyms")
        taken = {*self.grammar.marks.values(), *self.grammar.articles, *self.words.values()}
        every = {concept: [word] for concept, word in self.words.items()}
        for words in every.values():
            while len(words) <= count:
                word = self._word(draw)
                if word in taken:  # the short ones are used up
                    word += self._word(draw)
                if word not in taken:
                    taken.add(word)
                    words.append(word)
        return every

    def with_words(self, words: Mapping[str, str]) -> "Language":
        """This language with other words for some concepts."""
        other = copy.copy(self)
        other.words = {**self.words, **words}
        return other

    def ending(self, stem: str, ending: str) -> str:
        """`stem` with an ending, whose vowels follow those of the stem."""
        if self.sounds.harmony and any(letter in _FRONT for letter in stem):
            ending = ending.translate(str.maketrans(_BACK, _FRONT))
        return stem + ending

    def noun_phrase(
        self,
        noun: str,
        role: str,
        *,
        adjective: str | None = None,
        plural: bool = False,
        name: str | None = None,
    ) -> str:
        """A noun phrase in its role; with `name`, a proper name instead of the noun."""
        grammar = self.grammar
        mark = grammar.marks.get(role, "")
        words = []
        if name is None:
            gender = self.gender[noun]
            stem = self.words[noun]
            if plural:
                stem = self.ending(stem, grammar.plural)
            if grammar.articles:
                words.append(grammar.articles[gender % len(grammar.articles)])
            head = stem
        else:
            head, gender = name, 0
        if mark and not grammar.free_marks:
            head = self.ending(head, mark)
        words.append(head)
        if adjective is not None:
            form = self.words[adjective]
            if grammar.genders:
                form += grammar.genders[gender]
            if mark and not grammar.free_marks:
                form = self.ending(form, mark)
            words.insert(len(words) - 1 if grammar.adjective_first else len(words), form)
        if mark and grammar.free_marks:
            words = [mark, *words] if grammar.before else [*words, mark]
        return " ".join(words)

    def verb(self, verb: str, tense: str) -> str:
        """A verb in the past or in the tense of habits and facts."""
        return self.ending(self.words[verb], getattr(self.grammar, tense))

    def clause(self, parts: Mapping[str, str]) -> str:
        """A sentence of parts by the letters of `Grammar.order`, with capital and full stop."""
        text = " ".join(parts[letter] for letter in self.grammar.order if letter in parts)
        return text[0].upper() + text[1:] + "."


def languages(seed: int, codes: Sequence[str]) -> dict[str, Language]:
    """The languages of a world."""
    return {code: Language(code, seed) for code in codes}
