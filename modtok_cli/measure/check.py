"""`modtok check`: how well tokenizers suit languages, without reference tokenizers.

The yardstick is the number of tokens per character that a BPE tokenizer of 24,000 tokens needs
which was learned from that language alone. It was measured on NTREX-128 (news) for 24 languages:
0.21 to 0.29, 0.25 on average, and that average is used for other languages with alphabets. In
scripts with a character per syllable or word, 0.6 is an assumption. Other kinds of text need up to
a quarter less, so `excess` is an estimate.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.option import Option, option_of
from modtok_cli.base.parameters import Lang, Texts, text_paths
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.remote import path_of
from modtok_cli.base.signature import signature
from modtok_cli.measure.aligned import lengths, seem_parallel
from modtok_cli.measure.candidates import (
    Candidate,
    Spec,
    named,
    open_named,
    pretokenizers_of,
    wants_documents,
    with_each,
)
from modtok_cli.measure.references import Reference, identify_whole, references_or_none
from modtok_cli.measure.robustness import SEED, Changed
from modtok_cli.measure.texts import Text, check_texts, load_texts
from modtok_cli.measure.usage import (
    RoundTrip,
    fitting,
    note_unspaced,
    one_token_words,
    ratio,
    round_trip,
    unknown_tokens,
    usage,
)
from modtok_cli.text.language_codes import UNKNOWN
from modtok_cli.text.languages import Label
from modtok_cli.text.readers import is_text
from modtok_cli.text.reading import Reading
from modtok_cli.text.scripts import scripts_of, word_total
from modtok_cli.text.table_files import is_table
from modtok_cli.tokenizer.manifest import languages_of
from modtok_cli.tokenizer.modular_directory import is_modular
from modtok_cli.tokenizer.open import split_pattern, tokenizers_in
from modtok_cli.tokenizer.parameters import AnyTokenizers
from modtok_cli.tokenizer.protocol import Tokenizer
from modtok_cli.tokenizer.vocabulary import as_text

LETTERS = 0.25
"""Tokens per character of a tokenizer made for one language, where it was not measured."""
SYLLABLES = 0.6
"""The same for characters that stand for a syllable or a word; assumed."""
MEASURED = {
    "bg": 0.271, "cs": 0.267, "da": 0.266, "de": 0.220, "el": 0.266, "en": 0.226, "es": 0.234,
    "et": 0.253, "fi": 0.222, "fr": 0.250, "hr": 0.264, "hu": 0.250, "it": 0.233, "lt": 0.272,
    "lv": 0.269, "nl": 0.240, "pl": 0.271, "pt": 0.245, "ro": 0.257, "sk": 0.286, "sl": 0.266,
    "so": 0.224, "sv": 0.262, "sw": 0.206,
}  # fmt: skip
"""Tokens per character by language, as the module says."""
BASE = "en"

# Upper limits of `excess`, the tokens relative to the yardstick.
VERDICTS = (("good", 1.25), ("fair", 1.5), ("poor", 2.5), ("bad", float("inf")))
MANY_BYTES = 0.2
# Unknown tokens lose text: at best poor from the first share of them, bad from the second.
SOME_UNKNOWN, MANY_UNKNOWN = 0.01, 0.1


def split_arguments(arguments: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return tokenizers and texts among the arguments of the command, by what they name.

    Texts are `-`, files with the suffix of a text or count table, and directories without a
    tokenizer. Everything else is a tokenizer.

    >>> split_arguments(["llama.model", "fi.txt", "tokenizer@fi", "-"])
    (['llama.model', 'tokenizer@fi'], ['fi.txt', '-'])
    """
    tokenizers: list[str] = []
    texts: list[str] = []
    for argument in arguments:
        (texts if _is_text(argument) else tokenizers).append(argument)
    return tokenizers, texts


def _is_text(argument: str) -> bool:
    path = path_of(split_pattern(argument)[0])
    if path.is_dir():
        return not is_modular(path) and not tokenizers_in(path)
    return argument == "-" or is_text(path) or is_table(path)


JudgedTexts = Annotated[Texts, option_of(Texts, python_only=True)]


