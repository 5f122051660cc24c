"""`modtok cost`: parameters, KV cache, operations and time by tokenizer and model size.

A tokenizer determines the number of tokens of a text and the rows of a model's tables. A token
costs N + d·|V| multiplications, with N weights in the backbone's matrices and hidden size d;
attention over the context is left out. All but `--time` is arithmetic: no weights are read, and
torch is not imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.hub import model_name, name_of
from modtok_cli.base.option import Option, options_of
from modtok_cli.base.parameters import PATHS, FilePath, Lang, optional_path
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.signature import digest, signature
from modtok_cli.base.unused import Unused, uses
from modtok_cli.measure.candidates import (
    Candidate,
    Spec,
    in_order,
    is_each,
    named,
    open_each,
    open_named,
)
from modtok_cli.measure.check import split_arguments
from modtok_cli.measure.references import find_references
from modtok_cli.measure.texts import load_texts
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.model.architecture.sizes import PAPER, sizes
from modtok_cli.model.architecture.stored_model import open_hf_directory
from modtok_cli.model.kinds import RUN, model_kind
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.modular_directory import is_modular
from modtok_cli.tokenizer.parameters import AnyTokenizers, ReferenceDirectory
from modtok_cli.training.rundir import CONFIG, RunDirectory, find_tokenizer
from modtok_cli.training.stored_config import stored_shape

PAPER_VOCABULARIES = {"256k": 256_000, "24k": 24_000}
NUMBER = 2
"""Bytes of a number in bfloat16."""
_TEXTS = "texts (.txt, .jsonl, .parquet, .csv, .arrow, directory, or - for stdin), in any order."


@dataclass(frozen=True, eq=False)
class Entry:
    """A tokenizer, and a text in it: digest, characters, and ids (T,)."""

    label: str
    size: int
    signature: str
    text: str = ""
    characters: int = 0
    ids: Int64Array | None = None


def _unused(values: Mapping[str, Any]) -> Unused:
    if not _split_sources(values.get("sources", ()))[2]:
        yield ("references", "limit", "language", *options_of(Reading)), "no text given"


@public
@uses(_unused)
def cost(
    sources: Annotated[
        FilePath | Sequence[FilePath],
        Option(
            "Run, slice or Hugging Face model to take size, tokenizer and languages from; "
            f"tokenizers (as in -t); {_TEXTS}",
            key="arguments",
            argument=True,
            kind=list[str],
            metavar="MODEL_OR_TEXT",
            hub="model",
            complete="tokenizers",
            accepts=PATHS,
        ),
    ] = (),
    *,
    tokenizers: AnyTokenizers = (),
    model: Annotated[
        Sequence[str],
        Option(
            "Size of the model: tiny, small, 0.5b, 1b, 2.5b, 7b, 12b, 30b. Repeatable.",
            kind=list[str],
            metavar="NAME",
            accepts=(lambda value: isinstance(value, list | tuple), "a list"),
        ),
    ] = (),
    tied: Annotated[bool, Option("Tie input and output embeddings.")] = False,
    time: Annotated[
        bool, Option("Measure forward passes and decoding of the text, with random weights.")
    ] = False,
    references: ReferenceDirectory = None,
    limit: Annotated[
        int | None,
        Option(
            "Maximum number of documents, or of examples of a task, in each language.",
            metavar="N",
            low=1,
        ),
    ] = None,
    language: Lang = None,
    models: Annotated[
        Mapping[str, Shape] | None,
        Option("Shapes by name, in place of `model`.", python_only=True, kind=dict),
    ] = None,
    decode_steps: Annotated[int, Option("Decoded tokens to time.", python_only=True, low=1)] = 16,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Compute parameters, memory, operations and time by tokenizer and model size.

    Without a text, tokenizers are compared with the first one; by default the vocabularies of the
    paper, 256,000 and 24,000 tokens. With a text, they are compared with the monolingual
    reference of its language; by default the tokenizers of the run, or of tokenizer/, whole and by
    language. Sizes come from the paper, or from the run.

    With `time`, models are timed on this machine: tiny on a CPU, 0.5b on a GPU. The text is
    packed into contexts of 4,096 tokens, and tokenizers alternate.

    Returns:
        A row for each size and tokenizer: parameters, parameters of the vocabulary, their share;
        bytes (bfloat16), kv_bytes_per_token; saved, the share of all parameters that the first
        tokenizer has more; token_flops, multiplications of a token relative to it; signature.
        With a text, for each language: tokens, tokens_per_character, kv_bytes_per_character;
        kv_saved, and flops, the multiplications of the text relative to the reference. With
        `time`: contexts, the number of passes; context_seconds, their mean; forward_seconds, of
        the whole text; token_seconds, of a decoded token; forward_ratio and decode_ratio, of the
        text relative to the reference.

    Examples:
        >>> rows = modtok.cost(["tokenizer", "parallel/fr.txt"], model=["1b"])
        >>> [row["tokenizer"] for row in rows], rows[0]["flops"]
        (['reference', 'tokenizer'], 1.0)

    Raises:
        UsageError: an unknown model size, or `time` without a text.
        ModtokError: a text, a tokenizer, a reference or the run is not usable, or a model does
            not fit into memory.
    """
    run, paths, texts = _split_sources(sources)
    if time and not texts:
        raise UsageError("--time needs a text", remedy="as in: modtok cost --time fr.txt")
    specs: list[Spec] = [*paths, *named(tokenizers)]
    if run is not None:
        of_run, own = _settings_of(run, named=bool(specs))
        models = models or (None if model else of_run)
        if texts and own and is_modular(Path(own[0])):
            own = [own[0], f"{own[0]}@each"]
        specs = specs or [*own]
    if time and not (models or model):
        import torch

        model = ["0.5b" if torch.cuda.is_available() else "tiny"]
    models = models or sizes(model or PAPER)
    entries = {} if texts else {"": _sizes(specs)}
    if texts:
        specs = specs or ["tokenizer", "tokenizer@each"]
        entries = _encoded(
            specs, texts, optional_path(references), language, limit, reading, progress
        )
    rows = {
        (name, spoken): [_row(name, replace(shape, tied=tied or shape.tied), spoken, one, each[0])
                         for one in each]
        for name, shape in models.items()
        for spoken, each in entries.items()
    }  # fmt: skip
    if time:
        from modtok_cli.model.cost.timing import timed

        encoded = {
            spoken: [(one.size, one.ids) for one in each if one.ids is not None]
            for spoken, each in entries.items()
        }
        for name, spoken, figures in timed(models, encoded, decode_steps, progress):
            for row, more in zip(rows[name, spoken], figures, strict=True):
                row |= more
    return [row for those in rows.values() for row in those]


