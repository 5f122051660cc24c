"""Least tokens on real text of 27 languages: ours, the library, the definition."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer
from tokenizers.pre_tokenizers import Split

from helpers.sample import SHARED, needs_shared
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.learn.fewest_tokens import EACH
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.pretokenizer import BPE

NTREX = SHARED / "data" / "ntrex"
LEARNED = ["el", "en", "fi", "ne"]
LINES = 25


def definition(subset: Subtokenizer, words: dict[str, list[int]], text: str) -> list[int]:
    """Fewest tokens, then likeliest, then the longest last token, by trying every last one."""
    assert subset.scores is not None
    place = {t: i for i, t in enumerate(subset.vocabulary.tokens()) if i >= 2}
    likelihood = (subset.scores + EACH).astype(int).tolist()
    longest = max(map(len, place))
    ids: list[int] = []
    for spelled, _ in Split(Regex(BPE.pattern), "isolated").pre_tokenize_str(text):
        if spelled not in words:
            word = spelled.encode()
            best: list[tuple[int, int, list[int]]] = [(0, 0, [])]
            for stop in range(1, len(word) + 1):
                ways = []
                for start in range(max(0, stop - longest), stop):
                    token = place.get(word[start:stop])
                    if token is not None:
                        number, cost, before = best[start]
                        ways.append((number + 1, cost - likelihood[token], [*before, token]))
                best.append(min(ways, key=lambda way: way[:2]))
            words[spelled] = best[-1][2]
        ids += words[spelled]
    return ids


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> ModularTokenizer:
    output = tmp_path_factory.mktemp("least") / "tok"
    bpe_merge(LEARNED, data=NTREX, output=output, k=700, references=False)
    return ModularTokenizer.load(output)


@needs_shared
def test_three_encoders_on_27_languages(tokenizer: ModularTokenizer) -> None:
    texts = []
    for path in sorted(NTREX.glob("*.txt")):
        with Path(path).open(encoding="utf-8", newline="\n") as lines:
            texts += [line.rstrip("\n") for line in islice(lines, LINES)]
    assert len(texts) == 27 * LINES
    rng = random.Random(0)
    sets = [LEARNED, *([name] for name in LEARNED), *(rng.sample(LEARNED, 2) for _ in range(2))]
    for names in sets:
        subset = tokenizer.subset(names)
        library = Tokenizer.from_buffer(subset.to_json())
        encodings = library.encode_batch(texts, add_special_tokens=False)
        words: dict[str, list[int]] = {}
        for text, ids, encoding in zip(texts, subset.encode_batch(texts), encodings, strict=True):
            assert ids.tolist() == encoding.ids
            assert subset.decode(ids) == text
            if names in (LEARNED, ["ne"]):
                assert ids.tolist() == definition(subset, words, text)
