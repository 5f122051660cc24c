"""NSL of Unigram: joint, merged and extracted.

tab:more_nsl_table_unigram
"""

from common import emit, joint, parser, texts
from figures import NSL, figure

import modtok_cli as modtok


def main() -> None:
    """A row for each tokenizer and language."""
    arguments = parser(__doc__)
    arguments.add_argument("--joint", nargs="*", type=int, default=[128000, 256000, 384000])
    arguments.add_argument("--budgets", nargs="*", type=int, default=[8000, 16000, 24000])
    options = arguments.parse_args()
    measured = []
    for k in {*options.budgets, options.k}:
        output = options.work / f"unigram-{k}"
        modtok.unigram_merge(options.langs, data=options.data, output=output, k=k)
        measured.append(f"{output}")
    for size in options.joint:
        measured.append(f"{joint(options, size, modtok.unigram)}")
    references = options.work / f"unigram-{options.k}" / "references"
    every = []
    for name in (*measured, f"{references.parent}@each"):
        rows = modtok.nsl([name], texts(options), references=references)
        every += emit(rows, "language", "size", "nsl", "tokens_per_character", tokenizer=name)
    figure(options, every, NSL, ["tokenizer"])


if __name__ == "__main__":
    main()
