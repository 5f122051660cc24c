"""NSL and tokens per character with six low-resource languages in place of six of Europe's.

tab:nsl_lowres, tab:token_per_char
"""

from common import emit, joint, parser, sequential, texts
from figures import NSL, figure

import modtok_cli as modtok

LANGS = "bg,cs,da,de,el,en,es,fr,hr,hu,it,ne,nl,pl,pt,ro,si,sl,so,sw,te"


def main() -> None:
    """A row for each tokenizer and language; `references` are the monolingual tokenizers."""
    arguments = parser(__doc__, LANGS)
    arguments.add_argument("--others", nargs="*", default=[], help="files of open-weight models")
    options = arguments.parse_args()
    whole = sequential(options)
    multi = joint(options, 16 * options.k)
    every = []
    for name in (*options.others, f"{multi}", f"{whole}", f"{whole}@each"):
        rows = modtok.nsl([name], texts(options), references=whole / "references")
        every += emit(rows, "language", "size", "nsl", "tokens_per_character", tokenizer=name)
    for language in options.langs:
        own = whole / "references" / f"{language}.json"
        rows = modtok.nsl([f"{own}"], texts(options, [language]), references=whole / "references")
        columns = ("language", "size", "nsl", "tokens_per_character")
        every += emit(rows, *columns, tokenizer="monolingual")
    figure(options, every, NSL, ["tokenizer"])


if __name__ == "__main__":
    main()
