"""`modtok slice`: the model of some languages, as a directory that transformers opens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option, option_of, options_of
from modtok_cli.base.parameters import (
    Data,
    FilePath,
    Force,
    Langs,
    Languages,
    Output,
    is_path,
    languages_option,
    optional_path,
    text_paths,
)
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.remote import path_of
from modtok_cli.base.unused import Unused, uses
from modtok_cli.model.hf.slice_hf import TokenSelection, slice_directory
from modtok_cli.model.kinds import DRAFT, MODEL, RUN, SLICE, model_kind
from modtok_cli.model.parameters import (
    LATEST,
    Dtype,
    DtypeName,
    Inputs,
    Model,
    MustHave,
    Outputs,
    RunTokenizer,
    Step,
)
from modtok_cli.model.vocabularies import sides
from modtok_cli.text.languages import language_list, optional_languages
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.parameters import Coverage, KeptText, MostUsed

if TYPE_CHECKING:
    from modtok_cli.model.draft.head import HeadCut
    from modtok_cli.model.hf.model_directory import VocabularySlice
    from modtok_cli.model.slice.write import SliceReport

_RUNS = (RUN, SLICE)
_MODELS = (*_RUNS, MODEL)


def _kind(path: FilePath, values: Mapping[str, Any]) -> str | None:
    return DRAFT if "head" in values else model_kind(Path(path), weights=False)


def _unused(values: Mapping[str, Any]) -> Unused:
    """Options of text and of languages that this slice does not use."""
    if values.get("append") is None:
        yield ("origin",), "--from is for --append"
    else:
        yield ("languages", "inputs", "outputs"), "--append adds languages to both sides of a slice"
    kind = _kind(values.get("run", LATEST), values)
    if kind != MODEL:
        yield options_of(Reading) if kind else (), f"text is read for {MODEL} only"
        return
    languages, adopted = values.get("languages"), values.get("tokenizer")
    if not languages:
        yield ("data", "tokenizer"), "no languages given"
    elif adopted:
        yield ("data",), "the tokenizer of -t has the tokens of each language"
    if not values.get("texts") and (adopted or not languages):
        yield ("top", "coverage"), "no text selects tokens"
        if not values.get("report"):
            yield options_of(Reading), "no text selects tokens"


@public
@uses(_unused)
def slice(
    run: Annotated[FilePath, option_of(Model, extended=True, kind_of=_kind)] = LATEST,
    languages: Annotated[Languages | None, option_of(Langs, of=_MODELS)] = None,
    *,
    inputs: Annotated[Languages | None, option_of(Inputs, of=_RUNS)] = None,
    outputs: Annotated[Languages | None, option_of(Outputs, of=_RUNS)] = None,
    append: Annotated[
        Languages | None,
        languages_option(
            "Languages to add. MODEL is a slice.", "--append", complete="", of=(SLICE,)
        ),
    ] = None,
    origin: Annotated[
        FilePath | None,
        Option(
            "With --append: the run of the slice, if it has moved.",
            flags="--from",
            key="origin",
            metavar="DIR",
            of=(SLICE,),
        ),
    ] = None,
    output: Output = None,
    step: Annotated[int | None, option_of(Step, of=_RUNS)] = None,
    dtype: Annotated[DtypeName | None, option_of(Dtype, of=_RUNS)] = None,
    tokenizer: Annotated[FilePath | None, option_of(RunTokenizer, of=_MODELS)] = None,
    data: Annotated[FilePath, option_of(Data, of=(MODEL,))] = "data",
    texts: Annotated[FilePath | Sequence[FilePath], option_of(KeptText, of=(MODEL,))] = (),
    must_have: Annotated[FilePath | None, option_of(MustHave, of=(MODEL,))] = None,
    head: Annotated[
        FilePath | None,
        Option(
            "Draft of speculative decoding: keep the output rows of this list, all input rows.",
            metavar="LIST",
        ),
    ] = None,
    top: Annotated[int | None, option_of(MostUsed, of=(MODEL,))] = None,
    coverage: Annotated[float | None, option_of(Coverage, of=(MODEL,))] = None,
    reading: Reading = Reading(),
    bos: Annotated[
        bool | None,
        Option(
            "Tokenizer adds the end of text before every text, as in training; on by default.",
            flags="--bos/--no-bos",
            of=_RUNS,
        ),
    ] = None,
    verify: Annotated[
        bool,
        Option(
            "Open the result with transformers, and compare its logits with the model's.",
            flags="--verify/--no-verify",
            of=_MODELS,
        ),
    ] = True,
    force: Force = False,
    progress: Progress = SILENT,
) -> SliceReport | VocabularySlice | HeadCut:
    """Extract the model of some languages.

    Of a run, the output is a Hugging Face directory (Llama, or Qwen3 with qk_norm): backbone,
    embedding rows of these languages, and their tokenizer. With different `inputs` and `outputs`,
    only modtok generate and modtok eval read it.

    Of a Hugging Face directory with safetensors, the output is the same model with fewer tokens:
    those that the languages in data/ use (or `texts`, or `must_have`), and the parts that build
    them. Special tokens, chat template and configuration stay, with new ids. Weights are streamed:
    a model may be larger than memory.

    The logits of the tokens are those of the whole model; `verify` tests this with a few tokens,
    where Megatron is installed and both models fit in memory.

    With `head`, a list of modtok tokens, MODEL is a draft (EAGLE-3, DFlash, DSpark, Medusa, layers
    for multi-token prediction, or a small model), and the output is the same draft with fewer
    output rows. Input rows and ids stay; `modtok-head.json` has the id of each row, and so have
    the maps that engines read, d2t and t2d or Medusa's token_map.

    Examples:
        >>> report = modtok.slice("runs/latest", "fr,en", output="fr-en")
        >>> sorted(path.name for path in report.output.iterdir())[:2]
        ['README.md', 'config.json']

    Raises:
        UsageError: an unknown language, not a run, or an existing output.
        ModtokError: run or slice are damaged, or the slice's run has changed.
    """
    path = Path(run)
    if output is None and append is None:
        chosen = "--langs fr,en" if head is None else "--head LIST"
        as_in = f"as in: modtok slice {path} {chosen} -o small"
        raise UsageError("no output directory given", remedy=as_in)
    place = Path(output or path)
    if append is None and place.resolve() == path.resolve():
        raise UsageError(
            "is MODEL too and would be lost", where=f"-o {output}", remedy="choose another place"
        )
    if head is not None:
        from modtok_cli.model.draft.head import cut_head

        return cut_head(path, path_of(head), place, force=force, progress=progress)
    if _kind(path, {}) == MODEL:
        selection = TokenSelection(
            languages=tuple(optional_languages(languages) or ()),
            tokenizer=optional_path(tokenizer),
            data=path_of(data),
            texts=tuple(text_paths(texts)) if is_path(texts) or texts else (),
            keep=optional_path(must_have),
            k=top,
            coverage=coverage,
        )
        return slice_directory(
            path, selection, place, reading=reading, verify=verify, force=force, progress=progress
        )
    from modtok_cli.model.slice.write import RunPart, sliced

    part = RunPart(
        sides=sides(languages, inputs, outputs),
        append=None if append is None else language_list(append, "--append"),
        origin=optional_path(origin),
        tokenizer=optional_path(tokenizer),
        step=step,
        dtype=dtype,
        bos=bos,
    )
    return sliced(path, part, place, verify=verify, force=force, progress=progress)
