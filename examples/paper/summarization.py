"""Summaries by the models of regimes, also with Full inputs and outputs in the language's tokens.

Tab:sum_result_unigram
"""

from common import emit, training
from figures import figure
from models import named, regimes, trained

import modtok_cli as modtok

FIELDS = ("language", "metric", "value", "low", "high")


def main() -> None:
    """A row for each regime, inference vocabulary and language: ROUGE."""
    arguments = training(__doc__)
    arguments.add_argument("--regimes", nargs="*", default=[])
    options = arguments.parse_args()
    every = []
    for regime in regimes(options, "baseline", "none", "full", "sub:2"):
        run = trained(options, regime)
        modes = {"baseline": ["full"], "joint": ["full"], "none": ["lang", "full", "full-lang"]}
        for infer in modes.get(regime, ["lang", "full"]):
            found = modtok.evaluate_sum(
                run, options.langs, data=options.texts, infer=infer, **options.eval
            )
            rows = [result.as_row() for result in found.results]
            every += emit(rows, *FIELDS, regime=named(regime), infer=infer)
    longest = [row for row in every if row["metric"] == "rougeL"]
    figure(options, longest, {"ROUGE-L": "value"}, ["regime", "infer"])


if __name__ == "__main__":
    main()
