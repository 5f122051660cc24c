"""Any causal language model of transformers, with its tokenizer, to measure text with."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from modtok_cli.architectures.hf_directory import (
    TOKENIZER,
    HfDirectory,
    not_opened,
    open_config,
    open_hf_directory,
)
from modtok_cli.base.arrays import Float64Array, Int32Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.extras import quiet, transformers
from modtok_cli.inference.run.backbone import cache_name
from modtok_cli.inference.run.model import check_device_memory
from modtok_cli.modular.formats.hugging_face import LibraryTokenizer

# Tokens of a window: attention over the whole context of some models would take hours.
_CONTEXT = 2048
# Logits computed at a time: 256 MB in float32.
_LOGITS = 1 << 26


def window_bounds(count: int, width: int) -> Iterator[tuple[int, int, int]]:
    """Windows that together predict each of `count` tokens once, with `width` of context.

    Yields (before, start, stop): tokens start to stop - 1 are predicted after the tokens from
    `before` on. The first window has nothing before it but the token that begins a text. The
    last one has as much left context as fits.

    >>> list(window_bounds(10, 4))
    [(0, 0, 4), (3, 4, 8), (5, 8, 10)]
    """
    for start in range(0, count, width):
        stop = min(start + width, count)
        yield max(0, stop - width - 1), start, stop


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

    def ids(self, texts: Sequence[str]) -> list[Int32Array]:
        """Ids of each text, as `hf_tokenizer` encodes it.

        Raises:
            ModtokError: a token that the table has no row for.
        """
        encoded = self.hf_tokenizer.encode_batch(texts)
        for ids in encoded:
            if ids.max(initial=0) >= self.rows:
                token = self.hf_tokenizer.decode([int(ids.max())])
                raise ModtokError(
                    f"the token {token!r} of a text has no row in the table",
                    where=self.path,
                    remedy="remove it from the text, or add rows to the table",
                )
        return encoded

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
            model = transformers().AutoModelForCausalLM.from_pretrained(
                str(self.path),
                dtype=self._dtype or "auto",
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
            )
        except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
            raise not_opened(self.path, error) from error
        return model.to(self.device).eval().requires_grad_(False)

    @cached_property
    def context(self) -> int:
        """Maximum number of tokens; 2,048 if the configuration does not say."""
        config = open_config(self.path).get_text_config()
        stated = getattr(config, "max_position_embeddings", None)
        return stated if isinstance(stated, int) and stated > 1 else _CONTEXT

    def nats(
        self,
        documents: Sequence[str],
        *,
        batch_size: int = 8,
        advance: Callable[[int], None] = lambda count: None,
    ) -> tuple[Float64Array, Float64Array]:
        """(negative log-likelihood in nats, number of tokens) of each document, (n,) each.

        Each document is predicted after `first`, in windows as `window_bounds` cuts them.
        `advance` is called with numbers of documents that are done.
        """
        nats, tokens = np.zeros(len(documents)), np.zeros(len(documents))
        # A batch holds windows of similar length; documents are encoded a block at a time.
        for start in range(0, len(documents), block := 64 * batch_size):
            part = documents[start : start + block]
            windows = []
            for owner, ids in enumerate(self.ids(part), start):
                tokens[owner] = len(ids)
                windows += [(owner, *window) for window in self._windows(ids.tolist())]
            windows.sort(key=lambda window: len(window[1]))
            for at in range(0, len(windows), batch_size):
                batch = windows[at : at + batch_size]
                scores = self._score([(ids, count) for _, ids, count in batch])
                for (owner, _, _), value in zip(batch, scores, strict=True):
                    nats[owner] += value
            advance(len(part))
        return nats, tokens

    def _windows(self, ids: Sequence[int]) -> Iterator[tuple[list[int], int]]:
        """(ids, how many of the last ones to predict) of each window."""
        for before, start, stop in window_bounds(len(ids), min(self.context, _CONTEXT)):
            context = list(ids[before:start]) or [self.first]
            yield [*context, *ids[start:stop]], stop - start

    @torch.inference_mode()
    def _score(self, batch: Sequence[tuple[list[int], int]]) -> list[float]:
        """Nats of the last `count` ids of each (ids, count).

        Short sequences are padded on the right, where no earlier token attends to.
        """
        width = max(len(ids) for ids, _ in batch) - 1
        inputs, targets = (
            torch.tensor([[*ids[at : len(ids) - 1 + at], *[0] * (width + 1 - len(ids))]
                          for ids, _ in batch], device=self.device)
            for at in (0, 1)
        )  # fmt: skip
        places = torch.arange(width)
        stops = torch.tensor([len(ids) - 1 for ids, _ in batch])
        counts = torch.tensor([count for _, count in batch])
        wanted = (places >= (stops - counts)[:, None]) & (places < stops[:, None])
        wanted = wanted.to(self.device)
        sums = torch.zeros(len(batch), dtype=torch.float64, device=self.device)
        step = max(1, _LOGITS // (self.rows * len(batch)))
        name, cache = cache_name(self.model), None
        for start in range(0, width, step):
            stop = min(start + step, width)
            output = self.model(
                inputs[:, start:stop], use_cache=stop < width or start > 0, **{name: cache}
            )
            cache = getattr(output, name) if stop < width else None
            logits = output.logits.float()
            own = logits.gather(2, targets[:, start:stop, None])[..., 0]
            lost = logits.logsumexp(-1).double() - own.double()
            sums += (lost * wanted[:, start:stop]).sum(1)
        return [float(value) for value in sums.tolist()]
