"""Bits per byte of a model with new tokens: rows of their means, and distilled rows.

    python -m benchmarks distilled_rows MODEL GROWN --lang fi --data CORPUS --texts NTREX

MODEL is a directory of `published_models`, GROWN a tokenizer that `bpe-seq --append` made of its
own. Prints a row for the model, for `transplant`, and for `transplant --distill` with each of
`--rates` (0: output rows only) and `--steps`; all in bfloat16, on the first lines of the language
and of English, each after the token that begins a text, on one thread.
"""

from __future__ import annotations

import time
from dataclasses import replace
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import transformers
from tokenizers import Tokenizer

from benchmarks.common import emit, parser_of
from modtok_cli.model.hf.distill_rows import DistillText, Recipe
from modtok_cli.model.hf.hf_source import HfSource
from modtok_cli.model.hf.transplant import _Transplant
from modtok_cli.tokenizer.open import open_tokenizer


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("grown", type=Path)
    parser.add_argument("--lang", default="fi")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rates", default="0.1")
    parser.add_argument("--lines", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    text = DistillText([str(options.data / f"{options.lang}.jsonl.zst")])
    emit({"rows": "own", "language": options.lang, **bits(options.model, options)})
    base = Recipe(options.steps, dtype=torch.bfloat16)
    for rate in (None, *map(float, options.rates.split(","))):
        made = _Transplant(options.model, open_tokenizer(str(options.grown)))
        if rate is not None:
            made.distill, made.recipe = text, replace(base, rate=rate)
        with TemporaryDirectory() as place:
            began = time.process_time()
            made.write(Path(place) / "model")
            seconds = round(time.process_time() - began)
            found = bits(Path(place) / "model", options)
        name = "mean" if rate is None else "distilled"
        settings = {} if rate is None else {"steps": options.steps, "rate": rate}
        emit({"rows": name, "language": options.lang, **settings, **found, "cpu_seconds": seconds})


def bits(path: Path, options) -> dict[str, object]:
    """Bits per byte of lines of each language."""
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).eval()
    library = Tokenizer.from_file(str(path / "tokenizer.json"))
    library.encode_special_tokens = True
    first, found = HfSource(path).first, {}
    for language in (options.lang, "en"):
        lines = (options.texts / f"{language}.txt").read_text("utf-8").split("\n")[: options.lines]
        nats = 0.0
        for line in lines:
            ids = torch.tensor([[first, *library.encode(line, add_special_tokens=False).ids]])
            with torch.no_grad():
                logits = model(ids[:, :-1]).logits[0].float()
            nats += float(torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum"))
        found[language] = round(nats / log(2) / sum(len(line.encode()) for line in lines), 4)
    return {"bits_per_byte": found}


if __name__ == "__main__":
    main()
