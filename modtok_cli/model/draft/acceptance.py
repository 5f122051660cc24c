"""Tokens of a draft that its target accepts, for lists of the draft's output rows.

In greedy decoding the text is the target's, whatever the draft: a drafted token is accepted if it
is the target's next one, and only tokens before the first that is not count. So one pass of the
draft over the target's text gives the rounds of every list, as an engine has them that decodes with
the draft cut to the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from modtok_cli.base.arrays import BoolArray
from modtok_cli.base.errors import UsageError
from modtok_cli.base.extras import quiet, transformers
from modtok_cli.model.architecture.stored_model import HfDirectory
from modtok_cli.model.draft.head import NAME, check_own_model
from modtok_cli.model.draft.reduced_head import open_draft
from modtok_cli.model.hf.hf_source import HfSource

Ids = npt.NDArray[np.integer[Any]]
DRAFTED = 4
"""Tokens that are drafted in a round."""
_PROMPT, _NEW = 32, 32  # tokens of a prompt, at most, and after it


@dataclass(frozen=True)
class Rounds:
    """Rounds of speculative decoding, over all prompts.

    Attributes:
        rounds: number of passes of the target.
        drafted: tokens that were drafted.
        accepted: those that the target accepted.
    """

    rounds: int
    drafted: int
    accepted: int

    @staticmethod
    def of(matches: Iterable[BoolArray], most: int) -> Rounds:
        """By prompt, whether the draft has each token of the target's text; (n,) bool each.

        `most`: tokens of a text that does not end before. The last token of a round is the
        target's, so fewer are drafted at the end.

        >>> Rounds.of([np.array([True, True, False, True, True])], 5)
        Rounds(rounds=2, drafted=5, accepted=3)
        """
        rounds = drafted = accepted = 0
        for match in matches:
            at = 0
            while at < len(match):
                count = min(DRAFTED, most - at - 1)
                here = match[at:-1][:count]
                taken = len(here) if here.all() else int(here.argmin())
                rounds, drafted, accepted = rounds + 1, drafted + count, accepted + taken
                at += taken + 1
        return Rounds(rounds, drafted, accepted)

    def row(self) -> dict[str, float]:
        """Share of drafted tokens accepted, and new tokens for each pass of the target."""
        return {
            "accepted": self.accepted / max(1, self.drafted),
            "tokens_per_round": (self.accepted + self.rounds) / max(1, self.rounds),
            "rounds": self.rounds,
        }


class Pair:
    """A target and its draft, in directories that transformers opens; both have the same tokens.

    The draft may be one of `modtok slice --head`.
    """

    def __init__(self, target: Path, draft: Path) -> None:
        self.source = HfSource(target)
        other, own = HfDirectory(draft), self.source.directory
        check_own_model(other)
        self._draft = draft
        if not own.has_ids(other.tokens):
            raise UsageError(
                f"is no draft of {target}, which has other tokens",
                where=draft,
                remedy="give a draft with the tokenizer of MODEL",
            )

    @cached_property
    def _models(self) -> tuple[Any, Any]:
        gpu = torch.cuda.is_available()
        # Products in bfloat16 are slow on most CPUs.
        dtype, device = self.source.dtype if gpu else torch.float32, "cuda" if gpu else "cpu"
        target = self.source.open_model(dtype, torch.device(device))
        # Without penalties or suppressed tokens, which `generate` takes from the model's settings.
        target.generation_config = transformers().GenerationConfig(
            do_sample=False, max_new_tokens=_NEW, eos_token_id=target.generation_config.eos_token_id
        )
        if (self._draft / NAME).is_file():
            return target, open_draft(self._draft).to(dtype).to(device).eval()
        return target, HfSource(self._draft).open_model(dtype, torch.device(device))

    def rounds(self, texts: Sequence[Ids], lists: Sequence[Ids]) -> list[Rounds]:
        """For each list, rounds with the draft reduced to it, in continuations of the texts.

        A prompt is the first half of a text, at most 32 tokens; 32 tokens follow it.
        """
        matches: list[list[BoolArray]] = [[] for _ in lists]
        for text in texts:
            prompt = [*self.source.prefix, *text[: min(_PROMPT, len(text) // 2)].tolist()]
            new, logits = self._continued(prompt)
            for found, ids in zip(matches, lists, strict=True):
                rows = torch.as_tensor(np.sort(ids), dtype=torch.long, device=logits.device)
                rows = rows[rows < logits.shape[-1]]  # tables of target and draft may be padded
                found.append((rows[logits[:, rows].argmax(-1)] == new).cpu().numpy())
        return [Rounds.of(each, _NEW) for each in matches]

    def _continued(self, prompt: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """The target's text (n,) and what the draft says before each of its tokens (n, V)."""
        target, draft = self._models
        start = torch.tensor([prompt], device=target.device)
        with torch.inference_mode(), quiet():
            mask = torch.ones_like(start)
            whole = target.generate(start, attention_mask=mask)
            logits = draft(whole[:, :-1]).logits[0, len(prompt) - 1 :]
        return whole[0, len(prompt) :], logits.float()
