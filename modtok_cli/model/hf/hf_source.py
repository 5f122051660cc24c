"""A directory of a model of transformers as a source: its own tokenizer, on both sides."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.extras import quiet, transformers
from modtok_cli.base.hub import model_name
from modtok_cli.base.signature import digest
from modtok_cli.model.architecture.complete import check_complete, missing_tensor
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.model.architecture.stored_model import (
    TOKENIZER,
    HfDirectory,
    not_opened,
    open_config,
    open_hf_directory,
)
from modtok_cli.model.generate.backbone import DTYPES
from modtok_cli.model.generate.sliced_model import check_device_memory
from modtok_cli.model.hf.model_directory import NAME
from modtok_cli.model.source import OWN, ModelSource, Spoken, directory_digest
from modtok_cli.model.vocabularies import FULL, Ends, Side, Vocabularies, is_full, names_exactly
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile
from modtok_cli.tokenizer.encoding.external import LibraryEncoder
from modtok_cli.tokenizer.formats.hugging_face import LibraryTokenizer
from modtok_cli.tokenizer.open import open_bytes
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

CONTEXT = 2048
"""Tokens of context of a model whose configuration does not say."""


class HfSource(ModelSource):
    """A directory of `save_pretrained`, of a model that predicts the next token.

    `HfModel` runs any architecture; code that comes with a model is not run. Shape, tables and
    backbone, which an export needs, exist for those of `architectures`.
    """

    mode, whole = OWN, True
    sides = FULL, None

    def __init__(self, path: Path) -> None:
        self.directory: HfDirectory = open_hf_directory(path)
        check_complete(self.directory)
        self.path = path

    @property
    def weight_bytes(self) -> int:
        """Bytes of its files of weights."""
        return sum(file.stat().st_size for file in self.directory.files)

    def open_model(self, dtype: torch.dtype, device: torch.device) -> Any:
        """The model of transformers, in memory."""
        from safetensors import SafetensorError

        remedy = "use a machine with more memory"
        check_device_memory(self.weight_bytes, device, f"measuring with {self.path}", remedy)
        transformers().utils.logging.disable_progress_bar()
        try:
            model, info = transformers().AutoModelForCausalLM.from_pretrained(
                str(self.path),
                dtype=dtype,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
            )
        except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
            raise not_opened(self.path, error) from error
        if info["missing_keys"]:  # the model is of a class that predicts no next token
            raise missing_tensor(self.directory, info["missing_keys"])
        return model.to(device).eval().requires_grad_(False)

    @cached_property
    def hf_tokenizer(self) -> LibraryTokenizer:
        """Its tokenizer, as the `tokenizers` library runs it."""
        file = str(self.path / TOKENIZER)
        return LibraryTokenizer(str(self.path), self.directory.tokenizer_json, file)

    @cached_property
    def prefix(self) -> tuple[int, ...]:
        """Ids that transformers puts before a text; often none or one."""
        with_and_without = True, False
        try:
            with quiet():
                auto = transformers().AutoTokenizer.from_pretrained(
                    str(self.path), local_files_only=True, trust_remote_code=False
                )
                whole, plain = (
                    auto.encode("a", add_special_tokens=added) for added in with_and_without
                )
        except Exception:  # each tokenizer checks its files in its own way
            inner = self.hf_tokenizer.inner
            whole, plain = (
                inner.encode("a", add_special_tokens=added).ids for added in with_and_without
            )
        places = range(len(whole) - len(plain) + 1)
        at = next((at for at in places if whole[at : at + len(plain)] == plain), 0)
        return tuple(whole[:at])

    @cached_property
    def first(self) -> int:
        """Id of the token that begins a text.

        The one that the tokenizer puts before it; else bos, else eos of the configuration.
        """
        index = self.prefix[0] if self.prefix else None
        if index is None:
            index = self.directory.token_id("bos_token_id", "eos_token_id")
        if index is None:
            raise ModtokError(
                "names no token that begins a text",
                where=self.path / "config.json",
                remedy="set bos_token_id",
            )
        return int(index)

    @cached_property
    def context(self) -> int:
        """Maximum number of tokens; `CONTEXT` if the configuration does not say."""
        config = open_config(self.path).get_text_config()
        stated = getattr(config, "max_position_embeddings", None)
        return stated if isinstance(stated, int) and stated > 1 else CONTEXT

    @cached_property
    def digest(self) -> str:
        """`NAME/DIGEST`."""
        return f"{model_name(self.path)}/{directory_digest(self.path)}"

    def labels(self) -> dict[str, Any]:
        """Its name and its own recipe."""
        return {"run": model_name(self.path), "recipe": digest(self.digest.encode())}

    @cached_property
    def tokenizer(self) -> Subtokenizer:
        """The model's own tokenizer, with its own ids."""
        file = self.path / TOKENIZER
        tokenizer = open_bytes(self.directory.tokenizer_json, str(file), str(file))
        return tokenizer if isinstance(tokenizer, Subtokenizer) else self.own_tokenizer

    @cached_property
    def own_tokenizer(self) -> Subtokenizer:
        """The tokenizer as its file has it, also if modtok wrote it."""
        file = TokenizerFile(self.directory.tokenizer, str(self.path / TOKENIZER))
        return Subtokenizer(Library(file), name=model_name(self.path))

    @cached_property
    def begins(self) -> str:
        """Text of what its tokenizer puts before a text; "none" if it puts nothing."""
        return self.hf_tokenizer.decode(self.prefix) or "none"

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages that its tokenizer names: none, unless modtok wrote it."""
        return self.tokenizer.languages

    @cached_property
    def dtype(self) -> torch.dtype:
        """Dtype that the configuration names, else float32."""
        config = self.directory.config
        name = config.get("dtype") or config.get("torch_dtype")
        return getattr(torch, name) if name in DTYPES else torch.float32

    def vocabularies(self, inputs: Side, outputs: Side) -> Vocabularies:
        """Its vocabulary on both sides."""
        own = self.languages
        for side in (inputs, outputs):
            if side is not None and not is_full(side) and not names_exactly(side, own):
                what = f"has {','.join(own)} only" if own else "is a model with one vocabulary"
                remedy = "leave --langs, --in, --out and --infer out"
                if not (own or (self.path / NAME).exists()):  # no slice yet
                    remedy += ", or slice it first: modtok slice MODEL --langs fr"
                raise UsageError(what, where=self.path, remedy=remedy)
        return Vocabularies(self.tokenizer, self.tokenizer)

    def end_of_text(self, vocabularies: Vocabularies) -> int:
        """Id of the token that begins a text."""
        return self.first

    # --- what an export needs ---

    @cached_property
    def shape(self) -> Shape:
        """The model without its tables."""
        return self.directory.shape

    def tables(self, vocabularies: Vocabularies) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of the tokens, without filler rows."""
        size = self.own_tokenizer.size
        embedding = self.directory.table("input")[:size]
        if self.shape.tied:
            return embedding, embedding
        return embedding, self.directory.table("output")[:size]

    def parameters(self) -> Mapping[str, torch.Tensor]:
        """Parameters of the backbone under their transformers names, float32."""
        return self.directory.backbone

    def spoken(self, vocabularies: Vocabularies) -> Spoken:
        """The tokenizer as its file has it, and the directory's templates."""
        return self.own_tokenizer, self.ends(), self.directory.chat_templates

    def ends(self) -> Ends:
        """The tokens that begin and end a text, and whether the tokenizer adds the first."""
        token = self.directory.token_id
        size = self.own_tokenizer.size
        stops = [each for each in self.directory.token_ids("eos_token_id") if each < size]
        end = stops[0] if stops else token("bos_token_id")
        if end is None:
            raise UsageError("field 'eos_token_id' is missing", where=self.path)
        begin = token("bos_token_id", "eos_token_id")
        pad = token("pad_token_id", "eos_token_id")
        file = self.own_tokenizer.segmenter
        assert isinstance(file, Library)
        library = LibraryEncoder(file.to_json({}), str(self.path))
        return Ends(
            begin=end if begin is None else begin,
            end=end,
            pad=end if pad is None else pad,
            adds_begin=library.first_of_text() == begin,
            turn=stops[1] if len(stops) > 1 else None,
            message=stops[2] if len(stops) > 2 else None,
            others={
                kind: index
                for kind in ("unk", "sep", "mask")
                if (index := token(f"{kind}_token_id")) is not None and index < size
            },
        )
