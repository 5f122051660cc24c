"""EM over 21 languages: speed against plain Python, loss from sampling.

    python -m benchmarks unigram CORPUS MODELS

CORPUS holds `<lang>.jsonl.zst`, MODELS what `modtok unigram -k 24000 -o MODELS` wrote for
them. Prints Markdown.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.common import LANGUAGES, describe, peak_of_self
from modtok_cli.construct.unigram_models import read_language_model
from modtok_cli.learn.em import FLOOR_COUNT, Expectation, maximize, uniform_start
from modtok_cli.learn.pieces import LearnedPieces, unite
from modtok_cli.reference.unigram import forward_backward
from modtok_cli.text.corpus import count_languages
from modtok_cli.text.counts import WordCounts, count_documents, merge_counts
from modtok_cli.text.pretokenizer import UNIGRAM
from modtok_cli.text.readers import read_documents

SPECIALS = ("<unk>", "<|endoftext|>", "<|pad|>")
SAMPLE_WORDS = 30_000
SENTENCES = 10_000


def sample_of(counts: WordCounts, size: int) -> WordCounts:
    pairs = list(counts.pairs())
    return WordCounts.from_pairs(random.Random(1).sample(pairs, size), counts.pretokenizer)


def characters_of(counts: WordCounts) -> int:
    return sum(len(word.decode()) for word in counts.words())


def against_python(pieces: LearnedPieces, counts: WordCounts) -> list[str]:
    sample = sample_of(counts, SAMPLE_WORDS)
    characters = characters_of(sample)
    start = uniform_start(pieces)
    index = {piece: pieces.first + i for i, piece in enumerate(pieces.pieces())}
    began = time.process_time()
    slow, slow_likelihood = forward_backward(
        list(sample.pairs()), index, start.tolist(), pieces.byte_ids.tolist()
    )
    python = time.process_time() - began
    # The sample fits a cache, the whole does not: ours is timed on the whole, which is slower.
    whole = Expectation(pieces, [counts], threads=1)
    whole(start)
    began = time.process_time()
    whole(start)
    kernel = (time.process_time() - began) / characters_of(counts)
    fast, likelihood = Expectation(pieces, [sample], threads=1)(start)
    error = np.max(np.abs(fast - slow) / np.maximum(np.abs(fast), 1e-12))
    return [
        f"- plain Python, {SAMPLE_WORDS:,} unique words ({characters:,} characters): "
        f"{python / characters * 1e9:,.0f} ns a character of processor time;",
        f"- the core on one thread, all {len(counts):,} words: {kernel * 1e9:,.1f} ns each;",
        f"- **{python / characters / kernel:,.0f} times** per character and core (bar: 100);",
        f"- largest relative difference of an expected count on the sample {error:.1e}, of the "
        f"log-likelihood {abs(likelihood - slow_likelihood) / abs(likelihood):.1e}.",
    ]


def to_convergence(pieces: LearnedPieces, counts: WordCounts) -> tuple[list[str], np.ndarray]:
    lines = []
    found = None
    for threads in (1, 2):
        began = time.perf_counter()
        expectation = Expectation(pieces, [counts], threads=threads)
        ready = time.perf_counter() - began
        began = time.perf_counter()
        found = maximize(expectation)
        seconds = time.perf_counter() - began
        each = np.median([step.seconds for step in found.steps])
        lines.append(
            f"| {threads} | {ready:.2f} | {each:.2f} | {len(found.steps)} | {seconds:.1f} |"
        )
    assert found is not None
    head = ["| threads | trie, s | iteration, s (median) | iterations | to convergence, s |"]
    return [*head, "|---|---|---|---|---|", *lines], found.expected


def sentences(corpus: Path, number: int) -> WordCounts:
    """So many lines, as many of each language, cut at line ends and full stops."""
    share = -(-number // len(LANGUAGES))
    chosen: list[bytes] = []
    for language in LANGUAGES:
        taken: list[bytes] = []
        for document in read_documents(corpus / f"{language}.jsonl.zst"):
            for line in document.text.replace(b". ", b".\n ").split(b"\n"):
                if line.strip():
                    taken.append(line)
            if len(taken) > 20 * share:
                break
        chosen += random.Random(2).sample(taken, share)
    return count_documents([chosen[:number]], UNIGRAM)


def without_count(expected: np.ndarray, pieces: LearnedPieces) -> str:
    missing = int((expected[pieces.first :] < FLOOR_COUNT).sum())
    total = pieces.size - pieces.first
    never = int((expected[pieces.first :] == 0).sum())
    return f"{missing:,} of {total:,} ({missing / total:.2%}); exactly 0: {never:,}"


def main() -> None:
    corpus, directory = map(Path, sys.argv[1:])
    models = {
        language: read_language_model(directory / f"{language}.json", language, SPECIALS)[0]
        for language in LANGUAGES
    }
    tables = count_languages(
        {language: [corpus / f"{language}.jsonl.zst"] for language in LANGUAGES},
        pretokenizer=UNIGRAM,
    )
    counts = merge_counts(list(tables.values()))
    pieces = unite(models)
    print("# EM over everything\n")
    print(f"{describe()}. `python -m benchmarks unigram CORPUS MODELS`.\n")
    print(
        f"{len(LANGUAGES)} languages, k = 24,000, {pieces.size:,} tokens together, "
        f"{counts.size.bytes / 1e6:,.0f} MB of text, {len(counts):,} unique words.\n"
    )
    print("\n".join(against_python(pieces, counts)), "\n", flush=True)
    lines, everything = to_convergence(pieces, counts)
    print("\n".join(lines), "\n", flush=True)
    few = sentences(corpus, SENTENCES)
    sampled = maximize(Expectation(pieces, [few]), iterations=50)
    print(f"Pieces without a count (expected less than {FLOOR_COUNT} times):\n")
    print(f"- EM on everything: {without_count(everything, pieces)};")
    print(f"- EM on {SENTENCES:,} sentences: {without_count(sampled.expected, pieces)}.\n")
    print(f"Peak memory {peak_of_self():,.0f} MiB.")


if __name__ == "__main__":
    main()
