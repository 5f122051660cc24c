"""Any causal language model of transformers, with its tokenizer."""

from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from modtok_cli.architectures.complete import check_complete, missing_tensor
from modtok_cli.architectures.hf_directory import (
    TOKENIZER,
    HfDirectory,
    not_opened,
    open_config,
    open_hf_directory,
)
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.extras import quiet, transformers
from modtok_cli.inference.run.model import check_device_memory
from modtok_cli.modular.encoding.external import encoded_by
from modtok_cli.modular.formats.hugging_face import LibraryTokenizer

CONTEXT = 2048
"""Tokens of context of a model whose configuration does not say."""


class CausalLM:
    """A directory of `save_pretrained`: weights in safetensors, and tokenizer.json.

    Code that comes with a model is not run. Attributes:
        path: the directory.

    Args:
        path: the directory.
        dtype: dtype to compute in; by default the weights' own.
        device: where to compute; by default a GPU, if there is one.
    """

    def __init__(
        self,
        path: Path,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        self.directory: HfDirectory = open_hf_directory(path)
        check_complete(self.directory)
        self.path = path
        self._dtype = dtype
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))

    @cached_property
    def hf_tokenizer(self) -> LibraryTokenizer:
        """Its tokenizer."""
        file = self.path / TOKENIZER
        return LibraryTokenizer(str(self.path), self.directory.tokenizer_json, str(file))

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

    def ids(self, text: str, *, special: bool) -> list[int]:
        """Ids of a text, as `hf_tokenizer` encodes it; `special` tokens in it are such, or text.

        Raises:
            ModtokError: a token that the table has no row for.
        """
        tokenizer = self.hf_tokenizer
        if special:
            inner = tokenizer.inner
            inner.encode_special_tokens = False
            try:
                (ids,) = encoded_by(inner, [text], [len(text)], tokenizer.name)
            finally:  # to `encode` special tokens are text
                inner.encode_special_tokens = True
        else:
            ids = tokenizer.encode(text)
        if ids.max(initial=0) >= self.rows:
            token = self.hf_tokenizer.decode([int(ids.max())])
            raise ModtokError(
                f"the token {token!r} of a text has no row in the table",
                where=self.path,
                remedy="remove it from the text, or add rows to the table",
            )
        listed: list[int] = ids.tolist()
        return listed

    @property
    def rows(self) -> int:
        """Rows of the embedding tables, padding included."""
        return int(self.model.get_input_embeddings().weight.shape[0])

    @property
    def weight_bytes(self) -> int:
        """Bytes of its files of weights."""
        return sum(file.stat().st_size for file in self.directory.files)

    @cached_property
    def model(self) -> Any:
        """The model, in memory."""
        from safetensors import SafetensorError

        check_device_memory(
            self.weight_bytes,
            self.device,
            f"measuring with {self.path}",
            "use a machine with more memory",
        )
        transformers().utils.logging.disable_progress_bar()
        try:
            model, info = transformers().AutoModelForCausalLM.from_pretrained(
                str(self.path),
                dtype=self._dtype or "auto",
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
            )
        except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
            raise not_opened(self.path, error) from error
        if info["missing_keys"]:  # the model is of a class that predicts no next token
            raise missing_tensor(self.directory, info["missing_keys"])
        return model.to(self.device).eval().requires_grad_(False)

    @cached_property
    def context(self) -> int:
        """Maximum number of tokens; `CONTEXT` if the configuration does not say."""
        config = open_config(self.path).get_text_config()
        stated = getattr(config, "max_position_embeddings", None)
        return stated if isinstance(stated, int) and stated > 1 else CONTEXT
