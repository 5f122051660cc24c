"""Probability of the full tokenizer in training: multiple choice and translation.

tab:mcq_p_sampling, tab:translation_p_sampling
"""

from common import emit, training
from figures import figure
from models import from_english, mcq, mt, trained


def main() -> None:
    """A row for each p and inference vocabulary."""
    arguments = training(__doc__)
    arguments.add_argument("--p", nargs="*", type=float, default=[0, 0.1, 0.2, 0.5, 0.8, 1])
    options = arguments.parse_args()
    every = []
    for p in options.p:
        run = trained(options, "full", p=p)
        for infer in ("lang", "full"):
            row = {
                "MCQ": mcq(options, run, options.langs, infer),
                "MT": mt(options, run, from_english(options), infer),
            }
            every += emit([row], *row, p=p, infer=infer)
    figure(options, every, {"MCQ": "MCQ", "BLEU": "MT"}, ["infer"], x="p", curves=True)


if __name__ == "__main__":
    main()
