"""Sample the language and the subtokenizer of each batch.

Every draw is a pure function of (seed, step, group), a group being the sequences that share a
draw: sequences of a step, of a rank, or of a microbatch. There is no random state to store, every
rank can compute the draws of the others, and a resumed run repeats the same draws.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from typing import Any

import numpy as np

from modtok_cli.base.errors import UsageError
from modtok_cli.text.languages import canonical, the_one

_POWER = re.compile(r"data\^([0-9]+(?:\.[0-9]+)?)")
REGIMES = "none, full, joint or sub:N"
SOURCES, MAX_EPOCHS = "--set data.sources", "--set data.max_epochs"


@dataclass(frozen=True)
class Regime:
    """A sampling regime of the paper's §5, or the shared-vocabulary baseline.

    With probability p a batch of language i uses a larger subtokenizer than T_i: all of T
    ("full"), or T_i with `extra` further languages ("sub"). "none" is always T_i, "joint"
    always T.
    """

    kind: str
    extra: int = 0

    @staticmethod
    def parse(text: str) -> Regime:
        """Read `none`, `full`, `joint` or `sub:N`.

        >>> Regime.parse("sub:2")
        Regime(kind='sub', extra=2)
        """
        if text in ("none", "full", "joint"):
            return Regime(text)
        match = re.fullmatch(r"sub:([1-9][0-9]{0,3})", str(text))
        if not match:
            raise ValueError(f"expected {REGIMES}, got {text!r}")
        return Regime("sub", int(match[1]))

    @staticmethod
    def usual(languages: int) -> Regime:
        """The default for a number of languages: `sub:2`, or as many as there are.

        >>> [str(Regime.usual(count)) for count in (1, 2, 3, 9)]
        ['none', 'sub:1', 'sub:2', 'sub:2']
        """
        extra = min(2, languages - 1)
        return Regime("sub", extra) if extra else Regime("none")

    def __str__(self) -> str:
        return f"{self.kind}:{self.extra}" if self.extra else self.kind

    def own(self, language: str) -> tuple[str, ...] | None:
        """Languages whose subtokenizer splits evaluated text of a language; None is T."""
        return None if self.kind == "joint" else (language,)

    def check(self, languages: Sequence[str]) -> None:
        """Check that there are enough languages."""
        if self.extra >= len(languages):
            most = len(languages) - 1
            raise UsageError(
                f"{self} samples {self.extra} further languages, but the mixture has only {most}",
                where="--sampling",
                remedy=f"use {self.kind}:{most} at most, or full" if most else "use none",
            )


@dataclass(frozen=True)
class Mixture:
    """Sampling probability of each language; weights are positive and sum to 1.

    `sources` has the probabilities of the sources of a language, by name; a language that is not
    there has one text.
    """

    languages: tuple[str, ...]
    weights: tuple[float, ...]
    sources: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @staticmethod
    def of(
        sizes: Mapping[str, int], fixed: Mapping[str, float] | None = None, rest: str = "data"
    ) -> Mixture:
        """Weights for the languages of `sizes` (bytes of text).

        `fixed` gives the shares of some languages (default: {"en": 0.7} if there is English).
        The others divide the rest in proportion to their text (`rest` = "data"), to a power of it
        ("data^0.3") or equally ("uniform").

        >>> Mixture.of({"en": 10, "fi": 30, "fr": 10}, {"en": 0.5}, "uniform").weights
        (0.5, 0.25, 0.25)

        Raises:
            UsageError: a share of a language without text, or shares that leave nothing for
                the others or do not sum to 1.
        """
        languages = tuple(sorted(sizes))
        if fixed is None:
            fixed = {"en": 0.7} if "en" in sizes and len(sizes) > 1 else {}
        named = {the_one(name, languages) or name: share for name, share in fixed.items()}
        if len(named) < len(fixed):
            raise UsageError("two shares of one language", where="--mix")
        fixed = named
        for language, share in fixed.items():
            if language not in sizes:
                raise UsageError(
                    f"there is no text of language '{language}'",
                    where="--mix",
                    remedy=f"use some of {', '.join(languages)}",
                )
            if not 0 < share <= 1:
                raise UsageError(
                    f"expected a share between 0 and 1 for '{language}', got {share:g}",
                    where="--mix",
                )
        left = 1 - sum(fixed.values())
        others = [language for language in languages if language not in fixed]
        if (others and left <= 1e-9) or left < -1e-9 or (not others and abs(left) > 1e-6):
            what = f"the shares sum to {1 - left:g}"
            remedy = f"leave a share for {', '.join(others)}" if others else "make them sum to 1"
            raise UsageError(what, where="--mix", remedy=remedy)
        power = power_of(rest)
        parts = {name: float(sizes[name]) ** power for name in others}
        whole = sum(parts.values())
        weights = {**fixed, **{name: left * part / whole for name, part in parts.items()}}
        total = sum(weights.values())
        return Mixture(languages, tuple(weights[name] / total for name in languages))

    def as_dict(self) -> dict[str, float]:
        """Language → weight."""
        return dict(zip(self.languages, self.weights, strict=True))

    def of_texts(self) -> dict[str, float]:
        """Text → weight; the text of a source is `fi/wiki`.

        >>> Mixture(("en", "fi"), (0.6, 0.4), {"fi": {"web": 0.75, "wiki": 0.25}}).of_texts()
        {'en': 0.6, 'fi/web': 0.30000000000000004, 'fi/wiki': 0.1}
        """
        found = {}
        for language, weight in self.as_dict().items():
            for source, part in self.sources.get(language, {"": 1.0}).items():
                found[text_name(language, source)] = weight * part
        return found

    def with_sources(
        self, given: Mapping[str, float], known: Mapping[str, Collection[str]]
    ) -> Mixture:
        """The same with the weights of sources (`fi/wiki` → weight), relative to each other.

        `known`: the sources of the text of each language.

        Raises:
            UsageError: there is no such language or source.
        """
        sources: dict[str, dict[str, float]] = {}
        for name, weight in sorted(given.items()):
            label, _, source = name.partition("/")
            language = the_one(label, self.languages) or label
            if language not in self.languages or source not in known.get(language, ()):
                what = f"source '{source}' of language '{label}'"
                there = ", ".join(known.get(language, ()) or self.languages)
                raise UsageError(
                    f"there is no {what}", where=SOURCES, remedy=f"use some of {there}"
                )
            sources.setdefault(language, {})[source] = weight
        for own in sources.values():
            whole = sum(own.values())
            own.update({source: weight / whole for source, weight in own.items()})
        return replace(self, sources=sources)

    def capped(self, most: Mapping[str, float], fixed: Collection[str]) -> Mixture:
        """The same where no weight exceeds the language's in `most`, except weights of `fixed`.

        What is left is spread over the other languages in proportion to their weights, as UniMax
        does over equal ones (Chung et al. 2023, arXiv:2304.09151).

        >>> Mixture(("en", "fi", "fr"), (0.5, 0.25, 0.25)).capped({"en": 1, "fi": 0.1, "fr": 1}, ())
        Mixture(languages=('en', 'fi', 'fr'), weights=(0.6, 0.1, 0.3), sources={})

        Raises:
            UsageError: a fixed weight, or the sum of all, exceeds `most`.
        """
        weights = self.as_dict()
        high = [name for name in weights if name in fixed and weights[name] > most[name]]
        free = [name for name in weights if name not in fixed]
        while not high and (over := [name for name in free if weights[name] > most[name]]):
            weights.update({name: most[name] for name in over})
            free = [name for name in free if name not in over]
            left = 1 - sum(weights[name] for name in weights if name not in free)
            whole = sum(weights[name] for name in free)
            weights.update({name: weights[name] * left / whole for name in free})
            high = [] if free or left < 1e-9 else list(weights)
        if high:
            raise UsageError(
                f"the text of {', '.join(high)} is read more often",
                where=MAX_EPOCHS,
                remedy="use fewer steps or more text"
                + (", or other shares" if len(high) < len(weights) else ""),
            )
        return replace(self, weights=tuple(weights.values()))


def power_of(rest: str) -> float:
    """The power of the size of a text that its share is proportional to.

    >>> power_of("data"), power_of("data^0.3"), power_of("uniform")
    (1.0, 0.3, 0.0)
    """
    powers = {"data": 1.0, "uniform": 0.0}
    match = _POWER.fullmatch(str(rest))
    power = powers.get(str(rest), -1.0) if match is None else float(match[1])
    if not 0 <= power <= 1:
        what = "expected data, uniform or data^A with A between 0 and 1"
        raise ValueError(f"{what}, got {rest!r}")
    return power


def parse_sources(value: str | Mapping[str, Any]) -> dict[str, float]:
    """Weights by text, from `fi/wiki=0.3,fi/web=0.7` or a mapping, also one of mappings.

    >>> parse_sources({"fi": {"wiki": 1, "web": 2}})
    {'fi/wiki': 1.0, 'fi/web': 2.0}
    """
    expected = "weights above 0 of sources of a language, such as fi/wiki=0.3"
    if isinstance(value, Mapping):
        inner = {
            key: each if isinstance(each, Mapping) else {"": each} for key, each in value.items()
        }
        value = {text_name(key, name): each for key in inner for name, each in inner[key].items()}
    weights: dict[str, float] = {}
    for name, weight in _numbers(value, expected):
        language, _, source = name.partition("/")
        if not (language and source and weight > 0):
            raise ValueError(f"expected {expected}, got {value!r}")
        weights[text_name(canonical(language), source)] = weight
    return weights


def parse_mix(value: str | Mapping[str, float]) -> dict[str, float]:
    """Shares by language, from `en=0.7,fr=0.1` or a mapping."""
    shares: dict[str, float] = {}
    for name, share in _numbers(value, "shares such as en=0.7,fr=0.1"):
        language = canonical(name)
        if language in shares:
            raise ValueError(f"{language!r} has two shares")
        shares[language] = share
    return shares


def _numbers(value: object, expected: str) -> list[tuple[str, float]]:
    """Names and finite numbers of `a=1,b=2` or of a mapping."""
    found: list[tuple[str, float]] = [("", nan)]
    with suppress(TypeError, ValueError):
        if isinstance(value, str):
            pairs = [tuple(word.rsplit("=", 1)) for word in value.split(",")]
            found = [(name.strip(), float(number)) for name, number in pairs]
        elif isinstance(value, Mapping):
            items = value.items()
            found = [(str(key), nan if isinstance(n, bool) else float(n)) for key, n in items]
    if not all(name and isfinite(number) for name, number in found):
        raise ValueError(f"expected {expected}, got {value!r}")
    return found


@dataclass(frozen=True)
class Draw:
    """The language of some sequences, and the languages of their subtokenizer.

    `languages` is None for all of T, `source` "" for a language that has one text.
    """

    language: str
    languages: tuple[str, ...] | None
    source: str = ""

    @property
    def text(self) -> str:
        """The name of the text, as in `Mixture.of_texts`."""
        return text_name(self.language, self.source)

    def __str__(self) -> str:
        """Form in the metrics: `fi:en,fi`, `fi/wiki:en,fi`, or `fi:full` for T."""
        return f"{self.text}:{'full' if self.languages is None else ','.join(self.languages)}"

    @staticmethod
    def parse(text: str) -> Draw:
        """Read what `str` returned.

        >>> Draw.parse("fi/wiki:en,fi"), str(Draw("fi", None))
        (Draw(language='fi', languages=('en', 'fi'), source='wiki'), 'fi:full')
        """
        name, _, languages = text.rpartition(":")
        language, _, source = name.partition("/")
        return Draw(language, None if languages == "full" else tuple(languages.split(",")), source)


def text_name(language: str, source: str) -> str:
    """The name of a text: of a language, or of one of its sources."""
    return f"{language}/{source}" if source else language


def uniforms(seed: int, step: int, group: int, count: int) -> list[float]:
    """Uniform numbers in [0, 1), a pure function of the arguments (counter-based Philox)."""
    generator = np.random.Philox(key=seed, counter=[0, group, step, 0])
    # 53 bits of the raw stream: independent of changes to NumPy's distributions.
    return [(int(raw) >> 11) * 2.0**-53 for raw in generator.random_raw(count)]


def draw(regime: Regime, p: float, mixture: Mixture, seed: int, step: int, group: int) -> Draw:
    """Sample language and subtokenizer of a group of sequences in `step`.

    Extra languages are sampled one after the other without replacement, in proportion to
    their weights in the mixture.
    """
    *first, last = uniforms(seed, step, group, 3 + regime.extra)
    numbers = iter(first)
    language = mixture.languages[_pick(mixture.weights, next(numbers))]
    shares = mixture.sources.get(language, {"": 1.0})
    source = list(shares)[_pick(list(shares.values()), last)]
    more = next(numbers) < p
    if regime.kind == "joint" or (regime.kind == "full" and more):
        return Draw(language, None, source)
    chosen = {language}
    if more:
        weights = [0.0 if name in chosen else each for name, each in mixture.as_dict().items()]
        for _ in range(min(regime.extra, sum(weight > 0 for weight in weights))):
            index = _pick(weights, next(numbers))
            chosen.add(mixture.languages[index])
            weights[index] = 0.0
    return Draw(language, tuple(sorted(chosen)), source)


def _pick(weights: Sequence[float], number: float) -> int:
    """Index of the cumulative weight that contains `number` · sum; never one of weight 0."""
    goal = number * sum(weights)
    last = 0
    for index, weight in enumerate(weights):
        if weight > 0:
            last = index
            goal -= weight
            if goal < 0:
                break
    return last
