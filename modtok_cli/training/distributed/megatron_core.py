"""Megatron-Core's modules, its process groups, and how it divides parameters.

Megatron-Core 0.16 (Python 3.11) to 0.19 (3.12) asks `torch.cuda` for the current device and
stream even in code that runs on a CPU. `cpu_as_current_device` answers these questions while
such code runs, and restores torch's own functions afterwards.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist

_MODULES = (
    "distributed",
    "models.common.embeddings.rotary_pos_embedding",
    "models.gpt.gpt_layer_specs",
    "optimizer",
    "parallel_state",
    "tensor_parallel",
    "transformer.module",
    "transformer.transformer_block",
    "transformer.transformer_config",
)


@cache
def core() -> Any:
    """`megatron.core` with the modules that training uses; imported on the first call."""
    # Megatron warns its own developers: of future arguments, and of settings for CUDA.
    warnings.filterwarnings("ignore", module=r"megatron\.core")
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed")
    for name in ("megatron.core", "torch.utils.cpp_extension"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Transformer Engine and Apex are optional
        for module in _MODULES:
            import_module(f"megatron.core.{module}")
    return import_module("megatron.core")


@contextmanager
def cpu_as_current_device(device: torch.device) -> Iterator[None]:
    """While active, `torch.cuda` reports `device` as current if that is a CPU.

    On a GPU this does nothing. The patch is process-wide, so keep the block short.
    """
    if device.type != "cpu":
        yield
        return
    cuda: Any = torch.cuda
    originals = {name: getattr(cuda, name) for name in ("current_device", "current_stream")}
    cuda.current_device = lambda: device
    cuda.current_stream = lambda device=None: None
    try:
        yield
    finally:
        for name, function in originals.items():
            setattr(cuda, name, function)


def partition(parameter: torch.nn.Parameter) -> tuple[int, int] | None:
    """How a parameter is sharded: (dimension, interleaved parts), None if replicated.

    With two parts ([gate; up] of SwiGLU) a shard holds its slice of each, concatenated.
    """
    if not getattr(parameter, "tensor_model_parallel", False):
        return None
    return int(parameter.partition_dim), int(getattr(parameter, "partition_stride", 1))  # type: ignore[attr-defined]


def start_groups(shards: int, device: torch.device) -> list[dist.ProcessGroup]:
    """Create Megatron's process groups: tensor parallel, data parallel, the same between hosts."""
    state = core().parallel_state
    with cpu_as_current_device(device):
        started = state.model_parallel_is_initialized()
        if started and state.get_tensor_model_parallel_world_size() != shards:
            state.destroy_model_parallel()
        if not state.model_parallel_is_initialized():
            state.initialize_model_parallel(tensor_model_parallel_size=shards)
    if device.type == "cuda":
        core().tensor_parallel.model_parallel_cuda_manual_seed(0)
    replicas = state.get_data_parallel_group()
    hosts = state.get_data_parallel_group_gloo() if device.type == "cuda" else replicas
    return [state.get_tensor_model_parallel_group(), replicas, hosts]


def stop_groups() -> None:
    """Destroy Megatron's process groups; without Megatron there are none.

    Ctrl-C may come before it is imported, and that takes seconds.
    """
    state = sys.modules.get("megatron.core.parallel_state")
    if state is not None and hasattr(state, "destroy_model_parallel"):
        state.destroy_model_parallel()
