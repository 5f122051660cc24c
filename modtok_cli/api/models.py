"""Public functions that train models, slice them and generate text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modtok_cli.api.arguments import (
    FilePath,
    Languages,
    checked,
    optional_languages,
    optional_path,
    progress_or_default,
    text_paths,
)
from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Progress

if TYPE_CHECKING:
    from modtok_cli.inference.export.export import ExportReport
    from modtok_cli.inference.hf.directory import VocabularySlice
    from modtok_cli.inference.hf.transplant import TransplantReport
    from modtok_cli.inference.run.generate import Generator
    from modtok_cli.inference.slice.slice import SliceReport


@checked
def slice(
    run: FilePath,
    languages: Languages | None = None,
    *,
    output: FilePath,
    inputs: Languages | None = None,
    outputs: Languages | None = None,
    append: Languages | None = None,
    origin: FilePath | None = None,
    tokenizer: FilePath | None = None,
    step: int | None = None,
    dtype: str | None = None,
    data: FilePath = "data",
    texts: FilePath | Sequence[FilePath] = (),
    token_ids: FilePath | None = None,
    k: int | None = None,
    coverage: float | None = None,
    verify: bool = True,
    force: bool = False,
    progress: Progress | None = None,
) -> SliceReport | VocabularySlice:
    """Write the model of some languages as a directory that transformers opens.

    Args:
        run: A run or a checkpoint; with `append`, a slice; or the directory of any Hugging Face
            model in safetensors, which only `languages`, `tokenizer` and what follows `dtype`
            apply to.
        languages: Languages to keep, both to read and to predict.
        output: Directory to write.
        inputs, outputs: Languages to read and to predict, where they differ; "full" is all.
        append: Languages to add to an existing slice.
        origin: The run that the slice came from, if it moved.
        tokenizer: The run's modular directory, if it moved; of a Hugging Face model, what `adopt`
            wrote.
        step: Step of the checkpoint; the last by default.
        dtype: "float32", "bfloat16" or "float16"; that of training by default.
        data: Hugging Face model: directory with the text of each language.
        texts: Hugging Face model: keep the tokens that these texts use.
        token_ids: Hugging Face model: file with ids of tokens to keep.
        k, coverage: As in `adopt`.
        verify: Hugging Face model: load the result, and compare its logits with the model's.
        force: Replace an existing slice.
        progress: Receives progress.

    Examples:
        >>> report = modtok.slice("runs/latest", "fr,en", output="fr-en")
        >>> sorted(path.name for path in report.output.iterdir())[:2]
        ['README.md', 'config.json']

    Raises:
        UsageError: an unknown language, not a run, or an existing output.
        ModtokError: run or slice are damaged, or the slice's run has changed.
    """
    from modtok_cli.inference.hf.slice import (
        Selection,
        is_model_directory,
        slice_directory,
    )

    if is_model_directory(Path(run)) and not (Path(run) / "modtok.json").is_file():
        if any((inputs, outputs, append, origin, step, dtype)):
            raise UsageError("only languages of a run can be chosen this way", where=str(run))
        return slice_directory(
            Path(run),
            Selection(
                languages=tuple(optional_languages(languages) or ()),
                tokenizer=optional_path(tokenizer),
                data=Path(data),
                texts=tuple(text_paths(texts)) if texts else (),
                keep=optional_path(token_ids),
                k=k,
                coverage=coverage,
            ),
            Path(output),
            verify=verify,
            force=force,
            progress=progress_or_default(progress),
        )
    from modtok_cli.inference.slice.slice import slice_model

    return slice_model(
        Path(run),
        optional_languages(languages),
        output=Path(output),
        inputs=optional_languages(inputs),
        outputs=optional_languages(outputs),
        append=optional_languages(append),
        run=optional_path(origin),
        tokenizer=optional_path(tokenizer),
        step=step,
        dtype=dtype,
        force=force,
        progress=progress_or_default(progress),
    )


@checked
def tokens(
    model: FilePath,
    languages: Languages,
    *,
    data: FilePath = "data",
    k: int | None = None,
    coverage: float | None = None,
    progress: Progress | None = None,
) -> list[int]:
    """List the ids of the tokens of some languages, in the numbering of the whole model.

    Args:
        model: A modular directory, also of `adopt`, or the directory of a Hugging Face model.
        languages: Languages of the tokenizer, or of the text in `data`.
        data: Hugging Face model: directory with the text of each language.
        k, coverage: Hugging Face model: as in `adopt`.
        progress: Receives progress.

    Examples:
        >>> ids = modtok.tokens("tokenizer", "fr")
        >>> ids == modtok.load("tokenizer").subset("fr").global_ids.tolist()
        True

    Raises:
        UsageError: an unknown language, or neither a tokenizer nor a model.
        ModtokError: a file is damaged.
    """
    from modtok_cli.inference.hf.slice import Selection
    from modtok_cli.inference.hf.token_lists import select

    names = tuple(optional_languages(languages) or ())
    selection = Selection(names, data=Path(data), k=k, coverage=coverage)
    ids, _ = select(Path(model), selection, progress_or_default(progress))
    return [int(index) for index in ids]


@checked
def transplant(
    model: FilePath,
    tokenizer: str,
    *,
    output: FilePath,
    fit: Sequence[str] = (),
    untie: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> TransplantReport:
    """Write a Hugging Face model with another vocabulary.

    Rows of tokens that the model has too are copied; any other row is the mean of the rows of the
    tokens that spell it.

    Args:
        model: Directory with config.json, safetensors and tokenizer.json.
        tokenizer: The new vocabulary: a modular directory, `DIR@fr,en`, or a file.
        output: Directory to write.
        fit: Text to fit the output rows of tokens to, without training; the model must fit in
            memory.
        untie: With `fit`: give a model with tied tables separate ones.
        force: Replace an existing output.
        progress: Receives warnings.

    Examples:
        >>> report = modtok.transplant("fr-en", "tokenizer@fi", output="fr-en-for-fi")
        >>> sum(report.tokens.values()) == modtok.open_tokenizer("tokenizer@fi").size
        True

    Raises:
        UsageError: not a model, a tokenizer that modtok did not make, or an existing output.
        ModtokError: a file is damaged.
    """
    from modtok_cli.inference.hf.fit_outputs import FitText
    from modtok_cli.inference.hf.transplant import transplant

    return transplant(
        Path(model),
        tokenizer,
        output=Path(output),
        fit=FitText(fit, untie=untie) if fit else None,
        force=force,
        progress=progress_or_default(progress),
    )


@checked
def export(
    model: FilePath,
    output: FilePath,
    *,
    languages: Languages | None = None,
    probe: Iterable[str] | None = None,
    inexact: bool = False,
    dtype: str = "float16",
    tokenizer: FilePath | None = None,
    step: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> ExportReport:
    """Write a slice, or some languages of a run, as a GGUF file for llama.cpp.

    Args:
        model: A slice, a run or a checkpoint.
        output: File to write.
        languages: Languages to keep, of a run.
        probe: Texts that llama.cpp must encode to the same ids; words of the vocabulary by
            default.
        inexact: Write the file even if ids of the probe differ.
        dtype: "float32", "float16" or "bfloat16".
        tokenizer, step, force, progress: As in `slice`.

    Examples:
        >>> report = modtok.export("fr-en", "fr-en.gguf", inexact=True)
        >>> report.output.stat().st_size == report.bytes
        True

    Raises:
        UsageError: a tokenizer that llama.cpp cannot run, differing ids, or an existing output.
    """
    from modtok_cli.inference.export.export import export

    return export(
        Path(model),
        Path(output),
        languages=optional_languages(languages),
        probe=None if probe is None else list(probe),
        inexact=inexact,
        dtype=dtype,
        tokenizer=optional_path(tokenizer),
        step=step,
        force=force,
        progress=progress_or_default(progress),
    )


@checked
def load_generator(
    model: FilePath,
    languages: Languages | None = None,
    *,
    inputs: Languages | None = None,
    outputs: Languages | None = None,
    tokenizer: FilePath | None = None,
    step: int | None = None,
    references: FilePath | None = None,
    progress: Progress | None = None,
) -> Generator:
    """Load a model that continues prompts; see `generate` for a single call.

    Args:
        model: A run, a checkpoint or a slice.
        languages: Subtokenizer to read and predict with; "auto" chooses it by the prompt, None
            is the whole vocabulary.
        inputs, outputs: Languages to read and to predict, where they differ; "full" is all.
        tokenizer: The run's modular directory, if it moved.
        step: Step of the checkpoint; the last by default.
        references: Directory with the references that "auto" uses.
        progress: Receives progress.

    Examples:
        >>> generator = modtok.load_generator("runs/latest", "fr")
        >>> [row["tokens"] for row in modtok.generate(generator, ["Le", "La"], max_tokens=2)]
        [2, 2]

    Raises:
        UsageError: an unknown language, or none of these.
        ModtokError: it is damaged.
    """
    from modtok_cli.inference.run.generate import Generator

    return Generator(
        Path(model),
        optional_languages(languages if languages is not None else inputs),
        optional_languages(outputs),
        tokenizer=optional_path(tokenizer),
        step=step,
        references=optional_path(references),
        progress=progress_or_default(progress),
    )


@checked
def generate(
    model: FilePath | Generator,
    prompts: str | Sequence[str],
    languages: Languages | None = None,
    *,
    max_tokens: int = 128,
    temperature: float = 0.0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    stop: Sequence[str] = (),
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Continue prompts with a trained model.

    Args:
        model: A run, a checkpoint, a slice, or what `load_generator` returned.
        prompts: One prompt or several.
        languages: As in `load_generator`; for a loaded generator, languages of these prompts.
        max_tokens: Maximum number of new tokens per prompt.
        temperature: 0 is greedy decoding.
        top_p: Sample from the smallest set of tokens with this probability.
        min_p: Sample from tokens with at least this share of the best token's probability.
        stop: Strings that end the text.
        seed: Seed of sampling.

    Returns:
        One row per prompt, in order, with `text`, `tokens`, `prompt_tokens`, `langs` and `reason`.

    Examples:
        >>> rows = modtok.generate("runs/latest", ["Il était une fois"], "fr", max_tokens=4)
        >>> rows[0]["tokens"], rows[0]["langs"]
        (4, ['fr'])

    Raises:
        UsageError: an unknown language, a prompt longer than the context, or invalid settings.
    """
    from modtok_cli.inference.run.generate import Generator, Prompt
    from modtok_cli.inference.run.sampling import SamplingOptions

    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    wanted = optional_languages(languages)
    if isinstance(model, Generator):
        generator, langs = model, None if wanted is None else tuple(wanted)
    else:
        generator, langs = load_generator(model, wanted), None
    options = SamplingOptions(
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        min_p=min_p,
        stop=tuple(stop),
        seed=seed,
    )
    return generator.answer([Prompt(text, langs) for text in texts], options)
