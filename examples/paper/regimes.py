"""Sampling regimes: multiple choice and translation under each inference vocabulary.

Tab: main_result_unigram; with --bpe Tab: main_result_bpe, tab:detailed_results_bpe
"""

from common import emit, training
from models import from_english, mcq, mt, named, regimes, trained


def main() -> None:
    """A row for each regime, inference vocabulary and language or pair."""
    arguments = training(__doc__)
    arguments.add_argument("--regimes", nargs="*", default=[])
    options = arguments.parse_args()
    for regime in regimes(options, "baseline", "joint", "none", "full", "sub:2"):
        run = trained(options, regime)
        for infer in ("lang", "full") if regime not in ("baseline", "joint") else ("full",):
            found = mcq(options, run, options.langs, infer)
            emit([{"MCQ": found}], "MCQ", regime=named(regime), infer=infer)
            found = mt(options, run, from_english(options), infer)
            emit([{"MT": found}], "MT", regime=named(regime), infer=infer)


if __name__ == "__main__":
    main()
