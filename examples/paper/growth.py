"""Size of the sequential vocabulary as languages are added.

fig:scaling_more_languages_BPE
"""

from common import emit, orders, parser
from figures import figure


def main() -> None:
    """A row for each order and language: tokens of T so far, adopted and new ones."""
    arguments = parser(__doc__)
    arguments.add_argument("--orders", type=int, default=3)
    options = arguments.parse_args()
    every = []
    for number, (_, _, report) in enumerate(orders(options, options.orders)):
        for n, row in enumerate(report.lines, 1):
            columns = ("language", "total", "adopted", "new_tokens")
            every += emit([row], *columns, order=number, n=n)
    figure(options, every, {"tokens of T": "total"}, [], x="n", curves=True)


if __name__ == "__main__":
    main()
