"""Time of a forward pass over a text, relative to a monolingual tokenizer, by scale.

fig:BPE inference cost, tab:exec_scale, tab:exec_scale_full; with --unigram
fig:inference_time_comparison_unigram
"""

from common import PROGRESS, emit, parser, sequential, texts

import modtok_cli as modtok


def main() -> None:
    """A row for each scale, tokenizer and language, measured on this machine."""
    arguments = parser(__doc__)
    arguments.add_argument("--others", nargs="*", default=[], help="files of open-weight models")
    arguments.add_argument("--scales", nargs="*", default=["0.5b"])
    arguments.add_argument("--lines", type=int, default=None, help="lines of each text")
    arguments.add_argument("--unigram", action="store_true")
    options = arguments.parse_args()
    whole = sequential(options)
    if options.unigram:
        whole = options.work / f"unigram-{options.k}"
        modtok.unigram_merge(
            options.langs, data=options.data, output=whole, k=options.k, progress=PROGRESS
        )
    names = [*options.others, f"{whole}", f"{whole}@each"]
    for scale in options.scales:
        for text in texts(options):  # rows as they come
            rows = modtok.cost(
                text, time=True, tokenizers=names, model=[scale], references=whole / "references",
                limit=options.lines, decode_steps=1, progress=PROGRESS,
            )  # fmt: skip
            columns = ("tokenizer", "language", "vocabulary", "tokens", "flops", "forward_ratio")
            emit(rows, "model", *columns)


if __name__ == "__main__":
    main()
