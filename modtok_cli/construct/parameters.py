"""Options of constructions, each a type for parameters of public functions."""

from collections.abc import Iterable, Sequence
from typing import Annotated, TypedDict

from modtok_cli.base.option import Option, option_of
from modtok_cli.base.parameters import MAX_BUDGET, Data, FilePath, Force, Threads
from modtok_cli.base.progress import Progress
from modtok_cli.construct.budgets import Budgets, budgets_text
from modtok_cli.text.pretokenizer import PretokenizerName
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.parameters import ModularOutput

Budget = Annotated[
    int | None,
    Option(
        "Vocabulary size per language, including the 256 bytes and the special tokens.",
        flags="-k --budget",
        key="k",
        metavar="N",
        default=24000,
        high=MAX_BUDGET,
    ),
]
BudgetByLanguage = Annotated[
    Budgets | None,
    Option(
        "Vocabulary size per language, including the 256 bytes and the special tokens. LANG=N is "
        "for one language, as in 24000,fi=30000.",
        flags="-k --budget",
        key="k",
        metavar="N",
        default=24000,
        kind=str,
        parse=budgets_text,
    ),
]
FairTexts = Annotated[
    FilePath | None,
    Option(
        "Directory with the same lines in all languages (LANG.txt). Divide the sum of the "
        "vocabulary sizes so that these lines take as equal a number of tokens as possible.",
        flags="--fair",
        metavar="TEXTS",
    ),
]
FairShare = Annotated[
    float | None,
    Option(
        "Go part of the way with --fair: 0 is equal sizes.", metavar="S", default=1.0, low=0, high=1
    ),
]
ExtendedTokenizer = Annotated[
    FilePath | None,
    Option(
        "Tokenizer to extend, or a name of the hub; the result goes to -o. By default, the one "
        "at -o is extended in place, and its old version is kept next to it.",
        flags="-t --tokenizer",
        metavar="TOKENIZER",
        hub="tokenizer",
        complete="tokenizers",
        extended=True,
    ),
]
Memory = Annotated[
    str | int | None,
    Option(
        "Memory limit, such as 8GB. At least 500MB; words are counted on disk, and if they do not "
        "fit, a sample of the rare ones is used.",
        kind=str,
        metavar="SIZE",
        accepts=(lambda value: isinstance(value, str | int), "a size such as 8GB"),
    ),
]
MinCount = Annotated[
    int | None,
    Option("Leave out words that occur less than N times in a language.", metavar="N", low=2),
]
MaxUnspaced = Annotated[
    int | None,
    Option(
        "Most characters of a token in scripts without spaces between words (Chinese, Japanese, "
        "Thai, ...); 0: unlimited.",
        metavar="N",
        default=16,
        low=0,
    ),
]
Specials = Annotated[
    Sequence[str],
    Option(
        "Special token beside <|endoftext|> and <|pad|>. Repeatable.",
        flags="--special",
        kind=list[str],
        metavar="TEXT",
        accepts=(lambda value: isinstance(value, Iterable), "a list"),
    ),
]
DefaultSpecials = Annotated[
    bool | None,
    Option(
        "Omit the special tokens <|endoftext|> and <|pad|>; pretrain needs an end of text.",
        flags="--no-default-specials",
        default=True,
    ),
]
LearnReferences = Annotated[
    bool | None,
    Option(
        "Do not learn the monolingual reference tokenizers of NSL.",
        flags="--no-references",
        default=True,
    ),
]
JointFlag = Annotated[bool, Option("Learn one tokenizer of N tokens for all languages.")]
JournalSeconds = Annotated[
    float | None,
    Option(
        "Minimum number of seconds between writes of the state that a killed run resumes from.",
        python_only=True,
        low=0,
    ),
]


class BuildOptions(TypedDict, total=False):
    """The options that all constructions have."""

    specials: Specials
    default_specials: DefaultSpecials
    data: Annotated[Data, option_of(Data, default="data")]
    reading: Reading
    threads: Threads
    force: Annotated[Force, option_of(Force, default=False)]
    progress: Progress


class BpeOptions(BuildOptions, total=False):
    """The options that all constructions by BPE have."""

    min_count: MinCount
    max_unspaced: MaxUnspaced
    pretokenizer: PretokenizerName
    memory: Memory


class ModularBpeOptions(BpeOptions, total=False):
    """The options that all constructions of a modular tokenizer by BPE have."""

    tokenizer: ExtendedTokenizer
    output: ModularOutput
    references: LearnReferences
    journal_seconds: JournalSeconds
