"""Bits per byte of a model with other tokens, by the first rows of the tokens that it lacks.

    python -m benchmarks distilled_rows MODEL TOKENIZER --langs fi --data CORPUS --texts NTREX

MODEL is a directory of `published_models`, TOKENIZER what `bpe-seq --append` made of its own, or a
new one. Prints a row for each of `--methods`: `own`, the model itself; `mean` of the rows that
spell a token; `neighbours`, the mean of tokens of both with similar contexts, by sparsemax of the
cosine (as FOCUS, arXiv 2305.14481; contexts are singular vectors of positive mutual information);
`fit` and `distilled`, as the options of `transplant`, the second with each of `--steps` and
`--seeds`. Bits per byte are of the first lines of the first language and of English, in bfloat16,
each after the token that begins a text, on one thread.
"""

from __future__ import annotations

import time
from itertools import chain, product
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse.linalg
import torch
import transformers
from tokenizers import Tokenizer

from benchmarks.common import emit, parser_of, texts
from modtok_cli.model.hf.distill_rows import DistillText, Recipe
from modtok_cli.model.hf.fit_outputs import FitText
from modtok_cli.model.hf.hf_source import HfSource
from modtok_cli.model.hf.transplant import _Transplant
from modtok_cli.tokenizer.open import open_tokenizer


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("tokenizer")
    parser.add_argument("--langs", default="fi")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--methods", default="own,mean,neighbours,fit,distilled")
    parser.add_argument("--steps", default="12")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--dtype", default="float32", help="of the model that is distilled")
    parser.add_argument("--lines", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dtype = getattr(torch, options.dtype)
    steps, seeds = (map(int, each.split(",")) for each in (options.steps, options.seeds))
    recipes = [Recipe(*each, dtype=dtype) for each in product(steps, seeds)]
    for method in options.methods.split(","):
        for recipe in recipes if method == "distilled" else [None]:
            settings = {} if recipe is None else {"steps": recipe.steps, "seed": recipe.seed}
            emit({"rows": method, **settings, **measured(method, recipe, options)})


def measured(method: str, recipe: Recipe | None, options) -> dict[str, object]:
    """Bits per byte, and processor seconds that the rows took."""
    if method == "own":
        return bits(options.model, options)
    files = [str(options.data / f"{name}.jsonl.zst") for name in options.langs.split(",")]
    new = open_tokenizer(options.tokenizer)
    began = time.process_time()
    if method == "neighbours":
        made: _Transplant = _Neighbours(options.model, new)
        made.texts = [*chain.from_iterable(map(texts, files))]
    else:
        made = _Transplant(options.model, new)
    if recipe is not None:
        made.distill, made.recipe = DistillText(files), recipe
    with TemporaryDirectory() as place:
        made.write(Path(place) / "model", FitText(files) if method == "fit" else None)
        seconds = round(time.process_time() - began)
        return {**bits(Path(place) / "model", options), "cpu_seconds": seconds}


def bits(path: Path, options) -> dict[str, object]:
    """Bits per byte of lines of each language."""
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).eval()
    library = Tokenizer.from_file(str(path / "tokenizer.json"))
    library.encode_special_tokens = True
    first, found = HfSource(path).first, {}
    for language in (options.langs.split(",")[0], "en"):
        lines = (options.texts / f"{language}.txt").read_text("utf-8").split("\n")[: options.lines]
        nats = 0.0
        for line in lines:
            ids = torch.tensor([[first, *library.encode(line, add_special_tokens=False).ids]])
            with torch.no_grad():
                logits = model(ids[:, :-1]).logits[0].float()
            nats += float(torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum"))
        found[language] = round(nats / log(2) / sum(len(line.encode()) for line in lines), 4)
    return {"bits_per_byte": found}


class _Neighbours(_Transplant):
    """Rows of new tokens are means of the rows of tokens with similar contexts in `texts`."""

    texts: list[str]

    def _rows(self, old, spelling):
        rows = super()._rows(old, spelling)
        contexts = context_vectors(self.new.encode_batch(self.texts), self.size)
        has, lengths = contexts.norm(dim=1) > 0.5, torch.from_numpy(spelling.lengths)
        anchors = torch.nonzero(has & (lengths == 1))[:, 0]
        # A token without context keeps the mean of the rows that spell it.
        for block in torch.split(torch.nonzero(has & (lengths > 1))[:, 0], 1000):
            rows[block] = neighbours(contexts[block], contexts[anchors], rows[anchors])
        return rows


def context_vectors(encoded, size, window=5, width=256):
    """Unit vectors of tokens by their neighbours in a text, (V, 256); 0 where there are none."""
    total = scipy.sparse.csr_matrix((size, size))
    for distance in range(1, window + 1):
        left = np.concatenate([ids[:-distance] for ids in encoded if len(ids) > distance])
        right = np.concatenate([ids[distance:] for ids in encoded if len(ids) > distance])
        ones = np.full(len(left), 1 / distance)
        total = total + scipy.sparse.csr_matrix((ones, (left, right)), (size, size))
    total = (total + total.T).tocoo()
    sums = np.asarray(total.tocsr().sum(1))[:, 0]
    smooth = sums**0.75
    smooth /= smooth.sum()
    pmi = np.log(total.data / (sums[total.row] * smooth[total.col]))
    kept = pmi > 0
    matrix = scipy.sparse.csr_matrix((pmi[kept], (total.row[kept], total.col[kept])), (size, size))
    vectors, values, _ = scipy.sparse.linalg.svds(matrix, k=width, random_state=0)
    vectors = torch.from_numpy(vectors * np.sqrt(values)).float()
    return torch.nn.functional.normalize(vectors, dim=1)


def neighbours(vectors, anchors, rows):
    """Means of rows by sparsemax of cosines."""
    scores = vectors @ anchors.T
    ordered = scores.sort(dim=1, descending=True).values
    sums = ordered.cumsum(1) - 1
    count = (ordered * torch.arange(1, ordered.shape[1] + 1) > sums).sum(1, keepdim=True)
    return (scores - sums.gather(1, count - 1) / count).clamp(min=0) @ rows


if __name__ == "__main__":
    main()
