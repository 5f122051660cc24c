"""`modtok slice`: the model of some languages, as a directory that transformers opens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import (
    PATHS,
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
from modtok_cli.model.hf.slice_hf import TokenSelection, is_model_directory, slice_directory
from modtok_cli.model.parameters import (
    LATEST,
    Dtype,
    Inputs,
    Model,
    Outputs,
    RunTokenizer,
    Step,
)
from modtok_cli.model.vocabularies import sides
from modtok_cli.text.languages import language_list, optional_languages
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.parameters import Coverage, TokensPerLanguage

if TYPE_CHECKING:
    from modtok_cli.model.draft.head import HeadCut
    from modtok_cli.model.hf.model_directory import VocabularySlice
    from modtok_cli.model.slice.write import SliceReport

_AS_IN = "as in: modtok slice --langs fr,en -o fr-en/"


@public
def slice(
    run: Annotated[FilePath, replace(get_args(Model)[1], extended=True)] = LATEST,
    languages: Langs = None,
    *,
    inputs: Inputs = None,
    outputs: Outputs = None,
    append: Annotated[
        Languages | None,
        languages_option("Add these languages to the slice MODEL.", "--append", complete=""),
    ] = None,
    origin: Annotated[
        FilePath | None,
        Option(
            "With --append: the run of the slice, if it has moved.",
            flags="--from",
            key="origin",
            metavar="DIR",
        ),
    ] = None,
    output: Output = None,
    step: Step = None,
    dtype: Dtype = None,
    tokenizer: RunTokenizer = None,
    data: Data = "data",
    texts: Annotated[
        FilePath | Sequence[FilePath],
        Option(
            "Hugging Face model: keep the tokens that this text uses. Repeatable.",
            flags="--text",
            kind=list[str],
            metavar="TEXT",
            accepts=PATHS,
        ),
    ] = (),
    token_ids: Annotated[
        FilePath | None,
        Option(
            "Hugging Face model: keep these token ids (JSON list, or an id per line).",
            metavar="FILE",
        ),
    ] = None,
    head: Annotated[
        FilePath | None,
        Option(
            "Draft of speculative decoding: keep the output rows of this list, all input rows.",
            metavar="LIST",
        ),
    ] = None,
    k: TokensPerLanguage = None,
    coverage: Coverage = None,
    reading: Reading = Reading(),
    bos: Annotated[
        bool | None,
        Option(
            "Tokenizer adds the end of text before every text, as in training; on by default.",
            flags="--bos/--no-bos",
        ),
    ] = None,
    verify: Annotated[
        bool,
        Option(
            "Open the result with transformers, and compare its logits with the model's.",
            flags="--verify/--no-verify",
        ),
    ] = True,
    force: Force = False,
    progress: Progress = SILENT,
) -> SliceReport | VocabularySlice | HeadCut:
    """Extract the model of some languages.

    The source is a run or any Hugging Face model.

    For a run, the output is a Hugging Face directory (Llama, or Qwen3 with qk_norm): backbone,
    embedding rows of these languages, and their tokenizer. Its logits equal the logits of the full
    model over this vocabulary; `verify` tests this with a few tokens, where Megatron is installed.

    With different `inputs` and `outputs`, the output is in a format that only modtok generate and
    modtok eval read.

    For a Hugging Face directory with safetensors, the output is the same model with fewer tokens:
    the tokens that the languages in data/ use (or `texts`, or `token_ids`), and the parts that
    build them. Special tokens, chat template and configuration stay, with new ids. For the kept
    tokens it has the logits of the full model; `verify` tests this with a few tokens where both
    fit in memory. Weights are streamed: a model may be larger than memory.

    With `head`, a list of modtok tokens, MODEL is a draft (EAGLE-3, layers for multi-token
    prediction, or a small model), and the output is the same draft with fewer output rows. Input
    rows and ids stay; `modtok-head.json` has the id of each row, in EAGLE-3 also d2t and t2d.

    Examples:
        >>> report = modtok.slice("runs/latest", "fr,en", output="fr-en")
        >>> sorted(path.name for path in report.output.iterdir())[:2]
        ['README.md', 'config.json']

    Raises:
        UsageError: an unknown language, not a run, or an existing output.
        ModtokError: run or slice are damaged, or the slice's run has changed.
    """
    path = Path(run)
    if output is not None and append is None and Path(output).resolve() == path.resolve():
        raise UsageError(
            "is MODEL too and would be lost", where=f"-o {output}", remedy="choose another place"
        )
    of_runs = {
        "--append": append, "--from": origin, "--in": inputs, "--out": outputs,
        "--step": step, "--dtype": dtype, "--bos": bos,
    }  # fmt: skip
    of_models = {
        "--data": None if data == "data" else data, "--text": texts or None,
        "--token-ids": token_ids, "-k": k, "--coverage": coverage,
        "--field, --lang-field and --errors": None if reading == Reading() else reading,
    }  # fmt: skip
    if head is not None:
        others = {"--langs": languages, "-t": tokenizer, **of_runs, **of_models}
        _refuse(others, path, "slices without --head")
        if output is None:
            as_in = f"as in: modtok slice {path} --head LIST -o small-draft"
            raise UsageError("no output directory given", remedy=as_in)
        from modtok_cli.model.draft.head import cut_head

        return cut_head(path, path_of(head), Path(output), force=force, progress=progress)
    if is_sliceable(path):
        _refuse(of_runs, path, "runs of modtok pretrain")
        if tokenizer is not None and data != "data":
            _refuse({"--data": data}, path, "slices without -t")
        if output is None:
            as_in = f"as in: modtok slice {path} --langs fr,en -o fr-en"
            raise UsageError("no output directory given", remedy=as_in)
        selection = TokenSelection(
            languages=tuple(optional_languages(languages) or ()),
            tokenizer=optional_path(tokenizer),
            data=path_of(data),
            texts=tuple(text_paths(texts)) if is_path(texts) or texts else (),
            keep=optional_path(token_ids),
            k=k,
            coverage=coverage,
        )
        return slice_directory(
            path, selection, Path(output), reading=reading, verify=verify, force=force,
            progress=progress,
        )  # fmt: skip
    _refuse(of_models, path, "Hugging Face models")
    reading_side, writing_side = sides(languages, inputs, outputs)
    if append is not None and (reading_side is not None or writing_side is not None):
        raise UsageError(
            "--append adds languages to both sides of a slice",
            remedy="omit --langs, --in and --out",
        )
    if append is None and origin is not None:
        raise UsageError("--from is for --append", where=path, remedy="omit it")
    if append is None and reading_side is None and writing_side is None:
        raise UsageError("no languages given", remedy=_AS_IN)
    if append is None and output is None:
        raise UsageError("no output directory given", remedy=_AS_IN)
    from modtok_cli.model.slice.write import sliced

    return sliced(
        path, (reading_side, writing_side or reading_side), Path(output or path),
        append=None if append is None else language_list(append, "--append"),
        origin=optional_path(origin), tokenizer=optional_path(tokenizer), step=step, dtype=dtype,
        bos=bos, force=force, verify=verify, progress=progress,
    )  # fmt: skip


def _refuse(options: Mapping[str, object], path: Path, kind: str) -> None:
    given = next((flag for flag, value in options.items() if value is not None), None)
    if given is not None:
        raise UsageError(f"{given} is for {kind}", where=path, remedy="omit it")


def is_sliceable(path: Path) -> bool:
    """Whether `path` is a Hugging Face model that is not a slice of a run."""
    return is_model_directory(path) and not (path / "modtok.json").is_file()
