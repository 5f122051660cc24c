"""`modtok latency`: time of forward passes and of decoding, by tokenizer, on the same text.

The paper's protocol: the whole text is packed into full contexts of 4,096 tokens, batch 1, and
nothing is truncated. The time of a text is the mean forward pass times the number of contexts that
its tokens fill; it is divided by that of the language's monolingual tokenizer. Time depends on the
number of tokens and the rows of the head, not on weights, so they are random. Tokenizers alternate,
so that changes in the machine's speed affect all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from modtok_cli.architectures.shape import Shape
from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import AnyTokenizers, FilePath, Lang, References, optional_path
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.inference.cost import CONTEXT
from modtok_cli.inference.cost.memory import (
    Scales,
    settings_of_run,
    shapes,
    sources_option,
    split_sources,
)
from modtok_cli.measure.candidates import (
    Candidate,
    Spec,
    in_order,
    named,
    open_each,
    open_named,
)
from modtok_cli.measure.references import find_references
from modtok_cli.measure.texts import load_texts
from modtok_cli.modular.directory import is_modular
from modtok_cli.modular.open import Tokenizer
from modtok_cli.text.reading import Reading

if TYPE_CHECKING:
    from modtok_cli.inference.cost.random_model import RandomModel


@dataclass(frozen=True, eq=False)
class _Entry:
    """A tokenizer and the ids of a text in it, (T,)."""

    label: str
    size: int
    ids: Int64Array

    @property
    def contexts(self) -> Int64Array:
        return packed(self.ids)


def packed(ids: Int64Array, context: int = CONTEXT) -> Int64Array:
    """Ids in full contexts, (T,) to (ceil(T / context), context).

    The last context is filled up by repeating the ids from the start.

    >>> packed(np.array([1, 2, 3]), 2).tolist()
    [[1, 2], [3, 1]]
    """
    count = -(-len(ids) // context)
    return np.resize(ids, (count, context))


@public
def latency(
    sources: Annotated[FilePath | Sequence[FilePath], sources_option("size and tokenizer")],
    *,
    tokenizers: AnyTokenizers = (),
    scales: Scales = (),
    references: References = None,
    lines: Annotated[
        int | None,
        Option("Number of documents per language; all by default.", metavar="N", low=1),
    ] = None,
    language: Lang = None,
    models: Annotated[
        Mapping[str, Shape] | None,
        Option("Shapes by name, in place of `scales`.", python_only=True, kind=dict),
    ] = None,
    decode_steps: Annotated[int, Option("Decoded tokens to time.", python_only=True, low=1)] = 16,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Measure forward and decoding time by tokenizer.

    The whole text is packed into full contexts of 4,096 tokens; forward is the mean pass
    times the contexts that its tokens fill. Times are relative to those of the monolingual
    tokenizer of the language, with interleaved measurements. Weights are random.

    Defaults: the workspace's tokenizer/, whole and by language; model size tiny on a CPU
    and 0.5b on a GPU.

    Returns:
        A row per model, language and tokenizer: tokens; contexts, the number of forward passes;
        context_seconds, their mean; forward_seconds of the whole text, context_seconds · tokens /
        4096; forward_ratio; token_seconds, the time of one decoded token; decode_ratio, for all
        tokens of the text decoded one by one. Ratios are against the reference.

    Examples:
        >>> rows = modtok.latency(["tokenizer", "parallel/fr.txt"], scales=["tiny"], lines=1)
        >>> [row["tokenizer"] for row in rows]
        ['reference', 'tokenizer']

    Raises:
        UsageError: no text, or an unknown model size.
        ModtokError: a text, a tokenizer or a reference is not usable, or a model does not fit into
            memory.
    """
    import torch

    from modtok_cli.inference.cost.random_model import RandomModel

    run, paths, texts = split_sources(sources)
    if not texts:
        raise UsageError("no text given", remedy="as in: modtok latency MODEL fr.txt")
    specs: list[Spec] = [*paths, *named(tokenizers)]
    gpu = torch.cuda.is_available()
    default = ["tokenizer", "tokenizer@each"]
    if run is not None:
        own_models, _, own = settings_of_run(run, named=bool(specs))
        models = models or (None if scales else own_models)
        default = [own[0], f"{own[0]}@each"] if own and is_modular(Path(own[0])) else own
    models = models or shapes(scales or ["0.5b" if gpu else "tiny"])
    entries = _entries(
        specs or [*default], texts, optional_path(references), language, lines, reading, progress
    )
    largest = max(entry.size for each in entries.values() for entry in each)
    passes = sum(len(entry.contexts) for each in entries.values() for entry in each)
    device, dtype = ("cuda", torch.bfloat16) if gpu else ("cpu", torch.float32)
    rows: list[dict[str, Any]] = []
    with torch.inference_mode(), progress.task("timing", len(models) * passes, "passes") as task:
        for name, shape in models.items():
            model = RandomModel(shape, largest, dtype, torch.device(device))
            for spoken, each in entries.items():
                means = _context_seconds(model, each, task)
                decoded = model.decode_seconds([entry.size for entry in each], decode_steps)
                rows += _rows(name, spoken, each, means, decoded)
            del model
    return rows


