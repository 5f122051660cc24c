"""vLLM's renderer, with prompts segmented by the tokenizer of their request's languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vllm.exceptions import VLLMValidationError
from vllm.renderers.hf import HfRenderer

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.model.serve.engine import can_score, check
from modtok_cli.model.serve.served_languages import (
    CURRENT,
    KEY,
    OF_REQUEST,
    ServedLanguages,
    apart,
)


class LanguageRenderer(HfRenderer):
    """Chat templates, limits and truncation are vLLM's; ids are T's."""

    def __init__(self, config: Any, tokenizer: Any) -> None:
        try:
            check(config)
        except UsageError as error:  # before vLLM starts its engine, in one line
            raise SystemExit(f"modtok serve: {error}") from None
        super().__init__(config, tokenizer)
        default = (config.additional_config or {}).get(KEY, "")
        self.served = ServedLanguages.of(Path(config.model_config.tokenizer), default)
        self.served.can_score = can_score(config)
        CURRENT[:] = [self.served]
        self._around = _around(self.get_tokenizer())
        # vLLM's runs in a thread, which does not know the request.
        self._tokenize_prompt_async = self._segment

    def _can_produce_offsets(self) -> bool:
        return False

    def _tokenize_prompt(self, prompt: Any, params: Any) -> Any:
        chosen = OF_REQUEST.get()
        if chosen is None:
            raise VLLMValidationError("the languages of the request are not known", parameter=KEY)
        try:
            ids = self.served.encode(prompt["prompt"], chosen.input).tolist()
        except ModtokError as error:
            raise VLLMValidationError(str(error), parameter="prompt") from error
        before, after = self._around if params.add_special_tokens else ([], [])
        return self._build_tokens_prompt([*before, *ids, *after], prompt)

    async def _segment(self, prompt: Any, params: Any) -> Any:
        return await apart(lambda: self._tokenize_prompt(prompt, params))


def _around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The ids that a tokenizer puts before and after every text."""
    whole: list[int] = tokenizer("a")["input_ids"]
    plain = tokenizer("a", add_special_tokens=False)["input_ids"]
    at = next(at for at in range(len(whole)) if whole[at : at + len(plain)] == plain)
    return whole[:at], whole[at + len(plain) :]
