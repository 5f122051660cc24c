"""`modtok extract`: the tokenizer of some languages, or of the tokens most frequent in a text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import orjson

from modtok_cli.base.arrays import BoolArray, Float64Array, Int32Array, Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import PATHS, FilePath, Langs, text_paths
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.modular.adopted.file_ids import check_written
from modtok_cli.modular.adopted.restrict import restrict
from modtok_cli.modular.adopted.segmenter import Library
from modtok_cli.modular.adopted.tokenizer_file import GIVEN, derivation, smallest
from modtok_cli.modular.encoding.external import External
from modtok_cli.modular.formats import suffix_of
from modtok_cli.modular.open import open_bytes, open_tokenizer, split_spec, subset_spec
from modtok_cli.modular.parameters import Coverage, ModularSource
from modtok_cli.modular.protocol import Tokenizer
from modtok_cli.modular.segmenters.sentencepiece_file import (
    NORMAL,
    UNIGRAM,
    kind_name,
    read_model,
    without_pieces,
)
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.modular.vocabulary import BYTE_NAMES
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.readers import read_batches
from modtok_cli.text.reading import Reading


@public
def extract(
    tokenizer: ModularSource = "tokenizer",
    languages: Langs = None,
    output: Annotated[
        FilePath | None,
        Option(
            "Output file; standard output by default.",
            flags="-o --output",
            writes=True,
            metavar="PATH",
            stdout=True,
        ),
    ] = None,
    *,
    top_k: Annotated[
        int | None,
        Option(
            "Keep the N tokens most used in --text.",
            flags="-k --budget",
            key="k",
            metavar="N",
            low=1,
        ),
    ] = None,
    coverage: Coverage = None,
    on: Annotated[
        Sequence[FilePath],
        Option(
            "Text for -k and --coverage. Repeatable.",
            flags="--text",
            kind=list[str],
            metavar="TEXT",
            accepts=PATHS,
        ),
    ] = (),
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> Subtokenizer | Tokenizer:
    """Extract a compact tokenizer for a subset of languages.

    The result is a standard tokenizer.json with contiguous ids. If `output` is named *.model, it
    is a SentencePiece model, for Unigram tokenizers and for bpe-merge --whole-characters.
    It depends only on the tokenizer and the set of languages.

    `top_k` and `coverage` select tokens by their use in the texts `on`, instead of or in addition
    to `languages`, from a modular tokenizer or any Unigram tokenizer. Special tokens, bytes, and
    tokens that build others always stay.

    Returns:
        The tokenizer. It is written only if `output` is given; an existing file is replaced.

    Examples:
        >>> modtok.extract("tokenizer", "fr,en", "fr-en.json").languages
        ('en', 'fr')
        >>> modtok.extract(
        ...     "unigram/fr.model", output="small.model", top_k=400, on="data/fr.jsonl"
        ... ).size
        400

    Raises:
        UsageError: an unknown language, `top_k` is out of range, or a format that cannot hold the
            tokenizer.
        ModtokError: the directory is damaged, not a Unigram tokenizer, or unreadable texts.
    """
    chosen = optional_languages(languages)
    selects = top_k is not None or coverage is not None
    if selects != bool(on):
        raise UsageError(
            "--text and -k or --coverage require each other",
            remedy="as in: modtok extract -k 24000 --text data/fr.jsonl.zst TOKENIZER",
        )
    spec = tokenizer
    if not isinstance(spec, ModularTokenizer):
        spec = subset_spec(spec, chosen)
    if not selects and chosen is None and not (isinstance(spec, str) and split_spec(spec)[1]):
        raise UsageError("no languages given", remedy="as in: modtok extract --langs fr,en")
    path = None if output is None else Path(output)
    suffix = None if path is None else suffix_of(path)
    opened: Tokenizer
    if isinstance(spec, ModularTokenizer):
        opened = spec.full() if chosen is None else spec.subset(chosen)
    else:
        opened = open_tokenizer(spec, progress=progress)
    if not selects:
        reading.unread("no text is read without --text")
    else:
        texts = text_paths(on)
        opened = most_used(opened, top_k, texts, suffix, reading, progress, coverage=coverage)
    if path is not None:
        write_bytes(path, content_of(opened, suffix))
    return opened


def content_of(tokenizer: Tokenizer, suffix: str | None = None) -> bytes:
    """The file of a tokenizer that `extract` gave; `suffix` selects the format."""
    if isinstance(tokenizer, Subtokenizer):
        return tokenizer.to_bytes(suffix or ".json")
    assert isinstance(tokenizer, External)
    _check_suffix(tokenizer, suffix)
    return tokenizer.content


def _check_suffix(tokenizer: External, suffix: str | None) -> None:
    """Refuse to write an external tokenizer in another format than its own."""
    from modtok_cli.modular.formats.sentencepiece import SentencePieceTokenizer

    is_model = isinstance(tokenizer, SentencePieceTokenizer)
    if suffix is not None and is_model != (suffix == ".model"):
        what = "external .model is only written as .model"
        if not is_model:
            what = "external tokenizer.json is only written as JSON"
        remedy = f"-o x.{'model' if is_model else 'json'}"
        raise UsageError(f"an {what}", where=tokenizer.name, remedy=remedy)


def most_used(
    tokenizer: Tokenizer,
    k: int | None,
    texts: Sequence[Path | str],
    suffix: str | None,
    reading: Reading,
    progress: Progress,
    *,
    coverage: float | None = None,
) -> Tokenizer:
    """The tokenizer with the `k` tokens that it uses most in some texts.

    Of a tokenizer by scores those are the most frequent ones, the paper's alternative to modular
    training. A token by merges is needed by those that it is part of; see `prune`. With `coverage`,
    as few tokens as possible such that the texts take about 1 + (1 - coverage) times as many.
    Special tokens and bytes are always kept and count towards k. An external `.model` gives a
    `.model`, an external `tokenizer.json` a `tokenizer.json`; `suffix` must agree.
    """
    from modtok_cli.modular.formats.hugging_face import LibraryTokenizer
    from modtok_cli.modular.formats.sentencepiece import SentencePieceTokenizer

    name = tokenizer.name
    if isinstance(tokenizer, Subtokenizer):
        splits = tokenizer.pretokenizer
        words = count_corpus(texts, pretokenizer=splits, reading=reading, progress=progress)
        mask = used_mask(tokenizer, tokenizer.token_occurrences(words), k, coverage)
        limits = {"top_k": k, "coverage": coverage, "on": words.fingerprint()}
        chosen = {name: value for name, value in limits.items() if value is not None}
        return tokenizer.restricted(mask, chosen)
    if k is None or coverage is not None:
        raise UsageError("--coverage is for modular tokenizers", where=name, remedy="use -k")
    if not isinstance(tokenizer, SentencePieceTokenizer | LibraryTokenizer):
        raise _not_unigram(name, "it is a BPE tokenizer")
    _check_suffix(tokenizer, suffix)

    def occurrences() -> Int64Array:
        total = np.zeros(tokenizer.size, dtype=np.int64)
        for path in texts:
            for batch in read_batches(path, reading, progress=progress):
                for ids in tokenizer.encode_batch([each.text.decode() for each in batch]):
                    total += np.bincount(ids, minlength=len(total))
        return total

    if isinstance(tokenizer, SentencePieceTokenizer):
        model = read_model(tokenizer.content, name)
        if model.model_type != UNIGRAM:
            raise _not_unigram(name, f"it is of type '{kind_name(model.model_type)}'")
        always = np.array(model.kinds) != NORMAL
        mask = frequent_mask(occurrences(), np.array(model.scores), always, k)
        return open_bytes(without_pieces(tokenizer.content, mask.tolist()), name, name)
    document = orjson.loads(tokenizer.content)
    if document["model"].get("type") != "Unigram":
        raise _not_unigram(name, f"it is of type {document['model'].get('type') or 'BPE'}")
    rows, unknown = document["model"]["vocab"], document["model"].get("unk_id")
    added = {token["content"]: token["id"] for token in document.get("added_tokens") or []}
    always = np.array([piece in added or piece in BYTE_NAMES for piece, _ in rows])
    if unknown is not None:
        always[unknown] = True
    # Tokens that were added after the vocabulary are not pieces; they stay after it.
    behind = sorted(index for index in added.values() if index >= len(rows))
    scores = np.array([score for _, score in rows], dtype=np.float64)
    mask = frequent_mask(occurrences()[: len(rows)], scores, always, k)
    ids: Int32Array = np.array([*np.flatnonzero(mask), *behind], dtype=np.int32)
    data = check_written(orjson.dumps(restrict(document, ids, name)) + b"\n", name)
    return open_bytes(data, name, name)


def used_mask(
    tokenizer: Subtokenizer, counts: Int64Array, k: int | None, coverage: float | None
) -> BoolArray:
    """The tokens to keep, (V,) bool, of `counts` (V,) int64; see `most_used`."""
    if isinstance(tokenizer.segmenter, Library):
        return tokenizer.segmenter.most_used(counts, k, coverage)
    vocabulary, first = tokenizer.vocabulary, len(tokenizer.vocabulary.specials)
    always = np.arange(tokenizer.size) < first + 256
    if tokenizer.scores is not None and k is not None and coverage is None:
        return frequent_mask(counts, tokenizer.scores, always, k)
    ranks = np.full(tokenizer.size, GIVEN, dtype=np.int32)
    if tokenizer.scores is None:
        offsets = vocabulary.offsets[first:]
        symbols = vocabulary.byte_ids[vocabulary.data[offsets[0] :]]
        ids = np.arange(first, tokenizer.size, dtype=np.int32)
        ranks[first:] = derivation(symbols, offsets - offsets[0], ids, tokenizer.merges)
    return smallest(
        np.ones(tokenizer.size, dtype=np.bool_), counts, ranks, tokenizer.merges,
        np.where(always, 0, 2), k, coverage,
    )  # fmt: skip


def frequent_mask(counts: Int64Array, scores: Float64Array, always: BoolArray, k: int) -> BoolArray:
    """Mask of the `k` tokens to keep, including the tokens of `always`; (V,) bool.

    Ordered by higher count, then higher score, then smaller id.
    """
    if k > len(counts):
        raise UsageError(
            f"the tokenizer has {len(counts):,} tokens, cannot keep {k:,}",
            where="-k",
            remedy=f"choose at most {len(counts):,}",
        )
    least = int(always.sum())
    if k <= least:
        raise UsageError(
            f"{k:,} tokens are too few: {least:,} are bytes and special tokens",
            where="-k",
            remedy=f"choose more than {least:,}",
        )
    order = np.lexsort((np.arange(len(counts)), -scores, -counts, ~always))
    mask = np.zeros(len(counts), dtype=np.bool_)
    mask[order[:k]] = True
    return mask


def _not_unigram(spec: str, why: str) -> ModtokError:
    return ModtokError(
        f"expected a Unigram tokenizer: {why}",
        where=spec,
        remedy="extract languages from a modular tokenizer with --langs instead",
    )
