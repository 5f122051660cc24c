"""Adapter of Megatron-Core's Transformer block (its optimizer: `optimizer`).

Versions 0.16 (Python 3.11) to 0.19 (3.12) differ in details, and all expect a GPU. The adapter
works around:

- `core_attention` of the local layer needs a CUDA random state: replaced by torch's SDPA,
  which uses flash attention on GPUs.
- rotary embeddings call `torch.cuda.current_device()`, and from 0.19 the gradient exchange
  calls `torch.cuda.current_stream()`: on a CPU both run under `cpu_as_current_device`.
- activation recomputation saves CUDA random states: replaced by torch's.
- embedding and output layer are ours, so `TransformerBlock` is used, not `GPTModel`
  (`ColumnParallelLinear` refuses a weight that is not its whole partition; the
  `output_processor` of `GPTModel` exists from 0.18 only).
- Transformer Engine fuses norms into the following matrices, under other names: parameters
  keep the names that they have without it, so that checkpoints load with and without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from modtok_cli.base.extras import require
from modtok_cli.model.architecture.megatron_layout import megatron_config
from modtok_cli.model.architecture.rope import rope_frequencies
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.training.distributed.megatron_core import core, cpu_as_current_device, partition
from modtok_cli.training.distributed.ranks import summed
from modtok_cli.training.model.execution import Execution, InitStd, recomputed
from modtok_cli.training.model.products import fuse_weight_gradients

# Names under Transformer Engine → names without it.
_FUSED_NORMS = {
    "self_attention.linear_qkv.layer_norm_weight": "input_layernorm.weight",
    "mlp.linear_fc1.layer_norm_weight": "pre_mlp_layernorm.weight",
}
# Weights that every shard holds whole and applies to its own heads only: a shard has the gradient
# of its heads, and their sum is the gradient.
_PER_HEAD = ("q_layernorm.weight", "k_layernorm.weight")
# By name; the memory-efficient one for what flash attention lacks: float32, masks, other widths.
_FLASH = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
_KERNELS = {"flash": _FLASH, "cudnn": [SDPBackend.CUDNN_ATTENTION]}


def document_mask(inputs: torch.Tensor, end_of_text: int) -> torch.Tensor:
    """Which tokens attend to which, if packed documents do not see each other.

    A document starts with an end-of-text token, which its first token is predicted from.
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


@cache
def document_attention() -> Callable[..., torch.Tensor] | None:
    """torch's attention for documents of any lengths, on GPUs; None if this torch has none.

    Windows and grouped queries exist from torch 2.12 on.
    """
    try:
        varlen = import_module("torch.nn.attention.varlen").varlen_attn
    except ImportError:
        return None
    return varlen if {"enable_gqa", "window_size"} <= signature(varlen).parameters.keys() else None


def attention_kernel(wanted: str, head_width: int, dtype: torch.dtype, *, masked: bool) -> str:
    """The name in `_KERNELS` of what computes causal attention on a GPU.

    cuDNN's, if it is wanted, needs torch 2.11 (older ones were not measured), 16-bit numbers, and
    heads of at most 128 numbers, a multiple of 8; else it is flash attention.
    """
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    fits = head_width in range(8, 129, 8) and dtype in (torch.bfloat16, torch.float16)
    return wanted if fits and not masked and version >= (2, 11) else "flash"


