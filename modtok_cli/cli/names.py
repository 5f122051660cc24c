"""Commands in the order of the help, under headings, and what others call them."""

_HEADINGS = {
    "Learn": "bpe-seq, bpe-merge, unigram-merge, adopt, bpe, unigram",
    "Tokenize": "extract, encode, decode, inspect",
    "Measure": "nsl, fairness, origin, check, cost, explore, report",
    "Train": "pretrain",
    "Adapt and serve": "slice, graft, transplant, tokens, export, generate, serve",
    "Evaluate": "eval mcq, eval mt, eval sum, eval bpb, eval compare, eval fetch",
    "Corpora": "corpus build, corpus count, corpus stats",
    "Machine": "sample, doctor",
}
HEADINGS = {
    heading: tuple(name.strip() for name in names.split(","))
    for heading, names in _HEADINGS.items()
}
ORDER = tuple(name for names in HEADINGS.values() for name in names)

MEANT = {
    "tokenize": "encode",
    "compare": "eval compare",
    "count": "corpus count or encode --count",
    "stats": "corpus stats",
    "perplexity": "eval bpb",
    "trim": "slice",
    "convert": "export",
    "finetune": "pretrain --init-from",
    "fine-tune": "pretrain --init-from",
    "translate": "eval mt",
    "grow": "bpe-seq --append",
    "learn": "bpe-seq or bpe-merge or unigram-merge",
    "prune": "slice or extract",
    "ppl": "eval bpb",
    "bpb": "eval bpb",
    "mcq": "eval mcq",
}
"""Command by what other programs call it."""

MEANT_OPTIONS = {
    "-k": ("--top N", "--size N"),
    "--budget": ("--top N", "--size N"),
    "--top-k": ("--top N",),
    "--vocab-size": ("-k N", "--top N", "--size N"),
    "--vocab_size": ("-k N", "--top N", "--size N"),
    "--data": ("--eval-data PATH",),
    "--text": ("TEXT as an argument", "--report TEXT", "--data PATH"),
    "--csv": ("--json",),
    "--token-ids": ("--must-have LIST",),
    "--offload-rows": ("--offload",),
    "--langs": ("--lang LANG of a text or -t DIR@fr,en", "--pairs fr-en"),
    "--learning-rate": ("--lr RATE",),
    "--epochs": ("--steps N",),
    "--max-new-tokens": ("--max-tokens N",),
    "-o": ("--name NAME", "--runs DIR"),
    "--output": ("--name NAME", "--runs DIR"),
    "--input": ("TEXT as an argument", "PAGES as an argument", "--data PATH"),
    "--model": ("MODEL as an argument", "MODEL_OR_TEXT as an argument"),
    "--num-fewshot": ("--shots N",),
    "--num_fewshot": ("--shots N",),
}
"""Option that a command may have, by what other commands or programs call it."""


def heading_of(word: str) -> str:
    """Return the heading of a command or of a group, by its first word; "" for other words.

    >>> heading_of("eval"), heading_of("slice")
    ('Evaluate', 'Adapt and serve')
    """
    for heading, names in HEADINGS.items():
        if any(name.split()[0] == word for name in names):
            return heading
    return ""
