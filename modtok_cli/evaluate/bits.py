"""`modtok eval bpb`: bits per byte and per character of any text under any inference vocabulary.

Bits per byte do not depend on the vocabulary, so that subtokenizers, modes and runs compare. A
document is predicted token by token after an end-of-text token, as in training; the end-of-text
token after it is not counted. A document longer than the context is predicted in windows, each
token once. The model reads a text as it predicts it, by `tokenizer_out`: without a prompt,
`full-lang` equals `lang`.

`compare_directories` is `--report` of slice, graft and transplant: what a change costs, on text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.arrays import Float64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.models import Models
from modtok_cli.evaluate.modes import Infer, mode_name, needs_language, vocabulary_of
from modtok_cli.evaluate.results import (
    BPB,
    Kept,
    Outcome,
    data_digest,
    evaluation_signature,
    example,
    interval,
    resampled_sums,
)
from modtok_cli.measure.lost import Lost, lost_of
from modtok_cli.measure.references import references_or_none
from modtok_cli.measure.texts import Text, load_texts
from modtok_cli.model.generate.score import Request, score
from modtok_cli.model.generate.sliced_model import SlicedModel
from modtok_cli.model.generate.worker_processes import ALONE, Processes
from modtok_cli.model.hf.hf_source import HfSource
from modtok_cli.model.slice.run_source import open_run
from modtok_cli.model.vocabularies import FULL, LANG
from modtok_cli.text.languages import matching
from modtok_cli.text.reading import Reading
from modtok_cli.training.rundir import is_run


@dataclass(frozen=True)
class BitsSettings:
    """Options of `evaluate.evaluate_bpb`; `infer` None: see `modes.vocabulary_of`."""

    infer: str | None = None
    batch_size: int = 8
    limit: int | None = None
    languages: Sequence[str] | None = None


@dataclass
class BitsEvaluation(Outcome):
    """The result of `evaluate_bpb`: a row for each model, mode, text and language."""

    rows: list[dict[str, Any]] = field(default_factory=list)


_BATCH = 8  # windows of a comparison
_CPU_TOKENS = 4096  # of a batch

Measured = tuple[Float64Array, Float64Array, Lost]
"""(negative log-likelihood in nats, number of tokens) of each document, (n,) each; what is lost."""


def measure_texts(
    models: Models,
    sources: Sequence[Path | str],
    language: str | None,
    reading: Reading,
    settings: BitsSettings,
    kept: Kept,
) -> BitsEvaluation:
    """Return rows and examples of texts, see `evaluate.evaluate_bpb`."""
    source, references = models.source, None
    if source.modular is not None:  # its references identify the language of texts
        references = references_or_none(None, [str(source.modular)])
    texts = load_texts(
        sources, language=language, references=references, keep_documents=True, reading=reading,
        progress=models.progress,
    )  # fmt: skip
    texts = chosen_texts(texts, settings.languages, models.progress)
    vocabularies = _vocabularies(models, texts, settings.infer)
    mode, evaluation = mode_name(source, settings.infer), BitsEvaluation()
    # One vocabulary after another: the rows of each are loaded once.
    for infer in dict.fromkeys(vocabularies.values()):
        for text in texts:
            if vocabularies.get(text.language) != infer:
                continue
            documents = documents_of(text, settings.limit)
            sign = evaluation_signature(
                BPB,
                language=text.language,
                data=data_digest(documents),
                shots=0,
                infer=f"{mode}:{infer}",
                model=models.signed,
            )
            known = kept.find(sign)
            if known is not None:
                evaluation.rows.append({**known[0], "text": text.name})
                continue
            measured, size = _measure(models, infer, text, documents, settings.batch_size)
            facts = {"size": size, **models.labels, "signature": sign}
            row = {**bits_row(text, documents, measured, mode), **facts}
            evaluation.rows.append(row)
            evaluation.examples += document_examples(text, documents, measured)
            kept.add([row])
    return evaluation


def chosen_texts(
    texts: Sequence[Text], languages: Sequence[str] | None, progress: Progress
) -> list[Text]:
    """Return the texts in some languages, by default all; warn of languages without text.

    Raises:
        UsageError: there is no text in any.
    """
    if languages is None:
        return list(texts)
    present = [text.language for text in texts]
    known = {name: set(matching(name, present)) for name in languages}
    lacking = [name for name, labels in known.items() if not labels]
    chosen = [text for text in texts if text.language in set().union(*known.values())]
    if not chosen:
        there = ", ".join(dict.fromkeys(present))
        raise UsageError(
            f"no text in {', '.join(lacking)}", where="--langs", remedy=f"there is text in {there}"
        )
    if lacking:
        progress.warn(f"no text in {', '.join(lacking)}")
    return chosen


def _vocabularies(models: Models, texts: Sequence[Text], mode: str | None) -> dict[str, Infer]:
    """Return vocabularies by language; warn of texts that the mode does not support."""
    source = models.source
    of_language = needs_language(source, mode)
    vocabularies = {
        text.language: vocabulary_of(source, mode, [text.language])
        for text in texts
        if text.language in source.all_languages or not of_language
    }
    missing = sorted({text.language for text in texts} - set(vocabularies))
    if missing and not vocabularies:
        raise ModtokError(
            f"no text in a language of the model, only in {', '.join(missing)}",
            where=source.path,
            remedy=f"the model has {', '.join(source.all_languages)}; or use --infer full",
        )
    for name in missing:
        models.progress.warn(
            f"skipped text in {name}: the model does not have it; --infer full reads it"
        )
    return vocabularies


def window_bounds(count: int, width: int) -> Iterator[tuple[int, int, int]]:
    """Yield windows that together predict each of `count` tokens once, with `width` of context.

    Yields (before, start, stop): tokens start to stop - 1 are predicted after the tokens from
    `before` on. The first window has nothing before it but the token that begins a text. The
    last one has as much left context as fits.

    >>> list(window_bounds(10, 4))
    [(0, 0, 4), (3, 4, 8), (5, 8, 10)]
    """
    for start in range(0, count, width):
        stop = min(start + width, count)
        yield max(0, stop - width - 1), start, stop


def windows(model: SlicedModel, ids: Sequence[int]) -> list[Request]:
    """Return (context rows, ids) pairs that predict each of `ids` once; see `window_bounds`."""
    rows = model.vocabularies.row_of_out[list(ids)].tolist() if len(ids) else []
    return [
        (rows[before:start] or [model.end_of_text], list(ids[start:stop]))
        for before, start, stop in window_bounds(len(ids), model.window)
    ]


def document_nats(
    model: SlicedModel,
    documents: Sequence[str],
    *,
    batch_size: int = 8,
    label: str = BPB,
    processes: Processes = ALONE,
    progress: Progress = SILENT,
) -> tuple[Float64Array, Float64Array]:
    """Return negative log-likelihood in nats and number of tokens of each document; (n,) each."""
    requests: list[Request] = []
    owners: list[int] = []
    for owner, document in enumerate(documents):
        parts = windows(model, model.encode_document(document))
        requests += parts
        owners += [owner] * len(parts)
    nats, tokens = np.zeros(len(documents)), np.zeros(len(documents))
    if not requests:
        return nats, tokens
    longest = max(len(context) + len(tail) for context, tail in requests)
    if model.device.type == "cpu":  # no faster in large batches, and minutes without progress
        batch_size = max(1, min(batch_size, _CPU_TOKENS // longest))
    likelihoods = score(
        model, requests, batch=batch_size, processes=processes, progress=progress, label=label
    )
    for owner, likelihood in zip(owners, likelihoods, strict=True):
        nats[owner] -= likelihood.nats
        tokens[owner] += likelihood.tokens
    return nats, tokens


def _measure(
    models: Models, infer: Infer, text: Text, documents: Sequence[str], batch_size: int
) -> tuple[Measured, int]:
    """Return the figures of documents, and the size of the vocabulary."""
    model, name = models.of(infer), f"{text.name} {text.language}"
    nats, tokens = document_nats(
        model,
        documents,
        batch_size=batch_size,
        label=f"{text.language} {text.name}",
        processes=models.processes,
        progress=models.progress,
    )
    lost = lost_of(model.tokenizer_out, name, documents, models.progress)
    return (nats, tokens, lost), model.tokenizer_out.size


def documents_of(text: Text, limit: int | None) -> list[str]:
    """Return the first documents of a text; not empty ones, which have no bits per byte."""
    if not text.documents:
        raise ModtokError(
            "contains word counts only", where=text.name, remedy="pass the text itself"
        )
    filled = [each for each in text.documents if each]
    if not filled:
        raise ModtokError("all documents are empty", where=text.name, remedy="pass other text")
    return [each.decode() for each in filled[:limit]]


def document_examples(
    text: Text, documents: Sequence[str], measured: Measured
) -> list[dict[str, Any]]:
    """Return a row per document with bits and bytes for `compare`; none if much is lost."""
    nats, _, lost = measured
    if lost.is_much:
        return []
    return [
        example(
            BPB,
            text.language,
            f"{text.name}:{number}",
            {},
            source=data_digest([document]),
            bits=float(each / log(2)),
            bytes=len(document.encode()),
        )
        for number, (document, each) in enumerate(zip(documents, nats, strict=True), 1)
    ]


def bits_row(
    text: Text, documents: Sequence[str], measured: Measured, infer: str
) -> dict[str, Any]:
    """Return figures of a row of `measure_texts`; no bits if much is lost."""
    nats, tokens, lost = measured
    bits, sizes = nats / log(2), _sizes(documents)
    low, high = _interval(bits, sizes)
    characters = sum(map(len, documents))
    total = float(bits.sum())
    figures = {
        "bits_per_byte": total / float(sizes.sum()),
        "low": low,
        "high": high,
        "bits_per_character": total / characters,
        "bits_per_token": total / float(tokens.sum()),
    }
    return {
        "text": text.name,
        "language": text.language,
        "infer": infer,
        **(dict.fromkeys(figures) if lost.is_much else figures),
        "unknown_tokens": lost.tokens,
        "documents": len(documents),
        "bytes": int(sizes.sum()),
        "characters": characters,
        "tokens": int(tokens.sum()),
    }


def _sizes(documents: Sequence[str]) -> Float64Array:
    return np.array([len(document.encode()) for document in documents], dtype=np.float64)


def _interval(bits: Float64Array, sizes: Float64Array) -> tuple[float | None, float | None]:
    """Return the 95% interval over documents of bits per byte; None of a single document."""
    if len(bits) < 2:
        return None, None
    sums = resampled_sums(np.stack([bits, sizes], axis=1))
    return interval(sums[:, 0] / sums[:, 1])


def compare_directories(
    before: Path, after: Path, texts: Sequence[Text], progress: Progress = SILENT
) -> list[dict[str, Any]]:
    """Measure two directories on the same texts, one in memory at a time.

    Of runs, a text is read by the subtokenizer of its language; by T if they do not have it.

    Returns:
        A row per text and language: rows, weight_bytes, tokens, tokens_per_byte and bits_per_byte
        of `after`, the same of `before` with the prefix full_; change, the difference of bits per
        byte, with its 95% bootstrap interval over documents (low, high; None for a single
        document); unknown_tokens; documents, bytes, and the digest of the text.
    """
    (full_rows, full_bytes, olds), (rows, weight_bytes, news) = (
        _measured_directory(path, texts, progress) for path in (before, after)
    )
    return [
        {
            **_row(text, old, new),
            "rows": rows,
            "full_rows": full_rows,
            "weight_bytes": weight_bytes,
            "full_weight_bytes": full_bytes,
            "model": str(after),
            "full_model": str(before),
        }
        for text, old, new in zip(texts, olds, news, strict=True)
    ]


def _measured_directory(
    path: Path, texts: Sequence[Text], progress: Progress
) -> tuple[int, int, list[Measured]]:
    """Return rows and bytes of a directory, and what each text takes."""
    source = open_run(path, progress=progress) if is_run(path) else HfSource(path)
    models = Models(source, progress=progress)
    measured = []
    for text in texts:
        of_language = not source.whole and text.language in source.languages
        infer = vocabulary_of(source, LANG if of_language else FULL, [text.language])
        measured.append(_measure(models, infer, text, documents_of(text, None), _BATCH)[0])
    if isinstance(source, HfSource):
        return source.directory.vocab_size, source.weight_bytes, measured
    size = source.tokenizer.size
    return size, 4 * (source.shape.parameters + source.shape.table_parameters(size)), measured


def _row(text: Text, old: Measured, new: Measured) -> dict[str, Any]:
    documents = documents_of(text, None)
    sizes = _sizes(documents)
    ours, theirs = (_figures(each, float(sizes.sum())) for each in (new, old))
    change: dict[str, float | None] = dict.fromkeys(("change", "low", "high"))
    if None not in (ours["bits_per_byte"], theirs["bits_per_byte"]):
        difference = (new[0] - old[0]) / log(2)
        change["change"] = float(difference.sum() / sizes.sum())
        change["low"], change["high"] = _interval(difference, sizes)
    row: dict[str, Any] = {"text": text.name, "language": text.language}
    for name in ours:
        if name == "unknown_tokens":
            row |= change
        row |= {name: ours[name], f"full_{name}": theirs[name]}
    row |= {"documents": len(documents), "bytes": int(sizes.sum())}
    return row | {"data": data_digest(documents)}


def _figures(measured: Measured, size: float) -> dict[str, Any]:
    """Return figures of a text of so many bytes; no bits if much is lost."""
    nats, tokens, lost = measured
    return {
        "tokens": int(tokens.sum()),
        "tokens_per_byte": float(tokens.sum() / size),
        "bits_per_byte": None if lost.is_much else float(nats.sum() / log(2) / size),
        "unknown_tokens": lost.tokens,
    }
