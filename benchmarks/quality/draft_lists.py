"""How much of held-out text draft vocabularies of published tokenizers cover, by who ranked them.

    python -m benchmarks draft_lists DIR... --data CORPUS [--documents 3000]

DIR has a tokenizer.json, as packages ship it. CORPUS has LANG.jsonl.zst. Lists are ranked by nine
tenths of the documents of each language, by `modtok_cli.inference.draft`, and measured on the
others. "english" and "pooled" rank by the count of each token in English, and in the text of all
languages together; "languages" by the mean share over all, "languages, en 0.1" with a tenth of the
weight for English; "own" by the language that is measured, "own and English" by it and English.
"nash" divides each share by what the list covers of the language so far, so that the product of
coverages grows; "max-min" gives the next token to the language of which least is covered. `least`
is the coverage of the `worst` language. Rows with `bound` are of the ranking text: the greatest
mean of any list that covers the worst language of "pooled" by 0.1 more. Prints JSON lines.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import numpy.typing as npt
import orjson

from benchmarks.common import LANGUAGES, emit, texts
from modtok_cli.inference.draft.ranking import Ranking
from modtok_cli.inference.draft.vocabulary import Counts, DraftVocabulary

Order = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]  # (languages, V), of the text of each


def name_of(path: Path) -> str:
    """Name of a published tokenizer."""
    return path.parent.name if path.name == "models" else path.name


def nash(shares: Shares, needed: npt.NDArray[np.bool_], most: int) -> Order:
    """`most` tokens by their gain of the sum of logarithms, renewed after every 128; the others."""
    covered, taken, parts = shares[:, needed].sum(1), needed.copy(), [np.flatnonzero(needed)]
    while taken.sum() < min(most, len(taken)):
        gain = np.where(taken, -1, (1 / covered) @ shares)
        parts.append(np.argsort(-gain, kind="stable")[: min(128, int((~taken).sum()))])
        taken[parts[-1]] = True
        covered = covered + shares[:, parts[-1]].sum(1)
    return np.concatenate([*parts, np.flatnonzero(~taken)])


def max_min(shares: Shares, needed: npt.NDArray[np.bool_]) -> Order:
    """The most frequent token left of the language of which least is covered, again and again."""
    covered, taken, of_token = shares[:, needed].sum(1), needed.tolist(), shares.T.copy()
    left = [iter(np.argsort(-each, kind="stable")[: (each > 0).sum()].tolist()) for each in shares]
    order = np.flatnonzero(needed).tolist()
    while np.isfinite(covered).any():
        worst = int(covered.argmin())
        token = next((token for token in left[worst] if not taken[token]), None)
        if token is None:
            covered[worst] = np.inf
            continue
        taken[token] = True
        order.append(token)
        covered += of_token[token]
    return np.array(order + [token for token, done in enumerate(taken) if not done])


def bound(shares: Shares, needed: npt.NDArray[np.bool_], pooled: Order) -> dict[str, float]:
    """The mean of a list, and the greatest of any as long that has 0.1 more of its worst language.

    Whatever the weights w, no list covers more of the weighted text than the first tokens by it.
    """
    covered = shares[:, pooled].sum(1)
    worst, most = int(covered.argmin()), np.inf
    for extra in np.linspace(0, 0.95, 20):
        weights = np.full(len(shares), (1 - extra) / len(shares))
        weights[worst] += extra
        score = weights @ shares
        best = np.sort(score[~needed])[-(len(pooled) - needed.sum()) :].sum() + score[needed].sum()
        most = min(most, (best - extra * (covered[worst] + 0.1)) / (1 - extra))
    return {"mean": round(float(covered.mean()), 4), "bound": round(float(most), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tokenizers", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=3000, help="first so many of a language")
    parser.add_argument("--sizes", default="4096,8192,16384,32768,65536")
    args = parser.parse_args()
    sizes = [*map(int, args.sizes.split(","))]
    scratch = Path(mkdtemp())
    for language in LANGUAGES:
        some = islice(texts(args.data / f"{language}.jsonl.zst"), args.documents)
        lines = (orjson.dumps({"text": text}) + b"\n" for text in some)
        (scratch / f"{language}.jsonl").write_bytes(b"".join(lines))
    for path in args.tokenizers:
        file = path / "tokenizer.json" if path.is_dir() else path
        vocabulary = DraftVocabulary.open(str(file))
        used = vocabulary.count(scratch, LANGUAGES, hold_out=True)
        kept = {name: counts for name, (counts, _) in used.items()}

        def ranked(counts: Counts, vocabulary: DraftVocabulary = vocabulary) -> Ranking:
            return Ranking.of(vocabulary, counts)

        pooled = ranked({"all": np.sum([*kept.values()], axis=0)})
        english, every = ranked({"en": kept["en"]}), ranked(kept)
        shares = np.stack([counts / counts.sum() for counts in kept.values()])[:, vocabulary.tokens]
        needed, ids = vocabulary.needed[vocabulary.tokens], np.flatnonzero(vocabulary.tokens)
        for size in sizes:
            places = np.searchsorted(ids, pooled.first(size))
            facts = {"tokenizer": name_of(path), "ranked_by": "pooled", "size": size}
            emit({**facts, **bound(shares, needed, places)})
        orders = {"nash": nash(shares, needed, max(sizes)), "max-min": max_min(shares, needed)}
        rankings = {
            "english": dict.fromkeys(kept, english),
            "pooled": dict.fromkeys(kept, pooled),
            "languages": dict.fromkeys(kept, every),
            "languages, en 0.1": dict.fromkeys(kept, Ranking.of(vocabulary, kept, {"en": 0.1})),
            **{
                name: dict.fromkeys(kept, replace(every, order=ids[order].astype(np.int32)))
                for name, order in orders.items()
            },
            "own": {name: ranked({name: counts}) for name, counts in kept.items()},
            "own and English": {
                name: ranked({name: counts, "en": kept["en"]}) for name, counts in kept.items()
            },
        }
        for name, of in rankings.items():
            shares = {language: of[language].coverage(held, sizes)
                      for language, (_, held) in used.items()}  # fmt: skip
            for place, size in enumerate(sizes):
                here = {language: round(each[place], 4) for language, each in shares.items()}
                worst = min(here, key=lambda language: here[language])
                mean = round(float(np.mean([*here.values()])), 4)
                emit(
                    {
                        "tokenizer": name_of(path),
                        "tokens": int(vocabulary.tokens.sum()),
                        "needed": english.needed,
                        "ranked_by": name,
                        "size": size,
                        "mean": mean,
                        "least": here[worst],
                        "worst": worst,
                        "coverage": here,
                    }
                )
