"""`modtok study sampling`: one small model under each sampling regime."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from modtok_cli.base.option import Option
from modtok_cli.base.parameters import FilePath, Force, Languages
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.training.settings import OPTIONS, RunSettings

Number = TypeVar("Number", int, float)


def regimes_of(value: str | Sequence[str]) -> list[str]:
    """Regimes of `none,sub:2` or of a list, without repetition."""
    regimes = [part.strip() for part in (value.split(",") if isinstance(value, str) else value)]
    if not all(regimes) or len(set(regimes)) < len(regimes):
        raise ValueError(f"{value!r} has an empty or repeated entry")
    return regimes


def _numbers(value: str | Sequence[Number], kind: type[Number]) -> list[Number]:
    try:
        numbers = [kind(part) for part in (value.split(",") if isinstance(value, str) else value)]
    except ValueError:
        numbers = []
    if not numbers or len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise ValueError(f"{value!r} is not a list of different numbers")
    return numbers


def probabilities_of(value: str | Sequence[float]) -> list[float]:
    """Probabilities of `0.5,0.9` or of a list, without repetition."""
    numbers = _numbers(value, float)
    if max(numbers) > 1:
        raise ValueError("expected probabilities from 0 to 1")
    return numbers


def seeds_of(value: str | Sequence[int]) -> list[int]:
    """Seeds of `0,1,2` or of a list, without repetition."""
    return _numbers(value, int)


@public
def study_sampling(
    *,
    langs: Annotated[Languages | None, OPTIONS["langs"]] = None,
    model: Annotated[str | None, OPTIONS["model"]] = None,
    steps: Annotated[int | None, OPTIONS["steps"]] = None,
    batch_size: Annotated[int | None, OPTIONS["batch_size"]] = None,
    seq_length: Annotated[int | None, OPTIONS["seq_length"]] = None,
    lr: Annotated[float | None, OPTIONS["lr"]] = None,
    p: Annotated[float | None, OPTIONS["p"]] = None,
    mix: Annotated[dict[str, float] | None, OPTIONS["mix"]] = None,
    mix_rest: Annotated[str | None, OPTIONS["mix_rest"]] = None,
    update: Annotated[str | None, OPTIONS["update"]] = None,
    seed: Annotated[int | None, OPTIONS["seed"]] = None,
    data: Annotated[FilePath | None, OPTIONS["data"]] = None,
    tokenizer: Annotated[FilePath | None, OPTIONS["tokenizer"]] = None,
    runs: Annotated[FilePath | None, OPTIONS["runs"]] = None,
    errors: Annotated[str | None, OPTIONS["errors"]] = None,
    field: Annotated[str | None, OPTIONS["field"]] = None,
    lang_field: Annotated[str | None, OPTIONS["lang_field"]] = None,
    regimes: Annotated[
        str | Sequence[str],
        Option("Sampling regimes to train with.", kind=str, metavar="REGIME,...", parse=regimes_of),
    ] = "joint,none,full,sub:1,sub:2",
    p_values: Annotated[
        str | Sequence[float] | None,
        Option(
            "Probabilities p; each trains one run of full and of sub:N.",
            kind=str,
            metavar="P,...",
            parse=probabilities_of,
        ),
    ] = None,
    seeds: Annotated[
        str | Sequence[int] | None,
        Option(
            "Seeds; each trains one run of every regime.",
            kind=str,
            metavar="N,...",
            parse=seeds_of,
        ),
    ] = None,
    samples: Annotated[
        int, Option("Texts to continue per language and vocabulary.", metavar="N", low=1)
    ] = 32,
    force: Force = False,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Compare models trained under each sampling regime.

    Each model predicts held-out text, and continues it, over three vocabularies: its language
    (lang), all of T (full), and with English (en+lang). The rows show bits per byte, and the
    share of generated text that is in the language. Runs are runs/study-REGIME. An
    interrupted study resumes.

    Returns:
        A row per regime, p, seed, inference vocabulary and language.

    Examples:
        >>> few = {"steps": 2, "seq_length": 64, "batch_size": 4}
        >>> rows = modtok.study_sampling(
        ...     regimes=["none"], langs="en,fi", samples=1, runs="sampled", **few
        ... )
        >>> sorted({row["inference"] for row in rows})
        ['en+lang', 'full', 'lang']

    Raises:
        UsageError, ModtokError: as `pretrain`; or the tokenizer has no references.
    """
    from modtok_cli.training.loop import finish
    from modtok_cli.training.study import study_sampling as study

    settings = settings_of(locals())
    try:
        return study(
            settings,
            regimes_of(regimes),
            probabilities=None if p_values is None else probabilities_of(p_values),
            seeds=None if seeds is None else seeds_of(seeds),
            samples=samples,
            force=force,
            progress=progress,
        )
    finally:
        finish()


def settings_of(values: dict[str, Any]) -> RunSettings:
    """The settings of all runs among the arguments of a study."""
    return RunSettings(**{name: values[name] for name in OPTIONS if name in values})
