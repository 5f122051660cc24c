"""Learning, compression and speed per script, against BPE of the tokenizers library.

    python -m benchmarks scripts WORKSPACE --labels ja,th,... [-k 16000] [--shares 4,2,1]
        [--caps 0,8,16 | --pieces 16,32] [--other 'PLACE/{label}.jsonl']

WORKSPACE has data/<label>.jsonl.zst and test/<label>.jsonl (`world_texts packages`). A row per
label: megabytes of text, unique words per megabyte and their mean bytes; processor time and peak
memory of `modtok bpe-seq` of that label alone; tokens of the test text by it divided by those of
a library BPE of the same size and text (`nsl`), and bytes per token; MB/s of encoding the test
text in one thread by processor time, words known. --shares 4,2,1 adds rows of a quarter, a half and
all of the first label's text: what memory costs per byte of text is their slope.

--caps prints instead what a limit of characters in a token does (`--max-unspaced`): tokens of BPE
on its own text, on the test text and on another text, relative to no limit, and how many tokens
have more than 16 such characters. --pieces: what it does to count words in pieces of so many
characters: bytes of the unique words, and the same tokens, relative to whole words.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import orjson
import zstandard

from benchmarks.common import emit
from benchmarks.speed import library_bpe
from modtok_cli.learn.merges import unspaced
from modtok_cli.learn.sequential import learn_plain, segment
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text.corpus import count_corpus, count_languages
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.readers import read_documents
from modtok_cli.text.workspace import language_files


def learned(workspace: Path, label: str, k: int, output: Path) -> dict[str, object]:
    """Processor time and peak of a process that learns one label."""
    command = [sys.executable, "-m", "modtok_cli", "bpe-seq", "--data", str(workspace / "data")]
    command += ["--langs", label, "-k", str(k), "-o", str(output), "--no-references", "-q"]
    pid = os.posix_spawn(sys.executable, command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"learning {label} failed")
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "label": label,
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mb": round(usage.ru_maxrss / 1024) if usage.ru_maxrss > own else None,
    }


def part(workspace: Path, label: str, share: int, k: int, scratch: Path) -> dict[str, object]:
    """What every `share`th line of a label's text costs."""
    content = zstandard.decompress((workspace / "data" / f"{label}.jsonl.zst").read_bytes())
    lines = content.splitlines(keepends=True)[::share]
    place = scratch / f"share-{share}"
    (place / "data").mkdir(parents=True)
    (place / "data" / f"{label}.jsonl").write_bytes(b"".join(lines))
    size = sum(len(orjson.loads(line)["text"].encode()) for line in lines)
    cost = learned(place, label, k, place / "tokenizer")
    return {**cost, "share": f"1/{share}", "megabytes": round(size / 1e6, 2)}


def row(workspace: Path, label: str, k: int, own: Path) -> dict[str, object]:
    files = language_files(workspace / "data", [label])
    counts = count_languages(files)[label]
    data = [document.text for path in files[label] for document in read_documents(path)]
    size = sum(map(len, data))
    test = [document.text for document in read_documents(workspace / "test" / f"{label}.jsonl")]
    tokenizer = ModularTokenizer.load(own).subset([label])
    library = library_bpe.train(files[label][0], k)
    ids = tokenizer.encode_utf8(test, 1)
    began = time.process_time()
    for _ in range(3):
        tokenizer.encode_utf8(test, 1)
    speed = 3 * sum(map(len, test)) / (time.process_time() - began) / 1e6
    theirs = sum(len(one.ids) for one in library.encode_batch([text.decode() for text in test]))
    words = len(counts)
    return {
        "label": label,
        "megabytes": round(size / 1e6, 2),
        "words_per_mb": round(words / size * 1e6),
        "word_bytes": round(counts.offsets[-1] / words, 1),
        "tokens": tokenizer.size,
        "nsl": round(sum(map(len, ids)) / theirs, 4),
        "bytes_per_token": round(sum(map(len, test)) / sum(map(len, ids)), 2),
        "encode_mb_s": round(speed, 1),
    }


def in_pieces(counts: WordCounts, size: int) -> WordCounts:
    """Words with more than `size` characters of scripts without spaces, cut after each `size`."""
    pieces: Counter[bytes] = Counter()
    for word, count in counts.pairs():
        text = word.decode("utf-8", "surrogateescape")
        step = size if unspaced(word) > size else len(text)
        for at in range(0, len(text), step):
            pieces[text[at : at + step].encode("utf-8", "surrogateescape")] += count
    return WordCounts.from_pairs(pieces.items(), counts.pretokenizer.name)


def limits(workspace: Path, label: str, k: int, options: argparse.Namespace) -> None:
    """Rows of limits on tokens, or on the words that are learned from."""
    counts = count_corpus([workspace / "data" / f"{label}.jsonl.zst"])
    texts = {"own": counts, "test": count_corpus([workspace / "test" / f"{label}.jsonl"])}
    if options.other:
        texts["other"] = count_corpus([Path(options.other.format(label=label))])
    base: dict[str, int] = {}
    for number in map(int, (options.caps or f"0,{options.pieces}").split(",")):
        cut = in_pieces(counts, number) if options.pieces and number else counts
        cap = number if options.caps else 0
        merges = learn_plain(cut, k, max_unspaced=cap).merges
        tokens = Vocabulary(merges.specials, merges.token_data, merges.token_offsets).tokens()
        found = {"word_bytes": len(cut.data)}
        for name, text in texts.items():
            found[name] = int(np.diff(segment(merges, text)[1]) @ text.counts)
        base = base or found
        relative = {name: round(value / base[name], 4) for name, value in found.items()}
        long = sum(unspaced(token) > 16 for token in tokens)
        what = {"label": label, "k": k, "caps" if options.caps else "pieces": number}
        emit({**what, "tokens": len(tokens), "over_16": long, **relative})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--labels", required=True)
    parser.add_argument("-k", type=int, default=16000)
    parser.add_argument("--shares", default="")
    parser.add_argument("--caps")
    parser.add_argument("--pieces")
    parser.add_argument("--other")
    options = parser.parse_args()
    labels = options.labels.split(",")
    if options.caps or options.pieces:
        for label in labels:
            limits(options.workspace, label, options.k, options)
        return
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        # First all that is measured in processes of its own: a process takes over the peak of
        # the one that starts it.
        costs = {
            label: learned(options.workspace, label, options.k, scratch / label) for label in labels
        }
        for share in filter(None, options.shares.split(",")):
            emit(part(options.workspace, labels[0], int(share), options.k, scratch))
        for label, cost in costs.items():
            emit({**cost, **row(options.workspace, label, options.k, scratch / label)})


if __name__ == "__main__":
    main()