def _split_sources(
    sources: FilePath | Sequence[FilePath],
) -> tuple[Path | None, list[str], list[str]]:
    """The run, slice or model among arguments, if there is one, the tokenizers, and the texts."""
    paths = [sources] if isinstance(sources, str | os.PathLike) else sources
    names = [str(path) for path in paths]
    models = [name for name in names if model_kind(Path(name))]
    if len(models) > 1:
        raise UsageError(f"two models given, {models[0]} and {models[1]}", remedy="give one")
    rest = split_arguments(name for name in names if name not in models)
    return (Path(models[0]) if models else None), *rest


def _settings_of(run: Path, *, named: bool) -> tuple[dict[str, Shape], list[str]]:
    """(size by name, tokenizer arguments) of a run or model.

    The run's own tokenizer is not searched if others are `named`.
    """
    if model_kind(run) != RUN:
        shape = open_hf_directory(run).shape
        return {model_name(run): shape}, [] if named else [str(run)]
    config = RunDirectory(run).read_config()
    name, tokenizer = str(config["config"]["architecture"].get("model")), config["tokenizer"]
    shapes = {name: stored_shape(config["config"], str(run / CONFIG))}
    if named:
        return shapes, []
    directory = str(find_tokenizer(run, tokenizer, remedy="name others with -t"))
    return shapes, [directory, *(f"{directory}@{each}" for each in tokenizer.get("languages", ()))]


