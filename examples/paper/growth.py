"""Size of the sequential vocabulary as languages are added.

fig:scaling_more_languages_BPE
"""

import random

from common import PROGRESS, emit, parser

import modtok_cli as modtok


def main() -> None:
    """A row for each order and language: tokens of T so far, adopted and new ones."""
    arguments = parser(__doc__)
    arguments.add_argument("--orders", type=int, default=3)
    options = arguments.parse_args()
    draw, order = random.Random(options.seed), sorted(options.langs)
    for number in range(options.orders):
        output = options.work / f"order-{options.seed}-{number}"
        made = modtok.bpe_seq(
            order, order="given", data=options.data, output=output, k=options.k, references=False,
            progress=PROGRESS,
        )  # fmt: skip
        for n, row in enumerate(made.lines, 1):
            emit([row], "language", "total", "adopted", "new_tokens", order=number, n=n)
        order = draw.sample(order, len(order))


if __name__ == "__main__":
    main()
