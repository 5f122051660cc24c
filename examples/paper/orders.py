"""NSL under several orders of the languages in sequential BPE, and of joint BPE of the same size.

fig:placeholder
"""

import random

from common import PROGRESS, emit, joint, parser, sequential, texts

import modtok_cli as modtok


def main() -> None:
    """A row for each order, tokenizer and language."""
    arguments = parser(__doc__)
    arguments.add_argument("--orders", type=int, default=5)
    options = arguments.parse_args()
    references = sequential(options) / "references"
    draw, order, sizes = random.Random(options.seed), sorted(options.langs), []
    for number in range(options.orders):
        output = options.work / f"order-{options.seed}-{number}"
        modtok.bpe_seq(
            order, order="given", data=options.data, output=output, k=options.k, references=False,
            progress=PROGRESS,
        )  # fmt: skip
        for name in (f"{output}", f"{output}@each"):
            rows = modtok.nsl([name], texts(options), references=references)
            emit(rows, "language", "size", "nsl", order=order, tokenizer=name)
        sizes.append(modtok.load(output).full().size)
        order = draw.sample(order, len(order))
    multi = f"{joint(options, round(sum(sizes) / len(sizes)))}"
    rows = modtok.nsl([multi], texts(options), references=references)
    emit(rows, "language", "size", "nsl", order=None, tokenizer=multi)


if __name__ == "__main__":
    main()