def _row(model: str, shape: Shape, language: str, entry: Entry, first: Entry) -> dict[str, Any]:
    """The figures of a tokenizer in a model by arithmetic, and of its text if there is one."""
    own, others = shape.table_parameters(entry.size), shape.table_parameters(first.size)
    products = shape.layers * shape.layer_products
    step = products + shape.hidden_size * entry.size
    step_ratio = step / (products + shape.hidden_size * first.size)
    cache = shape.kv_bytes_per_token(NUMBER)
    sized = digest(repr(sorted(shape.as_json().items())).encode())
    of_text = {"lang": language, "text": entry.text} if entry.text else {}
    tokenizers = {"tok": entry.signature, "ref": first.signature}
    row = {
        "model": model,
        "width": shape.hidden_size,
        "layers": shape.layers,
        "tokenizer": entry.label,
        "vocabulary": entry.size,
        "tied": shape.tied,
        "parameters": shape.parameters + own,
        "vocabulary_parameters": own,
        "share": own / (shape.parameters + own),
        "saved": 1 - (shape.parameters + own) / (shape.parameters + others),
        "bytes": (shape.parameters + own) * NUMBER,
        "kv_bytes_per_token": cache,
        "token_flops": step_ratio,
        "signature": signature("cost", shape=sized, **tokenizers, **of_text),
    }
    if entry.ids is None or first.ids is None:
        return row
    tokens = len(entry.ids)
    return row | {
        "language": language,
        "tokens": tokens,
        "tokens_per_character": tokens / entry.characters,
        "kv_bytes_per_character": tokens / entry.characters * cache,
        "kv_saved": 1 - tokens / len(first.ids),
        "flops": tokens / len(first.ids) * step_ratio,
    }


def _sizes(specs: Sequence[Spec]) -> list[Entry]:
    """Tokenizers without a text; by default the vocabularies of the paper."""
    from modtok_cli.tokenizer.open import open_tokenizer

    for spec in specs:
        if is_each(spec):
            raise UsageError(
                f"{name_of(spec)} depends on the text", remedy="give a text, or languages"
            )
    if not specs:
        return [Entry(name, size, str(size)) for name, size in PAPER_VOCABULARIES.items()]
    opened = {
        name_of(spec) if isinstance(spec, str) else spec.name: (
            open_tokenizer(spec) if isinstance(spec, str) else spec
        )
        for spec in specs
    }
    return [Entry(name, each.size, each.signature) for name, each in opened.items()]


def _encoded(
    tokenizers: Sequence[Spec],
    texts: Sequence[str],
    references: Path | None,
    language: str | None,
    limit: int | None,
    reading: Reading,
    progress: Progress,
) -> dict[str, list[Entry]]:
    """Language → its reference, then the tokenizers, each with the ids of the text."""
    opened = open_named(tokenizers, progress)
    known = find_references(references, tokenizers, opened)
    loaded = load_texts(
        texts,
        language=language,
        references=known,
        keep_documents=True,
        reading=reading,
        progress=progress,
    )
    present = sorted({text.language for text in loaded})
    candidates = in_order(opened + open_each(tokenizers, present, progress), tokenizers)
    entries: dict[str, list[Entry]] = {}
    for spoken in present:
        documents = [
            data.decode()
            for text in loaded
            if text.language == spoken
            for data in text.documents or []
        ]
        documents = [document for document in documents if document.strip()][:limit]
        if not documents:
            raise ModtokError(
                f"language '{spoken}' has only blank lines",
                where=", ".join(map(str, texts)),
                remedy="give a text in this language",
            )
        reference = Candidate(known[spoken].tokenizer, "reference")
        text = digest(*(document.encode() for document in documents))
        characters = sum(map(len, documents))
        entries[spoken] = [
            Entry(
                each.label,
                each.tokenizer.size,
                each.tokenizer.signature,
                text,
                characters,
                np.concatenate(each.tokenizer.encode_batch(documents)).astype(np.int64),
            )
            for each in (reference, *(one for one in candidates if one.fits(spoken)))
        ]
    return entries