@public
def check(
    tokenizers: AnyTokenizers,
    texts: JudgedTexts,
    *,
    robust: Annotated[
        bool,
        Option("Also measure the texts with errors, in upper case, and mixed with English."),
    ] = False,
    language: Lang = None,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Judge how well tokenizers suit a language.

    Needs no reference tokenizers. Reports tokens per word (fertility), per character and per
    byte, the share of tokens that are bytes instead of characters, the share of unknown tokens if
    there are any, and a verdict with a reason. "vs mono" estimates the tokens relative to a
    tokenizer made for the language, from measured values of 24 languages or their mean, about
    4 characters per token. The largest values come first.

    If English text is among the texts, tokens are compared with it as well: as a premium if
    the lines correspond, else per character. A word contains a letter or digit; scripts
    without spaces between words have no tokens per word.

    The language of a text comes from `language`, its documents, or its file name (fi.txt); else
    py3langid or the references of the tokenizer identify it. A text of unknown language is
    compared with the mean.

    Returns:
        One row per language, text and tokenizer, languages with the largest excess first:

        - `tokens`, `characters`, `bytes`, and `words`: pre-tokens with a letter, mark or digit,
            None in scripts without spaces between words;
        - `tokens_per_word` (fertility), `tokens_per_character`, `tokens_per_byte`;
        - `one_token_words`, `one_token_types`: shares of the words, and of the different words,
            that are one token (see `nsl`);
        - `excess`: tokens relative to a monolingual tokenizer (k = 24,000), an estimate;
        - `premium`: tokens relative to the parallel English text, else None;
            `per_character_premium`: tokens per character relative to English text of any content;
        - `byte_tokens`: share of tokens that are bytes of a character instead of whole characters;
        - `unknown_tokens`: share of tokens that stand for text without a token, which is lost;
        - `tested_lines`, `lossy_lines`: lines encoded and decoded, and how many of them changed;
        - with `robust`: `errors_5`, `errors_10`, `upper_case`, `no_diacritics`: tokens of the
            changed text relative to `tokens`; `mixed_with_english`: relative to the mixture's share
            of the text and of the English one, None without a parallel English text;
        - `verdict` ("good", "fair", "poor" or "bad"), `reason` and `hint`, and a signature.

    Examples:
        >>> row = modtok.check("tokenizer", "parallel/fi.txt")[0]
        >>> row["name"], row["tokens_per_word"] > 1
        ('Finnish', True)

    Raises:
        ModtokError: a file is missing, empty or damaged.
        UsageError: no tokenizer.
    """
    texts, tokenizers = text_paths(texts), named(tokenizers)
    check_texts(texts)
    opened = open_named(tokenizers, progress)
    loaded = load_texts(
        texts,
        language=language,
        references=None,
        unknown=UNKNOWN,
        keep_documents=robust or wants_documents(opened, texts),
        reading=reading,
        progress=progress,
        pretokenizers=pretokenizers_of(opened, tokenizers),
    )
    _identify(loaded, tokenizers, opened, progress)
    present = sorted({text.language for text in loaded})
    opened = with_each(opened, tokenizers, present, progress)
    note_unspaced(loaded, progress)
    measured = [_measure(each, text) for text, each in fitting(loaded, opened, progress)]
    rows = [_row(each, _english(each, measured), robust) for each in measured]
    if robust:
        for row, fields in zip(rows, _changed(measured, progress), strict=True):
            row.update(fields)
    worst: dict[str, float] = {}
    for row in rows:
        worst[row["language"]] = max(worst.get(row["language"], 0.0), row["excess"] or 0.0)
    return sorted(rows, key=lambda row: -worst[row["language"]])


def _identify(
    texts: Sequence[Text],
    tokenizers: Sequence[Spec],
    opened: Sequence[Candidate],
    progress: Progress,
) -> None:
    """Set the languages of texts in unknown ones; says which are identified and which are not."""
    unknown = [text for text in texts if text.language == UNKNOWN]
    references: dict[str, Reference] = {}
    if unknown:
        try:
            known = references_or_none(None, tokenizers, opened, progress)
            references = known.all() if known else {}
        except ModtokError as error:  # damaged, and not needed for what is measured
            progress.warn(f"{error}; languages are not identified")
    remaining: list[str] = []
    for text in unknown:
        where = "stdin" if text.name == "-" else text.name
        language = identify_whole(text.counts, references)
        if language:
            text.language = language
            progress.note(f"{where}: identified as {language} (--lang names another)")
        else:
            remaining.append(where)
    if remaining:
        shown = ", ".join(remaining[:3]) + (", …" if len(remaining) > 3 else "")
        progress.warn(f"{shown}: unknown language, judged by an average; name it: --lang fi")


@dataclass(frozen=True)
class _OnText:
    candidate: Candidate
    text: Text
    tokens: int
    byte_tokens: int
    unknown_tokens: int
    lossy: RoundTrip

    @property
    def per_character(self) -> float | None:
        return ratio(self.tokens, self.text.counts.size.characters)


def _measure(candidate: Candidate, text: Text) -> _OnText:
    tokenizer = candidate.tokenizer
    used = usage(tokenizer, text, occurrences=True)
    assert used.occurrences is not None
    partial = sum(
        int(used.occurrences[token])
        for token in np.flatnonzero(used.occurrences).tolist()
        if not _is_whole(tokenizer, token)
    )
    lost = unknown_tokens(tokenizer, used)
    return _OnText(candidate, text, used.tokens, partial, lost, round_trip(tokenizer, text))


def _is_whole(tokenizer: Tokenizer, token: int) -> bool:
    """Return whether a token is whole characters, not some bytes of one."""
    text = as_text(tokenizer.token_bytes(token))
    return text is not None and "\ufffd" not in text  # to which libraries decode a byte


def _english(mine: _OnText, everything: Sequence[_OnText]) -> _OnText | None:
    """Return the same tokenizer on English text, the parallel one if there is one."""
    if mine.text.language == BASE:
        return None
    others = [
        each
        for each in everything
        if each.candidate.label == mine.candidate.label and each.text.language == BASE
    ]
    parallel = [each for each in others if _parallel(mine.text, each.text)]
    return next(iter(parallel or others), None)


def _parallel(one: Text, two: Text) -> bool:
    """Return whether two texts seem to be the same lines in two languages."""
    if one.counts.size.documents != two.counts.size.documents or one.counts.size.documents < 2:
        return False
    if one.documents is None or two.documents is None:
        return False
    return seem_parallel(lengths(one.documents), lengths(two.documents))


def _changed(measured: Sequence[_OnText], progress: Progress) -> Iterator[dict[str, Any]]:
    """Yield fields about changed text, which is made once for all tokenizers."""
    text = other = None
    with progress.task("measuring changed text", total=len(measured), unit="texts") as task:
        for mine in measured:
            found = _english(mine, measured)
            english = found if found and _parallel(mine.text, found.text) else None
            if mine.text is not text or (english and english.text) is not other:
                text, other = mine.text, english.text if english else None
                changed = Changed.of(text, other)
            tokens = english.tokens if english else None
            yield changed.relative(mine.candidate.tokenizer, mine.tokens, tokens)
            task.advance(1)


def _row(mine: _OnText, english: _OnText | None, robust: bool) -> dict[str, Any]:
    text, tokens, size = mine.text, mine.tokens, mine.text.counts.size
    scripts = scripts_of(text.counts)
    words = word_total(text.counts)
    letters = MEASURED.get(text.language, LETTERS)
    expected = letters + (SYLLABLES - letters) * scripts.syllabic
    per_character = mine.per_character
    row: dict[str, Any] = {
        "tokenizer": mine.candidate.label,
        "size": mine.candidate.tokenizer.size,
        "text": text.name,
        "language": text.language,
        "name": Label.of(text.language).name,
        "tokens": tokens,
        "characters": size.characters,
        "bytes": size.bytes,
        "words": words,
        "tokens_per_word": ratio(tokens, words),
        **one_token_words(mine.candidate.tokenizer, text),
        "tokens_per_character": per_character,
        "tokens_per_byte": ratio(tokens, size.bytes),
        "excess": None if per_character is None else per_character / expected,
        "premium": ratio(tokens, english.tokens)
        if english and _parallel(text, english.text)
        else None,
        "per_character_premium": ratio(per_character or 0.0, english.per_character)
        if english
        else None,
        "byte_tokens": ratio(mine.byte_tokens, tokens),
        "unknown_tokens": ratio(mine.unknown_tokens, tokens),
        "tested_lines": mine.lossy.lines,
        "lossy_lines": mine.lossy.failed,
    }
    row["verdict"] = verdict(row)
    row["reason"] = reason(row)
    row["hint"] = hint([row])
    row["signature"] = signature(
        "check",
        tok=mine.candidate.tokenizer.signature,
        lang=text.language,
        text=text.counts.fingerprint(),
        **({"en": english.text.counts.fingerprint()} if english else {}),
        **({"seed": SEED} if robust else {}),
    )
    return row


def verdict(row: Mapping[str, Any]) -> str:
    """Judge by `excess`, and by bytes and unknown tokens: good, fair, poor or bad.

    At best poor if a fifth of the tokens are bytes or a hundredth are unknown; bad if a tenth are
    unknown.

    >>> row = {"excess": 1.1, "byte_tokens": 0.0, "unknown_tokens": 0.0}
    >>> verdict(row), verdict({**row, "byte_tokens": 0.3}), verdict({**row, "unknown_tokens": 0.4})
    ('good', 'poor', 'bad')
    """
    unknown = row["unknown_tokens"] or 0.0
    if unknown >= MANY_UNKNOWN:
        return "bad"
    by_excess = next(name for name, limit in VERDICTS if (row["excess"] or 0.0) <= limit)
    many = (row["byte_tokens"] or 0.0) >= MANY_BYTES or unknown >= SOME_UNKNOWN
    return "poor" if many and by_excess in ("good", "fair") else by_excess


def reason(row: Mapping[str, Any]) -> str:
    """Say the verdict in words.

    >>> row = {"excess": 2.14, "name": "Finnish", "premium": 1.9, "byte_tokens": 0.0,
    ...        "unknown_tokens": 0.0, "tested_lines": 0, "lossy_lines": 0}
    >>> reason(row)
    'about 2.1 times the tokens of a monolingual tokenizer (k = 24,000); 1.9 times English'
    >>> reason({**row, "excess": 0.6, "unknown_tokens": 0.4})
    'loses text: 40% unknown tokens; 1.9 times English'
    """
    excess = row["excess"] or 0.0
    own = "a monolingual tokenizer (k = 24,000)"
    parts = []
    unknown = row["unknown_tokens"] or 0.0
    if unknown >= SOME_UNKNOWN:
        parts.append(f"loses text: {unknown:.0%} unknown tokens")
    if excess > VERDICTS[0][1]:
        parts.append(f"about {excess:.1f} times the tokens of {own}")
    elif not parts:
        parts.append(f"about as few tokens as {own}")
    if row["premium"] is not None:
        parts.append(f"{row['premium']:.1f} times English")
    if (row["byte_tokens"] or 0.0) >= 0.01:
        parts.append(f"{row['byte_tokens']:.0%} byte tokens")
    if row["lossy_lines"]:
        parts.append(f"changes {row['lossy_lines']} of {row['tested_lines']} lines")
    return "; ".join(parts)


def hint(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Say what helps languages in which one tokenizer is poor or bad; None if there are none.

    >>> row = {"tokenizer": "a.json", "language": "fi", "name": "Finnish", "verdict": "bad"}
    >>> hint([{**row, "text": "fi.txt"}])
    'a.json: learn a tokenizer with Finnish: modtok bpe-seq --langs en,fi --data DIR -k 24000; \
or, if it is BPE, add Finnish: modtok bpe-seq --append fi -t a.json --data DIR -k 8000 -o NEW'
    """
    bad = {row["language"]: row["name"] for row in rows if row["verdict"] in ("poor", "bad")}
    if not bad:
        return None
    tokenizer = rows[0]["tokenizer"]
    directory, _, chosen = tokenizer.partition("@")
    if is_modular(Path(directory)):
        present = set(languages_of(Path(directory)))
        selected = chosen.split(",") if chosen not in ("", "each") else present
        if bad.keys() <= present:
            if more := [code for code in bad if code not in selected]:
                names = ", ".join(bad[code] for code in more)
                return f"{tokenizer}: include {names}: {directory}@{','.join([*selected, *more])}"
            return f"{tokenizer}: learn it with a larger -k, or on more text"
        bad = {code: name for code, name in bad.items() if code not in present}
    names = ", ".join(
        "the language of the text" if code == UNKNOWN else name for code, name in bad.items()
    )
    codes = ["LANG" if code == UNKNOWN else code for code in bad]
    texts = {row["text"] for row in rows}
    data = f"--data {next(iter(texts)) if len(texts) == 1 and Path(*texts).is_dir() else 'DIR'}"
    if is_modular(Path(directory)):
        return (
            f"{tokenizer}: add {names}: modtok bpe-seq --append {','.join(codes)} "
            f"-t {directory} {data} -o NEW"
        )
    langs = ",".join(dict.fromkeys([BASE, *codes]))
    return (
        f"{tokenizer}: learn a tokenizer with {names}: modtok bpe-seq --langs {langs} {data} "
        f"-k 24000; or, if it is BPE, add {names}: modtok bpe-seq --append {','.join(codes)} "
        f"-t {tokenizer} {data} -k 8000 -o NEW"
    )
