"""Budgets by language with which the same content takes an equal number of tokens.

BPE of one language merges in order of rank, so the merges up to any vocabulary size are those of a
tokenizer of that size: one learning gives the tokens of a text at every size.
"""

from collections.abc import Mapping

import numpy as np

from modtok_cli.base.arrays import Int64Array
from modtok_cli.learn.merges import GlobalMerges
from modtok_cli.learn.sequential import segment
from modtok_cli.text.counts import WordCounts


def token_curve(merges: GlobalMerges, text: WordCounts) -> Int64Array:
    """Tokens of a text under the first tokens of a plain BPE, for every number of them.

    Entry i is of special tokens, bytes and i more; shape (V - base + 1,). A token that several
    merges make counts as made by the first of them.

    >>> from modtok_cli.learn.sequential import learn_plain
    >>> text = WordCounts.from_pairs([(b"aab", 5), (b"ab", 3)], "bpe")
    >>> token_curve(learn_plain(text, 258).merges, text).tolist()
    [21, 13, 8]
    """
    symbols, offsets = segment(merges, text)
    made = np.zeros(merges.tokens, dtype=np.int64)
    np.add.at(made, symbols, np.repeat(text.counts, np.diff(offsets)))
    # A token is made as often as it remains or is a part of one that is made; parts are older.
    _, first = np.unique(merges.merges[:, 2], return_index=True)
    often = made.tolist()
    for left, right, result in merges.merges[np.sort(first)[::-1]].tolist():
        if often[result]:
            often[left] += often[result]
            often[right] += often[result]
    size = int(np.diff(text.offsets) @ text.counts)
    return size - np.concatenate([[0], np.cumsum(np.array(often[merges.base :], dtype=np.int64))])


def equal_budgets(
    curves: Mapping[str, Int64Array], base: int, total: int, share: float = 1.0
) -> dict[str, int]:
    """Budgets of the sum `total` for which the languages' numbers of tokens are most equal.

    Every language begins with `base` tokens and one more; the next token always goes to the
    language with the most tokens (`reference.fair_budgets`), the first of several. `curves` are as
    of `token_curve`; a language cannot get more tokens than its curve has. With `share` below 1
    a budget is so far between the equal one and this one.

    >>> equal_budgets({"en": np.array([9, 5, 4]), "fi": np.array([9, 8, 7, 6])}, 256, 516)
    {'en': 257, 'fi': 259}
    """
    mean = total // len(curves)
    least = min(base + 1, mean)
    names, steps = list(curves), [curve[least - base : -1] for curve in curves.values()]
    owner = np.repeat(np.arange(len(names)), [len(own) for own in steps])
    # A curve falls, so the order of all steps is the order in which they are taken.
    order = np.argsort(-np.concatenate(steps), kind="stable")
    taken = np.bincount(owner[order[: total - len(names) * least]], minlength=len(names))
    wanted = mean + share * (least + taken - mean)
    budgets = np.floor(wanted).astype(np.int64)
    # What was rounded off goes to the largest remainders.
    rest = round(float(wanted.sum())) - int(budgets.sum())
    budgets[np.argsort(budgets - wanted, kind="stable")[:rest]] += 1
    return dict(zip(names, budgets.tolist(), strict=True))
