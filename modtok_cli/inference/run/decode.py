"""Generation: the backbone and KV cache of transformers, in a loop for two vocabularies.

Prompts are batched with padding on the left. Text is emitted as soon as it is final: never part of
a character, and never the beginning of a possible stop string. Prompts that end inside a superword
are begun earlier, see `model.Healing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count as count_from

import torch

from modtok_cli.base.errors import UsageError
from modtok_cli.inference.run.model import SlicedModel, check_device_memory
from modtok_cli.inference.run.sampling import SamplingOptions

# Called with (place of the prompt in the batch, text that is now final).
Listener = Callable[[int, str], None]


@dataclass(frozen=True)
class Generated:
    """The continuation of a prompt.

    Attributes:
        ids: ids of `tokenizer_out`, without the end of text; the first may spell the end of the
            prompt.
        text: decoded text, up to a stop string.
        reason: why it ended: "end" of text, "stop" string, "length" limit, or "context" full.
    """

    ids: tuple[int, ...]
    text: str
    reason: str


class _Text:
    """Decoded text of one sequence, and how much of it is final."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = stop
        self._held = b""
        self.text = ""
        self.emitted = 0

    def add(self, data: bytes) -> bool:
        """Append; True if a stop string was found, and the text then ends before it."""
        self._held += data
        whole = len(self._held) - _unfinished(self._held)
        before = len(self.text)
        self.text += self._held[:whole].decode("utf-8", "replace")
        self._held = self._held[whole:]
        longest = max(map(len, self._stop), default=0)
        found = [self.text.find(stop, max(0, before - longest + 1)) for stop in self._stop]
        places = [place for place in found if place >= 0]
        if places:
            self.text, self._held = self.text[: min(places)], b""
        return bool(places)

    def fresh(self, *, finished: bool) -> str:
        """Text that became final since the last call."""
        end = len(self.text)
        if finished:
            self.text += self._held.decode("utf-8", "replace")
            self._held, end = b"", len(self.text)
        else:
            end -= max((_overlap(self.text, stop) for stop in self._stop), default=0)
        fresh = self.text[self.emitted : end]
        self.emitted = max(self.emitted, end)
        return fresh


def _unfinished(data: bytes) -> int:
    """Number of bytes at the end that belong to an incomplete character.

    >>> _unfinished("né".encode()[:-1])
    1
    """
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if length > back else 0
        if byte < 0x80:
            return 0
    return 0


def _overlap(text: str, stop: str) -> int:
    """Number of characters at the end of `text` that are the beginning of `stop`.

    >>> _overlap("one\\n", "\\n\\n")
    1
    """
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0


