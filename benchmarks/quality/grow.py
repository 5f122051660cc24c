"""Tokens per word of published tokenizers by added tokens: continued BPE, union, fewest tokens.

    python -m benchmarks grow NAME=TOKENIZER.json ... --data CORPUS --texts NTREX --langs fi,et,ne

`union` adds the first tokens of a BPE vocabulary of the language that the file lacks, with their
merges after its own; `fewest` segments into the fewest tokens of the same vocabulary. A file with
byte fallback has `continued` only. Also: new tokens that encoding their own string does not give,
whether the library gives the same ids, and the share of words of other languages with other ids.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tokenizers

from benchmarks import common
from modtok_cli.base.progress import SILENT
from modtok_cli.construct.grow import _learned, _splits, extended
from modtok_cli.construct.held_out import segmented
from modtok_cli.learn.merges import MAX_UNSPACED
from modtok_cli.learn.sequential import learn_plain
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counts import WordCounts
from modtok_cli.tokenizer.adopted.adopt import read_tokenizer_file
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.adopted.tokenizer_file import UNREACHED, TokenizerFile
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.vocabulary import spell

SIZES = (0, 1000, 2000, 4000, 8000)
OTHERS = ("en", "de", "fr", "sv", "el")
CHECKED = (*OTHERS, "fi", "et", "ne", "hu", "es")


def main() -> None:
    parser = common.parser_of(__doc__)
    parser.add_argument("tokenizers", nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--langs", default="fi,et,ne")
    options = parser.parse_args()
    for each in options.tokenizers:
        name, _, path = each.partition("=")
        file = read_tokenizer_file(Path(path))
        for language in options.langs.split(","):
            for row in rows(file, language, options.data, options.texts):
                common.emit({"tokenizer": name, "language": language, **row})


def rows(file: TokenizerFile, language: str, data: Path, texts: Path):
    """A row for each method and number of tokens."""
    splits = _splits(file)
    counts = count_corpus([data / f"{language}.jsonl.zst"], pretokenizer=splits)
    held = count_corpus([texts / f"{language}.txt"], pretokenizer=splits)
    words = len((texts / f"{language}.txt").read_text("utf-8").split())
    continued = _learned(file, language, counts, SIZES[-1], MAX_UNSPACED, SILENT)
    methods = {"continued": continued}
    if not file.form.of_characters:
        methods["union"] = union(file, counts)
    for method, merges in methods.items():
        for size in SIZES:
            grown = extended(file, merges[:size])
            unreached = int((grown.derivation[file.size :] == UNREACHED).sum())
            row = {"method": method, "added": size, "unreachable": unreached}
            yield {**row, "tokens_per_word": round(tokens(grown, held) / words, 4)}
            if method == "union":
                few = fewest(grown, held) / words
                yield {"method": "fewest", "added": size, "tokens_per_word": round(few, 4)}
    grown = extended(file, continued)
    yield {"method": "continued", "added": SIZES[-1], **checks(file, grown, texts)}


def tokens(file: TokenizerFile, counts: WordCounts) -> int:
    """Tokens of a text."""
    return int(np.diff(segmented(Library(file), counts)[1]) @ counts.counts)


def union(file: TokenizerFile, counts: WordCounts) -> list[tuple[str, str]]:
    """Merges of the first tokens of the language's own vocabulary that the file lacks."""
    own = learn_plain(counts, 2 * SIZES[-1] + 8000).merges
    names = [spell(token) for token in own.strings()]
    new = [
        (names[left], names[right])
        for left, right, result in own.merges.tolist()
        if names[result] not in file.ids
    ]
    return new[: SIZES[-1]]


def fewest(file: TokenizerFile, counts: WordCounts) -> int:
    """Tokens of a text in the segmentation of each word into as few as possible."""
    known = {token for token, added in zip(file.vocabulary.tokens(), file.added, strict=True)
             if not added}  # fmt: skip
    total = 0
    for word, count in counts.pairs():
        best = [0] + [len(word)] * len(word)
        for stop in range(1, len(word) + 1):
            starts = range(max(0, stop - 40), stop)
            best[stop] = min(1 + best[start] for start in starts if word[start:stop] in known)
        total += best[-1] * count
    return total


def checks(file: TokenizerFile, grown: TokenizerFile, texts: Path) -> dict[str, object]:
    """Old ids, ids of the library, and words of other languages with other ids."""
    library = tokenizers.Tokenizer.from_buffer(
        grown.restricted(np.arange(grown.size, dtype=np.int32))
    )
    library.encode_special_tokens = True
    ours = Subtokenizer(Library(grown))
    texts_equal, changed = 0, {}
    for name in CHECKED:
        path = texts / f"{name}.txt"
        lines = path.read_text("utf-8").split("\n")[:200]
        theirs = library.encode_batch(lines, add_special_tokens=False)
        counts = count_corpus([path], pretokenizer=_splits(file))
        pairs = zip(ours.encode_batch(lines), theirs, strict=True)
        texts_equal += sum(ids.tolist() == each.ids for ids, each in pairs)
        if name in OTHERS:
            before, after = segmented(Library(file), counts), segmented(Library(grown), counts)
            same = [
                np.array_equal(before[0][a:b], after[0][c:d])
                for a, b, c, d in zip(
                    before[1], before[1][1:], after[1], after[1][1:], strict=False
                )
            ]
            share = 1 - int(np.array(same) @ counts.counts) / counts.occurrences
            changed[name] = round(share, 5)
    kept = all(grown.ids[name] == index for name, index in file.ids.items())
    return {"old_ids": kept, "equal_lines": texts_equal, "lines": 200 * len(CHECKED),
            "words_changed": changed}  # fmt: skip


if __name__ == "__main__":
    main()
