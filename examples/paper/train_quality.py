"""Train and test the classifier of `modtok corpus build --quality-model`, as in "Training Data".

Needs a trainer: pip install floret (fastText's code, whose files differ by two integers).
"""

import argparse
import json
import struct
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import zstandard

SETTINGS = {"dim": 16, "epoch": 5, "lr": 0.5, "wordNgrams": 2, "minn": 3, "maxn": 5}
EXTRA = slice(52, 60)  # floret's mode and number of hashes in the header


def examples(paths: list[Path]) -> list[str]:
    """Distinct documents of JSON lines, of at least 100 characters, as the build scores them."""
    found = {}
    for path in paths:
        with zstandard.open(path, "rt") if path.suffix == ".zst" else open(path) as lines:
            for line in lines:
                text = json.loads(line)["text"][:5000].lower().replace("__label__", " ")
                text = " ".join(text.split())
                found[text] = len(text) >= 100
    # In an order that is mixed, but the same each time.
    return sorted(filter(found.get, found), key=lambda text: blake2b(text.encode()).digest())


def score(model: Any, text: str) -> float:
    """Probability that a text is good."""
    labels, shares = model.predict(text, k=2)
    return dict(zip(labels, map(float, shares), strict=True)).get("__label__good", 0.0)


def main() -> None:
    """Write the model to OUTPUT; print precision, recall and AUC of a tenth of the examples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--good", type=Path, nargs="+", required=True, help="such as wiki.jsonl")
    parser.add_argument("--bad", type=Path, nargs="+", required=True, help="random pages")
    options = parser.parse_args()
    import fasttext
    import floret

    good, bad = examples(options.good), examples(options.bad)
    both = {*good} & {*bad}
    sides = {"good": [t for t in good if t not in both], "bad": [t for t in bad if t not in both]}
    held = {name: texts[: len(texts) // 10 + 1] for name, texts in sides.items()}
    most = max(map(len, sides.values()))
    train = []
    for name, texts in sides.items():  # the smaller side is repeated
        kept = texts[len(held[name]) :]
        train += [f"__label__{name} {text}" for text in kept] * round(most / len(texts))
    train.sort(key=lambda line: blake2b(line.encode()).digest())
    with TemporaryDirectory() as place:
        text, model = Path(place, "train.txt"), Path(place, "model.bin")
        text.write_text("\n".join(train) + "\n", encoding="utf-8")
        # One thread: several race and give another model each time.
        made = floret.train_supervised(str(text), thread=1, bucket=200_000, minCount=2, **SETTINGS)
        made.save_model(str(model))
        data = model.read_bytes()
    assert struct.unpack("<2i", data[EXTRA]) == (1, 1), "floret's own hashing"
    options.output.write_bytes(data[: EXTRA.start] + data[EXTRA.stop :])
    model = fasttext.load_model(str(options.output))
    scores = {name: [score(model, text) for text in texts] for name, texts in held.items()}
    hits, wrong = (sum(one >= 0.5 for one in scores[name]) for name in ("good", "bad"))
    better = [(g > b) + (g == b) / 2 for g in scores["good"] for b in scores["bad"]]
    row = {"good": len(sides["good"]), "bad": len(sides["bad"])}
    row |= {"precision": hits / max(1, hits + wrong), "recall": hits / len(scores["good"])}
    print(json.dumps(row | {"auc": sum(better) / len(better)}))


if __name__ == "__main__":
    main()
