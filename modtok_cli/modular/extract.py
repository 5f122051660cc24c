"""`modtok extract`: the tokenizer of some languages, or of the tokens most frequent in a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import PATHS, FilePath, Langs, text_paths
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.modular.open import (
    ModularSource,
    Tokenizer,
    open_subset,
    open_tokenizer,
    subset_spec,
)
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.languages import optional_languages
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
            metavar="PATH",
            stdout=True,
        ),
    ] = None,
    *,
    top_k: Annotated[
        int | None,
        Option(
            "Keep the N tokens most frequent in --on; for any Unigram tokenizer.",
            metavar="N",
            low=1,
        ),
    ] = None,
    on: Annotated[
        Sequence[FilePath],
        Option(
            "Text for --top-k. Repeatable.",
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
    is a SentencePiece model, for Unigram tokenizers and those of bpe-merge --whole-characters.
    It depends only on the tokenizer and the set of languages.

    With `top_k` and `on`, tokens are selected by their frequency in a text, instead of or in
    addition to `languages`. Special tokens and bytes are always kept.

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
    if (top_k is None) != (not on):
        raise UsageError(
            "--top-k and --on require each other",
            remedy="as in: modtok extract --top-k 24000 --on data/fr.jsonl.zst TOKENIZER",
        )
    if chosen is None and top_k is None:
        raise UsageError("no languages given", remedy="as in: modtok extract --langs fr,en")
    path = None if output is None else Path(output)
    opened: Tokenizer
    if isinstance(tokenizer, ModularTokenizer):
        opened = tokenizer.full() if chosen is None else tokenizer.subset(chosen)
    elif top_k is None:
        opened = open_subset(Path(tokenizer), chosen)
    else:
        opened = open_tokenizer(subset_spec(tokenizer, chosen), progress=progress)
    if top_k is not None:
        from modtok_cli.modular.frequent import Documents, most_frequent

        documents = Documents(text_paths(on), reading, progress)
        opened = most_frequent(opened, top_k, documents, None if path is None else path.suffix)
    if path is not None:
        write_bytes(path, content_of(opened, path.suffix))
    return opened


def content_of(tokenizer: Tokenizer, suffix: str | None = None) -> bytes:
    """The file of a tokenizer that `extract` gave; `suffix` selects the format."""
    if isinstance(tokenizer, Subtokenizer):
        return tokenizer.to_bytes(suffix or ".json")
    from modtok_cli.modular.encoding.external import External
    from modtok_cli.modular.frequent import check_suffix

    assert isinstance(tokenizer, External)
    check_suffix(tokenizer, suffix)
    return tokenizer.content
