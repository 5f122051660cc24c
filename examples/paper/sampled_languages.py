"""Number of languages that a batch samples: translation with the full tokenizer.

Tab:n_abalation_result_unigram
"""

from common import emit, training
from models import from_english, mt, trained


def main() -> None:
    """BLEU of each pair for each regime."""
    arguments = training(__doc__)
    every = ["joint", "sub:1", "sub:2", "sub:5", "full"]
    arguments.add_argument("--regimes", nargs="*", default=every)
    options = arguments.parse_args()
    for regime in options.regimes:
        found = mt(options, trained(options, regime), from_english(options), "full")
        emit([{"BLEU": found}], "BLEU", regime=regime, infer="full")


if __name__ == "__main__":
    main()
