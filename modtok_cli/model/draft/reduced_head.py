"""A draft with a reduced head as a model of transformers, such as for its assisted generation."""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from modtok_cli.base.errors import UsageError
from modtok_cli.base.extras import quiet, transformers
from modtok_cli.model.architecture.stored_model import HfDirectory
from modtok_cli.model.draft.head import HEAD, NAME, check_own_model
from modtok_cli.model.hf.graft_hf import SliceIds


class ReducedHead(nn.Module):
    """An output layer of n rows that gives logits of all tokens: -inf for those without a row.

    `weight` (n, d), `bias` (n,) or None, `ids` (n,) int64 in a vocabulary of `size` tokens.
    """

    ids: torch.Tensor

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None, ids: torch.Tensor, size: int
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias)
        self.register_buffer("ids", ids, persistent=False)
        self.out_features = size

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Logits (…, size) of hidden states (…, d)."""
        logits = F.linear(states, self.weight, self.bias)
        whole = logits.new_full((*logits.shape[:-1], self.out_features), float("-inf"))
        return whole.index_copy_(-1, self.ids, logits)


def open_draft(path: Path) -> Any:
    """The model in a directory of `modtok slice --head`, of a draft that transformers opens.

    Its logits are over all tokens of the target, -inf for tokens without a row.

    Raises:
        UsageError: it is another directory.
    """
    if not (path / NAME).is_file():
        raise UsageError(f"has no {NAME}", where=path, remedy="make it with modtok slice --head")
    ids = torch.from_numpy(SliceIds.read(path / NAME).ids).long()
    directory = HfDirectory(path)
    check_own_model(directory)
    names = (name for name in directory.tensors if HEAD.fullmatch(name.removesuffix(".weight")))
    name = next(names, None)
    if name is None or directory.tensors[name].shape[0] != len(ids):
        raise UsageError(
            "has no matrix of output rows that transformers multiplies with",
            where=path,
            remedy="open it with the engine that runs its model",
        )
    bias = f"{name.removesuffix('weight')}bias"
    with quiet():
        model = transformers().AutoModelForCausalLM.from_pretrained(
            path, ignore_mismatched_sizes=True, local_files_only=True
        )
    model.set_output_embeddings(
        ReducedHead(
            directory.tensor(name).to(model.dtype),
            directory.tensor(bias).to(model.dtype) if bias in directory.tensors else None,
            ids,
            directory.vocab_size,
        )
    )
    return model
