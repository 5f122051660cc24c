"""Time of forward passes and of decoding, by tokenizer, on the same text.

The paper's protocol: the whole text is packed into full contexts of 4,096 tokens, batch 1, and
nothing is truncated. The time of a text is the mean forward pass times the number of contexts that
its tokens fill. Time depends on the number of tokens and the rows of the head, not on weights, so
they are random. Tokenizers alternate, so that changes in the machine's speed affect all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from modtok_cli.architectures.shape import Shape
from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.progress import Progress
from modtok_cli.inference.cost import CONTEXT

if TYPE_CHECKING:
    from modtok_cli.inference.cost.random_model import RandomModel

Encoded = tuple[int, Int64Array]
"""Size of a tokenizer, and the ids of a text in it, (T,)."""


def packed(ids: Int64Array, context: int = CONTEXT) -> Int64Array:
    """Ids in full contexts, (T,) to (ceil(T / context), context).

    The last context is filled up by repeating the ids from the start.

    >>> packed(np.array([1, 2, 3]), 2).tolist()
    [[1, 2], [3, 1]]
    """
    count = -(-len(ids) // context)
    return np.resize(ids, (count, context))


def timed(
    models: Mapping[str, Shape],
    texts: Mapping[str, Sequence[Encoded]],
    decode_steps: int,
    progress: Progress,
) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """(model, language, figures of each tokenizer relative to the first), as `cost` returns them.

    Raises:
        ModtokError: a model does not fit into memory.
    """
    import torch

    from modtok_cli.inference.cost.random_model import RandomModel

    gpu = torch.cuda.is_available()
    device, dtype = ("cuda", torch.bfloat16) if gpu else ("cpu", torch.float32)
    largest = max(size for each in texts.values() for size, _ in each)
    contexts = {name: [packed(ids) for _, ids in each] for name, each in texts.items()}
    passes = len(models) * sum(len(one) for each in contexts.values() for one in each)
    with torch.inference_mode(), progress.task("timing", passes, "passes") as task:
        for name, shape in models.items():
            model = RandomModel(shape, largest, dtype, torch.device(device))
            for language, each in texts.items():
                sizes = [size for size, _ in each]
                passing = _context_seconds(model, sizes, contexts[language], task)
                decoding = model.decode_seconds(sizes, decode_steps)
                forward = [
                    seconds * len(ids) / CONTEXT
                    for seconds, (_, ids) in zip(passing, each, strict=True)
                ]
                decode = [
                    seconds * len(ids) for seconds, (_, ids) in zip(decoding, each, strict=True)
                ]
                yield (
                    name,
                    language,
                    [
                        {
                            "contexts": len(contexts[language][index]),
                            "context_seconds": passing[index],
                            "forward_seconds": forward[index],
                            "forward_ratio": forward[index] / forward[0],
                            "token_seconds": decoding[index],
                            "decode_ratio": decode[index] / decode[0],
                        }
                        for index in range(len(each))
                    ],
                )
            del model


def _context_seconds(
    model: RandomModel, sizes: Sequence[int], texts: Sequence[Int64Array], task: Any
) -> list[float]:
    """Mean forward pass of a full context for each tokenizer, all contexts being computed."""
    import torch

    contexts = [torch.from_numpy(each) for each in texts]
    for size, own in zip(sizes, contexts, strict=True):
        # The first pass of a size includes allocations and the choice of kernels.
        model.seconds(own[:1].to(model.device), size)
    order = sorted(
        ((place + 0.5) / len(own), index, place)
        for index, own in enumerate(contexts)
        for place in range(len(own))
    )
    sums = [0.0] * len(sizes)
    for _, index, place in order:
        ids = contexts[index][place : place + 1].to(model.device)
        sums[index] += model.seconds(ids, sizes[index])
        task.advance(1)
    return [total / len(own) for total, own in zip(sums, contexts, strict=True)]
