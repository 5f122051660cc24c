"""Files of a model with another vocabulary: token ids in configurations, sizes, outputs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import check_directory, check_new, is_vacant
from modtok_cli.model.architecture.stored_model import MORE_TEMPLATES, TOKENIZER, TOKENIZER_CONFIG

ADDED_TOKENS = "added_tokens.json"
# Files beside weights, configuration and vocabulary that hold for any vocabulary.
_COMPANION = re.compile(
    r"(LICEN[CS]E|NOTICE|COPYING|USE_POLICY|README)[^/]*|.*\.(md|py)|chat_template\.(jinja|json)"
    r"|((|image_|video_)pre)?processor_config\.json|normalizer\.json|special_tokens_map\.json"
    rf"|{MORE_TEMPLATES}/.*\.jinja",
    re.IGNORECASE,
)
_VOCABULARY = {
    TOKENIZER, TOKENIZER_CONFIG, ADDED_TOKENS, "vocab.json", "merges.txt", "vocab.txt",
    "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "tekken.json", "tiktoken.model",
}  # fmt: skip


def companions(path: Path, *, vocabulary: bool = False) -> list[str]:
    """Names of the files of a model that stay as they are beside other weights.

    Licences, model card, code, chat templates and settings of inputs; with `vocabulary` also the
    files of the tokenizer. Weights in other files or formats are left out.
    """
    files = [file.name for file in path.iterdir() if file.is_file()]
    files += [f"{MORE_TEMPLATES}/{file.name}" for file in (path / MORE_TEMPLATES).glob("*.jinja")]
    known = (
        name for name in files if (vocabulary and name in _VOCABULARY) or _COMPANION.fullmatch(name)
    )
    return sorted(known)


def copy_files(path: Path, names: Iterable[str], output: Path) -> None:
    """Copy these files of a model."""
    for name in names:
        (output / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(path / name, output / name)


def left_out(path: Path, output: Path) -> tuple[str, ...]:
    """Names of the files and folders of a model that `output` lacks; no hidden ones."""
    names = (file.name for file in path.iterdir() if not file.name.startswith("."))
    return tuple(sorted(name for name in names if not (output / name).exists()))


# Names of fields with token ids, such as bos_token_id, image_token_index, unk_index, im_end_id.
_ID_FIELD = re.compile(
    r"(^|_)token_(ids?|index|indices)$"
    r"|^((im|img|image|video|audio|vision|slice|tag|subs)_)?"
    r"(bos|eos|eot|eod|pad|unk|mask|cls|sep|start|end|patch|newline)_(ids?|index)$"
)
# What holds ids by its name, and counts or places that do not.
_MAYBE = re.compile(r"(^|_)(ids?|tokens?|index|indices)(_|$)")
_COUNT = re.compile(
    r"(^|_)(num|max|min|n|per|count|size|len|length|layers?|heads?|type|gpu|ratio|prob|dim|dropout"
    r"|ignore|position|hook|topk|block|attn|offset)(_|$)"
)

NewId = Callable[[int], int | None]


def with_ids(
    part: Any,
    change: NewId,
    *,
    limit: int = 0,
    dropped: list[str] | None = None,
    unknown: list[str] | None = None,
    name: str = "",
) -> Any:
    """A copy of a configuration with every token id changed.

    Fields are recognized by name, and have the shapes that transformers gives them. Where `change`
    returns None, the token is gone: an id becomes None, an entry of a list or of a table of names
    is left out, and a phrase with all its ids.

    Args:
        dropped: receives the names of fields that lost an id.
        unknown: receives the names of unchanged fields that look like ids below `limit`.

    >>> with_ids({"eos_token_id": [2, 5], "layers": 2}, {2: 0}.get)
    {'eos_token_id': [0], 'layers': 2}
    >>> with_ids({"sequence_bias": [[[2, 5], 1.0], [[2], 0.5]]}, {2: 0}.get)
    {'sequence_bias': [[[0], 0.5]]}
    """

    def walk(value: Any, path: str = name) -> Any:
        return with_ids(value, change, limit=limit, dropped=dropped, unknown=unknown, name=path)

    if isinstance(part, list):
        return [walk(one) for one in part]
    if not isinstance(part, Mapping):
        return part
    lost = [] if dropped is None else dropped
    result = {}
    for key, value in part.items():
        path = f"{name}.{key}" if name else key
        if (shape := _shape_of(key)) is not None:
            result[key] = _changed(value, shape, change, path, lost)
        else:
            if unknown is not None and _is_unknown(key, value, limit):
                unknown.append(path)
            result[key] = walk(value, path)
    return result


def unstated_ids(
    config: Mapping[str, Any], full: Mapping[str, Any], change: NewId
) -> dict[str, Any]:
    """Changed ids that `full`, with the defaults, has and `config` does not state.

    >>> unstated_ids({"eos_token_id": 1}, {"eos_token_id": 1, "unk_index": 3}, {3: 2}.get)
    {'unk_index': 2}
    """
    result: dict[str, Any] = {}
    for key, value in full.items():
        if not isinstance(key, str):  # names by number: labels
            continue
        if (shape := _shape_of(key)) is not None:
            if key not in config and (new := _changed(value, shape, change, key, [])) != value:
                result[key] = new
            continue
        part = config.get(key, {})
        if not isinstance(value, Mapping) or not isinstance(part, Mapping):
            continue
        if inner := unstated_ids(part, value, change):
            result[key] = inner
    return result


def _shape_of(key: str) -> _Shape | None:
    return _SHAPES.get(key) or (_each if _ID_FIELD.search(key) else None)


def _changed(value: Any, shape: _Shape, change: NewId, path: str, lost: list[str]) -> Any:
    """A field of ids with new ids; None if none is left."""
    gone = []

    def noting(index: int) -> int | None:
        new = change(index)
        if new is None:
            gone.append(index)
        return new

    result = shape(value, noting)
    if gone:
        lost.append(path)
    return None if gone and result in ([], {}) else result


def _is_unknown(key: str, value: Any, limit: int) -> bool:
    """Whether a field that is not known has ids by its name and its values."""
    if not _MAYBE.search(key) or _COUNT.search(key):
        return False
    values = [value]
    while values and isinstance(values[0], list):
        values = [one for each in values if isinstance(each, list) for one in each]
    return bool(values) and all(type(one) is int and 0 <= one < limit for one in values)


_Shape = Callable[[Any, NewId], Any]


def _each(value: Any, change: NewId) -> Any:
    """An id, a list of ids, or ids by name."""
    if isinstance(value, list):
        return [new for one in value if (new := _each(one, change)) is not None]
    if isinstance(value, Mapping):
        new = {key: _each(one, change) for key, one in value.items()}
        return {key: one for key, one in new.items() if one is not None}
    return change(value) if type(value) is int and value >= 0 else value


def _phrases(value: Any, change: NewId) -> Any:
    """A list of phrases, which may be nested; a phrase is a list of ids."""
    if not isinstance(value, list):
        return value
    if value and all(type(one) is int for one in value):
        new = [change(one) for one in value]
        return None if None in new else new
    phrases = [new for one in value if (new := _phrases(one, change)) is not None]
    return phrases if phrases or not value else None


def _places(value: Any, change: NewId) -> Any:
    """A list of [place, id]; an id may be missing."""
    if not isinstance(value, list):
        return value
    places = []
    for one in value:
        pair = isinstance(one, list) and len(one) == 2 and type(one[1]) is int
        new = [one[0], change(one[1])] if pair else one
        if not pair or new[1] is not None:
            places.append(new)
    return places


def _biases(value: Any, change: NewId) -> Any:
    """A list of [phrase, number], or a table of numbers by phrases as Python writes them."""
    if isinstance(value, Mapping):
        pairs = [([int(one) for one in re.findall(r"\d+", key)], n) for key, n in value.items()]
        changed = [(_phrases(phrase, change), number) for phrase, number in pairs]
        return {str(tuple(phrase)): number for phrase, number in changed if phrase is not None}
    if not isinstance(value, list):
        return value
    return [
        [new, *rest] for phrase, *rest in value if (new := _phrases(phrase, change)) is not None
    ]


# Ids of these fields do not keep a token.
_OF_OUTPUTS: dict[str, _Shape] = {
    "suppress_tokens": _each,
    "begin_suppress_tokens": _each,
    "bad_words_ids": _phrases,
    "force_words_ids": _phrases,
    "sequence_bias": _biases,
}
_SHAPES: dict[str, _Shape] = {
    "forced_decoder_ids": _places,
    "lang_to_id": _each,
    "task_to_id": _each,
    **_OF_OUTPUTS,
}


def ids_to_keep(config: Mapping[str, Any]) -> set[int]:
    """Ids that a model needs, without ids that its outputs only avoid or prefer."""
    ids: set[int] = set()
    with_ids({key: config[key] for key in config.keys() - _OF_OUTPUTS.keys()}, ids.add)
    return ids


def write_object(file: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object for people to read."""
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    file.write_bytes(orjson.dumps(content, option=option))