class Rotary:
    """Rotates queries and keys by rotary embeddings, whose tables are made once for a length.

    `angles` gives (length, 1, 1, D) float32; `fused` compiles the rotation on a GPU.
    """

    def __init__(self, angles: Callable[[int], torch.Tensor], *, fused: bool) -> None:
        self._angles, self._fused = angles, fused
        self._tables: dict[torch.dtype, tuple[torch.Tensor, torch.Tensor]] = {}

    @torch.no_grad()
    def tables(self, length: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine, (length, 1, 1, D) each; of a shorter length a part of the longest."""
        made = self._tables.get(dtype)
        if made is None or len(made[0]) < length:
            angles = self._angles(length)
            made = self._tables[dtype] = angles.cos().to(dtype), angles.sin().to(dtype)
        return made[0][:length], made[1][:length]

    def __call__(
        self, query_SBHD: torch.Tensor, key_SBGD: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Rotated queries and keys."""
        both = compiled_rotation() if self._fused and query_SBHD.is_cuda else rotate
        rotated: tuple[torch.Tensor, torch.Tensor] = both(
            query_SBHD, key_SBGD, *self.tables(len(query_SBHD), query_SBHD.dtype)
        )
        return rotated


def rotate(
    query_SBHD: torch.Tensor, key_SBGD: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate pairs of numbers, i and i + D / 2, of queries and keys."""
    rotated = []
    for x in (query_SBHD, key_SBGD):
        first, second = x.chunk(2, -1)
        rotated.append(x * cos + torch.cat((-second, first), -1) * sin)
    return rotated[0], rotated[1]


@cache
def compiled_rotation() -> Callable[..., Any]:
    """`rotate` in a kernel or two, for any length."""
    return torch.compile(rotate, dynamic=True)


class CausalAttention(torch.nn.Module):
    """Scaled dot product attention of torch, causal, and within documents if they are given.

    In place of Megatron's, which needs a GPU. No kernel of a GPU stores scores.
    `attention_mask` is what `document_mask` returns, or the bounds of `MicroBatch.documents`; then
    there is no mask.

    Attributes:
        rotary: rotates queries and keys before, None: they are rotated.
        kernel: name of a GPU's kernel, see `attention_kernel`.
    """

    def __init__(self, config: Any, layer_number: int, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.rotary: Rotary | None = None
        self.kernel = "flash"

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
        if self.rotary is not None:
            query_SBHD, key_SBGD = self.rotary(query_SBHD, key_SBGD)
        if attention_mask is not None and attention_mask.dim() == 1:
            return _within(attention_mask, query_SBHD, key_SBGD, value_SBGD)
        q, k, v = (x.permute(1, 2, 0, 3) for x in (query_SBHD, key_SBGD, value_SBGD))
        efficient = attention_mask is not None or q.dtype == torch.float32
        if q.is_cuda and efficient:  # it has no grouped queries
            k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
        with sdpa_kernel(_KERNELS[self.kernel]) if q.is_cuda else nullcontext():
            mixed = F.scaled_dot_product_attention(
                q,
                k,
                v,
                attn_mask=attention_mask,
                is_causal=attention_mask is None,
                enable_gqa=q.shape[1] != k.shape[1],
            )
        return mixed.permute(2, 0, 1, 3).flatten(2)


def _within(bounds: torch.Tensor, *of_SBHD: torch.Tensor) -> torch.Tensor:
    """Attention within documents, sequences one after the other; as `CausalAttention.forward`."""
    length, count = of_SBHD[0].shape[:2]
    q, k, v = (x.transpose(0, 1).flatten(0, 1) for x in of_SBHD)
    attention = document_attention()
    assert attention is not None
    mixed = attention(q, k, v, bounds, bounds, length, length, window_size=(-1, 0), enable_gqa=True)
    return mixed.reshape(count, length, -1).transpose(0, 1)


class _Norm:
    """RMSNorm of torch, as Megatron's wrapper, which refuses sequence parallelism."""

    def __new__(cls, config: Any, hidden_size: int, eps: float, **_: Any) -> Any:
        return torch.nn.RMSNorm(hidden_size, eps=eps)


def layer_spec(
    execution: Execution,
    masked: bool = False,
    qk_norm: bool = False,
    *,
    layers: int = 1,
    change: Callable[[Any], None] | None = None,
) -> Any:
    """Local layers with SDPA, or layers of Transformer Engine.

    `masked` layers take a mask of documents; then attention is torch's, as in float32. `change`
    changes the submodules of the local layer, which is used then.
    """
    specs = core().models.gpt.gpt_layer_specs
    options = {"qk_layernorm": True} if qk_norm else {}
    with_engine = execution.transformer_engine and change is None
    if with_engine:
        require("parallelism.transformer_engine", gpu=["transformer_engine"])
        spec = specs.get_gpt_layer_with_transformer_engine_spec(**options)
        if not masked:
            return spec
    else:
        spec = specs.get_gpt_layer_local_spec(normalization="RMSNorm", **options)
    spec.submodules.self_attention.submodules.core_attention = CausalAttention
    if execution.sequence_parallel and not with_engine:
        attention = spec.submodules.self_attention.submodules
        spec.submodules.input_layernorm = spec.submodules.pre_mlp_layernorm = _Norm
        if qk_norm:
            attention.q_layernorm = attention.k_layernorm = _Norm
    if change is not None:
        change(spec.submodules)
    if execution.sequence_parallel and not with_engine:
        block = core().transformer.transformer_block.TransformerBlockSubmodules
        return block(layer_specs=[spec] * layers, layer_norm=_Norm)
    return spec


def _config(
    shape: Shape, shards: int, dtype: torch.dtype, init: InitStd, execution: Execution
) -> Any:
    normal = torch.nn.init.normal_
    return core().transformer.transformer_config.TransformerConfig(
        **megatron_config(shape),
        tensor_model_parallel_size=shards,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        init_method=partial(normal, std=init.matrices),
        output_layer_init_method=partial(normal, std=init.projection(shape.layers)),
        use_cpu_initialization=True,  # the same numbers on any number of shards
        params_dtype=dtype,
        bf16=dtype == torch.bfloat16,
        pipeline_dtype=dtype,
        sequence_parallel=execution.sequence_parallel,
        gradient_accumulation_fusion=not execution.transformer_engine,
        calculate_per_token_loss=True,  # gradients of replicas are summed
        bias_activation_fusion=execution.fused,
        bias_dropout_fusion=False,  # no bias, no dropout
        masked_softmax_fusion=False,  # attention is flash attention
        apply_rope_fusion=execution.transformer_engine,
        persist_layer_norm=False,  # of Apex
    )


def build_backbone(
    shape: Shape,
    *,
    shards: int,
    device: torch.device,
    dtype: torch.dtype,
    seed: int,
    recompute: int = 0,
    distributed: bool = False,
    masked: bool = False,
    init: InitStd | None = None,
    execution: Execution | None = None,
) -> Backbone:
    """Build the Transformer block, wrapped for data parallelism.

    The first `recompute` layers keep their inputs only. With `distributed`, gradients are
    reduce-scattered over replicas for Megatron's distributed optimizer.
    """
    parts = core()
    execution = execution or Execution()
    config = _config(shape, shards, dtype, init or InitStd(), execution)
    spec = layer_spec(
        execution,
        masked or dtype == torch.float32,
        shape.qk_norm,
        layers=shape.layers,
        change=shape.megatron_layer if shape.own_layer else None,
    )
    ddp = parts.distributed
    fuse_weight_gradients()
    with cpu_as_current_device(device):
        torch.manual_seed(seed)
        kernel = attention_kernel(execution.attention, shape.head_width, dtype, masked=masked)
        block = _block(shape, config, spec, shards, kernel).to(device=device, dtype=dtype)
        for layer in block.block.layers[:recompute]:
            layer.forward = recomputed(layer)
        wrapped = ddp.DistributedDataParallel(
            config,
            ddp.DistributedDataParallelConfig(
                grad_reduce_in_fp32=True,
                overlap_grad_reduce=execution.overlap_grad_reduce,
                overlap_param_gather=execution.overlap_param_gather,
                use_distributed_optimizer=distributed,
            ),
            block,
        )
    shard_group = parts.parallel_state.get_tensor_model_parallel_group() if shards > 1 else None
    return Backbone(wrapped, device, shard_group, sequence_parallel=execution.sequence_parallel)


def _block(shape: Shape, config: Any, spec: Any, shards: int, kernel: str) -> Any:
    parts = core()
    Module: Any = parts.transformer.module.MegatronModule

    class Block(Module):  # type: ignore[misc]
        """Transformer layers and the final norm, (S, B, d) to (S, B, d).

        With sequence parallelism, a shard has its part of S.
        """

        def __init__(self) -> None:
            super().__init__(config)
            self.block = parts.transformer.transformer_block.TransformerBlock(
                config, spec, post_layer_norm=True
            )
            # The block would fork a random state of CUDA for dropout, which there is not.
            self.block.config = replace(config, sequence_parallel=False)
            self.attentions = [m for m in self.block.modules() if isinstance(m, CausalAttention)]
            for attention in self.attentions:
                attention.kernel = kernel
            self.rotate_by(shape.rope_theta)

        def rotate_by(self, theta: float) -> None:
            rotary = parts.models.common.embeddings.rotary_pos_embedding.RotaryEmbedding
            self.rotary = rotary(
                shape.head_width,
                rotary_percent=1.0,
                rotary_base=theta,
                use_cpu_initialization=True,
            )
            if shape.rope_scaling is not None:
                scaled = rope_frequencies(shape.head_width, theta, shape.rope_scaling)
                self.rotary.inv_freq = torch.from_numpy(scaled).float()
            # Megatron would compute cosines and sines in every layer again.
            own = Rotary(self.rotary, fused=config.bias_activation_fusion)
            for attention in self.attentions:
                attention.rotary = own

        def forward(self, x_SBd: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
            length = x_SBd.shape[0] * (shards if config.sequence_parallel else 1)
            angles = None if self.attentions else self.rotary(length)
            result: torch.Tensor = self.block(
                hidden_states=x_SBd, attention_mask=mask, rotary_pos_emb=angles
            )
            return result

    return Block()


def plain_name(name: str) -> str:
    """The name of a parameter without Transformer Engine.

    >>> plain_name("block.layers.3.mlp.linear_fc1.layer_norm_weight")
    'block.layers.3.pre_mlp_layernorm.weight'
    """
    for fused, plain in _FUSED_NORMS.items():
        if name.endswith(fused):
            return name.removesuffix(fused) + plain
    return name


class Backbone:
    """Megatron's Transformer block, wrapped in Megatron's data parallelism."""

    def __init__(
        self,
        wrapped: Any,
        device: torch.device,
        shard_group: dist.ProcessGroup | None = None,
        *,
        sequence_parallel: bool,
    ) -> None:
        self.wrapped, self._device, self._shard_group = wrapped, device, shard_group
        self._sequence_parallel = sequence_parallel
        self.parameters: dict[str, torch.nn.Parameter] = {
            plain_name(name): parameter
            for name, parameter in wrapped.module.named_parameters()
            if parameter.requires_grad
        }

    def __call__(self, x_SBd: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Hidden states after the final norm, (S, B, d) to (S, B, d); mask as `attention`.

        With sequence parallelism the input is this shard's part, as `sum_over_shards` returns it;
        the result is whole on every shard, and so must be its gradient.
        """
        with cpu_as_current_device(self._device):
            result: torch.Tensor = self.wrapped(x_SBd, mask)
            if self._sequence_parallel:
                gather = core().tensor_parallel.gather_from_sequence_parallel_region
                result = gather(result, tensor_parallel_output_grad=False)
        return result

    def rotate_by(self, theta: float) -> None:
        """Set the base of the rotary position embedding."""
        self.wrapped.module.rotate_by(theta)

    @property
    def attentions(self) -> list[CausalAttention]:
        """Attention of each layer; empty with Transformer Engine's."""
        found: list[CausalAttention] = self.wrapped.module.attentions
        return found

    def sum_over_shards(self, x_SBd: torch.Tensor) -> torch.Tensor:
        """Sum of inputs over tensor-parallel shards; this shard's part with sequence parallelism.

        The gradient passes unchanged; gradients of parts are gathered.
        """
        parallel = core().tensor_parallel
        if self._sequence_parallel:
            reduce = parallel.reduce_scatter_to_sequence_parallel_region
        else:
            reduce = parallel.reduce_from_tensor_model_parallel_region
        with cpu_as_current_device(self._device):
            result: torch.Tensor = reduce(x_SBd)
        return result

    def freeze(self) -> None:
        """Compute no gradients of the weights from now on."""
        for parameter in self.parameters.values():
            parameter.requires_grad_(False)

    def gather_weights(self) -> None:
        """Gather the weights that replicas have updated for each other. Collective.

        With overlap the next forward pass would do it, and a replica without text runs none.
        """
        if self.wrapped.ddp_config.overlap_param_gather:
            with cpu_as_current_device(self._device):
                self.wrapped.start_param_sync(force_sync=True)

    def clear_gradients(self) -> None:
        """Zero the gradient buffers."""
        self.wrapped.zero_grad_buffer()

    @contextmanager
    def accumulating(self, more: bool) -> Iterator[None]:
        """Context of a microbatch; with `more` to follow, gradients are not reduced.

        Megatron may start collectives in the backward pass, which asks for CUDA's device.
        """
        waiting = self.wrapped.no_sync() if more else nullcontext()
        with waiting, cpu_as_current_device(self._device):
            yield

    def finish_gradients(self) -> dict[str, torch.Tensor]:
        """Reduce over replicas and shards; returns the sums in float32 by parameter."""
        with cpu_as_current_device(self._device):
            self.wrapped.finish_grad_sync()
        gradients: dict[str, torch.Tensor] = {
            name: parameter.main_grad  # type: ignore[attr-defined]
            for name, parameter in self.parameters.items()
        }
        for name, gradient in gradients.items():
            # With sequence parallelism a shard has the gradient of its tokens.
            whole = self._sequence_parallel and partition(self.parameters[name]) is None
            if whole or name.endswith(_PER_HEAD):
                summed(gradient, self._shard_group)
        return gradients
