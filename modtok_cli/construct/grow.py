"""Published tokenizers grow: sequential BPE goes on from the merges of a `tokenizer.json`.

(Unigram: `grow_pieces`.)

Ids and merges of the file stay as they are. Words of a new language are segmented by the file,
the most frequent pairs are merged, and the new merges follow the merges of the file: they have a
lower rank than all of it. A new merge never makes an old token, so that the tokens of each
earlier language have the merges that they had, and its text the same ids. Digits that the file
keeps apart stay apart. A character that several bytes spell is a token of its own, since no merge
joins tokens of bytes.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.arrays import BoolArray, Int32Array, Int64Array, flatten
from modtok_cli.base.errors import UsageError
from modtok_cli.base.extras import require
from modtok_cli.base.files import is_there
from modtok_cli.base.progress import Progress
from modtok_cli.construct.budgets import own_budgets
from modtok_cli.construct.corpora import corpus_of, to_learn_from
from modtok_cli.construct.grow_pieces import grown_by_pieces
from modtok_cli.construct.held_out import HeldOut, occurrences, row_of, segmented, split_only
from modtok_cli.construct.outputs import prove_unchanged
from modtok_cli.construct.request import BuildReport, Destination, LearnerOptions, TrainingText
from modtok_cli.learn.merges import MAX_UNSPACED, GlobalMerges, grow
from modtok_cli.text.corpus import count_languages
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import NONE, PreTokenizer
from modtok_cli.text.workspace import language_files
from modtok_cli.tokenizer.adopted.adopt import (
    ADOPTED_END,
    ADOPTED_MARKS,
    check_output,
    find_end_of_text,
    find_marks,
    find_rows,
    of_masks,
    read_tokenizer_file,
    with_added,
)
from modtok_cli.tokenizer.adopted.file_splits import file_splits
from modtok_cli.tokenizer.adopted.restrict import BYTE_TOKENS, is_byte_level, with_places
from modtok_cli.tokenizer.adopted.segmenter import ADOPTED_ROWS, Library, ModularLibrary
from modtok_cli.tokenizer.adopted.text_form import has_model
from modtok_cli.tokenizer.adopted.tokenizer_file import UNREACHED, TokenizerFile
from modtok_cli.tokenizer.hf_directory import refuse_joined
from modtok_cli.tokenizer.manifest import absent
from modtok_cli.tokenizer.modular_directory import is_modular
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import file_of, split_pattern
from modtok_cli.tokenizer.segmenters.json_frame import added_tokens, ignored_settings
from modtok_cli.tokenizer.vocabulary import spell

BASE = "base"
"""The language of all tokens of a file that was not adopted before."""
_MARGIN = 256
_COVERED = 0.9995
"""Share of the characters of a text that have a token of their own, as SentencePiece has it."""


def is_published(path: Path) -> bool:
    """Return whether a tokenizer to extend is a file of another program, adopted or not."""
    if is_modular(path):
        return ModularTokenizer.load(path).segmentation == Library.name
    head = split_pattern(str(path))[0]
    if not is_there(head):
        raise absent(Path(head))
    return file_of(Path(head)).is_file()


def grow_published(
    algorithm: str, options: LearnerOptions, text: TrainingText, destination: Destination
) -> BuildReport:
    """Add languages to a published tokenizer; `-k` is the number of new tokens of each.

    `algorithm`: "bpe-seq" for BPE, "unigram-merge" for Unigram.

    Raises:
        UsageError: a tokenizer that cannot grow, no number of tokens, or a language that it has.
    """
    _refuse_others(options, text, destination)
    source, output = destination.source, destination.path
    progress = text.progress
    max_unspaced = options.values.get("max_unspaced")
    if max_unspaced is None:
        max_unspaced = MAX_UNSPACED
    if not (options.k or options.budgets):
        raise _without_number()
    require(f"{source}: growth", published=["tokenizers"])
    if destination.is_in_place:
        raise UsageError("a published tokenizer is not replaced", where="-o", remedy="choose an -o")
    check_output(output, force=destination.force)
    base = _base(source, options.specials)
    assert isinstance(base.segmenter, ModularLibrary)
    file, first = base.segmenter.file, _first_id(base, source)
    if file.is_bpe != (algorithm == "bpe-seq"):
        other = "bpe-seq" if file.is_bpe else "unigram-merge"
        raise UsageError(f"is a {'BPE' if file.is_bpe else 'Unigram'} tokenizer", where=source,
                         remedy=f"modtok {other} --append")  # fmt: skip
    pretokenizer = _splits(file) if file.is_bpe else file.pretokenizer
    if left_out := ignored_settings({**file.document, "model": {}}):
        progress.warn(f"{source}: left out: {', '.join(left_out)}")
    files = language_files(text.data, destination.append, text.reading, progress=progress)
    present = sorted(files.keys() & set(base.languages))
    if present:
        raise UsageError(f"{source} already has {', '.join(present)}", where="--append")
    names = [name for name in destination.append or () if name in files] or sorted(files)
    new_of = own_budgets(options.k, options.budgets, names, 0, {})
    for name in names:
        if name not in new_of:
            raise _without_number(name)
    counted = count_languages(
        files,
        pretokenizer=pretokenizer,
        reading=text.reading,
        progress=progress,
        threads=text.threads,
    )
    columns = _columns(base)
    corpora, lines = dict(base.corpora), []
    for name in names:
        began, k = time.perf_counter(), new_of[name]
        counts = to_learn_from(name, counted[name], progress)
        corpora[name] = corpus_of(counts)
        split = split_only(counts)
        if without := int(counts.counts.sum() - split.counts.sum()):
            progress.warn(
                f"{name}: {without:,} documents were left out, since they contain added tokens "
                f"of {source}"
            )
        counts = split
        if file.is_bpe:
            symbols = _lacking(file, name, counts, k, progress)
            grown = extended(file, (), first, symbols) if symbols else file
            merges = _learned(grown, name, counts, k - len(symbols), max_unspaced, progress)
            new = len(symbols) + len(merges)
            grown = extended(grown, merges, first + len(symbols))
        else:
            grown, new = grown_by_pieces(file, name, counts, k, progress)
        line, used = _row(file, grown, name, counts, new, k, progress)
        held = HeldOut.read(files[name], text.reading.of(name), pretokenizer)
        line |= row_of(name, held, (file, grown), counts, progress)
        file, first = grown, grown.size
        columns[name] = used
        lines.append({**line, "seconds": round(time.perf_counter() - began, 3)})
    tokenizer = of_masks(
        file,
        _padded(columns, file.size),
        algorithm=algorithm,
        k=base.k,
        budgets={**base.budgets, **new_of},
        settings={**base.settings, ADOPTED_ROWS: None, "max_unspaced": max_unspaced},
        corpora=corpora,
    )
    proof = prove_unchanged(tokenizer, base)
    tokenizer.save(output)
    progress.note(f"{output}: {proof}")
    return BuildReport(output, tokenizer.signature, lines)


def _without_number(language: str = "") -> UsageError:
    return UsageError(
        f"no number of new tokens for {language or 'the languages'}",
        where="-k",
        remedy="a published tokenizer grows by a number for each language, such as -k 8000 or "
        "-k fr=5000,fi=8000",
    )


def _refuse_others(options: LearnerOptions, text: TrainingText, destination: Destination) -> None:
    """Refuse options that growth does not use. A published tokenizer has no references."""
    others = {
        "languages": text.languages,
        **options.values,
        "fair": options.fair,
        "fair_share": options.fair_share,
        "max_unspaced": None,
        "default_specials": None if options.default_specials else False,
        "memory": text.memory,
        "journal_seconds": destination.journal_seconds,
    }
    for name, value in others.items():
        if value is not None:
            raise UsageError("is not for a published tokenizer", where=options.options[name].flag)


def _base(source: Path, specials: Sequence[str]) -> ModularTokenizer:
    """A tokenizer with the special tokens `NAME=ID`; of a file one part, which has all of it."""
    if not is_modular(source):
        file = _with_specials(read_tokenizer_file(source), specials)
        every = {BASE: np.array(list(map(bool, file.names)))}
        settings = {
            ADOPTED_END: find_end_of_text(source, file), ADOPTED_ROWS: find_rows(source),
            ADOPTED_MARKS: find_marks(source, file),
        }  # fmt: skip
        return of_masks(file, every, k=file.size, settings=settings, corpora={})
    base = ModularTokenizer.load(source)
    assert isinstance(base.segmenter, ModularLibrary)
    own = base.segmenter.file
    # Rows of the model without a token are room for new ones.
    file = _with_specials(TokenizerFile(own.document, own.where), specials)
    if file.ids == own.ids and file.size == own.size:
        return base
    masks = {name: each | file.needed for name, each in _padded(_columns(base), file.size).items()}
    return of_masks(
        file, masks, algorithm=base.algorithm, k=base.k, budgets=base.budgets,
        settings=base.settings, corpora=base.corpora,
    )  # fmt: skip


def _columns(tokenizer: ModularTokenizer) -> dict[str, BoolArray]:
    """Return the tokens of each language, (V,) bool."""
    members = tokenizer.token_membership
    return {name: members[:, place] for place, name in enumerate(tokenizer.languages)}


def _padded(columns: Mapping[str, BoolArray], size: int) -> dict[str, BoolArray]:
    return {
        name: np.pad(each[:size], (0, max(0, size - len(each)))) for name, each in columns.items()
    }


def _with_specials(file: TokenizerFile, specials: Sequence[str]) -> TokenizerFile:
    """Return the file with special tokens that the model has, each as `NAME=ID`."""
    refuse_joined(specials)
    taken, added = {*file.ids.values()}, []
    for text in specials:
        name, _, index = text.rpartition("=")
        if not (name and index.isdecimal() and index.isascii() and len(index) < 10):
            raise UsageError("has no id in the model", where=f"--special '{text}'",
                             remedy=f"as in: --special '{text}=128000'")  # fmt: skip
        if name in file.ids or int(index) in taken:
            raise UsageError("is a token, or its id is, already", where=f"--special '{text}'")
        taken.add(int(index))
        added.append({**added_tokens([name])[0], "id": int(index)})
    return with_added(file, added) if added else file


def _first_id(base: ModularTokenizer, source: Path) -> int:
    """Return the first id of new tokens.

    A rank file lists no special tokens: their ids in the model may follow its own.
    """
    assert isinstance(base.segmenter, ModularLibrary)
    file, rows = base.segmenter.file, base.settings.get(ADOPTED_ROWS)
    if file.added.any() or base.algorithm != "adopt":
        return file.size
    if rows is None:
        raise UsageError(
            f"has no special tokens, and the ids from {file.size:,} on may be those of its model",
            where=source,
            remedy="give the model's directory, with tokenizer_config.json or config.json beside "
            f"it, or its last special token, as in: --special '<|end|>={file.size + 255}'",
        )
    return max(file.size, int(rows))


def _splits(file: TokenizerFile) -> PreTokenizer:
    """Return how words of text are found, ours or the library's."""
    remedy = "learn another tokenizer and give it to the model: modtok transplant"
    if has_model(file.document):
        remedy = f"grow the tokenizer.json of the same model, or {remedy}"
    form, found = file.form, None
    if form.is_native and not form.pretokenizer.name.startswith(NONE.name):
        found = form.pretokenizer
    elif is_byte_level(file.document):
        found = file_splits(file.document, file.where)
    if found is None:
        raise UsageError(
            "how it splits text into words is not known, so it cannot grow",
            where=file.where,
            remedy=remedy,
        )
    return found


