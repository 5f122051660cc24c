"""NSL of the k most frequent tokens of a joint Unigram tokenizer and of T, by language.

tab:more_nsl_table_freq
"""

from common import emit, joint, parser, texts
from figures import figure

import modtok_cli as modtok


def main() -> None:
    """A row for each joint tokenizer and T, k and language; k = null is the whole."""
    arguments = parser(__doc__)
    arguments.add_argument("--joint", nargs="*", type=int, default=[256000, 384000])
    arguments.add_argument("--top", nargs="*", type=int, default=[8000, 16000, 24000, 32000])
    options = arguments.parse_args()
    modular = options.work / f"unigram-{options.k}"
    modtok.unigram_merge(options.langs, data=options.data, output=modular, k=options.k)
    every = []
    files = {path.name.split(".")[0]: path for path in sorted(options.data.iterdir())}
    for whole in (*(joint(options, size, modtok.unigram) for size in options.joint), modular):
        for language in options.langs:
            measured = {None: modtok.load(whole)}
            for k in options.top:
                measured[k] = modtok.extract(whole, top=k, texts=[files[language]])
            for k, tokenizer in measured.items():
                text = texts(options, [language])
                rows = modtok.nsl([tokenizer], text, references=modular / "references")
                every += emit(rows, "language", "size", "nsl", base=whole.name, k=k)
    figure(options, every, {"NSL": "nsl"}, ["base"], x="k", curves=True)


if __name__ == "__main__":
    main()
