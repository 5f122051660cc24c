"""`modtok study sampling`: §5 of the paper at small scale.

The same model is trained under each sampling regime and evaluated under each inference
vocabulary: bits per byte of each language, and the language of generated text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import options_of
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.measure.references import Reference, find_references, identify
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.training import checkpoint, loop
from modtok_cli.training.config import Config, Settings, resolve
from modtok_cli.training.data.sampling import Regime
from modtok_cli.training.heldout import add_texts, held_out_texts
from modtok_cli.training.metrics import LanguageSums
from modtok_cli.training.model.model import Model
from modtok_cli.training.opening import text_files
from modtok_cli.training.prepare import Run, prepare
from modtok_cli.training.rundir import CONFIG, RunDirectory
from modtok_cli.training.sample_text import continue_texts

REGIMES = ("joint", "none", "full", "sub:1", "sub:2")
_WITHOUT_P = ("joint", "none")
PROMPT_TOKENS = 12


def study_sampling(
    settings: Settings,
    regimes: Sequence[str] = REGIMES,
    *,
    probabilities: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    samples: int = 32,
    tokens: int = 32,
    force: bool = False,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Train under each regime and evaluate each model under each inference vocabulary.

    Runs are stored as `study_runs` names them; a run finished with the same settings is not
    trained again. The tokenizer's monolingual references identify languages.

    Args:
        probabilities: values of p, for regimes that have it; that of `settings` by default.
        seeds: seeds of each regime and p; that of `settings` by default.

    Returns:
        A row per regime, p, seed, inference vocabulary ("lang", "full", "en+lang") and language:
        bits per byte on held-out text, and the share of continued texts in the language.

    Raises:
        UsageError, ModtokError: see `pretrain`; or no references.
    """
    # All settings are checked before hours of training.
    runs = study_runs(settings, regimes, probabilities, seeds)
    config = resolve(runs[0], gpu=False)
    languages = list(text_files(config))
    for each in runs:
        Regime.parse(each.sampling).check(languages, "--regimes")
    references = find_references(None, [str(config.tokenizer)])
    judges = {language: references[language] for language in languages}
    rows: list[dict[str, Any]] = []
    for each in runs:
        path = config.runs / str(each.name)
        progress.note(f"{each.sampling}: training {path}")
        train_or_resume(each, force=force, progress=progress)
        run = prepare(each, resume=True, force=False, progress=progress)
        with closing(run.directory), closing(loop.build_model(run)) as model:
            step, _ = loop.restore(run, model)
            for row in measure_run(run, model, judges, samples=samples, tokens=tokens):
                facts = {"sampling": each.sampling, "p": run.config.p, "seed": run.config.seed}
                rows.append({**facts, "step": step, **row})
    return rows


def study_runs(
    settings: Settings,
    regimes: Sequence[str],
    probabilities: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
) -> list[Settings]:
    """The settings of every run of a study; regimes without p once for each seed.

    A name is `study-<regime>`, and of several p or seeds that of the run, if it is not the default:
    `study-sub-2-p-0.25-seed-1`. So a study can grow.

    >>> [each.name for each in study_runs(Settings(), ["none", "full"], [0.5, 0.2], [0, 1])]
    ['study-none', 'study-none-seed-1', 'study-full', 'study-full-seed-1', 'study-full-p-0.2', \
'study-full-p-0.2-seed-1']
    """
    options, runs = options_of(Settings), []
    for regime in regimes:
        chosen = None if regime in _WITHOUT_P else probabilities
        for p in chosen or (None,):
            for seed in seeds or (None,):
                name = f"study-{regime.replace(':', '-')}"
                changed: dict[str, Any] = {}
                for key, value in (("p", p), ("seed", seed)):
                    if value is not None:
                        changed[key] = value
                        name += "" if value == options[key].default else f"-{key}-{value:g}"
                runs.append(replace(settings, sampling=regime, name=name, **changed))
    return runs


