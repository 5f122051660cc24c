"""People, towns and countries, and what is true of them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.world.languages import ADJECTIVES, ANIMALS, FOODS, JOBS, THINGS


@dataclass(frozen=True)
class Fact:
    """`subject` and `value` stand in `relation`; `detail` is the adjective of what is owned."""

    subject: str
    relation: str
    value: str
    detail: str | None = None


@dataclass(frozen=True)
class World:
    """All facts, and the languages whose texts state each of them.

    Attributes:
        people, towns, countries: names, the same in all languages.
        facts: in the order of their subjects.
        stated: the languages that state each fact: all, or one.
    """

    people: tuple[str, ...]
    towns: tuple[str, ...]
    countries: tuple[str, ...]
    facts: tuple[Fact, ...]
    stated: tuple[tuple[str, ...], ...]

    def of(self, subject: str, language: str) -> list[Fact]:
        """Facts about `subject` that texts in `language` state."""
        return [
            fact
            for fact, stated in zip(self.facts, self.stated, strict=True)
            if fact.subject == subject and language in stated
        ]

    def values(self, fact: Fact) -> list[str]:
        """Values that the relation of `fact` has elsewhere, none of them true of its subject."""
        true = {
            other.value
            for other in self.facts
            if (other.subject, other.relation) == (fact.subject, fact.relation)
        }
        values = {other.value for other in self.facts if other.relation == fact.relation}
        return sorted(values - true - {fact.subject})


def make_world(
    seed: int, languages: Sequence[str], *, people: int = 40, towns: int = 16, private: float = 0.5
) -> World:
    """Draw a world.

    Args:
        seed: the same seed gives the same world.
        languages: those that tell of it.
        people, towns: how many there are.
        private: share of facts that one language alone states, each language as many.
    """
    draw = random.Random(f"{seed} world")
    names: set[str] = set()
    persons = _names(draw, people, names, ("a", "o", "e"), 2)
    places = _names(draw, towns, names, ("ov", "ia", "um", "est"), 2)
    countries = _names(draw, max(2, towns // 4), names, ("land", "mark"), 1)
    facts = []
    for person in persons:
        facts += [
            Fact(person, "live", draw.choice(places)),
            Fact(person, "job", draw.choice(JOBS)),
            Fact(person, "own", draw.choice(ANIMALS), draw.choice(ADJECTIVES)),
            Fact(person, "love", draw.choice(FOODS)),
            Fact(person, "friend", draw.choice([each for each in persons if each != person])),
        ]
    for place in places:
        facts.append(Fact(place, "in", draw.choice(countries)))
    for country in countries:
        facts.append(Fact(country, "capital", draw.choice(places)))
        facts.append(Fact(country, "make", draw.choice(THINGS)))
    stated = []
    for number in range(len(facts)):
        only = languages[number % len(languages)]
        stated.append((only,) if draw.random() < private else tuple(languages))
    return World(tuple(persons), tuple(places), tuple(countries), tuple(facts), tuple(stated))


def _names(
    draw: random.Random, count: int, taken: set[str], endings: Sequence[str], syllables: int
) -> list[str]:
    """New capitalized names."""
    names: list[str] = []
    while len(names) < count:
        parts = [
            draw.choice(
                ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "th"]
            )
            + draw.choice("aeiou")
            for _ in range(syllables)
        ]
        name = ("".join(parts) + draw.choice("lmnrst") + draw.choice(endings)).capitalize()
        if name not in taken:
            taken.add(name)
            names.append(name)
    return names
