"""Translation between all languages, 40% English in training, with the full tokenizer.

tab:translation_tok_group
"""

from common import emit, training
from figures import figure
from models import mt, named, regimes, trained


def main() -> None:
    """BLEU of each pair for the baseline and for sub:N."""
    arguments = training(__doc__)
    arguments.add_argument("--regimes", nargs="*", default=[])
    options = arguments.parse_args()
    options.settings = {"mix": {"en": 0.4}} | options.settings
    pairs = [f"{a}-{b}" for a in options.langs for b in options.langs if a != b]
    options.models = options.work  # of another mixture
    every = []
    for regime in regimes(options, "baseline", "sub:5"):
        found = mt(options, trained(options, regime), pairs, "full")
        every += emit([{"BLEU": found}], "BLEU", regime=named(regime), infer="full")
    figure(options, every, {"BLEU": "BLEU"}, ["regime"])


if __name__ == "__main__":
    main()