@torch.inference_mode()
def generate(
    model: SlicedModel,
    prompts: Sequence[Sequence[int]],
    options: SamplingOptions | None = None,
    *,
    indices: Sequence[int] | None = None,
    listener: Listener | None = None,
) -> list[Generated]:
    """Continue prompts, given as rows of `model` (see `SlicedModel.encode_in`), as one batch.

    Draws depend on the index of a prompt: `indices` where the batch is part of a longer list, by
    default the places in the batch.

    Example:
        prompt = [model.end_of_text, *model.encode_in("Il était")]
        generate(model, [prompt], SamplingOptions(max_tokens=20))

    Raises:
        UsageError: an empty prompt, or one that fills the context.
        ModtokError: the batch does not fit into memory.
    """
    options = options or SamplingOptions()
    _check(model, prompts)
    if not prompts:
        return []
    numbers = list(range(len(prompts)) if indices is None else indices)
    _check_memory(model, prompts, options)
    device, count = model.device, len(prompts)
    prompts, begun = _begun(model, prompts)
    longest = max(map(len, prompts))
    pads = [longest - len(prompt) for prompt in prompts]
    end = model.end_of_text
    rows = torch.tensor(
        [[end] * pad + list(prompt) for pad, prompt in zip(pads, prompts, strict=True)],
        device=device,
    )
    mask = torch.ones_like(rows)
    for index, pad in enumerate(pads):
        mask[index, :pad] = 0
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    cache = model.new_cache()
    texts = [_Text(options.stop) for _ in prompts]
    ids: list[list[int]] = [[] for _ in prompts]
    reasons: list[str | None] = [None] * count
    padded = any(pads)
    for position in count_from(0):
        hidden = model.hidden(
            rows,
            attention_mask=mask if padded else None,
            position_ids=positions if padded else None,
            cache=cache,
        )
        logits = model.head_logits(hidden[:, -1])
        for index in [index for index in range(count) if begun[index]]:
            assert model.healing is not None
            allowed = model.healing.allowed(begun[index])
            others = torch.ones_like(logits[index], dtype=torch.bool)
            others[allowed] = False
            logits[index].masked_fill_(others, -torch.inf)
        chosen = options.choose(logits, numbers, position)
        for index, token in enumerate(chosen.tolist()):
            if reasons[index] is None:
                data = model.tokenizer_out.decode_bytes([token])
                data, begun[index] = data[len(begun[index]) :], begun[index][len(data) :]
                reasons[index] = _take(model, options, token, data, ids[index], texts[index])
                if (
                    reasons[index] is None
                    and len(prompts[index]) + len(ids[index]) >= model.context
                ):
                    reasons[index] = "context"
                fresh = texts[index].fresh(finished=reasons[index] is not None)
                if listener is not None and fresh:
                    listener(index, fresh)
        if all(reasons):
            break
        rows = model.row_of_out[chosen][:, None]
        mask = torch.cat([mask, torch.ones_like(rows)], 1)
        positions = positions[:, -1:] + 1
    return [
        Generated(tuple(ids[index]), texts[index].text, reasons[index] or "")
        for index in range(count)
    ]


def _begun(
    model: SlicedModel, prompts: Sequence[Sequence[int]]
) -> tuple[list[Sequence[int]], list[bytes]]:
    """Prompts without the last tokens that may be the beginning of a superword, and their text."""
    kept, begun = list(prompts), [b""] * len(prompts)
    if model.healing is None:
        return kept, begun
    for index, prompt in enumerate(prompts):
        tokens = [model.vocabularies.row_bytes(row) for row in prompt[1:]]
        left_out = model.healing.left_out(tokens)
        kept[index] = prompt[: len(prompt) - left_out]
        begun[index] = b"".join(tokens[len(tokens) - left_out :])
    return kept, begun


def _take(
    model: SlicedModel,
    options: SamplingOptions,
    token: int,
    data: bytes,
    ids: list[int],
    text: _Text,
) -> str | None:
    """Append a token that adds `data`; the reason if the sequence ends with it, else None."""
    if token in model.ends_of_output and not options.past_end:
        return "end"
    ids.append(token)
    if text.add(data):
        return "stop"
    return "length" if len(ids) >= options.max_tokens else None


def _check(model: SlicedModel, prompts: Sequence[Sequence[int]]) -> None:
    for prompt in prompts:
        if not prompt:
            raise UsageError("the prompt is empty", remedy="begin it with the end of text")
        if len(prompt) >= model.context:
            raise UsageError(
                f"the prompt has {len(prompt):,} tokens, the context is {model.context:,}",
                remedy="shorten the prompt",
            )


def _check_memory(
    model: SlicedModel, prompts: Sequence[Sequence[int]], options: SamplingOptions
) -> None:
    """Refuse a batch whose KV cache and logits do not fit into memory."""
    length = min(model.context, max(map(len, prompts)) + options.max_tokens)
    cache = len(prompts) * length * model.token_bytes
    # Logits as float32, their probabilities and sums as float64.
    logits = len(prompts) * model.head.shape[0] * (4 + 3 * 8)
    check_device_memory(
        cache + logits,
        model.device,
        f"a batch of {len(prompts):,} prompts",
        "lower --batch-size or --max-tokens",
    )
