"""Sampling regimes: multiple choice and translation under each inference vocabulary.

Tab: main_result_unigram; with --bpe Tab: main_result_bpe, tab:detailed_results_bpe
"""

from common import emit, training
from models import from_english, mcq, mt, trained


def main() -> None:
    """A row for each regime, inference vocabulary and language or pair."""
    arguments = training(__doc__)
    arguments.add_argument("--regimes", nargs="*", default=["joint", "none", "full", "sub:2"])
    options = arguments.parse_args()
    for regime in options.regimes:
        run = trained(options, regime)
        for infer in ("lang", "full") if regime != "joint" else ("full",):
            found = mcq(options, run, options.langs, infer)
            emit([{"MCQ": found}], "MCQ", regime=regime, infer=infer)
            found = mt(options, run, from_english(options), infer)
            emit([{"MT": found}], "MT", regime=regime, infer=infer)


if __name__ == "__main__":
    main()
