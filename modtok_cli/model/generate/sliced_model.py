"""A trained model with any vocabulary of its tokenizer.

`load.load(path, inputs, outputs)` returns a `SlicedModel`. Its ids are **rows** on the input side
and ids of `tokenizer_out` on the output side (see `vocabularies`): the same numbers if both sides
are one set of languages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.memory import check_memory
from modtok_cli.model.architecture.arithmetic import scoring_bytes
from modtok_cli.model.generate.backbone import cache_name
from modtok_cli.model.source import ModelSource
from modtok_cli.model.vocabularies import Side, Vocabularies
from modtok_cli.text.counts import split_words
from modtok_cli.text.pretokenizer import PHRASES
from modtok_cli.tokenizer.segmenters.chunks import may_span_words
from modtok_cli.tokenizer.subtokenizer import Subtokenizer


def check_device_memory(need: int, device: torch.device, work: str, remedy: str) -> None:
    """Check `need` bytes against the free memory of the device or, on a CPU, of the machine."""
    if device.type != "cuda":
        check_memory(need, work, remedy)
        return
    free = torch.cuda.mem_get_info(device)[0]
    if need > free:
        raise ModtokError(
            f"{work} needs about {need / 2**30:.1f} GiB on the GPU, "
            f"{free / 2**30:.1f} GiB are free",
            remedy=remedy,
        )


class SlicedModel:
    """Backbone, input rows and output rows of two subtokenizers.

    Attributes:
        source: what it was loaded from.
        vocabularies: both sides and the maps between their ids.
        backbone: the transformers backbone; its inputs are embeddings.
        embedding: (n, d) input rows; head: (|V_out|, d) output rows.
        context: maximum number of tokens.
        end_of_text: row of the token between documents. Every text in training follows one: begin
            prompts with it.
        ragged: whether padding may stand between a context and what continues it.
    """

    ragged = True

    def __init__(
        self, source: ModelSource, vocabularies: Vocabularies, backbone: Any, dtype: torch.dtype
    ) -> None:
        self.source, self.vocabularies, self.backbone = source, vocabularies, backbone
        self.dtype = dtype
        self.device: torch.device = next(backbone.parameters()).device
        embedding, head = source.tables(vocabularies)
        self.embedding = embedding.to(device=self.device, dtype=dtype)
        tied = head is embedding
        self.head = self.embedding if tied else head.to(device=self.device, dtype=dtype)
        self.context = source.context
        self.end_of_text = source.end_of_text(vocabularies)
        self.row_of_out = torch.from_numpy(vocabularies.row_of_out).to(self.device)

    @property
    def tokenizer_in(self) -> Subtokenizer:
        """Tokenizer of the input side."""
        return self.vocabularies.tokenizer_in

    @property
    def tokenizer_out(self) -> Subtokenizer:
        """Tokenizer of the output side."""
        return self.vocabularies.tokenizer_out

    @cached_property
    def ends_of_output(self) -> frozenset[int]:
        """Ids in `tokenizer_out` that end a text."""
        return frozenset({int(self.vocabularies.out_of_row[self.end_of_text])})

    @property
    def generation_config(self) -> Any:
        """Settings of transformers' `generate` that the model has; None of a run or its slice."""
        return None

    @property
    def token_bytes(self) -> int:
        """Bytes of the KV cache for a token."""
        return self.source.shape.kv_bytes_per_token(self.dtype.itemsize)

    def scoring_bytes(self, sequences: int, tokens: int) -> int:
        """Estimated bytes of scoring a batch, see `Shape.scoring_bytes`."""
        return scoring_bytes(self.source.shape, sequences, tokens, self.dtype.itemsize)

    def check_batch(self, sequences: int, tokens: int) -> None:
        """Check a batch to be scored, of `sequences` × `tokens`."""
        check_device_memory(
            self.scoring_bytes(sequences, tokens),
            self.device,
            f"a batch of {sequences:,} sequences of {tokens:,} tokens",
            "lower --batch-size",
        )

    def new_cache(self) -> Any:
        """An empty cache that `hidden` extends."""
        from transformers import DynamicCache

        return DynamicCache(config=self.backbone.config)

    @cached_property
    def healing(self) -> Healing | None:
        """How to continue a prompt that ends inside a superword; None without superwords."""
        if self.tokenizer_out.pretokenizer is not PHRASES:
            return None
        vocabulary = self.tokenizer_out.vocabulary
        return Healing(vocabulary.tokens(), len(vocabulary.specials))

    def with_vocabulary(self, inputs: Side, outputs: Side = None) -> SlicedModel:
        """The same backbone, shared, with other rows of its run."""
        vocabularies = self.source.vocabularies(inputs, outputs)
        return SlicedModel(self.source, vocabularies, self.backbone, self.dtype)

    def encode_in(self, text: str) -> list[int]:
        """Rows of a text by `tokenizer_in`, without `end_of_text` before it."""
        return self.vocabularies.encode_in(text)

    def encode_out(self, text: str) -> list[int]:
        """Ids of a text by `tokenizer_out`, as `score.score` takes them."""
        return self.vocabularies.encode_out(text)

    def encode_document(self, text: str) -> list[int]:
        """Ids of a text to be measured."""
        return self.encode_out(text)

    @property
    def window(self) -> int:
        """Most tokens of a part of a document to be measured."""
        return self.context

    def prompt(self, text: str) -> list[int]:
        """Rows of a text to be continued, with what begins a text in training."""
        return [self.end_of_text, *self.encode_in(text)]

    def continuation(self, context: str, rows: Sequence[int], text: str) -> list[int]:
        """Ids of `text` after a context of these rows: here of the text alone."""
        return self.encode_out(text)

    @torch.inference_mode()
    def hidden(
        self,
        rows: torch.Tensor,
        *,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        cache: Any = None,
    ) -> torch.Tensor:
        """Hidden states after the final norm; (B, T) rows to (B, T, d).

        `cache` is a `DynamicCache` of transformers, which grows by these tokens.
        `attention_mask` (B, past + T) marks padding on the left by 0; padding on the right needs
        no mask.
        """
        inputs = F.embedding(rows, self.embedding)
        shape = self.source.shape
        states: torch.Tensor = self.backbone(
            inputs_embeds=inputs if shape.hf_scales else shape.scaled(inputs),
            attention_mask=attention_mask,
            position_ids=position_ids,
            use_cache=cache is not None,
            **{cache_name(self.backbone): cache},
        ).last_hidden_state
        return states

    @torch.inference_mode()
    def head_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(…, d) to float32 logits over V_out, (…, |V_out|)."""
        return self.source.shape.logits(F.linear(hidden, self.head).float())

    def logits(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Logits over V_out after every token; (B, T) rows to (B, T, |V_out|) float32."""
        return self.head_logits(self.hidden(input_ids))


