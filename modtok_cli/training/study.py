"""`modtok study sampling`: §5 of the paper at small scale.

The same model is trained under each sampling regime and evaluated under each inference
vocabulary: bits per byte of each language, and the language of generated text.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import options_of
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.measure.references import Reference, find_references, identify
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.training import checkpoint, loop
from modtok_cli.training.config import Config, resolve
from modtok_cli.training.data.sampling import Regime
from modtok_cli.training.heldout import first_texts, microbatches
from modtok_cli.training.metrics import LanguageSums
from modtok_cli.training.model.model import GatheredRows, Model
from modtok_cli.training.opening import text_files
from modtok_cli.training.prepare import Run, prepare
from modtok_cli.training.rundir import CONFIG, RunDirectory
from modtok_cli.training.settings import RunSettings

REGIMES = ("joint", "none", "full", "sub:1", "sub:2")
PROMPT_TOKENS = 12


def study_sampling(
    settings: RunSettings,
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
    trained again. The tokenizer's monolingual references identify languages. See
    `studies.sampling`.

    Args:
        probabilities, seeds: those of `settings` by default.
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
    settings: RunSettings,
    regimes: Sequence[str],
    probabilities: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
) -> list[RunSettings]:
    """The settings of every run of a study; regimes without p once for each seed.

    A name is `study-<regime>`, and of several p or seeds that of the run, if it is not the default:
    `study-sub-2-p-0.25-seed-1`. So a study can grow.

    >>> [each.name for each in study_runs(RunSettings(), ["none", "full"], [0.5, 0.2], [0, 1])]
    ['study-none', 'study-none-seed-1', 'study-full', 'study-full-seed-1', 'study-full-p-0.2', \
'study-full-p-0.2-seed-1']
    """
    options, runs = options_of(RunSettings), []
    for regime in regimes:
        chosen = probabilities if Regime.parse(regime).has_p else None
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
    settings: RunSettings, *, force: bool = False, progress: Progress = SILENT
) -> None:
    """Train the run of `settings`, resume it, or leave it if it is finished."""
    path = resolve(settings, gpu=False).runs / str(settings.name)
    directory = RunDirectory(path)
    if force or not (directory.path / CONFIG).is_file():
        loop.pretrain(settings, force=force, progress=progress)
        return
    newest = checkpoint.newest(directory.checkpoints, progress)
    file = directory.path / CONFIG
    config = directory.read_config()
    then = Config.from_json(config["config"], str(file))
    resolved = resolve(settings, gpu=then.dtype == "bfloat16")
    languages = list(text_files(resolved))
    before = then.as_json() | {"langs": sorted(config["mixture"])}
    now = resolved.as_json() | {"langs": languages}
    changeable = {name for name, option in options_of(RunSettings).items() if option.changeable}
    differing = [n for n in now if before[n] != now[n] and (n == "steps" or n not in changeable)]
    if differing:
        raise UsageError(
            f"was trained with other settings ({', '.join(differing)})",
            where=file,
            remedy="--force trains it again, --runs puts the study elsewhere",
        )
    if newest is None or newest[1]["step"] < then.steps:
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
            texts = _held_out(run, language, 1 << 16)
            for microbatch, counted, size in microbatches(run, model, texts, subtokenizer):
                sums.add(language, model.measure(microbatch), counted, size, counted)
            figures = sums.figures(sums.over_replicas(run.ranks).tolist())[1][language]
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
    identified = identify(valid, references)
    return identified.count(language) / len(identified), len(identified)


def _prompts(run: Run, language: str, subtokenizer: Subtokenizer, samples: int) -> list[Int32Array]:
    texts = _held_out(run, language, 1 << 18)
    lines = [line for text in texts for line in text.split(b"\n") if len(line) > 100]
    end = np.array([run.subtokenizers.end_in(subtokenizer)], dtype=np.int32)
    encoded = subtokenizer.encode_utf8(lines[: 2 * samples], 1)
    return [
        np.concatenate([end, ids[:PROMPT_TOKENS]]) for ids in encoded if len(ids) >= PROMPT_TOKENS
    ][:samples]


def _held_out(run: Run, language: str, most: int) -> list[bytes]:
    """The first held-out documents of a language, up to `most` bytes in total."""
    store = run.stores[language]
    return first_texts(store, store.held_out, most)


@torch.no_grad()
def continue_texts(
    model: Model,
    subtokenizer: Subtokenizer,
    prompts: Sequence[Int32Array],
    count: int,
    *,
    avoid: Sequence[int] = (),
    seed: int = 0,
) -> list[bytes]:
    """Sample `count` tokens after each prompt from the model's distribution over V_S.

    Prompts are local ids of equal length; local ids in `avoid` are not sampled. For one process;
    without a key-value cache.
    """
    ids = torch.from_numpy(subtokenizer.global_ids.astype(np.int64)).to(model.ranks.device)
    output = GatheredRows(ids, model.output.gather(ids, model.dtype))
    rows = output if model.tied else GatheredRows(ids, model.input.gather(ids, model.dtype))
    generator = torch.Generator().manual_seed(seed)
    text = torch.from_numpy(np.stack(prompts).astype(np.int64)).to(model.ranks.device)
    start = text.shape[1]
    for _ in range(count):
        last = model.hidden(ids[text], rows)[-1]
        logits = (last @ output.rows.t()).float().cpu()
        logits[:, list(avoid)] = -torch.inf
        drawn = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)
        text = torch.cat([text, drawn.to(text.device)], dim=1)
    drawn_ids = text[:, start:].cpu().numpy().astype(np.int32)
    return [subtokenizer.decode_bytes(one) for one in drawn_ids]
