"""Processors of text by a model's generation_config.json, transformers' own.

Options of `modtok generate` stand for sampling and length; `left_to_options` names fields of those
that would give another text in transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch

Process = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""From ids (1, n) of prompt and text so far, and logits (1, V), to logits."""

# Fields that do not change a text, and limits of its length.
_NEUTRAL = {
    "transformers_version", "use_cache", "cache_implementation", "cache_config", "max_length",
    "max_new_tokens", "max_time", "return_dict_in_generate", "num_return_sequences", "do_sample",
    "disable_compile", "compile_config", "is_assistant", "num_assistant_tokens", "low_memory",
    "num_assistant_tokens_schedule", "assistant_confidence_threshold", "renormalize_logits",
    "remove_invalid_values", "early_stopping", "use_mtp", "max_cache_len", "prefill_chunk_size",
    "prompt_lookup_num_tokens", "max_matching_ngram_size", "continuous_batching_config",
    "bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id",
}  # fmt: skip
_OF_SAMPLING = {
    "temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff", "top_h",
}  # fmt: skip
_OBEYED = {
    "repetition_penalty", "no_repeat_ngram_size", "bad_words_ids", "min_length", "min_new_tokens",
    "suppress_tokens", "begin_suppress_tokens", "sequence_bias",
}  # fmt: skip


def processes(config: Any, prompt: int, ends: Collection[int]) -> list[Process]:
    """The processors of logits before a token is chosen, in transformers' order.

    Args:
        config: a `GenerationConfig`.
        prompt: tokens of the prompt.
        ends: ids that end a text.
    """
    import transformers as library

    def given(name: str) -> Any:
        return getattr(config, name, None)

    found: list[Process] = []
    end = sorted(ends)
    if given("sequence_bias"):
        found.append(library.SequenceBiasLogitsProcessor(sequence_bias=config.sequence_bias))
    if given("repetition_penalty") not in (None, 1):
        penalty = float(config.repetition_penalty)
        found.append(library.RepetitionPenaltyLogitsProcessor(penalty=penalty))
    if given("no_repeat_ngram_size"):
        found.append(library.NoRepeatNGramLogitsProcessor(config.no_repeat_ngram_size))
    if given("bad_words_ids"):
        found.append(library.NoBadWordsLogitsProcessor(config.bad_words_ids, end or None))
    if end and given("min_length"):
        found.append(library.MinLengthLogitsProcessor(config.min_length, end))
    if end and given("min_new_tokens"):
        found.append(library.MinNewTokensLengthLogitsProcessor(prompt, config.min_new_tokens, end))
    if given("suppress_tokens"):
        found.append(library.SuppressTokensLogitsProcessor(config.suppress_tokens))
    if given("begin_suppress_tokens"):
        found.append(
            library.SuppressTokensAtBeginLogitsProcessor(config.begin_suppress_tokens, prompt)
        )
    return found


def left_to_options(config: Any) -> list[str]:
    """Names of the fields that would change a text in transformers and do not here."""
    stated = {} if config is None else config.to_diff_dict()
    known = {*_NEUTRAL, *_OBEYED} | (set() if stated.get("do_sample") else _OF_SAMPLING)
    return sorted(
        name
        for name, value in stated.items()
        if name not in known and not _is_off(name, value) and not name.startswith(("_", "output_"))
    )


def _is_off(name: str, value: Any) -> bool:
    """Whether it has no effect: 0 and 1 too, such as one beam, if they are not an id."""
    if isinstance(value, bool) or name.endswith("_token_id"):
        return value is False
    return value in (None, 0, 1, [], {})
