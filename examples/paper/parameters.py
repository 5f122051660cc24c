"""Share of all parameters that a vocabulary of 24,000 tokens saves, by scale.

tab:mem_params_app
"""

from common import emit, parser
from figures import figure

import modtok_cli as modtok


def main() -> None:
    """A row for each scale and vocabulary, tied and untied: `saved` by 24,000 tokens."""
    arguments = parser(__doc__)
    arguments.add_argument(
        "--scales", nargs="*", default=["0.5b", "1b", "2.5b", "7b", "12b", "30b"]
    )
    options = arguments.parse_args()
    every = []
    for tied in (False, True):
        rows = modtok.cost(model=options.scales, tied=tied)
        every += emit(rows, "model", "vocabulary", "parameters", "saved", tied=tied)
    small = [row for row in every if row["vocabulary"] == 24000]
    figure(options, small, {"share of parameters saved": "saved"}, ["tied"], x="model")


if __name__ == "__main__":
    main()
