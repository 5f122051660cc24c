"""The factor and the bound of a transformers model's logits, measured on the model itself.

Names of fields do not tell: Granite divides by `logits_scaling`, HyperCLOVA X multiplies by it. So
the output layer is made to give known values, and what the model makes of them is read.
"""

from typing import Any, NamedTuple

_SMALL, _LARGE = 2.0**-10, 2.0**20


class LogitScales(NamedTuple):
    """Logits are factor · l of products l of hidden states and output rows, within ± cap."""

    factor: float
    cap: float | None = None


def logit_scales(model: Any) -> LogitScales:
    """The scale, factor and cap of a causal language model's output layer in transformers.

    It runs on one token. Its logits are f · l, or c · tanh(f · l / c).
    """
    import torch

    def known(_: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
        values = torch.full_like(output, _SMALL, dtype=torch.float32)
        values[..., 1::2] = _LARGE
        return values

    hook = model.get_output_embeddings().register_forward_hook(known)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        device = model.get_input_embeddings().weight.device
        with torch.no_grad():
            first = torch.zeros(1, 1, dtype=torch.int64, device=device)
            logits = model(input_ids=first).logits
    finally:
        hook.remove()
        for module, training in modes:
            module.training = training
    low, high = logits[0, -1, :2].double().tolist()
    factor = low / _SMALL
    bounded = abs(high) < 0.5 * abs(factor) * _LARGE
    return LogitScales(factor, abs(high) if bounded else None)