def _row(
    file: TokenizerFile,
    grown: TokenizerFile,
    language: str,
    counts: WordCounts,
    new: int,
    k: int,
    progress: Progress,
) -> tuple[dict[str, Any], BoolArray]:
    """A row of the report on a language, and the tokens that it uses, (V,) bool."""
    used = grown.closed(occurrences(Library(grown), counts) > 0)
    if new < k:
        progress.warn(
            f"{language}: the text gives {new:,} new tokens, not {k:,}; "
            "the tokenizer was written with these"
        )
    line = {
        "language": language,
        "tokens": int(used.sum()),
        "adopted": int(used[: file.size].sum()),
        "new_tokens": new,
        "total": grown.size,
    }
    return line, used


def _lacking(
    file: TokenizerFile, language: str, counts: WordCounts, k: int, progress: Progress
) -> list[str]:
    """Characters of the text that several bytes spell, which no merge joins; at most k.

    The most frequent ones, until `_COVERED` of the characters have a token. A file of bytes has
    none, and every language has all of its bytes: those that it lacks stay left out, and are said.
    """
    found: Counter[str] = Counter()
    of_characters = file.form.of_characters
    for word, count in counts.pairs():
        for symbol in word.decode("utf-8", "ignore") if of_characters else spell(word):
            found[symbol] += count
    lost = [s for s in found if s not in file.ids and not (of_characters and s.isascii())]
    left, room = sum(found[each] for each in lost), (1 - _COVERED) * found.total()
    if not of_characters:
        if left:
            progress.warn(
                f"{language}: {left:,} of {found.total():,} bytes of the text have no token, and "
                "the tokenizer leaves them out; to have them, learn another one and give it to "
                "the model: modtok transplant"
            )
        return []
    chosen: list[str] = []
    for symbol in sorted(lost, key=lambda each: (-found[each], each)):
        if len(chosen) == k or left <= room:
            break
        chosen.append(symbol)
        left -= found[symbol]
    return chosen


