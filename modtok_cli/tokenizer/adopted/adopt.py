"""Make an existing tokenizer modular: T is the original, a language has what its text uses."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import orjson

from modtok_cli.base.arrays import BoolArray, Int64Array
from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.files import check_new, is_there
from modtok_cli.base.hub import name_of
from modtok_cli.base.membership import Membership
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Data, FilePath, Force, Langs, Threads, optional_path
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.read_file import read_file, read_object
from modtok_cli.base.remote import path_of
from modtok_cli.text.corpus import count_languages
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading
from modtok_cli.text.workspace import language_files
from modtok_cli.tokenizer.adopted.converted import check_same
from modtok_cli.tokenizer.adopted.file_ids import check_ids
from modtok_cli.tokenizer.adopted.restrict import check_document, warn_of_rows, with_rows
from modtok_cli.tokenizer.adopted.segmenter import ADOPTED_ROWS, Library, ModularLibrary
from modtok_cli.tokenizer.adopted.text_form import has_model
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile, smallest
from modtok_cli.tokenizer.encoding.external import External
from modtok_cli.tokenizer.formats import format_of_content
from modtok_cli.tokenizer.formats.hugging_face import HuggingFace, LibraryTokenizer
from modtok_cli.tokenizer.formats.tiktoken import RankTokenizer
from modtok_cli.tokenizer.manifest import Corpus
from modtok_cli.tokenizer.modular_directory import check_place
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import file_of, open_bytes, split_pattern
from modtok_cli.tokenizer.parameters import Coverage, ModularOutput, MostUsed
from modtok_cli.tokenizer.protocol import Tokenizer
from modtok_cli.tokenizer.segmenters.json_frame import added_tokens, parse_document
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

END_OF_TEXT = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>")
"""Usual names of the token between documents."""
ADOPTED_END = "end_of_text"
"""Setting of an adopted tokenizer: the text of its token between documents, or None."""
ADOPTED_MARKS = "marks"
"""Setting of an adopted tokenizer: added tokens that its chat templates name, in every language."""
_CONFIG_LIMIT = 1 << 26


def end_among(specials: Sequence[str]) -> int | None:
    """The place of the token between documents in a list of special tokens; None without one."""
    return next((specials.index(text) for text in END_OF_TEXT if text in specials), None)


def read_tokenizer_file(source: FilePath, progress: Progress = SILENT) -> TokenizerFile:
    """The tokenizer of a file, or of the directory of a model, without tokens without a row.

    A rank file (`FILE#pattern`), tekken.json and a SentencePiece `.model` are read as the
    `tokenizer.json` with the same ids; see `converted`.

    Raises:
        ModtokError: the `tokenizers` library does not read it, or has other ids.
    """
    file = _read(source, progress)
    check_ids(orjson.dumps(file.document), file.where)
    return file


def _read(source: FilePath, progress: Progress) -> TokenizerFile:
    head, pattern = split_pattern(str(source))
    if not is_there(head):
        raise missing(head, "pass the file of a tokenizer, or the directory of a model")
    path = file_of(Path(head))
    data, where = read_file(path, factor=16), str(path)
    if isinstance(format_of_content(data), HuggingFace):
        document = parse_document(data, where)
        rows = find_rows(source)
        if rows is not None:
            check_document(document, where)
            document, left_out = with_rows(document, rows, where)
            warn_of_rows(Path(head), left_out, progress)
        return TokenizerFile(document, where)
    owner = open_bytes(data, name_of(str(source)), where, variant=pattern, progress=progress)
    if isinstance(owner, Subtokenizer):
        return TokenizerFile(parse_document(owner.to_json(), where), where)
    assert isinstance(owner, External)
    return _with_declared(
        _converted(owner, where, progress), _place(source) / "tokenizer_config.json"
    )


def _converted(owner: External, where: str, progress: Progress) -> TokenizerFile:
    file, line = converted_file(owner, where)
    if line:
        progress.warn(f"{where}: {line}")
    return file


def as_library(tokenizer: Tokenizer, progress: Progress = SILENT) -> Subtokenizer:
    """The tokenizer; what a library runs, as its `tokenizer.json`, which has the same ids.

    Raises:
        UsageError: it cannot be one.
    """
    if isinstance(tokenizer, Subtokenizer):
        return tokenizer
    name = tokenizer.name
    if not isinstance(tokenizer, External):  # of another package
        raise UsageError(
            "its bytes and special tokens are not known",
            where=name,
            remedy="give a tokenizer.json, a SentencePiece .model or a rank file",
        )
    if isinstance(tokenizer, RankTokenizer):
        return Subtokenizer(Library(_converted(tokenizer, name, progress)), name=name)
    is_json = isinstance(tokenizer, LibraryTokenizer)
    document = parse_document(tokenizer.content, name) if is_json else tokenizer.document()
    return Subtokenizer(Library(TokenizerFile(document, name)), name=name)


def _with_declared(file: TokenizerFile, config: Path) -> TokenizerFile:
    """The file with the added tokens that only a tokenizer_config.json has, as for rank files."""
    declared = _setting(config, "added_tokens_decoder")
    added, ids = [], {*file.ids.values()}
    for index, token in declared.items() if isinstance(declared, Mapping) else ():
        name = token.get("content") if isinstance(token, Mapping) else None
        if not isinstance(name, str) or not index.isdecimal():
            raise ModtokError("field 'added_tokens_decoder' is damaged", where=config)
        if name not in file.ids and int(index) not in ids:
            added.append({**added_tokens([name])[0], **token, "id": int(index)})
    return with_added(file, added)


def with_added(file: TokenizerFile, added: Sequence[Mapping[str, Any]]) -> TokenizerFile:
    """The file with more added tokens, as `added_tokens` of a `tokenizer.json` has them."""
    model, tokens = file.document["model"], [*(file.document.get("added_tokens") or ()), *added]
    if file.is_bpe:
        model = {**model, "vocab": model["vocab"] | {each["content"]: each["id"] for each in added}}
    return TokenizerFile({**file.document, "model": model, "added_tokens": tokens}, file.where)


def converted_file(owner: External, where: str) -> tuple[TokenizerFile, str]:
    """The `tokenizer.json` of a library's tokenizer, and a line on texts that get other ids, or "".

    Raises:
        UsageError: it cannot be one.
    """
    file = TokenizerFile(owner.document(), where)
    exact = has_model(file.document)
    return file, check_same(Subtokenizer(Library(file)), owner, file, where, exact=exact)


def check_output(output: Path, *, force: bool = False) -> None:
    """Refuse an output that exists, unless it is a modular directory and `force` is given."""
    check_place(output)
    check_new(output, force=force)


def _place(source: FilePath) -> Path:
    """The directory of a tokenizer."""
    path = Path(split_pattern(str(source))[0])
    return path if path.is_dir() else path.parent


def find_end_of_text(source: FilePath, file: TokenizerFile) -> str | None:
    """The token that ends a text, of the tokenizer at `source`; None if nothing tells.

    It is `eos_token` of tokenizer_config.json, else the first `eos_token_id` of
    generation_config.json or config.json, else a special token with a usual name.
    """
    place = _place(source)
    candidates: list[object] = [_setting(place / "tokenizer_config.json", "eos_token")]
    for name in ("generation_config.json", "config.json"):
        index = _setting(place / name, "eos_token_id")
        index = index[0] if isinstance(index, list) and index else index
        if type(index) is int and 0 <= index < file.size:
            candidates.append(file.names[index])
    for value in (*candidates, *END_OF_TEXT):
        text = value.get("content") if isinstance(value, Mapping) else value
        if isinstance(text, str) and text in file.ids:
            return text
    return None


def find_marks(source: FilePath, file: TokenizerFile) -> list[str]:
    """Added tokens that the chat templates beside a tokenizer name, such as <think>.

    Special tokens are in every language without it, and text may have line ends and spaces.
    """
    place = _place(source)
    templates = [place / "chat_template.jinja", *place.glob("additional_chat_templates/*.jinja")]
    texts = [read_file(path).decode(errors="replace") for path in templates if path.is_file()]
    text = "".join([*texts, str(_setting(place / "tokenizer_config.json", "chat_template"))])
    names = [file.names[index] for index in np.flatnonzero(file.added & ~file.special)]
    return [name for name in names if name in text and not name.isspace()]


def find_rows(source: FilePath) -> int | None:
    """Rows of the model with the tokenizer at `source`, by its config.json; None without one."""
    config = _place(source) / "config.json"
    text = _setting(config, "text_config")
    rows = text.get("vocab_size") if isinstance(text, Mapping) else None
    rows = rows or _setting(config, "vocab_size")
    return rows if type(rows) is int else None


def _setting(path: Path, name: str) -> object:
    """A field of a JSON file; None if there is none."""
    return read_object(path, largest=_CONFIG_LIMIT).get(name) if path.is_file() else None


def token_counts(file: TokenizerFile, counts: WordCounts) -> Int64Array:
    """How often each token occurs in a text; (V,) int64."""
    return Subtokenizer(Library(file)).token_occurrences(counts)


def members(
    file: TokenizerFile, counts: Int64Array, k: int | None = None, coverage: float | None = None
) -> BoolArray:
    """The tokens of a text and all that they are built from, (V,) bool.

    counts (V,) int64 are as in `token_counts`. With `k`, the k tokens of greatest use, needed
    ones included; with `coverage`, as few as possible such that the text takes at most
    1 + (1 - coverage) times as many tokens. See `derivation.prune`.
    """
    mask = file.closed(counts > 0)
    return smallest(mask, counts, file.derivation, file.merges, file.pieces, k, coverage)


@public
def adopt(
    tokenizer: Annotated[
        FilePath,
        Option(
            "A tokenizer.json, SentencePiece .model, tekken.json or tiktoken rank file, or a "
            "Hugging Face model (directory or name on the hub).",
            argument=True,
            metavar="TOKENIZER",
            hub="tokenizer",
        ),
    ],
    languages: Langs = None,
    *,
    data: Data = Path("data"),
    top: MostUsed = None,
    coverage: Coverage = None,
    end_of_text: Annotated[
        str | None,
        Option(
            "Token that ends a document. For pretrain; default: eos_token of the files beside "
            "the tokenizer.",
            metavar="TOKEN",
        ),
    ] = None,
    output: ModularOutput = None,
    reading: Reading = Reading(),
    threads: Threads = None,
    force: Force = False,
    progress: Progress = SILENT,
) -> ModularTokenizer:
    """Make an existing tokenizer modular.

    The vocabulary and its ids stay as they are. A language gets the tokens that its text in
    data/ uses, and the tokens from which merges build them. Then extract, slice, nsl,
    fairness and inspect work for any set of the languages, and pretrain --init-from continues
    the model with it.

    TOKENIZER is a byte-level BPE, a SentencePiece BPE or a Unigram tokenizer; files other than
    tokenizer.json become one with the same ids. Text in other languages stays lossless if the
    tokenizer has bytes.

    Returns:
        The tokenizer, which is written only if `output` is given.

    Examples:
        >>> adopted = modtok.adopt("bpe/fi.json", "en,fi", data="data")
        >>> adopted.subset("fi").size <= adopted.size
        True

    Raises:
        UsageError: another type of tokenizer, an unknown language or token, an invalid size, or
            `output` exists.
        ModtokError: the file is damaged, or there is no text.
    """
    source, place = tokenizer, optional_path(output)
    if place is not None:
        check_output(place, force=force)
    file = read_tokenizer_file(source, progress)
    if end_of_text is not None and end_of_text not in file.ids:
        raise UsageError(
            f"the tokenizer has no token '{end_of_text}'",
            where="--end-of-text",
            remedy="name a special token, as tokenizer.json spells it",
        )
    end_of_text = end_of_text or find_end_of_text(source, file)
    files = language_files(path_of(data), optional_languages(languages), reading, progress=progress)
    counted = count_languages(
        files, pretokenizer=file.pretokenizer, reading=reading, progress=progress, threads=threads
    )
    adopted = adopt_counts(
        file, counted, k=top, coverage=coverage, end_of_text=end_of_text, rows=find_rows(source),
        marks=find_marks(source, file), progress=progress,
    )  # fmt: skip
    if place is not None:
        adopted.save(place)
    return adopted


def adopt_counts(
    file: TokenizerFile,
    counted: Mapping[str, WordCounts],
    *,
    k: int | None = None,
    coverage: float | None = None,
    end_of_text: str | None = None,
    rows: int | None = None,
    marks: Sequence[str] = (),
    progress: Progress = SILENT,
) -> ModularTokenizer:
    """As `adopt`, from the word counts of each language; `end_of_text` is in all of them.

    `rows`: rows of the model's output matrix; `marks`: tokens of its chat templates.
    """
    if rows is not None:  # those without a token are part of the model's softmax
        file = TokenizerFile(file.document, file.where, rows)
    masks, corpora = {}, {}
    with progress.task("counting tokens", len(counted), "languages") as task:
        for language, counts in counted.items():
            if not len(counts):
                raise ModtokError(
                    f"the text of language '{language}' is empty",
                    remedy="add text, or omit the language from --langs",
                )
            masks[language] = members(file, token_counts(file, counts), k, coverage)
            corpora[language] = Corpus(counts.fingerprint(), **vars(counts.size))
            task.advance()
    settings = {
        "k": k, "coverage": coverage, ADOPTED_END: end_of_text, ADOPTED_ROWS: rows,
        ADOPTED_MARKS: list(marks),
    }  # fmt: skip
    return of_masks(file, masks, k=k, settings=settings, corpora=corpora)


def of_masks(
    file: TokenizerFile,
    masks: Mapping[str, BoolArray],
    *,
    algorithm: str = "adopt",
    k: int | None = None,
    budgets: Mapping[str, int] | None = None,
    settings: Mapping[str, Any],
    corpora: Mapping[str, Corpus],
) -> ModularTokenizer:
    """The file with the tokens (V,) bool of each language, and in all the end of text and the
    tokens of chat templates."""
    common = [settings.get(ADOPTED_END), *settings.get(ADOPTED_MARKS, ())]
    if ids := [file.ids[str(name)] for name in common if name is not None]:
        needed = file.closed(np.isin(np.arange(file.size), ids))
        masks = {language: mask | needed for language, mask in masks.items()}
    membership = Membership.of_columns(file.size, masks.values(), len(masks))
    return ModularTokenizer(
        algorithm=algorithm,
        languages=tuple(masks),
        k=k or int(membership.sizes().max()),
        segmenter=ModularLibrary.of_members(file, membership),
        token_membership=membership,
        settings=settings,
        corpora=corpora,
        budgets=budgets or {},
        where=file.where,
    )
