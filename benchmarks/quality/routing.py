"""Routing of prompts to subtokenizers: accuracy, and cost of errors.

    python -m benchmarks routing TOKENIZER PARALLEL [--every 3] [--show 40]

TOKENIZER is a modular directory with references, PARALLEL holds <lang>.txt. Every third line,
whole and cut to its first characters, is routed as `modtok generate --langs auto` does.
JSON lines:

    route   accuracy by language; covered: the right language is among those taken.
    cost    tokens by what was taken over tokens by the right subtokenizer: of lines routed to
            another language, and of lines that took a union; mean number of a union's tokens.
    random  the same for a subset of one wrong language, over all pairs of languages.
    wrong   lines that were routed to another language, --show of them, spread evenly.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.common import emit
from modtok_cli.inference.run.route import MARGIN, Route, route, routing_references
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer

CUTS: dict[str, int | None] = {"whole line": None, "80": 80, "40": 40, "20": 20}


def say(**row: Any) -> None:
    emit(row)


def tokens(tokenizer: Subtokenizer, texts: list[str]) -> list[int]:
    return [len(ids) for ids in tokenizer.encode_batch(texts)]


def routing(
    lines: dict[str, list[str]], prices: Any, subset: Callable[..., Subtokenizer], show: int
) -> None:
    for name, length in CUTS.items():
        right: Counter[str] = Counter()
        covered, taken, unions = 0, [], 0
        wrong: list[tuple[str, Route, str]] = []
        doubtful: list[tuple[str, Route, str]] = []
        for language, texts in lines.items():
            cut = [text[:length] for text in texts]
            for text, found in zip(cut, route(cut, prices), strict=True):
                right[language] += found.languages[0] == language
                covered += language in found.languages
                taken.append(len(found.languages))
                unions += not found.certain
                if found.certain and found.languages[0] != language:
                    wrong.append((language, found, text))
                if not found.certain:
                    doubtful.append((language, found, text))
        total = len(taken)
        each = {name: right[name] / len(lines[name]) for name in lines}
        say(
            what="route",
            prompt=name,
            lines=total,
            margin=MARGIN,
            accuracy=sum(right.values()) / total,
            covered=covered / total,
            languages=mean(taken),
            unions=unions / total,
            worst=dict(sorted(each.items(), key=lambda pair: pair[1])[:5]),
        )
        for kind, rows in (("routed to another", wrong), ("took a union", doubtful)):
            if not rows:
                continue
            here = there = 0
            sizes = []
            for language, found, text in rows:
                own = subset(tuple(sorted(found.languages)))
                sizes.append(own.size)
                there += tokens(own, [text])[0]
                here += tokens(subset((language,)), [text])[0]
            say(
                what="cost",
                prompt=name,
                kind=kind,
                lines=len(rows),
                ratio=there / here,
                rows=mean(sizes),
            )
        pairs = Counter((language, found.languages[0]) for language, found, _ in wrong)
        say(what="pairs", prompt=name, most={f"{a}>{b}": n for (a, b), n in pairs.most_common(12)})
        if length is None:
            for language, found, text in wrong[:: max(1, len(wrong) // show)]:
                say(what="wrong", right=language, taken=found.languages[0], text=text[:160])


def random_wrong(lines: dict[str, list[str]], subset: Callable[..., Subtokenizer]) -> None:
    """What a subset of one other language costs."""
    ratios, nearest = {}, {}
    for language, texts in lines.items():
        own = sum(tokens(subset((language,)), texts[:100]))
        for other in lines:
            if other != language:
                ratios[language, other] = sum(tokens(subset((other,)), texts[:100])) / own
        best = min((pair for pair in ratios if pair[0] == language), key=ratios.__getitem__)
        nearest[f"{best[0]} by {best[1]}"] = round(ratios[best], 3)
    values = list(ratios.values())
    say(what="random", pairs=len(values), mean=mean(values), median=median(values), nearest=nearest)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("parallel", type=Path)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--show", type=int, default=40)
    given = parser.parse_args()
    tokenizer = ModularTokenizer.load(given.tokenizer)
    subset = cache(tokenizer.subset)
    lines = {
        name: (given.parallel / f"{name}.txt").read_text("utf-8").split("\n")[:: given.every]
        for name in tokenizer.languages
    }
    lines = {name: [line for line in found if line.strip()] for name, found in lines.items()}
    prices = routing_references(given.tokenizer, tokenizer.languages)
    say(what="tokenizer", languages=len(lines), size=tokenizer.size, signature=tokenizer.signature)
    routing(lines, prices, subset, given.show)
    random_wrong(lines, subset)
