"""Accuracy of the routing of prompts to subtokenizers.

    python -m benchmarks routing TOKENIZER PARALLEL [--every 3]

TOKENIZER is a modular directory with references, PARALLEL holds <lang>.txt. Every third line,
whole and cut to its first characters, is routed as `modtok generate --langs auto` does. JSON lines:

    route   accuracy, and the worst languages; covered: the right language is among those taken.
    pairs   the right language and the one taken, of lines routed to another.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import fmean

from benchmarks.common import emit, parser_of
from modtok_cli.model.generate.route import MARGIN, route, routing_references
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer

CUTS: dict[str, int | None] = {"whole line": None, "80": 80, "40": 40, "20": 20}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("parallel", type=Path)
    parser.add_argument("--every", type=int, default=3)
    given = parser.parse_args()
    tokenizer = ModularTokenizer.load(given.tokenizer)
    lines = {}
    for name in tokenizer.languages:
        text = (given.parallel / f"{name}.txt").read_text("utf-8").split("\n")[:: given.every]
        lines[name] = [line for line in text if line.strip()]
    prices = routing_references(given.tokenizer, tokenizer.languages)
    emit({"what": "tokenizer", "size": tokenizer.size, "signature": tokenizer.signature})
    for prompt, length in CUTS.items():
        routes = {
            name: route([text[:length] for text in texts], prices) for name, texts in lines.items()
        }
        flat = [(name, found) for name, each in routes.items() for found in each]
        right = Counter(name for name, found in flat if found.languages[0] == name)
        shares = {name: right[name] / len(lines[name]) for name in lines}
        emit(
            {
                "what": "route",
                "prompt": prompt,
                "lines": len(flat),
                "margin": MARGIN,
                "accuracy": right.total() / len(flat),
                "covered": fmean(name in found.languages for name, found in flat),
                "languages": fmean(len(found.languages) for _, found in flat),
                "unions": fmean(not found.certain for _, found in flat),
                "worst": dict(sorted(shares.items(), key=lambda pair: pair[1])[:5]),
            }
        )
        wrong = Counter(
            f"{name}>{found.languages[0]}"
            for name, found in flat
            if found.certain and found.languages[0] != name
        )
        emit({"what": "pairs", "prompt": prompt, "most": dict(wrong.most_common(12))})
