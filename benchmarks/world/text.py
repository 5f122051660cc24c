"""Documents, parallel sentences and questions about a world."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.world import languages as concepts
from benchmarks.world.facts import Fact, World
from benchmarks.world.languages import Language

STATED_BY = {
    "all": "all languages",
    "own": "the language of the question only",
    "other": "one other language only",
}


@dataclass(frozen=True)
class Event:
    """Something that happened, which is no fact to remember."""

    verb: str
    subject: str
    adjective: str | None = None
    thing: str | None = None
    thing_adjective: str | None = None
    plural: bool = False
    receiver: str | None = None
    place: str | None = None
    time: str | None = None

    def concepts(self, language: Language) -> list[str]:
        """What `language` has words for."""
        parts = (self.verb, self.subject, self.thing, self.receiver, self.place, self.time)
        return [part for part in parts if part in language.words]


def draw_event(draw: random.Random, people: Sequence[str]) -> Event:
    """Any event, with a person by name in one of three."""

    def maybe(share: float, values: Sequence[str]) -> str | None:
        return draw.choice(values) if draw.random() < share else None

    verb = draw.choice((*concepts.WITH_OBJECT, *concepts.WITH_RECEIVER, *concepts.WITHOUT))
    has_object = verb not in concepts.WITHOUT
    named = draw.random() < 1 / 3
    return Event(
        verb=verb,
        subject=draw.choice(people if named else (*concepts.PEOPLE, *concepts.ANIMALS)),
        adjective=None if named else maybe(0.3, concepts.ADJECTIVES),
        thing=draw.choice((*concepts.THINGS, *concepts.FOODS)) if has_object else None,
        thing_adjective=maybe(0.3, concepts.ADJECTIVES) if has_object else None,
        plural=has_object and draw.random() < 0.3,
        receiver=draw.choice(concepts.PEOPLE) if verb in concepts.WITH_RECEIVER else None,
        place=maybe(0.4, concepts.PLACES),
        time=maybe(0.3, concepts.TIMES),
    )


def tell_event(event: Event, language: Language) -> str:
    """The event as a sentence."""
    name = None if event.subject in language.words else event.subject
    phrase = language.noun_phrase
    parts = {
        "S": phrase(event.subject, "subject", adjective=event.adjective, name=name),
        "V": language.verb(event.verb, "past"),
    }
    if event.thing is not None:
        parts["O"] = phrase(
            event.thing, "object", adjective=event.thing_adjective, plural=event.plural
        )
    if event.receiver is not None:
        parts["R"] = phrase(event.receiver, "receiver")
    if event.place is not None:
        parts["P"] = phrase(event.place, "place")
    if event.time is not None:
        parts["T"] = language.words[event.time]
    return language.clause(parts)


def tell_fact(fact: Fact, language: Language) -> str:
    """The fact as a sentence."""
    words, phrase = language.words, language.noun_phrase
    parts = {"S": phrase("", "subject", name=fact.subject)}
    if fact.relation == "live":
        parts |= {"V": language.verb("live", "habit"), "P": phrase("", "place", name=fact.value)}
    elif fact.relation == "job":
        parts |= {"V": words["be"], "O": words[fact.value]}
    elif fact.relation == "own":
        thing = phrase(fact.value, "object", adjective=fact.detail)
        parts |= {"V": language.verb("own", "habit"), "O": thing}
    elif fact.relation in ("love", "make"):
        thing = phrase(fact.value, "object")
        parts |= {"V": language.verb(fact.relation, "habit"), "O": thing}
    elif fact.relation == "friend":
        owner = phrase("", "owner", name=fact.value)
        parts |= {"V": words["be"], "O": f"{words['friend']} {owner}"}
    elif fact.relation == "in":
        parts |= {"V": words["be"], "P": phrase("", "place", name=fact.value)}
    else:
        parts |= {"V": words["be"], "O": f"{words['capital']} {fact.value}"}
    return language.clause(parts)


@dataclass(frozen=True)
class Writer:
    """Writes documents of one language.

    Attributes:
        quotes: share of documents that quote sentences of another language beside their
            translation, as `foreign = own` or `own = foreign`, a line each.
        held_out: sentences of the first language that no quotation has.
        lines: most lines of a list of quotations, which has half as many at least.
        foreign: share of words of other texts that are of another language.
        synonyms: language → `Language.synonyms`, of which other texts use any.
        summaries: share of other texts that end with a line `TL;DR: facts` (`summary`).
    """

    world: World
    languages: Mapping[str, Language]
    code: str
    quotes: float
    held_out: frozenset[str] = frozenset()
    lines: int = 8
    foreign: float = 0.0
    synonyms: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    summaries: float = 0.0

    def document(self, draw: random.Random) -> str:
        """A list of quotations, or a text about a person or a place."""
        others = self._others
        if others and draw.random() < self.quotes:
            return self._quotations(draw, self.languages[draw.choice(others)])
        text, summary = self.summarized(draw)
        if self.summaries and summary and draw.random() < self.summaries:
            return f"{text}\nTL;DR: {summary}"
        return text

    def summarized(self, draw: random.Random) -> tuple[str, str]:
        """A text about a person or a place, and the facts that it has, in their own order."""
        world, language, others = self.world, self.languages[self.code], self._others
        subject = draw.choice((*world.people, *world.towns, *world.countries))
        facts = world.of(subject, self.code)
        people = (subject,) if subject in world.people else world.people
        stated = [tell_fact(fact, language) for fact in facts]
        events = [draw_event(draw, people) for _ in range(draw.randint(2, 5))]
        told = [tell_event(event, self._varied(draw, event, language)) for event in events]
        if others and self.foreign:
            words = sum(len(sentence.split()) for sentence in (*stated, *told))
            share = self.foreign * words / len(told)
            for number, event in enumerate(events):
                other = self.languages[draw.choice(others)]
                told[number] = self._with_foreign(draw, event, other, share) or told[number]
        sentences = stated + told
        draw.shuffle(sentences)
        return " ".join([f"{subject}.", *sentences]), " ".join(stated)

    @property
    def _others(self) -> list[str]:
        return [code for code in self.languages if code != self.code]

    def _varied(self, draw: random.Random, event: Event, language: Language) -> Language:
        """The language with any of its words for what happens in the event."""
        if not self.synonyms:
            return language
        words = self.synonyms[language.code]
        return language.with_words(
            {concept: draw.choice(words[concept]) for concept in event.concepts(language)}
        )

    def _with_foreign(
        self, draw: random.Random, event: Event, other: Language, words: float
    ) -> str | None:
        """The event with something of another language; None in most cases.

        It is a name, a loanword with the endings of this language, or the whole sentence, each
        with a third of the `words` of the other language that a sentence has on average.
        """
        own = self._varied(draw, event, self.languages[self.code])
        other = self._varied(draw, event, other)
        kind = draw.choice(("name", "loanword", "quotation"))
        if kind == "quotation":
            quoted = tell_event(event, other)
            return f'"{quoted}"' if draw.random() < words / len(quoted.split()) else None
        if draw.random() >= words:
            return None
        concept = draw.choice(event.concepts(own))
        if kind == "name":
            name = other.words[concept].capitalize()
            return tell_event(replace(event, subject=name, adjective=None), own)
        return tell_event(event, own.with_words({concept: other.words[concept]}))

    def _quotations(self, draw: random.Random, other: Language) -> str:
        own = self.languages[self.code]
        pair = (own, other) if draw.random() < 0.5 else (other, own)
        lines = []
        for _ in range(draw.randint(self.lines // 2, self.lines)):
            event = self._event(draw)
            lines.append(" = ".join(tell_event(event, language) for language in pair))
        return "\n".join(lines)

    def _event(self, draw: random.Random) -> Event:
        first = next(iter(self.languages.values()))
        while True:
            event = draw_event(draw, self.world.people)
            if tell_event(event, first) not in self.held_out:
                return event


def questions(
    world: World, language: Language, *, seed: int, choices: int = 4
) -> list[tuple[dict[str, object], str]]:
    """A question for each fact, which of four sentences is true, with its key of `STATED_BY`."""
    draw = random.Random(f"{seed} questions {language.code}")
    rows: list[tuple[dict[str, object], str]] = []
    for number, (fact, stated) in enumerate(zip(world.facts, world.stated, strict=True)):
        wrong = world.values(fact)
        if len(wrong) < choices - 1:
            continue
        values = [fact.value, *draw.sample(wrong, choices - 1)]
        draw.shuffle(values)
        row: dict[str, object] = {
            "id": f"{number}",
            "question": f"{fact.subject}.",
            "choices": [
                tell_fact(Fact(fact.subject, fact.relation, value, fact.detail), language)
                for value in values
            ],
            "answer": values.index(fact.value),
        }
        alone = "own" if stated[0] == language.code else "other"
        rows.append((row, "all" if len(stated) > 1 else alone))
    return rows