def train_or_resume(
    settings: Settings, *, force: bool = False, progress: Progress = SILENT
) -> None:
    """Train the run of `settings`, resume it, or leave it if it is finished.

    Raises:
        UsageError: it was trained with other settings.
        UsageError, ModtokError: see `pretrain`.
    """
    path = resolve(settings, gpu=False).runs / str(settings.name)
    directory = RunDirectory(path)
    if force or not (directory.path / CONFIG).is_file():
        loop.pretrain(settings, force=force, progress=progress)
        return
    found = checkpoint.newest(directory.checkpoints, progress)
    file = directory.path / CONFIG
    config = directory.read_config()
    then = Config.from_json(config["config"], str(file))
    resolved = resolve(settings, gpu=then.dtype == "bfloat16")
    languages = list(text_files(resolved))
    before = then.as_json() | {"langs": sorted(config["mixture"])}
    now = resolved.as_json() | {"langs": languages}
    changeable = {name for name, option in options_of(Settings).items() if option.changeable}
    differing = [n for n in now if before[n] != now[n] and (n == "steps" or n not in changeable)]
    if differing:
        raise UsageError(
            f"was trained with other settings ({', '.join(differing)})",
            where=str(file),
            remedy="--force trains it again, --runs puts the study elsewhere",
        )
    if found is None or found[1]["step"] < then.steps:
        loop.pretrain(settings, resume=True, progress=progress)


def inference_sets(language: str, languages: Sequence[str]) -> dict[str, tuple[str, ...] | None]:
    """Vocabularies to predict over: name → languages, None for all of T.

    >>> inference_sets("fi", ["en", "fi"])
    {'lang': ('fi',), 'full': None, 'en+lang': ('en', 'fi')}
    """
    sets: dict[str, tuple[str, ...] | None] = {"lang": (language,), "full": None}
    if "en" in languages and language != "en":
        sets["en+lang"] = tuple(sorted(("en", language)))
    return sets


def measure_run(
    run: Run,
    model: Model,
    references: Mapping[str, Reference],
    *,
    samples: int,
    tokens: int,
) -> list[dict[str, Any]]:
    """Bits per byte and language of continuations, by inference vocabulary and language."""
    rows = []
    for language in run.mixture.languages:
        for name, chosen in inference_sets(language, run.mixture.languages).items():
            subtokenizer = run.subtokenizers.of(chosen)
            sums = LanguageSums([language], run.device)
            store = run.stores[language]
            add_texts(
                sums,
                model,
                language,
                held_out_texts(store, 1 << 16),
                subtokenizer,
                run.subtokenizers.end_of_text,
                run.config.seq_length,
                run.config.micro_batch,
            )
            figures = sums.over_replicas(run.ranks)[1][language]
            share, count = _written_in(
                run, model, language, subtokenizer, references, samples, tokens
            )
            rows.append(
                {
                    "inference": name,
                    "language": language,
                    "bits_per_byte": figures["bits_per_byte"],
                    "in_language": share,
                    "texts": count,
                    "vocabulary": subtokenizer.size,
                }
            )
    return rows


def _written_in(
    run: Run,
    model: Model,
    language: str,
    subtokenizer: Subtokenizer,
    references: Mapping[str, Reference],
    samples: int,
    tokens: int,
) -> tuple[float | None, int]:
    """Share of continuations of held-out text that are identified as `language`."""
    prompts = _prompts(run, language, subtokenizer, samples)
    if not prompts:
        return None, 0
    specials = range(len(subtokenizer.vocabulary.specials))
    texts = continue_texts(
        model, subtokenizer, prompts, tokens, avoid=list(specials), seed=run.config.seed
    )
    # Bytes drawn one by one need not be UTF-8; the identifier reads valid text only.
    valid = [text.decode("utf-8", "ignore").encode() for text in texts]
    found = identify(valid, references)
    return sum(name == language for name in found) / len(found), len(found)


def _prompts(
    run: Run, language: str, subtokenizer: Subtokenizer, samples: int
) -> list[npt.NDArray[np.int32]]:
    """An end of text and the first tokens of held-out lines, all equally long."""
    texts = held_out_texts(run.stores[language], 1 << 18)
    lines = [line for text in texts for line in text.split(b"\n") if len(line) > 100]
    end = np.array([run.subtokenizers.end_in(subtokenizer)], dtype=np.int32)
    encoded = subtokenizer.encode_utf8(lines[: 2 * samples], 1)
    return [
        np.concatenate([end, ids[:PROMPT_TOKENS]]) for ids in encoded if len(ids) >= PROMPT_TOKENS
    ][:samples]
