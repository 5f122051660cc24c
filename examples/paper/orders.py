"""NSL under several orders of the languages in sequential BPE, and of joint BPE of the same size.

fig:placeholder
"""

from statistics import fmean

from common import emit, joint, orders, parser, sequential, texts
from figures import figure

import modtok_cli as modtok


def main() -> None:
    """A row for each order, tokenizer and language."""
    arguments = parser(__doc__)
    arguments.add_argument("--orders", type=int, default=5)
    options = arguments.parse_args()
    references = sequential(options) / "references"
    every, sizes = [], []
    for order, output, _ in orders(options, options.orders):
        for kind in ("", "@each"):
            rows = modtok.nsl([f"{output}{kind}"], texts(options), references=references)
            facts = {"order": order, "tokenizer": f"sequential{kind}"}
            every += emit(rows, "language", "size", "nsl", **facts)
        sizes.append(modtok.load(output).full().size)
    multi = f"{joint(options, round(fmean(sizes)))}"
    rows = modtok.nsl([multi], texts(options), references=references)
    every += emit(rows, "language", "size", "nsl", order=None, tokenizer=multi)
    figure(options, every, {"NSL": "nsl"}, ["tokenizer"])


if __name__ == "__main__":
    main()
