"""Greedy decoding with drafts from n-grams of a language's text: accepted tokens and speed.

    python -m benchmarks draft_ngrams MODEL --data CORPUS --prompts NTREX [--langs en,fr,fi]

MODEL is a directory that transformers opens; CORPUS has LANG.jsonl.zst, of which the first
`--tokens` make a table: the most frequent next token after each of the last three, two and one
tokens. Lines of PROMPTS are continued, from their first half, with four drafted tokens a round:
"table" drafts by the longest context that the table has, "context" what followed the last three,
two or one tokens before in the same text (as vLLM's method "ngram" does), "both" by the text, else
by the table, "lookup" by two tokens, if at least half of two or more occurrences agree (the static
cache of llama.cpp's lookup). `tokens_per_second` is of processor time, on one thread, with a cache
of keys and values; `equal` is the number of prompts whose text is the text without a draft. Prints
JSON lines.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from benchmarks.common import emit, parser_of, texts
from modtok_cli.model.draft.draft_vocabulary import DraftVocabulary

DRAFTED, NEW, ORDER = 4, 48, 3
Propose = Callable[[list[int]], int | None]


class Table:
    """The most frequent next token after each sequence of so many tokens."""

    def __init__(self, documents: list[Any], length: int, size: int) -> None:
        self.length, self.size = length, size
        keys, follows = [], []
        for ids in documents:
            if len(ids) > length:
                parts = [ids[at : len(ids) - length + at].astype(np.uint64) for at in range(length)]
                keys.append(self._key(parts))
                follows.append(ids[length:])
        key, follow = np.concatenate(keys), np.concatenate(follows).astype(np.uint64)
        order = np.lexsort((follow, key))
        key, follow = key[order], follow[order]
        first = np.flatnonzero(np.r_[True, (key[1:] != key[:-1]) | (follow[1:] != follow[:-1])])
        counts = np.diff(np.r_[first, len(key)])
        key, follow = key[first], follow[first]
        total = np.add.reduceat(counts, starts := np.flatnonzero(np.r_[True, key[1:] != key[:-1]]))
        most = np.lexsort((follow, -counts, key))[starts]
        self.keys, self.next = key[starts], follow[most].astype(np.int64)
        self.total, self.counts = total, counts[most]

    def _key(self, parts: Any) -> Any:
        key = parts[0]
        for part in parts[1:]:
            key = key * np.uint64(self.size) + part
        return key

    def find(self, ids: list[int]) -> int | None:
        """The place of the last tokens."""
        if len(ids) < self.length:
            return None
        key = self._key([np.uint64(each) for each in ids[-self.length :]])
        place = int(np.searchsorted(self.keys, key))
        return place if place < len(self.keys) and self.keys[place] == key else None


def by_table(tables: list[Table]) -> Propose:
    def propose(ids: list[int]) -> int | None:
        for table in tables:
            if (place := table.find(ids)) is not None:
                return int(table.next[place])
        return None

    return propose


def by_lookup(table: Table) -> Propose:
    def propose(ids: list[int]) -> int | None:
        place = table.find(ids)
        if place is None or table.total[place] < 2 or 2 * table.counts[place] < table.total[place]:
            return None
        return int(table.next[place])

    return propose


def by_context(ids: list[int]) -> int | None:
    for length in range(ORDER, 0, -1):
        last = ids[-length:]
        for at in range(len(ids) - length - 1, -1, -1):
            if ids[at : at + length] == last:
                return ids[at + length]
    return None


def by_both(table: Propose) -> Propose:
    def propose(ids: list[int]) -> int | None:
        found = by_context(ids)
        return table(ids) if found is None else found

    return propose


def decode(model: Any, prompt: list[int], propose: Propose | None) -> tuple[list[int], int, int]:
    """The text, the rounds and the drafted tokens; greedy, with a cache."""
    cache, ids, rounds, drafted = transformers.DynamicCache(), [*prompt], 0, 0
    known = 0  # tokens with keys and values
    while len(ids) < len(prompt) + NEW:
        draft: list[int] = []
        room = len(prompt) + NEW - len(ids) - 1
        while propose is not None and len(draft) < min(DRAFTED, room):
            index = propose(ids + draft)
            if index is None:
                break
            draft.append(index)
        inputs = torch.tensor([ids[known:] + draft])
        said = model(inputs, past_key_values=cache).logits[0, -len(draft) - 1 :].argmax(-1).tolist()
        taken = next((at for at, index in enumerate(draft) if said[at] != index), len(draft))
        ids += said[: taken + 1]
        rounds, drafted = rounds + 1, drafted + len(draft)
        extra = known + inputs.shape[1] - (len(ids) - 1)
        if extra:
            cache.crop(-extra)
        known = len(ids) - 1
    return ids, rounds, drafted


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--langs", default="en,fr,fi")
    parser.add_argument("--tokens", type=int, default=4_000_000)
    parser.add_argument("--lines", type=int, default=8)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    model.eval()
    vocabulary = DraftVocabulary.open(str(args.model))
    size = len(vocabulary.tokens)
    for language in args.langs.split(","):
        documents, total = [], 0
        for text in texts(args.data / f"{language}.jsonl.zst"):
            documents.append(vocabulary.tokenizer.encode_flat([text], threads=1)[0])
            total += len(documents[-1])
            if total >= args.tokens:
                break
        tables = [Table(documents, length, size) for length in range(ORDER, 0, -1)]
        lines = islice((args.prompts / f"{language}.txt").open(encoding="utf-8"), args.lines)
        prompts = [
            vocabulary.tokenizer.encode_flat([line[: len(line) // 2]], threads=1)[0].tolist()
            for line in lines
        ]
        by = by_table(tables)
        proposers: dict[str, Propose | None] = {
            "none": None, "table": by, "context": by_context, "both": by_both(by),
            "lookup": by_lookup(tables[1]),
        }  # fmt: skip
        plain: list[list[int]] = []
        for name, propose in proposers.items():
            start = time.process_time()
            with torch.inference_mode():
                found = [decode(model, prompt, propose) for prompt in prompts]
            seconds = time.process_time() - start
            plain = plain or [ids for ids, *_ in found]
            rounds, drafted = (sum(each[at] for each in found) for at in (1, 2))
            emit(
                {
                    "model": args.model.name,
                    "language": language,
                    "draft": name,
                    "table_tokens": total,
                    "contexts": [len(table.keys) for table in tables],
                    "drafted": drafted,
                    "rounds": rounds,
                    "tokens_per_round": round(len(prompts) * NEW / rounds, 3),
                    "tokens_per_second": round(len(prompts) * NEW / seconds, 2),
                    "equal": sum(
                        ids == other for (ids, *_), other in zip(found, plain, strict=True)
                    ),
                    "prompts": len(prompts),
                }
            )
