"""Sampling regimes: multiple choice and translation under each inference vocabulary.

Tab: main_result_unigram; with --bpe Tab: main_result_bpe, tab:detailed_results_bpe
"""

from statistics import fmean

from common import emit, training
from figures import figure
from models import accuracies, from_english, mt, named, regimes, trained

DETAILED = ("sub:3", "sub:5")  # of BPE


def main() -> None:
    """A row for each regime, inference vocabulary and language or pair; MCQ also by task."""
    arguments = training(__doc__)
    arguments.add_argument("--regimes", nargs="*", default=[])
    options = arguments.parse_args()
    more, every = DETAILED if options.bpe else ("sub:2",), []
    for regime in regimes(options, "baseline", "joint", "none", "full", *more):
        run = trained(options, regime)
        for infer in ("lang", "full") if regime not in ("baseline", "joint") else ("full",):
            tasks = accuracies(options, run, options.langs, infer)
            row = {
                "MCQ": {language: fmean(each.values()) for language, each in tasks.items()},
                "tasks": tasks,
                "MT": mt(options, run, from_english(options), infer),
            }
            every += emit([row], *row, regime=named(regime), infer=infer)
    figure(options, every, {"MCQ": "MCQ", "BLEU": "MT"}, ["regime", "infer"])


if __name__ == "__main__":
    main()
