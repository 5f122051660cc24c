"""Generation: the backbone and KV cache of transformers, in a loop for two vocabularies.

Prompts are batched with padding on the left. Text is emitted as soon as it is final: never part of
a character, and never the beginning of a possible stop string. Prompts that end inside a superword
are begun earlier, see `model.Healing`.
"""

from codecs import getincrementaldecoder
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from modtok_cli.base.errors import UsageError
from modtok_cli.model.generate.generation_config import processes
from modtok_cli.model.generate.next_token import SamplingOptions
from modtok_cli.model.generate.sliced_model import SlicedModel, check_device_memory

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


class _Sequence:
    def __init__(self, model: SlicedModel, prompt: Sequence[int], options: SamplingOptions) -> None:
        self._model, self._options = model, options
        self.prompt, self.begun = prompt, b""  # text that the first tokens have to spell again
        if model.healing is not None:
            tokens = [model.vocabularies.row_bytes(row) for row in prompt[1:]]
            left_out = model.healing.left_out(tokens)
            self.prompt = prompt[: len(prompt) - left_out]
            self.begun = b"".join(tokens[len(tokens) - left_out :])
        config = model.generation_config
        self._processes = (
            [] if config is None else processes(config, len(prompt), model.ends_of_output)
        )
        self.ids: list[int] = []
        self.text = ""
        self.reason: str | None = None
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._emitted = 0

    def processed(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits (V,) of the next token, as the model's generation_config.json has them."""
        if self._processes:
            ids = torch.tensor([[*self.prompt, *self.ids]], device=logits.device)
            for process in self._processes:
                logits = process(ids, logits[None])[0]
        return logits

    def add(self, token: int) -> str:
        """Append a token; returns the text that is now final."""
        data = self._model.tokenizer_out.token_bytes(token)
        data, self.begun = data[len(self.begun) :], self.begun[len(data) :]
        self.reason = self._append(token, data)
        if self.reason is not None:
            self.text += self._decoder.decode(b"", True)
        end = len(self.text)
        if self.reason is None:
            end -= max((_overlap(self.text, stop) for stop in self._options.stop), default=0)
        fresh = self.text[self._emitted : end]
        self._emitted = max(self._emitted, end)
        return fresh

    def _append(self, token: int, data: bytes) -> str | None:
        """Append a token that adds `data`; the reason if the sequence ends with it."""
        options = self._options
        if token in self._model.ends_of_output:
            return "end"
        self.ids.append(token)
        before = len(self.text)
        self.text += self._decoder.decode(data)
        longest = max(map(len, options.stop), default=0)
        places = [self.text.find(stop, max(0, before - longest + 1)) for stop in options.stop]
        first = min((place for place in places if place >= 0), default=None)
        if first is not None:
            self.text = self.text[:first]
            self._decoder.reset()
            return "stop"
        if len(self.ids) >= options.max_tokens:
            return "length"
        return "context" if len(self.prompt) + len(self.ids) >= self._model.context else None


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
    if not prompts:
        return []
    _check(model, prompts, options)
    numbers = list(range(len(prompts)) if indices is None else indices)
    sequences = [_Sequence(model, prompt, options) for prompt in prompts]
    tell = listener or (lambda place, text: None)
    done = 0
    while going := [place for place, each in enumerate(sequences) if each.reason is None]:
        done = _continue(model, sequences, going, options, numbers, done, tell)
    return [Generated(tuple(each.ids), each.text, each.reason or "") for each in sequences]


def _continue(
    model: SlicedModel,
    sequences: Sequence[_Sequence],
    going: Sequence[int],
    options: SamplingOptions,
    numbers: Sequence[int],
    done: int,
    listener: Listener,
) -> int:
    """Continue the sequences `going`, which have `done` tokens each, until all have ended.

    Also ends when the batch, with its padding, fills the context: a model may have no position
    beyond it. Returns the number of tokens then.
    """
    chosen_ones = [sequences[place] for place in going]
    known = [[*each.prompt, *model.row_of_out[each.ids].tolist()] for each in chosen_ones]
    longest = max(map(len, known))
    pads = [longest - len(rows) for rows in known]
    rows = torch.tensor(
        [[*[model.end_of_text] * pad, *own] for pad, own in zip(pads, known, strict=True)],
        device=model.device,
    )
    mask = torch.ones_like(rows)
    for index, pad in enumerate(pads):
        mask[index, :pad] = 0
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    cache = model.new_cache()
    padded = any(pads)
    while True:
        hidden = model.hidden(
            rows,
            attention_mask=mask if padded else None,
            position_ids=positions if padded else None,
            cache=cache,
        )
        # Without rows that fill a table up.
        logits = model.head_logits(hidden[:, -1])[:, : len(model.row_of_out)]
        logits = torch.stack(
            [each.processed(row) for each, row in zip(chosen_ones, logits, strict=True)]
        )
        for each, row in zip(chosen_ones, logits, strict=True):
            if each.begun and model.healing is not None:
                others = torch.ones_like(row, dtype=torch.bool)
                others[model.healing.allowed(each.begun)] = False
                row.masked_fill_(others, -torch.inf)
        chosen = options.choose(logits, [numbers[place] for place in going], done)
        for place, each, token in zip(going, chosen_ones, chosen.tolist(), strict=True):
            if each.reason is None and (fresh := each.add(token)):
                listener(place, fresh)
        done += 1
        if all(each.reason for each in chosen_ones) or mask.shape[1] >= model.context:
            return done
        rows = model.row_of_out[chosen][:, None]
        mask = torch.cat([mask, torch.ones_like(rows)], 1)
        positions = positions[:, -1:] + 1


def _check(model: SlicedModel, prompts: Sequence[Sequence[int]], options: SamplingOptions) -> None:
    """Refuse prompts without space, and a batch whose cache and logits do not fit into memory."""
    for prompt in prompts:
        if not prompt:
            raise UsageError("the prompt is empty", remedy="begin it with the end of text")
        if len(prompt) >= model.context:
            raise UsageError(
                f"the prompt has {len(prompt):,} tokens, the context is {model.context:,}",
                remedy="shorten the prompt",
            )
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
