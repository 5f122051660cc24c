"""Sample text from a model with a given output vocabulary; for studies, not for serving."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.training.model.model import GatheredRows, Model


@torch.no_grad()
def continue_texts(
    model: Model,
    subtokenizer: Subtokenizer,
    prompts: Sequence[npt.NDArray[np.int32]],
    count: int,
    *,
    avoid: Sequence[int] = (),
    seed: int = 0,
) -> list[bytes]:
    """Sample `count` tokens after each prompt from the model's distribution over V_S.

    Prompts are local ids of equal length; local ids in `avoid` are not sampled. For one process;
    without a key-value cache.
    """
    ids = torch.from_numpy(subtokenizer.global_ids.astype(np.int64)).to(model.ranks.device)
    output = GatheredRows(ids, model.output.gather(ids, model.dtype))
    rows = output if model.tied else GatheredRows(ids, model.input.gather(ids, model.dtype))
    generator = torch.Generator().manual_seed(seed)
    text = torch.from_numpy(np.stack(prompts).astype(np.int64)).to(model.ranks.device)
    start = text.shape[1]
    for _ in range(count):
        last = model.hidden(ids[text], rows)[-1]
        logits = (last @ output.rows.t()).float().cpu()
        logits[:, list(avoid)] = -torch.inf
        drawn = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)
        text = torch.cat([text, drawn.to(text.device)], dim=1)
    drawn_ids = text[:, start:].cpu().numpy().astype(np.int32)
    return [subtokenizer.decode_bytes(one) for one in drawn_ids]
