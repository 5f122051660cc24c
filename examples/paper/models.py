"""Models of the scripts that train, and their scores."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from common import sequential

import modtok_cli as modtok


def tokenizer(options: argparse.Namespace) -> Path:
    """The modular tokenizer of all languages: merged Unigram, or with --bpe sequential BPE."""
    if options.bpe:
        return sequential(options)
    output: Path = options.work / f"unigram-{options.k}"
    modtok.unigram_merge(options.langs, data=options.data, output=output, k=options.k)
    return output


def trained(options: argparse.Namespace, sampling: str, **settings: Any) -> Path:
    """The run of a sampling regime, trained, resumed, or there already. "joint" is the baseline."""
    place = tokenizer(options)
    words = [place.name, sampling.replace(":", "-"), *map(str, settings.values())]
    name = "-".join([*words, f"seed-{options.seed}"])
    run = modtok.RunSettings(
        sampling=sampling, langs=options.langs, data=options.data, tokenizer=place, name=name,
        runs=options.work / "runs", seed=options.seed, **settings, **options.settings,
    )  # fmt: skip
    path: Path = options.work / "runs" / name
    modtok.pretrain(run, resume=path.exists())
    return path


def mcq(options: argparse.Namespace, run: Path, langs: Sequence[str], infer: str) -> dict[str, Any]:
    """Mean accuracy over tasks, by language: the paper's MCQ."""
    few = {name: value for name, value in options.eval.items() if name != "max_tokens"}
    found = modtok.evaluate_mcq(
        run, list(langs), tasks=options.tasks, data=options.texts, infer=infer, **few
    )
    values: dict[str, list[float]] = {}
    for result in found.results:
        values.setdefault(result.language, []).append(result.value)
    return {language: fmean(each) for language, each in values.items()}


def mt(options: argparse.Namespace, run: Path, pairs: Sequence[str], infer: str) -> dict[str, Any]:
    """BLEU by pair."""
    found = modtok.evaluate_mt(
        run, ",".join(pairs), data=options.texts, infer=infer, **options.eval
    )
    return {one.language: one.value for one in found.results if one.metric == "BLEU"}


def from_english(options: argparse.Namespace) -> list[str]:
    """Pairs en-bg, en-cs, ..."""
    return [f"en-{language}" for language in options.langs if language != "en"]
