"""Tensors "on the GPU" of a rehearsal: real values on the CPU, and the rules of two devices.

`install` replaces what torch does with device "cuda": every operation is dispatched to `_run`,
which computes it on the CPU and refuses what a GPU refuses: tensors of two devices in one
operation, `.numpy()` of a tensor on the GPU, tensors of the host in a collective of NCCL.
`COUNTS` says how often the host waited for the device, and copied to it, by line of modtok.

`streams` notes on which stream each runs, and refuses what depends on an order that is open.

Not rehearsed: kernels and their numbers, NCCL (gloo is underneath), torch.compile.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from benchmarks.gpu.rehearsal.streams import ORDER, Use

COUNTS: dict[str, Counter[str]] = {"synchronizations": Counter(), "copies": Counter()}

# The host waits for their results.
_SYNCHRONIZING = {
    "_local_scalar_dense", "nonzero", "_unique2", "unique_dim", "unique_consecutive", "equal",
    "masked_select", "bincount", "is_nonzero", "index by a mask", "index_put_ by a mask",
    "_index_put_impl_ by a mask",
}  # fmt: skip
_INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
# Operations between devices.
_BETWEEN = {"copy_", "_to_copy", "set_", "record_stream", "lift_fresh"}


class OnGpu(torch.Tensor):
    """A tensor of device "cuda" whose values are those of `host`; views share their `use`."""

    host: torch.Tensor
    use: Use

    @staticmethod
    def __new__(cls, host: torch.Tensor, use: Use | None = None) -> OnGpu:
        made: OnGpu = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            host.size(),
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=torch.device("cuda", torch.cuda.current_device()),
        )
        made.host, made.use = host, use or Use(ORDER.current())
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    @property
    def data(self) -> torch.Tensor:  # type: ignore[override]
        return self.detach()

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        if not isinstance(value, OnGpu):
            raise RuntimeError("a parameter on the GPU is set to a tensor of the host")
        self.host, self.use = value.host, value.use
        torch._C.TensorBase.data.__set__(self, value)  # type: ignore[attr-defined]

    def data_ptr(self) -> int:
        return self.host.data_ptr()

    def tolist(self) -> Any:
        _count("synchronizations", "tolist")
        ORDER.launch([self.use], [], _line())
        ORDER.wait_for_current()
        return self.host.tolist()

    def numpy(self, **_: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu()")

    __array__ = numpy

    def __repr__(self) -> str:  # type: ignore[override]
        return f"OnGpu({self.host})"


class Rehearsal(TorchDispatchMode):
    """Sends every operation of this thread to `_run`."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    library, _, name = func._schema.name.partition("::")
    tensors = [*_tensors(args), *_tensors(kwargs.values())]
    if name.startswith("lift") and not isinstance(tensors[0], OnGpu) and tensors[0].is_cuda:
        _count("copies", "torch.tensor")  # made through the stub, whose memory is the host's
        with _disable_current_modes():
            return OnGpu(tensors[0].cpu())
    on_gpu = [each for each in tensors if isinstance(each, OnGpu)]
    on_host = [each for each in tensors if not isinstance(each, OnGpu)]
    if library == "c10d":
        return _collective(func, args, kwargs, on_gpu, on_host)
    target = kwargs.get("device")
    gives_gpu = bool(on_gpu) if target is None else torch.device(target).type == "cuda"
    if target is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
        if gives_gpu:
            kwargs.pop("pin_memory", None)
    if name == "record_stream":
        return on_gpu[0].use.recorded.add(_raw(args[1]))
    if name in ("_pin_memory", "is_pinned"):
        return func(*args, **kwargs)
    if on_gpu:
        _check_devices(name, args, on_host)
        if name in _INDEXING and any(
            isinstance(each, torch.Tensor) and each.dtype == torch.bool for each in args[1]
        ):
            name = f"{name} by a mask"
    at = None
    if (on_gpu or gives_gpu) and not func.is_view:
        at = ORDER.launch(*_uses(func, args, kwargs), _line())
    if on_gpu and name in _SYNCHRONIZING:
        _count("synchronizations", name)
        ORDER.wait_for_current()
    known = [name.removesuffix("_backward"), *filter(None, [func._schema.overload_name])]
    emulated = _EMULATED.get(".".join(known)) if on_gpu else None
    if emulated is not None:
        return emulated(func, args, kwargs, backward=name.endswith("_backward"))
    copies = name in ("copy_", "_to_copy")
    free = copies and (kwargs.pop("non_blocking", False) or args[2:] == (True,))
    result = func(*_mapped(_host, args), **_mapped(_host, kwargs))
    if copies:
        gives_gpu = gives_gpu if name == "_to_copy" else isinstance(args[0], OnGpu)
        _copied(at, args[0 if name == "_to_copy" else 1], result, free, to_gpu=gives_gpu)
    if name == "copy_":
        return args[0]
    return _wrapped(result, on_gpu, at) if gives_gpu else result


