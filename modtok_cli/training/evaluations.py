"""How often a run evaluates, and how much: about a tenth of training's time."""

from __future__ import annotations

from math import ceil

from modtok_cli.training.config import Config
from modtok_cli.training.settings import RunSettings

# Evaluation takes at most this share of training's time. It has no backward pass, which is two
# thirds of training.
_SHARE, _FORWARD = 0.1, 1 / 3
# Of text in a language that the tokenizer has; tokenizers of 24,000 tokens take 4 to 6.
_TOKEN_BYTES = 2
# Bits per byte of less text say little: rather evaluate less often.
_LEAST_BYTES = 4096


def fitted(config: Config, settings: RunSettings, languages: int) -> Config:
    """The configuration of a new run, with what `settings` leave open fitted to the number of
    languages that are evaluated, those of all stages.

    A run of 12 steps of 2,048 tokens in 21 languages may evaluate 7,372 tokens: once, 351 tokens
    of each language. Nothing is measured, so that equal runs evaluate equally.
    """
    trained = config.tokens
    most = _SHARE / _FORWARD * trained / _texts(config, languages)  # tokens of one text
    if settings.evaluation.eval_every is None:
        least = settings.evaluation.eval_bytes or min(config.evaluation.eval_bytes, _LEAST_BYTES)
        times = max(1, int(most / _tokens(config, least)))
        config = config.changed(
            eval_every=max(config.evaluation.eval_every, ceil(config.last_step / times))
        )
    if settings.evaluation.eval_bytes is None:
        tokens = max(config.data.seq_length, int(most / _times(config)))
        config = config.changed(eval_bytes=min(config.evaluation.eval_bytes, tokens * _TOKEN_BYTES))
    return config


def evaluation_plan(config: Config, languages: int) -> str:
    """How often a run evaluates, how much, and what that costs, in words."""
    texts, times = _texts(config, languages), _times(config)
    tokens = times * texts * _tokens(config, config.evaluation.eval_bytes)
    share = _FORWARD * tokens / config.tokens
    each = f"up to {config.evaluation.eval_bytes:,} bytes of each of {texts} texts"
    return (
        f"{times:,} evaluation{'s' * (times != 1)} of {each}, about {share:.0%} of training's time"
    )


def _texts(config: Config, languages: int) -> int:
    return languages * (1 + len(config.evaluation.valid or ()))


def _times(config: Config) -> int:
    return ceil(config.last_step / config.evaluation.eval_every)


def _tokens(config: Config, size: int) -> float:
    """Tokens of a text of `size` bytes; a sequence at least."""
    return max(config.data.seq_length, size / _TOKEN_BYTES)
