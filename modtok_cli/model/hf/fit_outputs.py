"""Output rows of a new vocabulary, fitted to text without training.

A mean of rows makes a new token about as likely as its parts, but it takes the place of a whole
sequence of them. Two counts of the same text, by the old tokenizer and by the new one, tell how
much rarer each token is than the old token that it begins with; its logit is lowered by that. No
bias is needed: one vector has nearly the same product with all hidden states, so a multiple of it
added to a row lowers its logit everywhere.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from modtok_cli.base.arrays import Float64Array, Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.model.architecture.logit_scales import logit_scales
from modtok_cli.model.hf.hf_source import HfSource
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.readers import texts_in_turn
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.adopted.adopt import token_counts
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile
from modtok_cli.tokenizer.spelling import Spelling
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

# Chosen on lines of two models and two languages, tested on others
# (docs/results-pretraining.md).
FIRST = 0.6  # share of the first old token's row in an output row, where tables are untied
RARER = 0.7  # share of the logarithm by which a new token is rarer that its logit is lowered by
_RIDGE = 1e-2
# Hidden states that the vector is fitted to, and tokens of a forward pass.
_STATES, _WINDOW = 4096, 256


@dataclass(frozen=True)
class FitText:
    """Text to fit output rows to: files or directories, as `modtok slice --text` reads them."""

    texts: Sequence[str]
    reading: Reading = Reading()

    def __post_init__(self) -> None:
        if "-" in self.texts:
            raise UsageError("is read more than once", where="stdin", remedy="give a file")

    def counts(
        self, old: TokenizerFile, new: Subtokenizer, progress: Progress = SILENT
    ) -> tuple[Int64Array, Int64Array]:
        """Occurrences of each old token (V,) and of each new one (W,), int64."""
        counted = {
            pretokenizer: count_corpus(
                self.texts, pretokenizer=pretokenizer, reading=self.reading, progress=progress
            )
            for pretokenizer in {old.pretokenizer, new.pretokenizer}
        }
        return (
            token_counts(old, counted[old.pretokenizer]),
            new.token_occurrences(counted[new.pretokenizer]),
        )

    def documents(self) -> Iterable[str]:
        """Their documents, one of each text in turn."""
        return texts_in_turn(self.texts, self.reading)


def logit_offsets(
    spelling: Spelling, old_counts: Int64Array, new_counts: Int64Array
) -> Float64Array:
    """The number to add to the logit of each new token; (W,) float64, at most 0.

    A token of both vocabularies that occurs n times in the old tokens of a text and m times in
    the new ones gets log((m + 1) / (n + 1)): longer tokens take its place elsewhere. Any other
    token gets `RARER` times that, with the n of the old token that it begins with.

    Args:
        spelling: W tokens; those without a spelling get 0.
        old_counts: (V,). new_counts: (at most W,); further tokens of the spelling get 0.

    Example: " house" occurs 9 times, its first old token " ho" 99 times: 0.7 · log(10 / 100).
    """
    lengths = spelling.lengths[: len(new_counts)]
    spelled = np.flatnonzero(lengths)
    first = spelling.ids[spelling.offsets[spelled]]
    logs = np.log((new_counts[spelled] + 1.0) / (old_counts[first] + 1.0))
    offsets = np.zeros(len(spelling.lengths))
    offsets[spelled] = np.minimum(logs, 0.0) * np.where(lengths[spelled] > 1, RARER, 1.0)
    return offsets


def first_only(spelling: Spelling) -> Spelling:
    """The same tokens, each spelled by the first of its old tokens only."""
    lengths = np.minimum(spelling.lengths, 1)
    ids = spelling.ids[spelling.offsets[:-1][lengths > 0]]
    return Spelling(ids, np.concatenate([[0], np.cumsum(lengths)]))


def hidden_states(source: HfSource, model: Any, documents: Iterable[str]) -> torch.Tensor:
    """Inputs of the model's output layer on the first documents; (at most 4,096, d) float32."""
    states: list[torch.Tensor] = []
    missing = _STATES

    def keep(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        states.append(inputs[0][0, :missing].float().cpu())

    hook = model.get_output_embeddings().register_forward_pre_hook(keep)
    try:
        for document in documents:
            ids = [source.first, *source.hf_tokenizer.encode(document).tolist()][:_WINDOW]
            with torch.inference_mode():
                model(torch.tensor([ids], device=model.device), use_cache=False)
            missing -= len(states[-1])
            if missing <= 0:
                break
    finally:
        hook.remove()
    if not states:
        raise ModtokError("the text to fit to has no documents", where=source.path)
    return torch.cat(states)


def constant_direction(states: torch.Tensor) -> torch.Tensor:
    """The vector with a product nearest to 1 with all hidden states; (d,) float32.

    Ridge regression of ones on `states` (n, d), by least squares.
    """
    wide = states.double()
    gram = wide.T @ wide
    gram += _RIDGE * gram.diag().mean() * torch.eye(len(gram), dtype=torch.float64)
    direction: torch.Tensor = torch.linalg.solve(gram, wide.sum(0))
    return direction.float()


def measure(path: Path, text: FitText) -> torch.Tensor:
    """The direction that, added to an output row, adds 1 to its logit on a text; (d,)."""
    source, gpu = HfSource(path), torch.cuda.is_available()
    # Products in bfloat16 are slow on most CPUs.
    model = source.open_model(
        source.dtype if gpu else torch.float32, torch.device("cuda" if gpu else "cpu")
    )
    direction = constant_direction(hidden_states(source, model, text.documents()))
    return direction / logit_scales(model).factor