class Healing:
    """Candidates for generation in place of the last tokens of a prompt.

    In training " of the" is one token, so " of" and then " the" was hardly ever seen. A prompt that
    ends in " of" would therefore rarely be continued by " the". So the last tokens of a prompt are
    left out where their text is words that a superword begins with, and generation has to spell
    that text first: by the tokens it had, or by a superword that goes on. Words of the prompt stay
    whole.

    Args:
        tokens: all tokens of a vocabulary by id.
        first: id of the first one that is no special token.

    >>> healing = Healing([b" ", b"o", b"f", b" of", b" of the", b" often"], 0)
    >>> healing.left_out([b"one", b" of"]), healing.allowed(b" of")
    (1, [0, 3, 4])
    """

    def __init__(self, tokens: Sequence[bytes], first: int) -> None:
        self._ids = {token: index for index, token in enumerate(tokens[first:], first)}
        self._longer: dict[bytes, list[int]] = defaultdict(list)
        for token, index in self._ids.items():
            if may_span_words(token):
                for begin in list(accumulate(split_words(token)))[:-1]:
                    self._longer[begin].append(index)
        self._longest = max(map(len, self._longer), default=0)

    def left_out(self, prompt: Sequence[bytes]) -> int:
        """Number of last tokens to leave out: the most that superwords begin with."""
        most, text = 0, b""
        for number, token in enumerate(reversed(prompt), 1):
            text = token + text
            if len(text) > self._longest:
                break
            if text in self._longer:
                most = number
        return most

    def allowed(self, text: bytes) -> list[int]:
        """Ids of tokens with which a text may begin that begins with `text`, ascending."""
        parts = (self._ids.get(text[:size]) for size in range(1, len(text) + 1))
        shorter = [index for index in parts if index is not None]
        return sorted({*shorter, *self._longer.get(text, ())})
