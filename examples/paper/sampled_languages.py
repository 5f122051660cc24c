"""Number of languages that a batch samples: translation with the full tokenizer.

Tab:n_abalation_result_unigram
"""

from common import emit, training
from figures import figure
from models import from_english, mt, named, regimes, trained


def main() -> None:
    """BLEU of each pair for each regime."""
    arguments = training(__doc__)
    arguments.add_argument("--regimes", nargs="*", default=[])
    options = arguments.parse_args()
    every = []
    for regime in regimes(options, "baseline", "sub:1", "sub:2", "sub:5", "full"):
        found = mt(options, trained(options, regime), from_english(options), "full")
        every += emit([{"BLEU": found}], "BLEU", regime=named(regime), infer="full")
    figure(options, every, {"BLEU": "BLEU"}, ["regime"])


if __name__ == "__main__":
    main()
