"""`modtok nsl`: number of tokens of a text relative to monolingual tokenizers.

NSL (normalized sequence length) of a tokenizer on a text in language l is its number of tokens
divided by the number of the reference tokenizer trained on l alone (equation 1 of the paper).
"""

from pathlib import Path
from typing import Annotated, Any

from modtok_cli.base import parameters
from modtok_cli.base.option import Option
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.signature import signature
from modtok_cli.measure.candidates import (
    Candidate,
    named,
    open_named,
    pretokenizers_of,
    with_each,
)
from modtok_cli.measure.morphology import Morphemes, align
from modtok_cli.measure.references import find_references
from modtok_cli.measure.texts import check_texts, load_texts
from modtok_cli.measure.usage import (
    Basis,
    fitting,
    note_unspaced,
    one_token_words,
    ratio,
    tried,
    usage,
)
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.parameters import AnyTokenizers, ReferenceDirectory
from modtok_cli.tokenizer.protocol import Tokenizer


@public
def nsl(
    tokenizers: AnyTokenizers,
    texts: parameters.Texts,
    *,
    references: ReferenceDirectory = None,
    morphemes: Annotated[
        parameters.FilePath | None,
        Option(
            "File or directory with segmented words (LANG.tsv: word, tab, morphemes joined by |).",
            metavar="PATH",
        ),
    ] = None,
    language: parameters.Lang = None,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Measure token counts relative to monolingual tokenizers.

    NSL (normalized sequence length) is the number of tokens divided by the number under the
    monolingual reference tokenizer of the language: 1.2 means 20% more tokens. Tokens per
    character, byte and word are reported as well. `morphemes` adds MorphScore and the F1 of
    token boundaries against morpheme boundaries. DIR@each uses the subset of the language of
    each text.

    Returns:
        One row per text, language and tokenizer: tokens, reference_tokens, nsl (None without a
        reference), tokens per character (code point), byte (UTF-8) and word (a pre-token with a
        letter, mark or digit), the shares of the words (`one_token_words`) and of the different
        words (`one_token_types`) that are one token (None in scripts without spaces), whether it
        was measured on "words" (word counts, exact) or line by line on "text", and the signature.

    Examples:
        >>> rows = modtok.nsl(["tokenizer@each", "tokenizer"], "parallel/fi.txt")
        >>> [row["tokenizer"] for row in rows], rows[0]["nsl"] < 1.1
        (['tokenizer@each', 'tokenizer'], True)

    Raises:
        ModtokError: a file is missing or damaged, or no language has a reference.
    """
    texts, tokenizers = parameters.text_paths(texts), named(tokenizers)
    check_texts(texts)
    segmented = Morphemes(Path(morphemes), language) if morphemes is not None else None
    opened = open_named(tokenizers, progress)
    reference_set = find_references(parameters.optional_path(references), tokenizers, opened)
    loaded = load_texts(
        texts,
        language=language,
        references=reference_set,
        keep_documents=any(candidate.tokenizer.pretokenizer is None for candidate in opened),
        reading=reading,
        progress=progress,
        pretokenizers=pretokenizers_of(opened, tokenizers),
    )
    present = sorted({text.language for text in loaded})
    opened = with_each(opened, tokenizers, present, progress)
    note_unspaced(loaded, progress)
    missing = [name for name in present if name not in reference_set.languages]
    if missing and len(missing) == len(present):
        reference_set[missing[0]]  # raises with the list of references
    reference_set.warn_of_missing(missing, progress)

    basis = {id(text): Basis.of(text, reference_set) for text in loaded}
    return [
        _row(candidate, basis[id(text)], segmented, progress)
        for text, candidate in fitting(loaded, opened, progress)
    ]


def _row(
    candidate: Candidate, basis: Basis, segmented: Morphemes | None, progress: Progress
) -> dict[str, Any]:
    text = basis.text
    may_lose = getattr(candidate.tokenizer, "unknown", None) is not None
    used = usage(candidate.tokenizer, text, occurrences=may_lose)
    tried(candidate, text, used, progress)
    return {
        "tokenizer": candidate.label,
        "size": candidate.tokenizer.size,
        "text": text.name,
        "language": text.language,
        "nsl": ratio(used.tokens, basis.reference_tokens),
        "tokens": used.tokens,
        "reference_tokens": basis.reference_tokens,
        "reference_size": basis.reference_size,
        **basis.relative(used.tokens),
        **one_token_words(candidate.tokenizer, text),
        "measured_on": used.basis,
        **_boundaries(candidate.tokenizer, text.language, segmented),
        "signature": signature(
            "nsl",
            tok=candidate.tokenizer.signature,
            ref=basis.reference_signature,
            lang=text.language,
            text=text.counts.fingerprint(),
            **({"morph": segmented.fingerprint(text.language)} if segmented else {}),
        ),
    }


def _boundaries(
    tokenizer: Tokenizer, language: str, segmented: Morphemes | None
) -> dict[str, float | int | None]:
    """Return fields about morpheme boundaries; None in a language without segmented words."""
    if segmented is None:
        return {}
    words = segmented.of(language)
    row = align(tokenizer, words or [], language)
    return row if words else dict.fromkeys(row)