def _learned(
    file: TokenizerFile,
    language: str,
    counts: WordCounts,
    k: int,
    max_unspaced: int,
    progress: Progress,
) -> list[tuple[str, str]]:
    """Return the new merges, by the names of their parts: at most k."""
    ids, offsets = segmented(Library(file), counts)
    apart = file.added.copy()  # what no merge joins
    if file.form.of_characters:
        apart |= np.array([name in BYTE_TOKENS for name in file.names])
    left_out, begins = apart[ids], np.zeros(len(ids), dtype=np.bool_)
    tokens, digit = file.vocabulary.tokens(), _digit()
    joined = zip(tokens, file.added.tolist(), strict=True)
    if not any(re.search(digit + digit, token) for token, added in joined if not added):
        # Every digit is a token, by a pattern or by the text that the file was learned from.
        split, begins = _digits(digit, ids, tokens, counts)
        left_out |= split
    symbols, ends, words = _cut(ids, offsets, left_out, begins, counts)
    data, starts = _strings(file, apart)
    names, known = list(file.names), set(file.names)
    margin = _MARGIN
    while True:
        learned = grow(
            GlobalMerges((), data, starts, file.merges),
            symbols,
            ends,
            words,
            file.size + k + margin,
            member=np.ones(file.size, dtype=np.bool_),
            merge_member=np.ones(len(file.merges), dtype=np.bool_),
            max_unspaced=max_unspaced,
            label=language,
            progress=progress,
        ).merges
        new: list[tuple[str, str]] = []
        made: dict[int, str] = {}
        for left, right, result in learned.merges[len(file.merges) :].tolist():
            parts = [names[part] if part < file.size else made.get(part) for part in (left, right)]
            if parts[0] is None or parts[1] is None or parts[0] + parts[1] in known:
                continue  # the file has it, though it does not reach it here; it stays as it is
            made[result] = parts[0] + parts[1]
            new.append((parts[0], parts[1]))
        if len(new) >= k or learned.tokens - file.size < k + margin:
            return new[:k]
        margin *= 4


