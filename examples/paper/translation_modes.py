"""Translation without practice in several vocabularies: EN+Lang, EN|Lang, and the baseline.

Tab:translation_tok_results
"""

from common import emit, training
from figures import figure
from models import from_english, mt, named, trained


def main() -> None:
    """BLEU of each pair for each system."""
    options = training(__doc__).parse_args()
    every = []
    for regime, infer in (("none", "src+tgt"), ("none", "src|tgt"), ("baseline", "full")):
        found = mt(options, trained(options, regime), from_english(options), infer)
        every += emit([{"BLEU": found}], "BLEU", regime=named(regime), infer=infer)
    figure(options, every, {"BLEU": "BLEU"}, ["regime", "infer"])


if __name__ == "__main__":
    main()
