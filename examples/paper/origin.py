"""Share of tokens of other languages when a text is tokenized with the full tokenizer.

tab:token_language_proportions, fig:inserted_tokens
"""

from common import emit, parser, texts
from figures import figure
from models import tokenizer

import modtok_cli as modtok


def main() -> None:
    """A row for each language: `outside` in total, `exclusive` by the one language that has it."""
    arguments = parser(__doc__)
    arguments.add_argument("--bpe", action="store_true", help="sequential BPE, not merged Unigram")
    options = arguments.parse_args()
    rows = modtok.origin(tokenizer(options), texts(options))
    rows = emit(rows, "language", "outside", "several", "exclusive")
    shares = [
        {"language": row["language"], "added": added, "share": share}
        for row in rows
        for added, share in row["exclusive"].items()
    ]
    figure(options, shares, {"share of the text's tokens": "share"}, ["added"])


if __name__ == "__main__":
    main()
