"""A model directory of transformers, by its rules: which files, tensors, tables and ids count.

Every command that takes such a directory reads it here: slice, export, transplant, graft,
generate, eval, serve and `--init-from`. Weights are read one tensor at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.extras import missing_package, quiet, transformers
from modtok_cli.base.progress import Progress
from modtok_cli.base.read_file import read_file, read_object
from modtok_cli.model.architecture.registry import shape_of_hf
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.model.architecture.stored_tensors import StoredTensor, read_header
from modtok_cli.tokenizer.adopted.restrict import (
    check_document,
    tokens_of,
    warn_of_rows,
    with_rows,
)
from modtok_cli.tokenizer.open import tokenizers_in
from modtok_cli.tokenizer.segmenters.json_frame import parse_document
from modtok_cli.tokenizer.spelling import LibraryVocabulary

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, GENERATION = "config.json", "generation_config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
CHAT_TEMPLATE, MORE_TEMPLATES = "chat_template.jinja", "additional_chat_templates"
ADAPTER = "adapter_config.json"
LARGEST = 64 << 20
"""Most bytes of a configuration file: a larger one is not read."""
_EXPLICIT = "transformers_weights"
# Where transformers looks for the configuration of the text model of several models.
_TEXT = ("text_config", "text_encoder", "decoder", "generator")
_PREFIX = "model."
_INPUT, _OUTPUT = "model.embed_tokens.weight", "lm_head.weight"
# A buffer that transformers stored until version 4.30.
_BUFFER = ".rotary_emb.inv_freq"


def refuse_adapter(path: Path) -> None:
    """Refuse a directory that holds an adapter: transformers would open another model with it.

    Raises:
        UsageError: it has `adapter_config.json`.
    """
    if (path / ADAPTER).is_file():
        raise UsageError(
            "is an adapter, not a model",
            where=path,
            remedy="merge it: model.merge_and_unload().save_pretrained(DIR), the tokenizer too",
        )


def is_hf_directory(path: Path) -> bool:
    """Whether `path` has the configuration and safetensors of a model of transformers.

    Raises:
        UsageError: it holds an adapter.
    """
    refuse_adapter(path)
    if not (path / CONFIG).is_file():
        return False
    return any((path / name).is_file() for name in (WEIGHTS, INDEX)) or _explicit(path) is not None


def _explicit(path: Path) -> str | None:
    """The file of weights that the configuration names."""
    name = read_object(path / CONFIG, largest=LARGEST).get(_EXPLICIT)
    if name is not None and (not isinstance(name, str) or Path(name).name != name):
        raise ModtokError(
            f"field '{_EXPLICIT}' is {name!r}, expected the name of a file", where=path / CONFIG
        )
    return name


def weights_name(path: Path) -> str:
    """The file of weights, or the index of several, that transformers reads.

    It is the one that `config.json` names, else model.safetensors, else its index.
    """
    if not path.is_dir():
        raise missing(path, "give the directory of a model")
    name = _explicit(path) if (path / CONFIG).is_file() else None
    for each in [name] if name else [WEIGHTS, INDEX]:
        if (path / each).is_file():
            return each
    remedy = "save the model with save_pretrained(..., safe_serialization=True)"
    raise missing(path, remedy, f"has no {name}" if name else f"has no {WEIGHTS} and no {INDEX}")


def _indexed_files(index: Path) -> dict[str, Path]:
    """Name of each tensor → its file, as the index of a model in several files has it."""
    table = read_object(index).get("weight_map")
    if not isinstance(table, dict) or not table:
        raise ModtokError("field 'weight_map' is not an object of files", where=index)
    for name, file in table.items():
        # A file elsewhere is not part of the model.
        if not isinstance(file, str) or Path(file).name != file:
            raise ModtokError(
                f"field 'weight_map.{name}' is {file!r}, expected the name of a file", where=index
            )
    return {name: index.parent / file for name, file in table.items()}


def open_config(path: Path) -> Any:
    """The configuration of a model as transformers reads it."""
    try:
        import torch  # noqa: F401 - shapes need it

        with quiet():
            return transformers().AutoConfig.from_pretrained(
                str(path), local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # each configuration checks its fields in its own way
        raise not_opened(path, error) from error


def not_opened(path: Path, error: Exception) -> ModtokError:
    """The error of a model that transformers refuses, or of a package that is missing."""
    if (lack := missing_package(error)) is not None:
        return lack
    reason = " ".join(str(error).split())[:300]
    return ModtokError(
        f"transformers does not open it ({reason})",
        where=path,
        remedy="update transformers, or save the model with it",
    )


class HfDirectory:
    """A directory that `save_pretrained` wrote, weights in one file or several.

    Nothing is read before it is needed. Weights are returned in float32.

    Attributes:
        path: the directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    # --- files ---

    @cached_property
    def config(self) -> dict[str, Any]:
        """The content of config.json."""
        return read_object(self.path / CONFIG, largest=LARGEST)

    @cached_property
    def configs(self) -> dict[str, dict[str, Any]]:
        """The configuration files that hold token ids, by name."""
        return {CONFIG: self.config, **self._optional(GENERATION)}

    @cached_property
    def tokenizer_config(self) -> dict[str, Any]:
        """The content of tokenizer_config.json; empty without it."""
        return self._optional(TOKENIZER_CONFIG).get(TOKENIZER_CONFIG, {})

    def _optional(self, name: str) -> dict[str, dict[str, Any]]:
        file = self.path / name
        return {name: read_object(file, largest=LARGEST)} if file.is_file() else {}

    @cached_property
    def index(self) -> Path | None:
        """The index of weights in several files; None of one file."""
        name = weights_name(self.path)
        return self.path / name if name.endswith(".json") else None

    @cached_property
    def files(self) -> list[Path]:
        """The files of weights, ascending by name."""
        if self.index is None:
            return [self.path / weights_name(self.path)]
        return sorted(set(_indexed_files(self.index).values()))

    @cached_property
    def tensors(self) -> dict[str, StoredTensor]:
        """All tensors by name, in the order in which they are stored.

        Raises:
            ModtokError: a file is damaged, or lacks a tensor that the index says it has.
        """
        tensors = {tensor.name: tensor for file in self.files for tensor in read_header(file)[0]}
        for name, file in ({} if self.index is None else _indexed_files(self.index)).items():
            if name not in tensors:
                raise ModtokError(
                    f"tensor '{name}' is missing: the index says that it is there",
                    where=file,
                    remedy="download or save the model again",
                )
        return tensors

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    # --- ids ---

    @cached_property
    def text_config(self) -> dict[str, Any]:
        """The part of config.json that is of text: of models of images or speech, a nested one."""
        parts = (self.config.get(name) for name in _TEXT)
        return next((part for part in parts if isinstance(part, dict)), self.config)

    @cached_property
    def vocab_size(self) -> int:
        """Rows of the embedding tables, padding included, as the configuration states them."""
        parts = [self.config, *(part for part in self.config.values() if isinstance(part, Mapping))]
        stated = [part["vocab_size"] for part in parts if "vocab_size" in part]
        if not stated:
            stated = [getattr(open_config(self.path).get_text_config(), "vocab_size", None)]
        sizes = list({str(size): size for size in stated}.values())
        if len(sizes) != 1 or type(sizes[0]) is not int:
            raise ModtokError(
                f"field 'vocab_size' is {' and '.join(map(str, sizes)) or 'missing'}",
                where=self.path / CONFIG,
                remedy="only models with one vocabulary are supported",
            )
        return sizes[0]

    def token_ids(self, name: str) -> list[int]:
        """The ids of a field such as "eos_token_id", of the first file that has one.

        Files in the order in which transformers generates by them: generation_config.json,
        config.json, its part of text; last the token that tokenizer_config.json names.
        """
        generation = self.configs.get(GENERATION, {})
        for part in (generation, self.config, self.text_config):
            value = part.get(name)
            ids = value if isinstance(value, list) else [value]
            if ids := [each for each in ids if type(each) is int and each >= 0]:
                return ids
        token = self.tokenizer_config.get(name.removesuffix("_id"))
        token = token.get("content") if isinstance(token, Mapping) else token
        index = self.tokens.get(token) if isinstance(token, str) else None
        return [] if index is None else [index]

    def token_id(self, *names: str) -> int | None:
        """The first id of the first of these fields that has one."""
        return next((ids[0] for name in names if (ids := self.token_ids(name))), None)

    @cached_property
    def _stored_tokenizer(self) -> dict[str, Any]:
        place = self.path / TOKENIZER
        if not place.is_file():  # a rank file, tekken.json or a .model
            from modtok_cli.tokenizer.adopted.adopt import read_tokenizer_file

            return dict(read_tokenizer_file(self.path).document)
        document = parse_document(read_file(place), str(place))
        check_document(document, str(place))
        return document

    @cached_property
    def tokens(self) -> dict[str, int]:
        """Token → id of tokenizer.json, of any type."""
        return tokens_of(self._stored_tokenizer)

    @cached_property
    def without_row(self) -> list[str]:
        """The tokens of tokenizer.json that have no row in the tables."""
        return [name for name, index in self.tokens.items() if index >= self.vocab_size]

    @cached_property
    def tokenizer(self) -> dict[str, Any]:
        """The document `tokenizer.json`, without added tokens that have no row.

        Raises:
            ModtokError: it is damaged, or a token that texts need has no row.
        """
        return with_rows(self._stored_tokenizer, self.vocab_size, str(self.path / TOKENIZER))[0]

    def has_ids(self, ids: Mapping[str, int]) -> bool:
        """Whether tokenizer.json, or its tokens with a row, have these `ids`, token → id."""
        with_row = {*self.tokens} - {*self.without_row}
        return ids == self.tokens or ids == {name: self.tokens[name] for name in with_row}

    @cached_property
    def vocabulary(self) -> LibraryVocabulary:
        """The tokens of its tokenizer."""
        return LibraryVocabulary(self.tokenizer_json, str(self.path / TOKENIZER))

    @property
    def tokenizer_json(self) -> bytes:
        """`tokenizer` as a file."""
        document, place = self.tokenizer, self.path / TOKENIZER
        is_same = place.is_file() and not self.without_row
        return read_file(place) if is_same else orjson.dumps(document)

    @cached_property
    def chat_templates(self) -> dict[str, str]:
        """Chat templates by name, "default" among them; empty if there is none."""
        files = {"default": self.path / CHAT_TEMPLATE}
        files |= {file.stem: file for file in sorted((self.path / MORE_TEMPLATES).glob("*.jinja"))}
        found = {
            name: read_file(file, largest=LARGEST).decode(errors="replace")
            for name, file in files.items()
            if file.is_file()
        }
        stored = self.tokenizer_config.get("chat_template")
        if found or stored is None:
            return found
        rows = [{"name": "default", "template": stored}] if isinstance(stored, str) else stored
        try:
            return {str(row["name"]): str(row["template"]) for row in rows}
        except (TypeError, KeyError) as error:
            place = self.path / TOKENIZER_CONFIG
            raise ModtokError("field 'chat_template' is damaged", where=place) from error

    @property
    def chat(self) -> dict[str, Any]:
        """Its chat template and the texts of its special tokens, to be stored: "template", "bos",
        "eos", and "ends", all that end an answer."""
        names = {index: name for name, index in self.tokens.items()}
        ends = [names[index] for index in self.token_ids("eos_token_id") if index in names]
        own = (self.tokenizer_config.get(f"{kind}_token") for kind in ("bos", "eos"))
        bos, eos = (each.get("content") if isinstance(each, Mapping) else each for each in own)
        template = self.chat_templates.get("default")
        return {"template": template, "bos": bos, "eos": eos, "ends": ends}

    def warn(self, progress: Progress) -> None:
        """Warn of what the files say and the weights do not."""
        warn_of_rows(self.path, self.without_row, progress)
        if self.config.get("tie_word_embeddings") and self.diverged:
            progress.warn(
                f"{self.path}: field 'tie_word_embeddings' is true, but input and output rows "
                "differ: both are used, as by transformers"
            )

    # --- weights of the families ---

    @cached_property
    def diverged(self) -> bool:
        """Whether the files hold input and output rows that differ."""
        if not {_INPUT, _OUTPUT} <= self.tensors.keys():
            return False
        one, two = self.tensors[_INPUT], self.tensors[_OUTPUT]
        if one.shape == two.shape and one.dtype != two.dtype:
            return not bool((self.tensor(_INPUT) == self.tensor(_OUTPUT)).all())
        return any(a != b for a, b in zip_longest(one.blocks(), two.blocks()))

    @property
    def tied(self) -> bool:
        """Whether input and output rows of a family in `architectures` are one table.

        As in transformers, the configuration decides unless the files hold two that differ.
        """
        return self._stated.tied and not self.diverged

    @cached_property
    def _stated(self) -> Shape:
        return shape_of_hf(self.config, str(self.path / CONFIG))

    @cached_property
    def shape(self) -> Shape:
        """The model without its vocabulary."""
        return replace(self._stated, tied=self.tied)

    def tensor(self, name: str) -> Tensor:
        """A tensor in float32."""
        import torch
        from safetensors import SafetensorError

        if name not in self.tensors:
            place = self.path / weights_name(self.path)
            raise ModtokError(
                f"parameter '{name}' is missing", where=place, remedy="save the model again"
            )
        file = self.tensors[name].file
        try:
            tensor: Tensor = _open(file).get_tensor(name)
        except (SafetensorError, RuntimeError) as error:
            raise ModtokError(f"'{name}' cannot be read ({error})", where=file) from error
        if tensor.dtype not in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
            kind = str(tensor.dtype).removeprefix("torch.")
            raise ModtokError(
                f"'{name}' is {kind}",
                where=file,
                remedy="choose a model in bfloat16, float16 or float32",
            )
        return tensor.float()

    def table(self, kind: str) -> Tensor:
        """The "input" or "output" table, (V, d); one and the same if tied."""
        name = _OUTPUT if kind == "output" and not self.shape.tied else _INPUT
        if self.shape.tied and _INPUT not in self.tensors:
            name = _OUTPUT  # stored under this name only
        tensor = self.tensor(name)
        expected = (self.vocab_size, self.shape.hidden_size)
        if tuple(tensor.shape) != expected:
            raise ModtokError(
                f"'{name}' is {tuple(tensor.shape)}, {CONFIG} says {expected}", where=self.path
            )
        return tensor

    @property
    def backbone(self) -> Mapping[str, Tensor]:
        """All other weights by their names in the backbone; read when they are needed."""
        return _Backbone(self)


class _Backbone(Mapping[str, "Tensor"]):
    def __init__(self, directory: HfDirectory) -> None:
        self._directory = directory
        self._names = [
            name.removeprefix(_PREFIX)
            for name in directory.tensors
            if name not in (_INPUT, _OUTPUT) and not name.endswith(_BUFFER)
        ]

    def __getitem__(self, name: str) -> Tensor:
        return self._directory.tensor(_PREFIX + name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def open_hf_directory(path: Path) -> HfDirectory:
    """Open a model directory of transformers; its tokenizer must be with it."""
    if not is_hf_directory(path):
        remedy = "give a directory that save_pretrained wrote"
        raise missing(path, remedy, f"has no {CONFIG} with {WEIGHTS}")
    if not tokenizers_in(path):
        raise UsageError(
            f"has no {TOKENIZER}",
            where=path,
            remedy="save the model's tokenizer there with save_pretrained",
        )
    return HfDirectory(path)


def _open(file: Path) -> Any:
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(file, framework="pt")
    except (OSError, SafetensorError) as error:
        raise ModtokError(f"cannot be read ({error})", where=file) from error
