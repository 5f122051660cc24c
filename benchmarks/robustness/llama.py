"""Our GGUF files in llama.cpp: ids, text, logits and greedy tokens.

    pip install llama-cpp-python      # builds llama.cpp; needed by this script alone
    python -m benchmarks llama MODEL PARALLEL [--langs fr,en] [--lines 300]

MODEL is a run or a slice, PARALLEL holds <lang>.txt. The model is exported in float32 with
--inexact, all of PARALLEL is tokenized by both, and the texts of the model's own languages
are read and continued by both. JSON lines:

    ids     for each language: lines, lines with other ids in llama.cpp (`different`), lines where
            the twin that `modtok export` probes with was wrong about that (`twin_wrong`),
            and lines that do not come back as they were (`lossy`).
    logits  largest difference over the tokens read, and how often the best token is another.
    greedy  prompts whose continuation is the same token for token.
    dead    largest share of probability that names behind our tokens take (see export.py).
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import emit, parser_of
from modtok_cli.model.export.export import export
from modtok_cli.model.export.gguf_tokenizer import candidates
from modtok_cli.model.generate.decoding import generate
from modtok_cli.model.generate.next_token import SamplingOptions
from modtok_cli.model.generate.sliced_model import SlicedModel
from modtok_cli.model.load import load

NOT_TEXT = [
    "",
    " ",
    "  two  spaces   three",
    "tabs\tand\n\nline ends \n ",
    "日本語 🦙 ▁ \u0301 alone, \u00a0 no-break",
    "l'homme, it's 2019; O'sullivan 3.14159 «non» ... !!! --- aaaaaaa",
    "<|endoftext|> written out, <0x41> too",
]


def theirs_of(llama: Any, text: str) -> list[int]:
    return [int(i) for i in llama.tokenize(text.encode(), add_bos=False, special=False)]


def check_ids(llama: Any, model: SlicedModel, twin: Any, parallel: Path, lines: int) -> None:
    own = model.tokenizer_in
    texts = {path.stem: path.read_text("utf-8").split("\n") for path in parallel.glob("*.txt")}
    texts = {name: [line for line in found if line][:lines] for name, found in texts.items()}
    for name, found in [("(not text)", NOT_TEXT), *sorted(texts.items())]:
        ours = own.encode_batch(found)
        guessed = twin.encode_batch(found)
        different = wrong = lossy = 0
        example = None
        for text, mine, guess in zip(found, ours, guessed, strict=True):
            ids = theirs_of(llama, text)
            wrong += ids != guess
            if ids != mine.tolist():
                different += 1
                example = example or text
            lossy += llama.detokenize(ids) != text.encode() if ids else bool(text)
        row = {"lines": len(found), "different": different, "twin_wrong": wrong, "lossy": lossy}
        row |= {"own": name in own.languages, "example": example}
        emit({"what": "ids", "language": name, **row})


def check_model(llama: Any, model: SlicedModel, parallel: Path, prompts: int) -> None:
    """Logits on lines of the model's own languages, and their continuation."""
    size = model.tokenizer_in.size
    for language in model.tokenizer_in.languages:
        lines = (parallel / f"{language}.txt").read_text("utf-8").split("\n")[:prompts]
        worst, others, tokens, same, dead = 0.0, 0, 0, 0, 0.0
        for line in lines:
            ids = [model.end_of_text, *model.encode_in(line)][: model.context // 2]
            llama.reset()
            llama.eval(ids)
            theirs = np.array(llama.scores[: len(ids)])
            ours = model.logits(torch.tensor([ids]))[0].numpy()
            worst = max(worst, float(np.abs(theirs[:, :size] - ours).max()))
            others += int((theirs.argmax(1) != ours.argmax(1)).sum())
            tokens += len(ids)
            share = np.exp(theirs - theirs.max(1, keepdims=True))
            dead = max(dead, float((share[:, size:].sum(1) / share.sum(1)).max()))
            prompt = ids[: len(ids) // 2 + 1]
            mine = list(generate(model, [prompt], SamplingOptions(16))[0].ids)
            found: list[int] = []
            llama.reset()
            llama.eval(prompt)
            while len(found) < 16:
                best = int(np.argmax(llama.scores[llama.n_tokens - 1]))
                if best == model.end_of_text:
                    break
                found.append(best)
                llama.eval([best])
            same += found == mine
        row = {"tokens": tokens, "largest_difference": worst, "other_best": others}
        emit({"what": "logits", "language": language, **row})
        emit({"what": "greedy", "language": language, "prompts": len(lines), "same": same})
        if theirs.shape[1] > size:
            names = theirs.shape[1] - size
            emit({"what": "dead", "language": language, "names": names, "most": dead})


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("parallel", type=Path)
    parser.add_argument("--langs")
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--prompts", type=int, default=12)
    given = parser.parse_args()
    from llama_cpp import Llama, __version__

    languages = given.langs.split(",") if given.langs else None
    model = load(given.model, languages, tokenizer=given.tokenizer, dtype=torch.float32)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "model.gguf"
        report = export(
            given.model, file, languages=languages, inexact=True, dtype="float32",
            tokenizer=given.tokenizer,
        )  # fmt: skip
        llama = Llama(
            str(file),
            n_ctx=model.context,
            n_batch=model.context,
            logits_all=True,
            type_k=0,  # the cache in float32 as well; by default it is float16
            type_v=0,
            verbose=False,
        )
        own = model.tokenizer_in
        row = {"segmentation": own.segmentation, "languages": own.languages, "tokens": own.size}
        row |= {"way": report.tokenizer, "own_words": report.lines}
        row["own_words_different"] = report.different
        emit({"what": "export", "llama_cpp_python": __version__, **row})
        ways = candidates(model.tokenizer_in, str(given.model))
        twin = next(way for way in ways if way.name == report.tokenizer)
        check_ids(llama, model, twin, given.parallel, given.lines)
        check_model(llama, model, given.parallel, given.prompts)
