"""Translation between all languages, 40% English in training, with the full tokenizer.

tab:translation_tok_group
"""

from common import emit, training
from models import mt, trained


def main() -> None:
    """BLEU of each pair for the baseline and for sub:N."""
    arguments = training(__doc__)
    arguments.add_argument("--regimes", nargs="*", default=["joint", "sub:5"])
    options = arguments.parse_args()
    options.settings = {"mix": {"en": 0.4}} | options.settings
    pairs = [f"{a}-{b}" for a in options.langs for b in options.langs if a != b]
    options.work = options.work / "pairs"
    for regime in options.regimes:
        found = mt(options, trained(options, regime), pairs, "full")
        emit([{"BLEU": found}], "BLEU", regime=regime, infer="full")


if __name__ == "__main__":
    main()