@cache
def _digit() -> bytes:
    """Return a pattern of the bytes of a decimal digit of any script."""
    lasts: dict[bytes, bytes] = {}
    for digit in re.findall(r"\d", "".join(map(chr, range(sys.maxunicode)))):
        *start, last = digit.encode()
        lasts[bytes(start)] = lasts.get(bytes(start), b"") + re.escape(bytes([last]))
    parts = (re.escape(start) + b"[" + each + b"]" for start, each in lasts.items())
    return b"(?:" + b"|".join(parts) + b")"


def _digits(
    digit: bytes, ids: Int32Array, tokens: Sequence[bytes], counts: WordCounts
) -> tuple[BoolArray, BoolArray]:
    """Where tokens of words have a digit with other text, and where a word begins if each digit is
    one; (N,) bool both. Without bytes that are tokens, a digit is in one token.
    """
    stops = np.cumsum(np.array([len(token) for token in tokens])[ids])
    text = counts.data.tobytes()
    if not len(ids) or stops[-1] != len(text):  # "▁" is longer than the space that it is
        has_digit = np.array([re.search(digit, token) is not None for token in tokens])
        return has_digit[ids], np.zeros(len(ids), dtype=np.bool_)
    spans = np.array([match.span() for match in re.finditer(digit, text)], np.int64).reshape(-1, 2)
    starts = np.append(0, stops[:-1])
    first = np.searchsorted(spans[:, 1], starts, side="right")  # the digit that ends after a start
    spans = np.append(spans, [[len(text) + 1] * 2], axis=0)
    overlaps = spans[first, 0] < stops
    inside = (spans[first, 0] <= starts) & (stops <= spans[first, 1])
    begins = np.isin(starts, spans[:-1])
    return overlaps & ~inside, begins


