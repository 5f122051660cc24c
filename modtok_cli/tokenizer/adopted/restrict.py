"""A `tokenizer.json` of any origin, restricted to some of its tokens.

Everything else stays as it is: normalizer, pre-tokenizer, decoder, settings of the model. Ids
become contiguous and keep their order, wherever they occur in the file.

Of BPE merges, those stay whose parts and result stay. A text whose segmentation and its
derivation consist of kept tokens is then segmented as before: at each step the whole tokenizer
applies the applicable merge of lowest rank; this merge is kept, and it is of lowest rank among
the kept ones too.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Progress
from modtok_cli.base.read_file import check_depth
from modtok_cli.tokenizer.vocabulary import BYTE_NAMES, spell

IdMap = Mapping[int, int]

# Special tokens that a vocabulary reserves for later use. They are not trained.
_RESERVED = re.compile(
    r"[<\[][|]?_?(unused|extra_id|reserved|placeholder|dummy|pad|special)"
    r"(_special|_token|_tok)*[-_]?\d+[|]?[>\]]",
    re.IGNORECASE,
)
# A byte-level BPE spells 256 bytes; a model with byte fallback has these tokens for them.
BYTE_TOKENS = frozenset(BYTE_NAMES)


def vocabulary_of(document: Mapping[str, Any], where: str) -> dict[str, int]:
    """Token → id of a `tokenizer.json`, added tokens included.

    Raises:
        UsageError: a type that cannot be restricted.
        ModtokError: the document is damaged; names the field.
    """
    check_document(document, where)
    model = document["model"]
    kind = model.get("type", "BPE" if "merges" in model else None)
    if kind not in ("BPE", "Unigram"):
        raise UsageError(
            f"a tokenizer of type '{kind}' cannot be restricted",
            where=where,
            remedy="BPE and Unigram can; WordPiece takes the longest token of a word, so that each "
            "new one changes words of other languages",
        )
    if not isinstance(model.get("vocab"), dict if kind == "BPE" else list):
        raise ModtokError("field 'model.vocab' is damaged", where=where)
    ids = tokens_of(document)
    for index in ids.values():
        if type(index) is not int or not 0 <= index < 1 << 31:
            raise ModtokError(f"field 'model.vocab': id {index!r} is invalid", where=where)
    return ids


def tokens_of(document: Mapping[str, Any]) -> dict[str, int]:
    """Token → id of a checked `tokenizer.json` of any type, added tokens included."""
    return {**_model_tokens(document), **_added_tokens(document)}


def names_of(document: Mapping[str, Any]) -> dict[int, str]:
    """Id → token of a checked `tokenizer.json`; a token that has two ids occurs twice."""
    parts = (_model_tokens(document), _added_tokens(document))
    return {index: name for part in parts for name, index in part.items()}


def _model_tokens(document: Mapping[str, Any]) -> dict[str, int]:
    vocab = document["model"].get("vocab")
    if isinstance(vocab, dict):
        return dict(vocab)
    return {row[0]: index for index, row in enumerate(vocab or ())}


def _added_tokens(document: Mapping[str, Any]) -> dict[str, int]:
    return {token["content"]: token["id"] for token in document.get("added_tokens") or ()}


def with_rows(document: dict[str, Any], rows: int, where: str) -> tuple[dict[str, Any], list[str]]:
    """A checked `tokenizer.json` without added tokens that a table of `rows` has no row for.

    Returns:
        The document, and the tokens that were left out.

    Raises:
        ModtokError: a token that texts need has no row.
    """
    ids = tokens_of(document)
    left_out = {name: index for name, index in ids.items() if index >= rows}
    if not left_out:
        return document, []
    model, added = document["model"], _added_tokens(document)
    framed = orjson.dumps(document.get("post_processor")).decode()
    needed = [
        name for name in left_out if name not in added or orjson.dumps(name).decode() in framed
    ]
    if needed or (
        isinstance(model.get("vocab"), list) and left_out.keys() & _model_tokens(document).keys()
    ):
        name = min(needed or left_out)
        raise ModtokError(
            f"token {name!r} (id {ids[name]}) has no row: config.json says {rows:,}",
            where=where,
            remedy="give it one: model.resize_token_embeddings(len(tokenizer))",
        )
    tokens = [each for each in document["added_tokens"] if each["content"] not in left_out]
    if isinstance(vocab := model.get("vocab"), dict):
        vocab = {name: index for name, index in vocab.items() if name not in left_out}
        model = {**model, "vocab": vocab}
    return {**document, "model": model, "added_tokens": tokens}, [*left_out]


def warn_of_rows(path: Path, left_out: Sequence[str], progress: Progress) -> None:
    """Name what `with_rows` left out of the tokenizer at `path`."""
    if left_out:
        progress.warn(f"{path}: tokens without a row are left out: {', '.join(left_out)}")


def indispensable(document: Mapping[str, Any]) -> Int32Array:
    """Ids that every restriction of a checked document keeps, ascending.

    Bytes, the unknown token, special tokens, and the tokens that the post-processor adds. Special
    tokens that are only reserved, such as `<unused7>`, are not among them; nor are added tokens
    that are not special, such as runs of line ends: they are part of the vocabulary.
    """
    ids, model = tokens_of(document), document["model"]
    names = {
        token["content"]
        for token in document.get("added_tokens") or ()
        if token.get("special") and not _RESERVED.fullmatch(token["content"])
    }
    unknown = model.get("unk_token")
    if unknown in ids:
        names.add(unknown)
    needed = {ids[name] for name in names}
    if type(model.get("unk_id")) is int:
        needed.add(model["unk_id"])
    needed.update((ids[at] for ids, at in _id_places(document.get("post_processor"))))
    needed |= {index for name, index in ids.items() if name in BYTE_TOKENS}
    if is_byte_level(document):
        alphabet = set(spell(bytes(range(256))))
        needed |= {index for name, index in ids.items() if name in alphabet}
    return np.array(sorted(needed), dtype=np.int32)


def restrict(document: Mapping[str, Any], rows: Int32Array, where: str) -> dict[str, Any]:
    """A checked document with the tokens `rows`, ascending ids with all `indispensable` ones.

    Token `rows[i]` gets the id i. `document` is not changed.

    Example: of the BPE {a: 0, b: 1, c: 2, ab: 3, abc: 4} with the merges a b, ab c, the ids
    [0, 1, 3] leave {a: 0, b: 1, ab: 2} and the merge a b.
    """
    strange = np.setdiff1d(rows, [*names_of(document)])
    if len(strange):
        raise UsageError(f"the tokenizer has no token with id {strange[0]}", where=where)
    new_of = {int(old): new for new, old in enumerate(rows.tolist())}
    model = dict(document["model"])
    if isinstance(model["vocab"], Mapping):
        _restrict_bpe(model, new_of)
    else:
        _restrict_unigram(model, new_of)
    return with_places({**restrict_frame(document, new_of), "model": model})


def with_places(document: dict[str, Any]) -> dict[str, Any]:
    """A BPE's `tokenizer.json` whose added tokens have their ids in the `tokenizers` library too.

    The library gives an added token that `model.vocab` lacks the number of tokens before it. Where
    it is to have another id, all added tokens go into `model.vocab`.

    Example: <e> of the BPE {a: 0, ab: 2} with the added token <e>: 1 would get the id 2.

    Raises:
        UsageError: the word of a special token would become this token by `ignore_merges`.
    """
    model, added = document["model"], _added_tokens(document)
    vocab = model.get("vocab")
    if not isinstance(vocab, Mapping):
        return document
    outside = [index for name, index in added.items() if name not in vocab]
    last = max(vocab.values(), default=-1)
    if outside == [*range(len(vocab), len(vocab) + len(outside))] and last < len(vocab):
        return document
    for token in document["added_tokens"] if model.get("ignore_merges") else ():
        name = token["content"]
        # Other names are several words: a pre-tokenizer divides letters from punctuation.
        if token.get("special") and name not in vocab and name.isascii() and name.isalpha():
            raise UsageError(
                f"special token {name!r} must go into model.vocab to have its id, where "
                "ignore_merges finds it for the word in text",
                where="tokenizer.json",
                remedy=f"rename it there, such as <{name}>",
            )
    return {**document, "model": {**model, "vocab": {**vocab, **added}}}


def restrict_frame(document: Mapping[str, Any], new_of: IdMap) -> dict[str, Any]:
    """Everything but the model of a `tokenizer.json` restricted to the ids of `new_of`."""
    result = {**document, "truncation": None, "padding": None}
    result["added_tokens"] = [
        {**token, "id": new_of[token["id"]]}
        for token in document.get("added_tokens") or ()
        if token["id"] in new_of
    ]
    result["post_processor"] = processor = deepcopy(document.get("post_processor"))
    for holder, key in _id_places(processor):
        holder[key] = new_of[holder[key]]
    return result


def _restrict_bpe(model: dict[str, Any], new_of: IdMap) -> None:
    vocab = {name: new_of[index] for name, index in model["vocab"].items() if index in new_of}
    merges = []
    prefix = model.get("continuing_subword_prefix") or ""
    for merge in model.get("merges") or ():
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        result = left + right.removeprefix(prefix)
        if left in vocab and right in vocab and result in vocab:
            merges.append(merge)
    model["vocab"] = dict(sorted(vocab.items(), key=lambda item: item[1]))
    model["merges"] = merges


def _restrict_unigram(model: dict[str, Any], new_of: IdMap) -> None:
    rows = model["vocab"]
    model["vocab"] = [rows[old] for old in sorted(new_of) if old < len(rows)]
    if type(model.get("unk_id")) is int:
        model["unk_id"] = new_of[model["unk_id"]]


def _id_places(part: Any) -> Iterator[tuple[Any, int]]:
    """Lists with ids, and where: `special_tokens` of templates, `cls` and `sep` of others."""
    if isinstance(part, list):
        for one in part:
            yield from _id_places(one)
    elif isinstance(part, Mapping):
        for value in part.values():
            yield from _id_places(value)
        tokens = part.get("special_tokens")
        for token in tokens.values() if isinstance(tokens, Mapping) else ():
            yield from ((token["ids"], place) for place in range(len(token["ids"])))
        for pair in (part.get("cls"), part.get("sep")):
            if isinstance(pair, list) and len(pair) == 2 and type(pair[1]) is int:
                yield pair, 1


def is_byte_level(
    document: Mapping[str, Any], parts: Sequence[str] = ("pre_tokenizer", "decoder")
) -> bool:
    """Whether a pre-tokenizer or decoder spells bytes as visible characters."""

    def has_level(part: Any) -> bool:
        if isinstance(part, Mapping):
            return part.get("type") == "ByteLevel" or any(map(has_level, part.values()))
        return isinstance(part, list) and any(map(has_level, part))

    return any(has_level(document.get(part)) for part in parts)


def writes_all_text(document: Mapping[str, Any]) -> bool:
    """Whether each text has tokens: bytes are spelled, and all 256 are in the vocabulary."""
    model = document["model"]
    vocab = model.get("vocab") or ()
    names = vocab.keys() if isinstance(vocab, Mapping) else {row[0] for row in vocab}
    if model.get("byte_fallback") and names >= BYTE_TOKENS:
        return True
    spelled = is_byte_level(document, ("normalizer", "pre_tokenizer"))
    return spelled and names >= set(spell(bytes(range(256))))


def check_document(document: Mapping[str, Any], where: str) -> None:
    """Check the types of all that ids, merges and restrictions are read from.

    The type of the model and the ids in its vocabulary are left to `vocabulary_of`.
    """
    model = document.get("model")
    if not isinstance(model, Mapping):
        raise ModtokError("field 'model' is missing", where=where)
    large = ("vocab", "merges")
    check_depth({**document, "model": {k: v for k, v in model.items() if k not in large}}, where)
    for path in _damaged(document, model):
        raise ModtokError(f"field '{path}' is damaged", where=where)


def _damaged(document: Mapping[str, Any], model: Mapping[str, Any]) -> Iterator[str]:
    for name in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix"):
        if not isinstance(model.get(name), str | None):
            yield f"model.{name}"
    vocab, merges = model.get("vocab"), model.get("merges")
    if isinstance(vocab, list):
        for index, row in enumerate(vocab):
            if not (isinstance(row, list) and len(row) == 2 and isinstance(row[0], str)):
                yield f"model.vocab[{index}]"
            elif type(row[1]) not in (int, float):
                yield f"model.vocab[{index}][1]"
        unknown = model.get("unk_id")
        if unknown is not None and (type(unknown) is not int or not 0 <= unknown < len(vocab)):
            yield "model.unk_id"
    if not isinstance(merges, list | None):
        yield "model.merges"
    for rank, row in enumerate(merges or ()):
        parts = row.split(" ") if isinstance(row, str) else row
        if not (isinstance(parts, list) and len(parts) == 2 and _are_texts(parts)):
            yield f"model.merges[{rank}]"
    yield from _damaged_tokens(document.get("added_tokens"))
    yield from _damaged_processor(document.get("post_processor"), "post_processor")


def _are_texts(parts: list[Any]) -> bool:
    return isinstance(parts[0], str) and isinstance(parts[1], str)


def _damaged_tokens(tokens: Any) -> Iterator[str]:
    if not isinstance(tokens, list | None):
        yield "added_tokens"
        return
    for index, token in enumerate(tokens or ()):
        fields = token if isinstance(token, Mapping) else {}
        if not isinstance(fields.get("content"), str) or type(fields.get("id")) is not int:
            yield f"added_tokens[{index}]"


def _damaged_processor(part: Any, path: str) -> Iterator[str]:
    """Lists of ids that are none, wherever a processor has them."""
    if isinstance(part, list):
        for index, one in enumerate(part):
            yield from _damaged_processor(one, f"{path}[{index}]")
    elif isinstance(part, Mapping):
        for name, value in part.items():
            yield from _damaged_processor(value, f"{path}.{name}")
        tokens = part.get("special_tokens")
        for name, token in tokens.items() if isinstance(tokens, Mapping) else ():
            ids = token.get("ids") if isinstance(token, Mapping) else None
            if not (isinstance(ids, list) and all(type(index) is int for index in ids)):
                yield f"{path}.special_tokens.{name}.ids"
