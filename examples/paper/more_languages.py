"""Inference with the subtokenizers of 2 to 10 languages, drawn at random.

fig:results_w_combos_languages_atinference
"""

import random

from common import emit, training
from figures import figure
from models import mcq, mt, named, regimes, trained


def main() -> None:
    """A row for each language and set that contains it (and English): MCQ, BLEU from English."""
    arguments = training(__doc__)
    arguments.add_argument("--sizes", nargs="*", type=int, default=[2, 4, 6, 8, 10])
    arguments.add_argument("--draws", type=int, default=3)
    arguments.add_argument("--regimes", nargs="*", default=[])
    options = arguments.parse_args()
    every = []
    for regime in regimes(options, "baseline", "sub:2"):
        run, draw = trained(options, regime), random.Random(options.seed)
        for language in options.langs:
            sets = {("full", len(options.langs))}
            for size in options.sizes if regime not in ("baseline", "joint") else ():
                own = sorted({"en", language})
                rest = [each for each in options.langs if each not in own]
                for _ in range(options.draws):
                    drawn = own + draw.sample(rest, max(0, min(size - len(own), len(rest))))
                    sets.add((",".join(sorted(drawn)), size))
            for infer, size in sorted(sets):
                row = {"MCQ": mcq(options, run, [language], infer)}
                if language != "en":
                    row["MT"] = mt(options, run, [f"en-{language}"], infer)
                facts = {"regime": named(regime), "n": size, "infer": infer, "language": language}
                every += emit([row], *row, **facts)
    figure(options, every, {"MCQ": "MCQ", "BLEU": "MT"}, ["regime"], x="n", curves=True)


if __name__ == "__main__":
    main()
