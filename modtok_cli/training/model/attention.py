"""Attention in torch, in place of Megatron's, which needs a GPU; and masks between documents."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F


def document_mask(inputs: torch.Tensor, end_of_text: int) -> torch.Tensor:
    """Which tokens attend to which, if packed documents do not see each other.

    A document starts with an end-of-text token, the one that its first token is predicted from.
    A sequence may start inside a document.

    Args:
        inputs: (B, S) ids.
        end_of_text: id of the token that separates documents.

    Returns:
        (B, 1, S, S) bool; entry [b, 0, i, j] is True if token i attends to token j: j <= i, and
        both are in the same document.

    Example: for the ids [5, 0, 7, 8] and end_of_text = 0, token 0 attends to itself, token 1 to
    itself, token 2 to tokens 1 and 2, token 3 to tokens 1 to 3.
    """
    document = (inputs == end_of_text).cumsum(1)
    same = document.unsqueeze(2) == document.unsqueeze(1)
    return same.tril().unsqueeze(1)


class CausalAttention(torch.nn.Module):
    """Scaled dot product attention of torch, causal or with a mask of documents."""

    def __init__(self, config: Any, layer_number: int, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(
        self,
        query_SBHD: torch.Tensor,
        key_SBGD: torch.Tensor,
        value_SBGD: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> torch.Tensor:
        """(S, B, H, D) queries and (S, B, G, D) keys and values to (S, B, H · D)."""
        q, k, v = (x.permute(1, 2, 0, 3) for x in (query_SBHD, key_SBGD, value_SBGD))
        mixed = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=attention_mask,
            is_causal=attention_mask is None,
            enable_gqa=q.shape[1] != k.shape[1],
        )
        return mixed.permute(2, 0, 1, 3).flatten(2)
