"""A tokenizer of any kind: a modular directory, a subset of it, or a file."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.files import is_there, standard_input
from modtok_cli.base.hub import name_of
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import FilePath, Languages, is_path
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.read_file import read_file, read_stream
from modtok_cli.text.languages import language_list, optional_languages
from modtok_cli.tokenizer import modular_directory
from modtok_cli.tokenizer.formats import format_of_content
from modtok_cli.tokenizer.manifest import Manifest, absent
from modtok_cli.tokenizer.modular_directory import is_modular, signature_at
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer, places
from modtok_cli.tokenizer.protocol import Tokenizer
from modtok_cli.tokenizer.segmenters.interface import segmentation
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

STDIN = "stdin"
"""Name of a tokenizer that was piped, before its languages."""
KINDS = (
    "expected a modular directory, DIR@fr,en, a tokenizer.json, a SentencePiece .model, "
    "a tiktoken rank file, a name of the hub (owner/name) or -"
)
FILES = (
    "tokenizer.json", "tokenizer.model", "tekken.json", "tiktoken.model", "spiece.model",
    "sentencepiece.bpe.model",
)  # fmt: skip
"""Names of the tokenizer in directories of other programs, the first that is there."""


@public
def load(
    spec: Annotated[
        FilePath,
        Option("What to open, as listed above.", hub="tokenizer", accepts=(is_path, "a path")),
    ],
) -> ModularTokenizer | Any:
    """Load a tokenizer of any kind that modtok reads.

    - `DIR`: a modular directory, as a `ModularTokenizer`;
    - `DIR@fr,en`: the subset of these languages, as a `Subtokenizer`;
    - a `tokenizer.json`: by modtok's encoder if the ids are the same, else by the library;
    - a SentencePiece `.model`, Mistral's tekken JSON;
    - a tiktoken rank file, which does not contain its pattern: the one is taken that splits the
      fewest of its tokens; `FILE#NAME` names another (cl100k, llama3, o200k, r50k, qwen2, qwen35,
      tekken, kimi), `FILE#REGEX` gives one;
    - a directory with one of these files;
    - `-`: any of these files on standard input;
    - `owner/name`, `owner/name@revision`, `owner/name@revision@fr,en` of the Hugging Face hub, and
      `gpt-4o` and other names of tiktoken, from the caches of their libraries.

    The content decides the format, not the name. All encode and decode (`Tokenizer`); a special
    token that is written in a text is plain text to them: user input must not end a document.

    Examples:
        >>> modtok.load("tokenizer").languages
        ('en', 'fi', 'fr')
        >>> tokenizer = modtok.load("tokenizer@fi")
        >>> tokenizer.decode(tokenizer.encode("Hyvää päivää"))
        'Hyvää päivää'

    Raises:
        UsageError: the file does not exist, or the directory lacks the language.
        ModtokError: it is damaged, or of an unknown kind; names the file and the field.
    """
    return open_spec(spec)


class ModularSpec(NamedTuple):
    """What `DIR` and `DIR@fr,en` name; `languages` is None for all."""

    directory: Path
    languages: list[str] | None


def modular_of(spec: FilePath) -> ModularSpec | None:
    """The modular directory that a specification names; None of any other tokenizer."""
    if is_modular(Path(spec)):
        return ModularSpec(Path(spec), None)
    head, tail = split_spec(str(spec))
    if tail is None or not is_modular(Path(head)):
        return None
    return ModularSpec(Path(head), language_list(tail, name_of(str(spec)).removesuffix(tail)))


def open_spec(
    spec: FilePath | ModularTokenizer | Tokenizer, *, progress: Progress = SILENT
) -> ModularTokenizer | Tokenizer:
    """As `load`; what is a tokenizer stays."""
    if not isinstance(spec, str | os.PathLike):
        return spec
    modular = modular_of(spec)
    if modular and modular.languages is None:
        return ModularTokenizer.load(modular.directory)
    return open_tokenizer(spec, progress=progress)


def open_whole(
    spec: FilePath | ModularTokenizer | Tokenizer, languages: Languages | None = None
) -> tuple[ModularTokenizer | Tokenizer, list[str] | None]:
    """A modular tokenizer, with the languages that `DIR@fr,en` or `languages` name; or another one.

    Raises:
        UsageError: languages of another tokenizer, or of `DIR@fr,en`.
    """
    modular = modular_of(spec) if isinstance(spec, str | os.PathLike) else None
    whole = ModularTokenizer.load(modular.directory) if modular else open_spec(spec)
    named = modular.languages if modular else None
    if languages is None:
        return whole, named
    if not isinstance(whole, ModularTokenizer):
        raise UsageError("--langs requires a modular directory", where=whole.name)
    if named is not None:
        raise _selected(spec)
    return whole, language_list(languages)


def open_tokenizer(
    spec: str | os.PathLike[str],
    *,
    stdin: BinaryIO | None = None,
    progress: Progress = SILENT,
) -> Tokenizer:
    """As `load`, with all languages of a modular directory as one `Subtokenizer`."""
    spec = str(spec)
    if spec == "-":
        data = read_stream(stdin or standard_input(), "stdin")
        if not data:
            raise ModtokError(
                "standard input is empty",
                where="stdin",
                remedy="pipe a tokenizer, or name one with -t",
            )
        tokenizer = open_bytes(data, STDIN, "stdin", progress=progress)
        if isinstance(tokenizer, Subtokenizer) and tokenizer.languages:
            tokenizer.name = f"{STDIN}@{','.join(tokenizer.languages)}"
        return tokenizer
    if modular := modular_of(spec):
        return open_subset(*modular, name=name_of(spec))
    head, pattern = split_pattern(spec)
    if not is_there(head):
        raise _unknown(spec)
    path = file_of(Path(head))
    data = read_file(path, factor=16)  # a JSON object of many short strings
    return open_bytes(data, name_of(spec), str(path), variant=pattern, progress=progress)


def file_of(path: Path) -> Path:
    """The tokenizer of a directory of other programs; a file is one itself."""
    if not path.is_dir():
        return path
    if not (there := tokenizers_in(path)):
        raise UsageError("the directory contains no tokenizer", where=path, remedy=KINDS)
    return there[0]


def tokenizers_in(directory: Path) -> list[Path]:
    """The files of a directory of another program that hold its tokenizer, the best first."""
    there = [directory / name for name in FILES if (directory / name).is_file()]
    return [*there, *sorted(directory.glob("*.tiktoken"))]


def split_pattern(spec: str) -> tuple[str, str | None]:
    """File and pattern of `FILE#pattern`; None where none is given.

    An existing path is never split.
    """
    for at in (i for i, letter in enumerate(spec) if letter == "#" and not is_there(spec)):
        if is_there(spec[:at]):
            return spec[:at], spec[at + 1 :]
    return spec, None


def split_spec(spec: str) -> tuple[str, str | None]:
    """Directory and languages of `DIR@fr,en`; None where none are named.

    An existing path is never split.
    """
    head, at, tail = spec.rpartition("@")
    return (head, tail) if at and not is_there(spec) else (spec, None)


def home_of(tokenizer: Tokenizer) -> Path | None:
    """Modular directory that a tokenizer is part of; None if of none, or if it has changed."""
    home = getattr(tokenizer, "directory", None)
    own = None if home is None else signature_at(home)
    return home if own and own == getattr(tokenizer, "parent_signature", None) else None


def opened(
    tokenizer: FilePath | Tokenizer | ModularTokenizer,
    languages: Languages | None = None,
    *,
    progress: Progress = SILENT,
) -> Tokenizer:
    """The tokenizer of some languages of what `tokenizer` is or names."""
    if isinstance(tokenizer, str | os.PathLike):
        return open_tokenizer(subset_spec(tokenizer, languages), progress=progress)
    if isinstance(tokenizer, ModularTokenizer):
        return tokenizer.full() if languages is None else tokenizer.subset(languages)
    if languages is not None:
        raise UsageError("is not a modular tokenizer", where=tokenizer.name, remedy="omit --langs")
    return tokenizer


def subset_spec(tokenizer: FilePath, langs: Languages | None) -> str:
    """The tokenizer specification equivalent to `-t TOKENIZER --langs LANGS`.

    >>> subset_spec("tokenizer", "fr,en")
    'tokenizer@fr,en'
    """
    languages = optional_languages(langs)
    if languages is None:
        return str(tokenizer)
    if "@" in str(tokenizer) and not is_there(tokenizer):
        raise _selected(tokenizer)
    return f"{tokenizer}@{','.join(languages)}"


def _selected(spec: object) -> UsageError:
    remedy = "omit --langs or the @ suffix"
    return UsageError(f"-t {spec} already selects languages", remedy=remedy)


def _unknown(spec: str) -> UsageError:
    """The error for a specification that names no file and no modular directory."""
    head, tail = split_spec(spec)
    if tail is not None and is_there(head):
        open_tokenizer(head)  # refuses other files and directories
        what = "is no modular directory, of which languages can be named"
        remedy = f"make one: modtok adopt {name_of(head)} -o adopted"
        return UsageError(what, where=name_of(head), remedy=remedy)
    if head == "tokenizer":  # of the workspace
        return absent(Path(head))
    return missing(spec, KINDS)


def open_bytes(
    data: bytes, name: str, where: str, *, variant: str | None = None, progress: Progress = SILENT
) -> Tokenizer:
    """The tokenizer of a file with the content `data`; `where` is for messages.

    `variant`: as in `FILE#variant`, see `formats.Format`. `progress` is warned of
    settings of the file that are not applied.
    """
    if not data:
        raise ModtokError("the file is empty", where=where)
    format = format_of_content(data)
    if variant is not None and not (format and format.has_variants):
        raise UsageError(f"'#{variant}' is for tiktoken rank files only", where=where)
    if format is None:
        raise ModtokError("unknown kind of tokenizer", where=where, remedy=KINDS)
    tokenizer = format.read(data, name, where, variant)
    if ignored := getattr(tokenizer, "ignored", ()):
        progress.warn(f"{where}: not applied: {', '.join(ignored)}")
    if line := getattr(tokenizer, "line", ""):
        progress.warn(f"{where}: {line}")
    return tokenizer


def open_subset(
    directory: Path, languages: str | Iterable[str] | None, name: str | None = None
) -> Subtokenizer:
    """The tokenizer of a set of languages of a modular directory; of T with None."""

    def choose(manifest: Manifest) -> Sequence[int]:
        known = [row.language for row in manifest.languages]
        if languages is not None:
            return places(known, languages)
        modular = segmentation(manifest.segmentation)
        return range(len(known)) if modular.whole_needs_members else ()

    stored = modular_directory.read(directory, choose)
    modular, members, where = (
        modular_directory.segmenter_of(stored),
        stored.token_members,
        stored.arrays.where,
    )
    names, chosen = [row.language for row in stored.manifest.languages], stored.columns
    modular.check_part(members, [names[column] for column in chosen], where)
    everything = languages is None or (modular.covers and len(chosen) == len(names))
    columns = range(len(chosen))
    segmenter = modular.subset(members, columns, None if everything else members.union(columns))
    segmenter.check(where)
    return Subtokenizer(
        segmenter,
        languages=[each for i, each in enumerate(names) if everything or i in chosen],
        parent_signature=stored.manifest.signature,
        name=name,
        directory=directory.absolute(),
    )