def _uses(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[list[Use], list[Use]]:
    """Memory on the GPU that an operation reads, and that it writes."""
    reads: list[Use] = []
    writes: list[Use] = []
    values = zip(func._schema.arguments, args, strict=False)
    named = ((each, kwargs.get(each.name)) for each in func._schema.arguments[len(args) :])
    for argument, value in (*values, *named):
        writing = argument.alias_info is not None and argument.alias_info.is_write
        uses = [each.use for each in _tensors((value,)) if isinstance(each, OnGpu)]
        (writes if writing else reads).extend(uses)
    return reads, writes


def _raw(stream: Any) -> int:
    made = torch.cuda.Stream(
        stream_id=stream.stream_id,
        device_index=stream.device_index,
        device_type=stream.device_type,
    )
    return int(made.cuda_stream)


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _mapped(call: Callable[[Any], Any], value: Any) -> Any:
    """`call` of each value in tuples, lists and dicts; faster than torch's `tree_map`."""
    if isinstance(value, (tuple, list)):
        return type(value)([_mapped(call, each) for each in value])
    if isinstance(value, dict):
        return {key: _mapped(call, each) for key, each in value.items()}
    return call(value)


def _host(value: Any) -> Any:
    return value.host if isinstance(value, OnGpu) else value


def _wrapped(result: Any, known: Iterable[OnGpu], at: tuple[int, int] | None = None) -> Any:
    """The result on the GPU; what an operation wrote in place stays the tensor that it was."""
    by_host = {id(each.host): each for each in known}
    by_storage = {each.host.untyped_storage()._cdata: each.use for each in known}

    def wrap(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in by_host:
            return by_host[id(value)]
        made = OnGpu(value, by_storage.get(value.untyped_storage()._cdata))
        if at is not None and made.use.writer is None:
            made.use.writer = (*at, _line())
        return made

    return _mapped(wrap, result)


def _check_devices(name: str, args: Any, on_host: list[torch.Tensor]) -> None:
    """Refuse tensors of the host beside tensors of the GPU, as torch does."""
    wrong = [each for each in on_host if each.dim()]  # numbers may come from the host
    if name in _INDEXING:
        # A tensor of the GPU may be indexed by one of the host, which copies it.
        for each in args[1]:
            if isinstance(each, torch.Tensor) and not isinstance(each, OnGpu):
                _count("copies", "an index from the host")
        values = args[2] if len(args) > 2 else None
        wrong = [each for each in wrong if each is args[0] or each is values]
    if name.startswith("_fused_adam"):
        wrong = on_host
    if wrong and name not in _BETWEEN:
        shapes = [tuple(each.shape) for each in wrong]
        raise RuntimeError(f"tensors of two devices in {name}, of the host {shapes}, at {_line()}")


def _copied(at: Any, source: Any, target: torch.Tensor, free: bool, *, to_gpu: bool) -> None:
    """Count a copy between host and GPU. One that is `free` of waiting has pinned memory."""
    if isinstance(source, OnGpu) == to_gpu:
        return
    if to_gpu:
        free &= source.is_pinned()
        _count("copies", "from pinned memory" if free else "from pageable memory")
        if free:
            ORDER.copied(at, source, _line(), arrives=False)
    elif free and target.is_pinned():
        ORDER.copied(at, target, _line(), arrives=True)
    else:
        _count("synchronizations", "copy to the host")
        ORDER.wait_for_current()


def _collective(
    func: Any, args: Any, kwargs: Any, on_gpu: list[OnGpu], on_host: list[torch.Tensor]
) -> Any:
    if on_host and not on_gpu and _between_hosts(args):
        return func(*args, **kwargs)
    if on_host:
        raise RuntimeError(f"NCCL has no tensors of the host: {func._schema.name} at {_line()}")
    if not all(each.host.is_contiguous() for each in on_gpu):
        raise RuntimeError(f"NCCL needs contiguous tensors: {func._schema.name} at {_line()}")
    uses = [each.use for each in on_gpu]
    at = ORDER.launch([], uses, _line())
    return _wrapped(func(*_mapped(_host, args), **_mapped(_host, kwargs)), on_gpu, at)


def _between_hosts(args: Any) -> bool:
    """Whether a collective is one of Megatron's groups of gloo."""
    objects = (each for each in args if isinstance(each, torch.ScriptObject))
    (group,) = (each for each in objects if each._type().name() == "ProcessGroup")
    return "GLOO" in dist.ProcessGroup.unbox(group).group_desc


def _count(what: str, how: str) -> None:
    COUNTS[what][f"{how}, {_line()}"] += 1


def _line() -> str:
    """Where modtok, else Megatron, called the operation."""
    frame, megatron = sys._getframe(1), ""
    while frame is not None:
        path, number = frame.f_code.co_filename, frame.f_lineno
        if "/modtok_cli/" in path:
            return f"{path.rpartition('/modtok_cli/')[2]}:{number}"
        if "/megatron/" in path:
            megatron = megatron or f"{path[path.rindex('/megatron/') + 1 :]}:{number}"
        frame = frame.f_back  # type: ignore[assignment]
    return megatron or "elsewhere"


# Operations that only a GPU has.


def _attended(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    causal: bool,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
    gradient: torch.Tensor | None = None,
) -> list[torch.Tensor]:
    """Attention (B, H, S, D) and ln Σ exp of its scores, or its gradients; in float32."""
    q, k, v = (each.float() for each in (query, key, value))
    groups, scale = q.shape[1] // k.shape[1], scale or q.shape[-1] ** -0.5
    k, v = (each.repeat_interleave(groups, 1) for each in (k, v))
    scores = q @ k.transpose(-1, -2) * scale
    if causal:
        scores += torch.full(scores.shape[-2:], -torch.inf).triu(1)
    if bias is not None:
        scores += bias
    p = scores.softmax(-1)
    if gradient is None:
        return [(p @ v).to(query.dtype), scores.logsumexp(-1)]
    gradient = gradient.float()
    of_p = gradient @ v.transpose(-1, -2)
    of_scores = p * (of_p - (of_p * p).sum(-1, keepdim=True)) * scale
    of_k, of_v = of_scores.transpose(-1, -2) @ q, p.transpose(-1, -2) @ gradient
    of_k, of_v = (x.unflatten(1, (-1, groups)).sum(2) for x in (of_k, of_v))
    return [x.to(query.dtype) for x in (of_scores @ k, of_k, of_v)]


def _values(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Arguments of an operation by name, as on the host."""
    values = {each.name: each.default_value for each in func._schema.arguments}
    values.update(zip(values, _mapped(_host, args), strict=False))
    values.update(_mapped(_host, kwargs))
    return values


def _attention(func: Any, args: Any, kwargs: Any, *, backward: bool) -> Any:
    """Fused attention and its gradient, by the formulas."""
    values = _values(func, args, kwargs)
    q, k, v = (values[name] for name in ("query", "key", "value"))
    options = {"bias": values.get("attn_bias"), "scale": values.get("scale")}
    options |= {"causal": bool(values.get("is_causal"))}
    if backward:
        gradient = values.get("grad_out", values.get("grad_out_"))
        parts = _attended(q, k, v, gradient=gradient, **options)
        return _wrapped((*parts, *[None] * (len(func._schema.returns) - 3)), ())
    out, sums = _attended(q, k, v, **options)
    out = out.transpose(1, 2).contiguous().transpose(1, 2)
    seed = torch.zeros((), dtype=torch.int64)
    rest: tuple[Any, ...] = (seed, seed)
    if len(func._schema.returns) == 9:  # flash and cuDNN: lengths, and a mask for debugging
        rest = (None, None, q.shape[2], k.shape[2], seed, seed, torch.empty(0))
    return _wrapped((out, sums, *rest), ())


def _documents(func: Any, args: Any, kwargs: Any, *, backward: bool) -> Any:
    """Attention of variable lengths, (T, H, D), a document at a time."""
    values = _values(func, args, kwargs)
    if values["cu_seq_q"].dtype != torch.int32 or values["query"].dtype == torch.float32:
        raise RuntimeError("flash attention needs bounds of int32, and half precision")
    bounds = values["cu_seq_q"].tolist()
    if bounds[0] != 0 or bounds[-1] != len(values["query"]) or bounds != sorted(set(bounds)):
        raise RuntimeError(f"bounds of documents {bounds}")
    if max(b - a for a, b in pairwise(bounds)) > values["max_q"]:
        raise RuntimeError("a document is longer than max_q")
    names = ["query", "key", "value", *(["grad_out"] if backward else [])]
    parts = []
    for start, end in pairwise(bounds):
        q, k, v, *gradient = (values[name][start:end].transpose(0, 1)[None] for name in names)
        one = {"gradient": gradient[0]} if backward else {}
        parts.append(_attended(q, k, v, causal=values["is_causal"], scale=values["scale"], **one))
    found = [torch.cat(each, 2)[0] for each in zip(*parts, strict=True)]
    if backward:
        return _wrapped(tuple(each.transpose(0, 1).contiguous() for each in found), ())
    seed = torch.zeros(2, dtype=torch.uint64)
    return _wrapped((found[0].transpose(0, 1).contiguous(), found[1], seed), ())


def _rms_norm(func: Any, args: Any, kwargs: Any, *, backward: bool) -> Any:
    if not backward:
        return _wrapped(func(*_mapped(_host, args), **kwargs), ())
    gradient, x, _, rstd, weight, _ = _mapped(_host, args)
    normed, g = x.float() * rstd, gradient.float()
    scaled = g if weight is None else g * weight.float()
    of_x = rstd * (scaled - normed * (scaled * normed).mean(-1, keepdim=True))
    of_weight = None if weight is None else (g * normed).flatten(0, -2).sum(0).to(weight.dtype)
    return _wrapped((of_x.to(x.dtype), of_weight), ())


def _product(func: Any, args: Any, kwargs: Any, *, backward: bool) -> Any:
    """A product that is added to sums in float32."""
    sums, left, right = _mapped(_host, args[:3])
    sums.addmm_(left.float(), right.float())
    return kwargs["out"]


_EMULATED = {
    "addmm.dtype_out": _product,
    "_scaled_dot_product_flash_attention": _attention,
    "_scaled_dot_product_efficient_attention": _attention,
    "_scaled_dot_product_cudnn_attention": _attention,
    "_fused_rms_norm": _rms_norm,
    "_varlen_attn": _documents,
}


def _apply(module: torch.nn.Module, move: Any, recurse: bool = True) -> torch.nn.Module:
    """`Module._apply`: parameters keep their attributes, as they do on a GPU."""
    for each in module.modules() if recurse else [module]:
        for name, old in each._parameters.items():
            if old is not None:
                with torch.no_grad():
                    new = torch.nn.Parameter(move(old.data), requires_grad=old.requires_grad)
                attributes = {k: v for k, v in vars(old).items() if k not in ("host", "_is_param")}
                vars(new).update(attributes)
                each._parameters[name] = new
        for name, buffer in each._buffers.items():
            if buffer is not None:
                each._buffers[name] = move(buffer)
    return module


def install() -> None:
    """From now on device "cuda" of this process is that of the rehearsal, on every thread."""
    Rehearsal().__enter__()
    ORDER.install()
    run = threading.Thread.run

    def rehearse(thread: threading.Thread) -> None:
        with Rehearsal():
            run(thread)

    threading.Thread.run = rehearse  # type: ignore[method-assign]
    torch.nn.Module._apply = _apply  # type: ignore[assignment,method-assign]
    start = dist.init_process_group

    def start_gloo(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        return start("gloo" if backend == "nccl" else backend, *args, **kwargs)

    dist.init_process_group = start_gloo
    dist.get_backend = lambda group=None: "nccl"  # type: ignore[assignment]
    here = torch.device("cuda", 0)
    c10d._get_object_coll_device = lambda group=None: "cuda"
    c10d._get_pg_default_device = lambda group=None: here
