"""Sampling regimes in invented languages: text, curves of training and tested claims.

    python -m benchmarks world text OUTPUT [--seed N] [--documents N] [--quotes SHARE]
            [--summaries SHARE]
    python -m benchmarks world study OUTPUT [--seeds 0,1,…] [--points 300,…] [--limit N]

`text` writes a world (`benchmarks/world/README.md`), `study` trains and evaluates in several.
"""

from dataclasses import replace
from pathlib import Path

from benchmarks.common import parser_of
from benchmarks.world.corpus import WorldSettings, write_world
from benchmarks.world.study import Study, codes_of, numbers, run_study


def main() -> None:
    """Write a world, or run the study."""
    parser = parser_of(__doc__)
    parser.add_argument("what", choices=["text", "study"])
    parser.add_argument("output", type=Path)
    own, few = WorldSettings(), Study()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--langs", type=codes_of, default=own.languages)
    parser.add_argument("--documents", type=int, default=own.documents)
    parser.add_argument("--quotes", type=float, default=own.quotes)
    parser.add_argument("--summaries", type=float, default=own.summaries)
    parser.add_argument("--seeds", type=numbers, default=few.seeds)
    parser.add_argument("--regimes", type=codes_of, default=few.regimes)
    parser.add_argument("--points", type=numbers, default=few.points)
    parser.add_argument("--limit", type=int, default=few.limit)
    options = parser.parse_args()
    world = replace(
        own, seed=options.seed, languages=tuple(options.langs), documents=options.documents,
        quotes=options.quotes, summaries=options.summaries,
    )  # fmt: skip
    if options.what == "text":
        write_world(options.output, world)
        return
    study = replace(
        few, seeds=options.seeds, regimes=tuple(options.regimes), points=options.points,
        limit=options.limit, world=world,
    )  # fmt: skip
    run_study(options.output, study)
