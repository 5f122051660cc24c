"""Monolingual references: the tokenizers that subtokenizers are measured against."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.learn.merges import MAX_UNSPACED, GlobalMerges
from modtok_cli.learn.sequential import learn_plain, segment
from modtok_cli.text.counts import WordCounts
from modtok_cli.tokenizer.segmenters.merges import Merges
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.vocabulary import Vocabulary

NONE: Mapping[str, Any] = {}


def reference_json(
    language: str,
    counts: WordCounts,
    k: int,
    specials: Sequence[str],
    *,
    max_unspaced: int = MAX_UNSPACED,
    progress: Progress = SILENT,
) -> bytes:
    """Return a plain BPE of one language as `tokenizer.json`.

    Its provenance contains `counts`, how often each token occurs in the training text, from
    which `measure.references` identifies the language of a line.
    """
    grown = learn_plain(
        counts,
        k,
        specials,
        max_unspaced=max_unspaced,
        label=f"{language} alone",
        progress=progress,
    )
    return plain_json(language, counts, k, grown.merges, grown.frequency)


def reference_of(language: str, counts: WordCounts, k: int, longer: GlobalMerges) -> bytes:
    """Return the same as `reference_json` from a longer plain BPE of the same counts.

    Its first k tokens are those that learning to k gives; only their frequencies are counted
    again.
    """
    merges = longer
    if longer.tokens > k:
        last = int(np.argmax(longer.merges[:, 2] == k - 1)) if k > longer.base else -1
        merges = longer.cut(k, last + 1)
    symbols, offsets = segment(merges, counts)
    frequency = np.zeros(merges.tokens, dtype=np.int64)
    np.add.at(frequency, symbols, np.repeat(counts.counts, np.diff(offsets)))
    return plain_json(language, counts, k, merges, frequency)


def plain_json(
    language: str,
    counts: WordCounts,
    k: int,
    merges: GlobalMerges,
    frequency: npt.NDArray[np.int64],
    facts: Mapping[str, Any] = NONE,
) -> bytes:
    """Return the `tokenizer.json` of a plain BPE of the words; arguments as of `with_counts`."""
    vocabulary = Vocabulary(merges.specials, merges.token_data, merges.token_offsets)
    rules = Merges(vocabulary, counts.pretokenizer, merges.merges)
    return with_counts(Subtokenizer(rules, languages=[language]), counts, k, frequency, facts)


def with_counts(
    tokenizer: Subtokenizer,
    counts: WordCounts,
    k: int,
    frequency: npt.NDArray[np.int64],
    facts: Mapping[str, Any] = NONE,
) -> bytes:
    """Return the `tokenizer.json` of a language, with the `frequency` of each token in `counts`.

    `facts`: further ones, in a file that is an output.
    """
    own = {"k": k, "corpus": counts.fingerprint(), "counts": frequency.tolist()}
    return tokenizer.to_json({**own, **facts})