@dataclass(frozen=True)
class WrittenModel:
    """A model that was written.

    Attributes:
        parts: part → bytes (of the result, of the model that it was made from).
        fields: further fields of every row.
    """

    output: Path
    parts: dict[str, tuple[int, int]]
    fields: dict[str, Any]

    @property
    def caption(self) -> str:
        """The line below its table."""
        return str(self.output)

    def rows(self) -> list[dict[str, Any]]:
        """A row per part and one for all: bytes, full_bytes of the model before, share saved."""
        every = tuple(sum(pair[side] for pair in self.parts.values()) for side in (0, 1))
        return [
            {
                "part": part,
                "bytes": size,
                "full_bytes": full,
                "saved": 1 - size / full if full else 0.0,
                "output": str(self.output),
                **self.fields,
            }
            for part, (size, full) in {**self.parts, "all": every}.items()
        ]


def check_output(output: Path, mark: str, *, force: bool, kind: str) -> None:
    """Check that a directory can be written: new, empty, or one of this kind, which has `mark`."""
    check_directory(output)
    if not (is_vacant(output) or (output / mark).is_file()):
        raise UsageError(f"exists but is not a {kind}", where=output, remedy="choose another -o")
    check_new(output, force=force)


Special = tuple[str, int]
"""Text and id of a special token."""


def framed(data: bytes, before: Special | None, after: Special | None = None) -> bytes:
    """A `tokenizer.json` with a post-processor that puts special tokens around every text."""
    special = dict(filter(None, (before, after)))
    if not special:
        return data

    def part(letter: str, kind: int) -> list[dict[str, Any]]:
        def end(one: Special | None) -> list[dict[str, Any]]:
            return [] if one is None else [{"SpecialToken": {"id": one[0], "type_id": kind}}]

        return [*end(before), {"Sequence": {"id": letter, "type_id": kind}}, *end(after)]

    document = orjson.loads(data)
    document["post_processor"] = {
        "type": "TemplateProcessing",
        "single": part("A", 0),
        "pair": part("A", 0) + part("B", 1),
        "special_tokens": {
            name: {"id": name, "ids": [index], "tokens": [name]} for name, index in special.items()
        },
    }
    return orjson.dumps(document)
