"""Models of the scripts that train, and their scores."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from common import PROGRESS

import modtok_cli as modtok

# The paper's names. T always are "baseline", an ordinary tokenizer of the size of T, and "joint".
NAMES = {"baseline": "Baseline", "joint": "Samp_Full, p = 1", "none": "Mono-only",
         "full": "Samp_Full"}  # fmt: skip


def named(regime: str) -> str:
    """The paper's name of a regime."""
    return NAMES.get(regime) or f"Samp_Sub{regime.removeprefix('sub:')}"


def regimes(options: argparse.Namespace, *default: str) -> list[str]:
    """Those of --regimes; else those of `default` that so many languages have."""
    most = len(options.langs) - 1
    few = [each for each in default if each.startswith("sub:") and int(each[4:]) > most]
    if few and not options.regimes:
        PROGRESS.note(f"{len(options.langs)} languages have no {', '.join(few)}")
    return options.regimes or [each for each in default if each not in few]


def home(options: argparse.Namespace) -> Path:
    """Where all scripts find the models that they have in common."""
    return getattr(options, "models", None) or Path(options.work).with_name("models")


def tokenizer(options: argparse.Namespace) -> Path:
    """The modular tokenizer of all languages: merged Unigram, or with --bpe sequential BPE."""
    learn, name = (modtok.bpe_seq, "bpe-seq") if options.bpe else (modtok.unigram_merge, "unigram")
    output: Path = home(options) / f"{name}-{options.k}"
    learn(options.langs, data=options.data, output=output, k=options.k, progress=PROGRESS)
    return output


def trained(options: argparse.Namespace, regime: str, **settings: Any) -> Path:
    """The run of a regime of `NAMES`, trained, resumed, or there already."""
    place, sampling = tokenizer(options), regime
    if regime == "baseline":
        size, sampling = modtok.load(place).full().size, "joint"
        learn = modtok.bpe if options.bpe else modtok.unigram
        place = home(options) / f"{place.name}-{regime}"
        learn(options.langs, data=options.data, output=place, k=size, joint=True, progress=PROGRESS)
    words = [place.name, sampling.replace(":", "-"), *map(str, settings.values())]
    name = "-".join([*words, f"seed-{options.seed}"])
    path: Path = home(options) / "runs" / name
    run = modtok.RunSettings(
        sampling=sampling, langs=options.langs, data=options.data, tokenizer=place, name=name,
        runs=path.parent, seed=options.seed, **settings, **options.settings,
    )  # fmt: skip
    modtok.pretrain(run, resume=path.exists(), progress=PROGRESS)
    return path


def accuracies(
    options: argparse.Namespace, run: Path, langs: Sequence[str], infer: str
) -> dict[str, dict[str, float]]:
    """Accuracy by language and task."""
    few = {name: value for name, value in options.eval.items() if name != "max_tokens"}
    found = modtok.evaluate_mcq(
        run, list(langs), tasks=options.tasks, data=options.texts, infer=infer,
        progress=PROGRESS, **few,
    )  # fmt: skip
    values: dict[str, dict[str, float]] = {}
    for result in found.results:
        values.setdefault(result.language, {})[result.task] = result.value
    return values


def mcq(options: argparse.Namespace, run: Path, langs: Sequence[str], infer: str) -> dict[str, Any]:
    """Mean accuracy over tasks, by language: the paper's MCQ."""
    found = accuracies(options, run, langs, infer)
    return {language: fmean(each.values()) for language, each in found.items()}


def mt(options: argparse.Namespace, run: Path, pairs: Sequence[str], infer: str) -> dict[str, Any]:
    """BLEU by pair."""
    found = modtok.evaluate_mt(
        run, ",".join(pairs), data=options.texts, infer=infer, progress=PROGRESS, **options.eval
    )
    return {one.language: one.value for one in found.results if one.metric == "BLEU"}


def from_english(options: argparse.Namespace) -> list[str]:
    """Pairs en-bg, en-cs, ...; from the first language if English is none of them."""
    first = "en" if "en" in options.langs else options.langs[0]
    return [f"{first}-{language}" for language in options.langs if language != first]
