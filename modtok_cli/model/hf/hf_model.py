"""A causal language model that transformers runs, in place of a sliced one.

`SlicedModel` runs a backbone and a table. Other architectures scale embeddings, cap logits or have
no cache of attention; so transformers runs the whole model here, and a probe on a few tokens finds
out which short cuts give the model's own logits: hidden states that the head is applied to later,
and a cache with padding.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.extras import quiet
from modtok_cli.model.generate.backbone import cache_name, forward_parameters
from modtok_cli.model.generate.sliced_model import SlicedModel
from modtok_cli.model.hf.hf_source import CONTEXT, HfSource
from modtok_cli.model.vocabularies import Side
from modtok_cli.tokenizer.encoding.external import encoded_by

# Fields of configurations with the size of a window of attention.
_WINDOW = re.compile(r"(window|window_size|chunk_size)$")
_PADS = 32  # tokens of padding of a probe


class HfModel(SlicedModel):
    """A model that transformers runs, with the ids of its tokenizer on both sides."""

    source: HfSource
    token_bytes = 0  # of the cache for a token; none if there is no cache

    def __init__(self, source: HfSource, dtype: torch.dtype, device: torch.device) -> None:
        model = source.open_model(dtype, device)
        self.source, self.backbone, self.dtype = source, model, dtype
        self.vocabularies = source.vocabularies(None, None)
        self.device = next(model.parameters()).device
        self.context = source.context
        self.end_of_text = source.end_of_text(self.vocabularies)
        self.row_of_out = torch.arange(self.vocabularies.tokenizer_out.size, device=self.device)
        self._takes_positions = "position_ids" in forward_parameters(model)
        self._split = self._cached = True
        self._probe()

    def encode_in(self, text: str) -> list[int]:
        """Ids of a text, without what begins it; special tokens in it are such."""
        tokenizer = self.source.hf_tokenizer
        tokenizer.inner.encode_special_tokens = False
        try:
            (ids,) = encoded_by(tokenizer.inner, [text], [len(text)], tokenizer.name)
        finally:  # to `encode` special tokens are text
            tokenizer.inner.encode_special_tokens = True
        return self._checked(ids)

    encode_out = encode_in

    def encode_document(self, text: str) -> list[int]:
        """Ids of a text to be measured; special tokens in it are text."""
        return self._checked(self.source.hf_tokenizer.encode(text))

    def _checked(self, ids: Int32Array) -> list[int]:
        """The ids as a list, each with a row in the table."""
        last = int(ids.max(initial=-1))
        if last >= self.backbone.get_input_embeddings().weight.shape[0]:
            token = self.source.hf_tokenizer.decode([last])
            raise ModtokError(
                f"the token {token!r} of a text has no row in the table",
                where=self.source.path,
                remedy="remove it from the text, or add rows to the table",
            )
        listed: list[int] = ids.tolist()
        return listed

    @property
    def window(self) -> int:
        """Most tokens of a part of a document: the whole context of some models takes hours."""
        return min(self.context, CONTEXT)

    def prompt(self, text: str) -> list[int]:
        """Ids of a text as the model's tokenizer begins it; only once where it begins so."""
        ids, prefix = self.encode_in(text), list(self.source.prefix)
        if not prefix or ids[: len(prefix)] == prefix:
            return ids or [self.end_of_text]
        return [*prefix, *ids]

    def continuation(self, context: str, rows: Sequence[int], text: str) -> list[int]:
        """Ids of `text` after a context of `rows`, from both together, as lm-eval cuts them.

        A tokenizer may put a space before a text, so that `text` alone has other ids. Alone where
        nothing would remain: a token spans the boundary, or the context is empty.
        """
        tail = self.prompt(context + text)[len(rows) :] if context else []
        return tail or self.encode_out(text)

    @cached_property
    def ends_of_output(self) -> frozenset[int]:
        """Ids of the tokens that end a text."""
        return frozenset(self.source.directory.token_ids("eos_token_id") or [self.source.first])

    @property
    def generation_config(self) -> Any:
        """Settings of transformers' `generate`, of generation_config.json or config.json."""
        return self.backbone.generation_config

    def scoring_bytes(self, sequences: int, tokens: int) -> int:
        """Estimated bytes of scoring a batch: cache twice, activations, logits if they are held."""
        width = self.backbone.config.get_text_config().hidden_size
        held = 0 if self._split else len(self.head)
        each: int = 2 * self.token_bytes + (12 * width + held) * self.dtype.itemsize
        return sequences * tokens * each

    def with_vocabulary(self, inputs: Side, outputs: Side = None) -> SlicedModel:
        """The model itself: it has one vocabulary."""
        self.source.vocabularies(inputs, outputs)
        return self

    def new_cache(self) -> Any:
        """A cache of attention, or the tokens themselves where the model has none to extend."""
        from transformers import DynamicCache

        return DynamicCache() if self._cached else _History()

    @torch.inference_mode()
    def hidden(
        self,
        rows: torch.Tensor,
        *,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        cache: Any = None,
    ) -> torch.Tensor:
        """The input of `head_logits` after every token: hidden states or logits."""
        if self._cached:
            return self._run(rows, attention_mask, position_ids, cache)
        whole = rows if cache is None else cache.grown(rows)
        if attention_mask is None:
            return self._run(whole)[:, -rows.shape[1] :]
        outputs = []  # each sequence alone, without padding
        for ids, mask in zip(whole, attention_mask.bool(), strict=True):
            states = self._run(ids[mask][None])[0]
            padded = states.new_zeros(len(ids), states.shape[-1])
            padded[mask] = states
            outputs.append(padded[-rows.shape[1] :])
        return torch.stack(outputs)

    def _run(
        self, rows: torch.Tensor, mask: Any = None, positions: Any = None, cache: Any = None
    ) -> torch.Tensor:
        name_of_cache = cache_name(self.backbone)
        arguments = {"attention_mask": mask, name_of_cache: cache}
        if self._takes_positions:
            arguments["position_ids"] = positions
        arguments = {name: value for name, value in arguments.items() if value is not None}
        if name_of_cache in forward_parameters(self.backbone):
            arguments["use_cache"] = cache is not None
        if self._split:
            states: torch.Tensor = self.backbone.base_model(rows, **arguments)[0]
            return states
        logits: torch.Tensor = self.backbone(rows, **arguments).logits
        return logits

    @torch.inference_mode()
    def head_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Float32 logits of the tokens of the tokenizer, from what `hidden` returns."""
        if self._split:
            flat = hidden.reshape(-1, 1, hidden.shape[-1])
            decoder = self.backbone.get_decoder()
            if decoder is None or decoder is self.backbone:
                decoder = self.backbone.base_model
            with _returning(decoder, flat):
                places = torch.zeros(flat.shape[:2], dtype=torch.int64, device=self.device)
                logits = self.backbone(places).logits
            hidden = logits.reshape(*hidden.shape[:-1], -1)
        return hidden.float()

    @torch.inference_mode()
    def _probe(self) -> None:
        """Find out which short cuts give the model's own logits, on a few tokens."""
        rows = self.backbone.get_input_embeddings().weight.shape[0]
        ids = torch.arange(7, device=self.device)[None] % rows
        with quiet():
            expected = self.backbone(ids).logits[0].float()
            # Its size is used. Rows without a token, which fill the table up, are part of it:
            # the model was trained with their logits in the sum.
            self.head = torch.empty(expected.shape[-1], 0, device="meta")
            self._split = self._agrees(lambda: self.head_logits(self._run(ids))[0], expected)
            self._cached = self._agrees(lambda: self._in_parts(ids, 0), expected[-3:])
            if not self._cached:
                self.token_bytes = 0
            # A window of attention counts places, those of padding too.
            fields = self.backbone.config.get_text_config().to_dict()
            windows = any(value and _WINDOW.search(name) for name, value in fields.items())
            self.ragged = not self._cached or (
                not windows and self._agrees(lambda: self._in_parts(ids, 4), expected[-3:])
            )

    def _in_parts(self, ids: torch.Tensor, after: int) -> torch.Tensor:
        """Logits of the last three tokens, by a cache, with padding after so many tokens."""
        stop = after + min(_PADS, self.context - ids.shape[1])
        rows = torch.cat([ids[:, :after], ids[:, :1].expand(1, stop - after), ids[:, after:]], 1)
        mask = torch.ones_like(rows)
        mask[:, after:stop] = 0
        places = (mask.cumsum(-1) - 1).clamp(min=0)
        cache, last = self.new_cache(), range(rows.shape[1] - 3, rows.shape[1])
        begun = slice(last[0])  # as `score` does it: padding on the right without a mask
        self._run(rows[:, begun], None if after else mask[:, begun], places[:, begun], cache)
        outputs = [
            self._run(rows[:, at : at + 1], mask[:, : at + 1], places[:, at : at + 1], cache)
            for at in last
        ]
        stored = (kept for layer in cache.layers for kept in (layer.keys, layer.values))
        self.token_bytes = sum(kept.nbytes for kept in stored) // rows.shape[1]
        return self.head_logits(torch.cat(outputs, 1))[0]

    def _agrees(self, logits: Callable[[], torch.Tensor], expected: torch.Tensor) -> bool:
        try:
            computed = logits()
        except Exception:  # each model reports missing features in its own way
            return False
        # Rounding of 16 bits, against logits that are of other tokens.
        share = 0.1 if self.dtype != torch.float32 else 1e-3
        largest = float(expected.abs().max())
        return computed.shape == expected.shape and bool(
            (computed - expected).abs().max() <= share * largest
        )


class _History:
    """The tokens so far, in place of a cache: everything is computed again."""

    def __init__(self) -> None:
        self._rows: torch.Tensor | None = None

    @property
    def layers(self) -> list[Any]:
        """The layers of a cache, for copies."""
        return [] if self._rows is None else [SimpleNamespace(keys=self._rows, values=self._rows)]

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int) -> None:
        """Take over the tokens of another one."""
        self._rows = keys

    def grown(self, rows: torch.Tensor) -> torch.Tensor:
        """All tokens, with `rows` as the last ones."""
        self._rows = rows if self._rows is None else torch.cat([self._rows, rows], 1)
        return self._rows


class _States:
    """An output of a backbone that has hidden states only."""

    def __init__(self, states: torch.Tensor) -> None:
        self.last_hidden_state = states

    def __getattr__(self, name: str) -> None:
        return None

    def __getitem__(self, index: int) -> torch.Tensor:
        return (self.last_hidden_state,)[index]


@contextmanager
def _returning(module: Any, states: torch.Tensor) -> Iterator[None]:
    """Let a module return given hidden states."""
    module.forward = lambda *args, **kwargs: _States(states)
    try:
        yield
    finally:
        del module.forward
