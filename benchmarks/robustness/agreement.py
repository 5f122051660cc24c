"""Ids of every subset: our encoder, the `tokenizers` library, the definition.

    python -m benchmarks agreement TOKENIZER FOLDER [--subsets 200] [--lines 20] [--seed 0]

TOKENIZER is a modular directory, FOLDER holds <lang>.txt of parallel lines. Looks at T, at every
language alone and at random subsets; for each, lines of all its languages and of one that is not
in it, or, with --all-texts, of every file. The definition is `modtok_cli.reference`. Also checks
that text comes back and that the subset is sound. Prints a JSON object for each subset that fails
and one at the end; exit 1 if any failed.
"""

from __future__ import annotations

import random
import time
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer

from benchmarks.common import emit, parser_of
from helpers.plain_ids import plain_ids
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.subset_check import check_single
from modtok_cli.tokenizer.subtokenizer import Subtokenizer


def failures(subset: Subtokenizer, texts: list[str]) -> list[str]:
    library = Tokenizer.from_buffer(subset.to_json())
    library.encode_special_tokens = True
    found = []
    encodings = library.encode_batch(texts, add_special_tokens=False)
    ways = zip(texts, subset.encode_batch(texts), encodings, plain_ids(subset, texts), strict=True)
    for text, ids, encoding, defined in ways:
        ours = ids.tolist()
        if ours != encoding.ids:
            found.append(f"library: {text}")
        if ours != defined:
            found.append(f"definition: {text}")
        if subset.decode(ids) != text:
            found.append(f"decode: {text}")
    checked = check_single(subset)
    if not checked.sound:
        found.append(f"improper {checked.improper[:5]}, unreachable {checked.unreachable[:5]}")
    return found


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--subsets", type=int, default=200)
    parser.add_argument("--lines", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all-texts", action="store_true")
    options = parser.parse_args()

    start = time.perf_counter()
    tokenizer = ModularTokenizer.load(options.tokenizer)
    rng = random.Random(options.seed)
    lines: dict[str, list[str]] = {}
    names = [path.stem for path in sorted(options.folder.glob("*.txt"))]
    for language in names if options.all_texts else tokenizer.languages:
        with open(options.folder / f"{language}.txt", encoding="utf-8", newline="\n") as handle:
            lines[language] = [line.rstrip("\n") for line in islice(handle, 2000)]
    sets = [tokenizer.languages, *((language,) for language in tokenizer.languages)]
    for _ in range(options.subsets):
        size = rng.randint(2, len(tokenizer.languages))
        sets.append(tuple(rng.sample(tokenizer.languages, size)))
    texts_seen = failed = 0
    for languages in sets:
        outside = [language for language in tokenizer.languages if language not in languages]
        chosen = [*languages, *rng.sample(outside, min(1, len(outside)))]
        if options.all_texts:
            chosen = names
        texts = [line for name in chosen for line in rng.sample(lines[name], options.lines)]
        texts_seen += len(texts)
        found = failures(tokenizer.subset(languages), texts)
        if found:
            failed += 1
            emit({"languages": languages, "failures": found[:5]})
    row = {"what": "agreement", "signature": tokenizer.signature, "tokens": tokenizer.size}
    row |= {"subsets": len(sets), "texts": texts_seen, "failed": failed}
    emit({**row, "seconds": round(time.perf_counter() - start, 1)})
    return int(failed > 0)
