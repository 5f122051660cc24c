"""Time of a forward pass over a text, relative to a monolingual tokenizer, by scale.

fig:BPE inference cost, tab:exec_scale, tab:exec_scale_full; with --unigram
fig:inference_time_comparison_unigram
"""

from typing import Any

from common import PROGRESS, emit, joint, parser, sequential, texts
from figures import figure

import modtok_cli as modtok


def main() -> None:
    """A row for each scale, tokenizer and language, measured on this machine."""
    arguments = parser(__doc__)
    arguments.add_argument("--others", nargs="*", default=[], help="files of open-weight models")
    arguments.add_argument("--joint", nargs="*", type=int, default=[128000, 256000, 512000])
    arguments.add_argument("--budgets", nargs="*", type=int, default=[8000, 16000, 24000, 48000])
    arguments.add_argument("--scales", nargs="*", default=["0.5b"])
    arguments.add_argument("--lines", type=int, default=None, help="lines of each text")
    arguments.add_argument("--unigram", action="store_true")
    options = arguments.parse_args()
    learn, every = modtok.unigram if options.unigram else modtok.bpe, []
    modular = {k: tokenizer(options, k) for k in {*options.budgets, options.k}}
    whole, multi = modular[options.k], {size: joint(options, size, learn) for size in options.joint}
    files = {path.name.split(".")[0]: path for path in sorted(options.data.iterdir())}
    for scale in options.scales:
        for language in options.langs:  # rows as they come
            made: dict[str, Any] = {name: name for name in [*options.others, f"{whole}"]}
            made |= {f"joint {size}": f"{path}" for size, path in multi.items()}
            made |= {f"extracted {k}": f"{each}@{language}" for k, each in modular.items()}
            if options.unigram:
                for size, path in multi.items():
                    for k in options.budgets:
                        name = f"from frequency {size} {k}"
                        made[name] = modtok.extract(path, top=k, texts=[files[language]])
            rows = modtok.cost(
                texts(options, [language]), time=True, tokenizers=[*made.values()], model=[scale],
                references=whole / "references", limit=options.lines, decode_steps=1,
                progress=PROGRESS,
            )  # fmt: skip
            for name, row in zip(("reference", *made), rows, strict=True):
                row["series"] = name.rpartition(" ")[0] or name
                columns = ("vocabulary", "tokens", "flops", "forward_ratio")
                facts = {"model": scale, "tokenizer": name, "language": language}
                every += emit([row], "series", *columns, **facts)
    time = {"forward time, relative": "forward_ratio"}
    figure(options, every, time, ["model", "series"], x="vocabulary", curves=True)


def tokenizer(options: Any, k: int) -> Any:
    """The modular tokenizer with references, sequential BPE or merged Unigram."""
    if not options.unigram:
        return sequential(options, k)
    output = options.work / f"unigram-{k}"
    modtok.unigram_merge(options.langs, data=options.data, output=output, k=k, progress=PROGRESS)
    return output


if __name__ == "__main__":
    main()
