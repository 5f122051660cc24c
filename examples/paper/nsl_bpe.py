"""NSL of BPE: joint, sequential, extracted, and tokenizers of other models.

tab:nsl_table, tab:more_nsl_table_bpe
"""

from common import emit, joint, parser, sequential, texts
from figures import NSL, figure

import modtok_cli as modtok


def main() -> None:
    """A row for each tokenizer and language."""
    arguments = parser(__doc__)
    arguments.add_argument("--others", nargs="*", default=[], help="files of open-weight models")
    arguments.add_argument("--joint", nargs="*", type=int, default=[128000, 256000, 384000])
    arguments.add_argument("--budgets", nargs="*", type=int, default=[8000, 16000, 24000])
    options = arguments.parse_args()
    references = sequential(options) / "references"
    measured = list(options.others)
    for size in options.joint:
        measured.append(f"{joint(options, size)}")
    measured += [f"{sequential(options, k)}" for k in options.budgets]
    measured.append(f"{sequential(options)}@each")
    every = []
    for name in measured:
        rows = modtok.nsl([name], texts(options), references=references)
        every += emit(rows, "language", "size", "nsl", "tokens_per_character", tokenizer=name)
    figure(options, every, NSL, ["tokenizer"])


if __name__ == "__main__":
    main()
