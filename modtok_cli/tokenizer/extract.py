"""`modtok extract`: the tokenizer of some languages, or of the tokens most frequent in a text."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from modtok_cli.base.arrays import BoolArray, Float64Array, Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.option import Option, option_of, options_of
from modtok_cli.base.parameters import (
    FilePath,
    Langs,
    is_path,
    optional_path,
    text_paths,
)
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.unused import Unused, uses
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.readers import read_batches
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.adopted.adopt import as_library
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.adopted.text_form import has_model
from modtok_cli.tokenizer.adopted.tokenizer_file import GIVEN, derivation, smallest
from modtok_cli.tokenizer.formats import suffix_of
from modtok_cli.tokenizer.open import opened, split_spec
from modtok_cli.tokenizer.parameters import Coverage, KeptText, ModularSource, MostUsed
from modtok_cli.tokenizer.protocol import Tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer


def _unused(values: Mapping[str, Any]) -> Unused:
    if not values.get("texts"):
        yield options_of(Reading), "no text is read without --text"
        # modtok.toml may give them for other commands.
        yield ("top", "coverage"), "--text and --top or --coverage require each other"


@public
@uses(_unused)
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
            file=True,
            stdout=True,
        ),
    ] = None,
    *,
    top: Annotated[int | None, option_of(MostUsed, low=1)] = None,
    coverage: Coverage = None,
    texts: KeptText = (),
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> Subtokenizer:
    """Extract a compact tokenizer for a subset of languages.

    The result is a standard tokenizer.json with contiguous ids. If `output` is named *.model, it
    is a SentencePiece model, for Unigram tokenizers and for bpe-merge --whole-characters.
    It depends only on the tokenizer and the set of languages.

    `top` and `coverage` select tokens by their use in `texts`, instead of or in addition to
    `languages`, from any tokenizer that adopt takes. Special tokens, bytes, and tokens that
    build others always stay.

    Returns:
        The tokenizer. It is written only if `output` is given; an existing file is replaced.

    Examples:
        >>> modtok.extract("tokenizer", "fr,en", "fr-en.json").languages
        ('en', 'fr')
        >>> modtok.extract(
        ...     "unigram/fr.model", output="small.model", top=400, texts="data/fr.jsonl"
        ... ).size
        400

    Raises:
        UsageError: an unknown language, `top` is out of range, or a format that cannot hold the
            tokenizer.
        ModtokError: the tokenizer is damaged, or unreadable texts.
    """
    selects = top is not None or coverage is not None
    if selects != bool(texts):
        raise UsageError(
            "--text and --top or --coverage require each other",
            remedy="as in: modtok extract --top 24000 --text data/fr.jsonl.zst TOKENIZER",
        )
    names_them = is_path(tokenizer) and bool(split_spec(str(tokenizer))[1])
    if not selects and languages is None and not names_them:
        raise UsageError("no languages given", remedy="as in: modtok extract --langs fr,en")
    path = optional_path(output)
    suffix = None if path is None else suffix_of(path)
    part = opened(tokenizer, languages, progress=progress)
    if selects:
        part = most_used(part, top, text_paths(texts), reading, progress, coverage=coverage)
    assert isinstance(part, Subtokenizer)
    if path is not None:
        write_bytes(path, content_of(part, suffix))
    return part


def content_of(tokenizer: Subtokenizer, suffix: str | None = None) -> bytes:
    """The file of a tokenizer; `suffix` selects the format.

    Raises:
        UsageError: a part of an external `.model`, which is only a `.model`, in another format.
    """
    segmenter = tokenizer.segmenter
    is_model = isinstance(segmenter, Library) and has_model(segmenter.file.document)
    is_model &= not tokenizer.languages
    if is_model and suffix not in (None, ".model"):
        what = "an external .model is only written as .model"
        raise UsageError(what, where=tokenizer.name, remedy="-o x.model")
    return tokenizer.to_bytes(suffix or (".model" if is_model else ".json"))


def most_used(
    tokenizer: Tokenizer,
    k: int | None,
    texts: Sequence[Path | str],
    reading: Reading,
    progress: Progress,
    *,
    coverage: float | None = None,
) -> Subtokenizer:
    """The tokenizer with the `k` tokens that it uses most in some texts.

    Of a tokenizer by scores those are the most frequent ones, the paper's alternative to modular
    training. A token by merges is needed by those that it is part of; see `prune`. With `coverage`,
    as few tokens as possible such that the texts take about 1 + (1 - coverage) times as many.
    Special tokens and bytes are always kept and count towards k.
    """
    limits: dict[str, Any] = {"top_k": k, "coverage": coverage}
    if isinstance(tokenizer, Subtokenizer):
        splits = tokenizer.pretokenizer
        words = count_corpus(texts, pretokenizer=splits, reading=reading, progress=progress)
        counts, limits["on"] = tokenizer.token_occurrences(words), words.fingerprint()
    else:  # as a stream: it has no words, only whole documents
        owner, tokenizer = tokenizer, as_library(tokenizer, progress)
        counts = np.zeros(tokenizer.size, dtype=np.int64)
        for path in texts:
            for batch in read_batches(path, reading, progress=progress):
                for ids in owner.encode_batch([each.text.decode() for each in batch]):
                    counts += np.bincount(ids, minlength=len(counts))
    if k is not None and k > tokenizer.size:
        raise UsageError(
            f"the tokenizer has {tokenizer.size:,} tokens, cannot keep {k:,}",
            where="--top",
            remedy=f"choose at most {tokenizer.size:,}",
        )
    mask = used_mask(tokenizer, counts, k, coverage)
    chosen = {name: value for name, value in limits.items() if value is not None}
    return tokenizer.restricted(mask, chosen)


def used_mask(
    tokenizer: Subtokenizer, counts: Int64Array, k: int | None, coverage: float | None
) -> BoolArray:
    """The tokens to keep, (V,) bool, of `counts` (V,) int64; see `most_used`."""
    always = tokenizer.segmenter.needed
    if tokenizer.scores is not None and k is not None and coverage is None:
        return frequent_mask(counts, tokenizer.scores, always, k)
    if isinstance(tokenizer.segmenter, Library):
        return tokenizer.segmenter.most_used(counts, k, coverage)
    vocabulary, first = tokenizer.vocabulary, len(tokenizer.vocabulary.specials)
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
    least = int(always.sum())
    if k <= least:
        raise UsageError(
            f"{k:,} tokens are too few: {least:,} are bytes and special tokens",
            where="--top",
            remedy=f"choose more than {least:,}",
        )
    order = np.lexsort((np.arange(len(counts)), -scores, -counts, ~always))
    mask = np.zeros(len(counts), dtype=np.bool_)
    mask[order[:k]] = True
    return mask