def _entries(
    tokenizers: Sequence[Spec],
    texts: Sequence[str],
    references: Path | None,
    language: str | None,
    lines: int | None,
    reading: Reading,
    progress: Progress,
) -> dict[str, list[_Entry]]:
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
    entries: dict[str, list[_Entry]] = {}
    for spoken in present:
        documents = [
            data.decode()
            for text in loaded
            if text.language == spoken
            for data in text.documents or []
        ]
        documents = [document for document in documents if document.strip()][:lines]
        if not documents:
            raise ModtokError(
                f"language '{spoken}' has only blank lines",
                where=", ".join(map(str, texts)),
                remedy="give a text in this language",
            )
        own = Candidate(known[spoken].tokenizer, "reference")
        fitting = [candidate for candidate in candidates if candidate.fits(spoken)]
        entries[spoken] = [
            _Entry(each.label, each.tokenizer.size, _ids(each.tokenizer, documents))
            for each in (own, *fitting)
        ]
    return entries


def _ids(tokenizer: Tokenizer, documents: list[str]) -> Int64Array:
    return np.concatenate(tokenizer.encode_batch(documents)).astype(np.int64)


def _context_seconds(model: RandomModel, entries: list[_Entry], task: Any) -> list[float]:
    """Mean forward pass of a full context for each tokenizer, all contexts being computed."""
    import torch

    contexts = [torch.from_numpy(entry.contexts) for entry in entries]
    for entry, own in zip(entries, contexts, strict=True):
        # The first pass of a size includes allocations and the choice of kernels.
        model.seconds(own[:1].to(model.device), entry.size)
    order = sorted(
        ((place + 0.5) / len(own), index, place)
        for index, own in enumerate(contexts)
        for place in range(len(own))
    )
    sums = [0.0] * len(entries)
    for _, index, place in order:
        ids = contexts[index][place : place + 1].to(model.device)
        sums[index] += model.seconds(ids, entries[index].size)
        task.advance(1)
    return [total / len(own) for total, own in zip(sums, contexts, strict=True)]


def _rows(
    model: str,
    language: str,
    entries: list[_Entry],
    context_seconds: list[float],
    token_seconds: list[float],
) -> list[dict[str, Any]]:
    forward = [
        seconds * len(entry.ids) / CONTEXT
        for seconds, entry in zip(context_seconds, entries, strict=True)
    ]
    decode = [
        seconds * len(entry.ids) for seconds, entry in zip(token_seconds, entries, strict=True)
    ]
    return [
        {
            "model": model,
            "language": language,
            "tokenizer": entry.label,
            "vocabulary": entry.size,
            "tokens": len(entry.ids),
            "contexts": len(entry.contexts),
            "context_seconds": context_seconds[index],
            "forward_seconds": forward[index],
            "forward_ratio": forward[index] / forward[0],
            "token_seconds": token_seconds[index],
            "decode_ratio": decode[index] / decode[0],
        }
        for index, entry in enumerate(entries)
    ]