def _cut(
    ids: Int32Array, offsets: Int64Array, left_out: BoolArray, begins: BoolArray, counts: WordCounts
) -> tuple[Int32Array, Int64Array, WordCounts]:
    """Words without the tokens `left_out`, cut there and where one `begins`, (N,) bool both; with
    the counts of each part.
    """
    if not (left_out.any() or begins.any()):
        return ids, offsets, counts
    kept = ~left_out
    word = np.repeat(np.arange(len(counts)), np.diff(offsets))
    begins[:1] = True
    begins[1:] |= (word[1:] != word[:-1]) | ~kept[:-1]
    firsts = np.flatnonzero((begins & kept)[kept])
    ends = np.append(firsts, int(kept.sum())).astype(np.int64)
    each = counts.counts[word[kept][firsts]]
    # The strings of the words are not looked at.
    return ids[kept], ends, WordCounts(counts.data, ends, each, counts.pretokenizer)


def _strings(file: TokenizerFile, apart: BoolArray) -> tuple[np.ndarray, Int64Array]:
    """Return strings of all tokens, (B,) uint8 and (V + 1,) int64, as joining tokens joins them.

    A token that merging does not reach has one that no merge makes, as has one that is `apart`.
    """
    of_characters = file.form.of_characters
    tokens = [name.encode() for name in file.names] if of_characters else file.vocabulary.tokens()
    hidden = apart | (file.derivation == UNREACHED)
    strings = [
        b"\xff\xff%d" % index if hide or not token else token
        for index, (token, hide) in enumerate(zip(tokens, hidden.tolist(), strict=True))
    ]
    return flatten(strings)


def extended(
    file: TokenizerFile,
    merges: Sequence[tuple[str, str]],
    first: int | None = None,
    characters: Sequence[str] = (),
) -> TokenizerFile:
    """Append characters and merges, with the ids from `first` on, by default after all others.

    The result neither truncates nor pads texts.
    """
    model: Mapping[str, Any] = file.document["model"]
    rows, vocab = list(model["merges"]), dict(model["vocab"])
    names = [*characters, *(left + right for left, right in merges)]
    for index, name in enumerate(names, file.size if first is None else first):
        vocab[name] = index
    joined = bool(rows) and isinstance(rows[0], str)
    rows += [f"{left} {right}" if joined else [left, right] for left, right in merges]
    document = {**file.document, "model": {**model, "vocab": vocab, "merges": rows},
                "truncation": None, "padding": None}  # fmt: skip
    return TokenizerFile(with_places(document), file.where)
