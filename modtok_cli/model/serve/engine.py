"""In vLLM's processes: the model classes, and the languages of each request of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from vllm import envs
from vllm.exceptions import VLLMValidationError
from vllm.model_executor.layers.vocab_parallel_embedding import (
    UnquantizedEmbeddingMethod,
    VocabParallelEmbedding,
)
from vllm.model_executor.models.registry import ModelRegistry
from vllm.v1.sample.logits_processor import LogitsProcessor as V1Processor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates
from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as V2Processor

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.model.serve.active_rows import SHARE, ActiveRows, move_to_host
from modtok_cli.model.serve.plugin import OFFLOAD, PREFIX, PROCESSOR
from modtok_cli.model.serve.served_languages import KEY, OVER, TOKENIZER, ServedLanguages, admit
from modtok_cli.model.vocabularies import FULL
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer

_MODELS: list[ActiveRows] = []  # the one of this process, for vLLM's runner V1


def check(config: Any) -> None:
    """Check that vLLM's configuration has the logits of each request pass `Restricted`.

    Raises:
        UsageError: it has not.
    """
    parallel, speculative = config.parallel_config, config.speculative_config
    if PROCESSOR not in (config.model_config.logits_processors or ()):
        raise UsageError(f"start it by modtok serve, or with --logits-processors {PROCESSOR}")
    for wrong, what in (
        (
            speculative is not None and not config.use_v2_model_runner,
            "speculative decoding by vLLM's model runner V1 (V2 needs Triton, on a CPU triton-cpu)",
        ),
        (getattr(speculative, "enable_adaptive_verification", False), "adaptive verification"),
        (
            getattr(parallel, "enable_batch_sharded_sampling", False),
            "--enable-batch-sharded-sampling",
        ),
        (
            getattr(parallel, "prefill_context_parallel_size", 1) > 1,
            "--prefill-context-parallel-size",
        ),
    ):
        if wrong:
            raise UsageError(f"languages of requests do not work with {what}; leave it out")


class RequestLanguages(V1Processor, V2Processor):
    """Admits requests; in vLLM's runner V1 it also follows their places in the batch."""

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """`admit` a request.

        Raises:
            ValueError: it is refused; names the parameter.
        """
        try:
            admit(sampling_params, envs.VLLM_MAX_NUM_BAD_WORDS)
        except ModtokError as error:
            raise VLLMValidationError(str(error), parameter=str(error.where or KEY)) from error

    def __init__(self, *_: Any) -> None:
        self._of: dict[int, str] = {}

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """V2: it has no work for `apply`."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """V1: before each step."""
        process_dict_updates(self._of, batch_update, lambda params, *_: _languages(params) or None)
        for rows in _MODELS:
            rows.choose(self._of)

    def is_argmax_invariant(self) -> bool:
        """V1: it changes nothing here."""
        return True

    def apply(self, logits: torch.Tensor, *_: Any) -> torch.Tensor:
        """The logits as they are."""
        return logits


def _languages(params: Any, key: str = KEY) -> str:
    value = (getattr(params, "extra_args", None) or {}).get(key)
    return value if isinstance(value, str) else ""


def _following(base: Any) -> Any:
    """The class of a state of vLLM's runner V2, which follows each request's place in a batch."""

    class Following(base):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self._of: dict[int, str] = {}
            self._over: dict[int, tuple[str, int]] = {}  # and the tokens of a prompt

        def add_request(self, req_index: int, new_req_data: Any) -> None:
            super().add_request(req_index, new_req_data)
            self._of[req_index] = _languages(new_req_data.sampling_params)
            over = _languages(new_req_data.sampling_params, OVER)
            self._over[req_index] = (over, len(new_req_data.prompt_token_ids or ()) if over else 0)

        def preprocess_state(self, input_batch: Any, *more: Any) -> None:
            """Before each step; a request has more than one row where tokens are drafted."""
            super().preprocess_state(input_batch, *more)
            rows = np.diff(input_batch.cu_num_logits_np)
            slots = np.repeat(input_batch.idx_mapping_np, rows).tolist()
            self.model.active.choose(
                {row: self._of.get(slot, "") for row, slot in enumerate(slots)}, len(slots)
            )
            self._choose_prompts(input_batch)

        def _choose_prompts(self, input_batch: Any) -> None:
            """vLLM computes all rows of a step if one of its requests has a prompt to score."""
            found = [self._over.get(slot, ("", 0)) for slot in input_batch.idx_mapping_np.tolist()]
            over, sizes = [each[0] for each in found], np.array([each[1] for each in found])
            unread = input_batch.num_computed_prefill_tokens_np < sizes
            # A request that goes on after it gave way to others has its scores already.
            if np.any(unread & (input_batch.prefill_len_np <= sizes)):
                tokens = np.diff(input_batch.query_start_loc_np[: len(over) + 1])
                self.model.active.choose_prompts(np.repeat(over, tokens).tolist())

    return Following


def can_score(config: Any) -> bool:
    """Whether log-probabilities of prompts can be over languages; vLLM has no interface for it."""
    try:
        if config.use_v2_model_runner:
            import_module("vllm.v1.worker.gpu.sample.prompt_logprob")
            return True
        return hasattr(import_module(_V1).GPUModelRunner, _SCORE)
    except ImportError:
        return False


_V1, _SCORE = "vllm.v1.worker.gpu_model_runner", "_get_prompt_logprobs_dict"


def score_apart(runner: Any) -> None:
    """Have the class of vLLM's runner V1 score the prompts of a batch one by one."""
    together = getattr(runner, _SCORE, None)
    if together is None or hasattr(together, "__wrapped__"):
        return

    @wraps(together)
    def apart(self: Any, hidden_states: torch.Tensor, scheduled: Mapping[str, int]) -> Any:
        found: dict[str, Any] = {}
        for request in [each for each in self.num_prompt_logprobs if each in scheduled]:
            over = _languages(self.requests[request].sampling_params, OVER)
            for rows in _MODELS:
                rows.choose_prompts([over] * scheduled[request])
            found |= together(self, hidden_states, {request: scheduled[request]})
        for rows in _MODELS:
            rows.choose_prompts([])
        return found

    setattr(runner, _SCORE, apart)


def _offload(model: torch.nn.Module) -> None:
    """Before weights are loaded: tables in pinned host memory, which kernels of a GPU can read."""
    layers = [each for each in model.modules() if isinstance(each, VocabParallelEmbedding)]
    if not all(isinstance(each.quant_method, UnquantizedEmbeddingMethod) for each in layers):
        raise ValueError("--offload needs tables that are not quantized")
    tables = [each.weight for each in layers if each.weight.device.type != "cpu"]
    if tables:
        from vllm.utils.torch_utils import get_accelerator_view_from_cpu_tensor

        move_to_host(tables, get_accelerator_view_from_cpu_tensor)


def _restricted(base: Any) -> Any:
    """The class of a model with logits of each request's languages."""

    class Restricted(base):
        def __init__(self, *, vllm_config: Any, prefix: str = "") -> None:
            super().__init__(vllm_config=vllm_config, prefix=prefix)
            check(vllm_config)
            if (vllm_config.additional_config or {}).get(OFFLOAD):
                _offload(self)
            config = vllm_config.model_config
            tokenizer = ModularTokenizer.load(Path(config.tokenizer) / TOKENIZER)
            served = ServedLanguages(tokenizer, default=FULL)
            self.active = ActiveRows(
                lambda names: served.subset(names).global_ids, config.get_vocab_size()
            )
            _MODELS[:] = [self.active]
            if not vllm_config.use_v2_model_runner:
                score_apart(import_module(_V1).GPUModelRunner)
            self._config = vllm_config
            self._buffer: torch.Tensor | None = None
            self._gathered: tuple[Any, Any] = (None, None)
            self._has_rows = vllm_config.lora_config is None

        def get_model_state_cls(self) -> Any:
            """For vLLM's runner V2."""
            from vllm.v1.worker.gpu.model_states import resolve_model_state_cls

            own = getattr(super(), "get_model_state_cls", None)
            plain = SimpleNamespace(modules=self.modules)  # without this method
            return _following(own() if own else resolve_model_state_cls(self._config, plain))

        def compute_logits(self, hidden_states: torch.Tensor, *more: Any) -> torch.Tensor | None:
            """Logits over T, -inf for tokens of other languages."""
            whole = super().compute_logits
            head = self._modules.get("lm_head")
            usable = (
                self._has_rows
                and getattr(head, "tp_size", 0) == 1
                and isinstance(getattr(head, "quant_method", None), UnquantizedEmbeddingMethod)
            )
            if usable and self._buffer is None:  # before vLLM measures the free memory
                size = int(SHARE * len(head.weight)) + 1
                self._buffer = head.weight.new_empty(size, head.weight.shape[1])

            def part(hidden: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
                self._modules["lm_head"] = self._rows_of(head, ids)
                try:
                    logits: torch.Tensor = whole(hidden, *more)
                    return logits
                finally:
                    self._modules["lm_head"] = head

            return self.active.logits(
                hidden_states, lambda hidden: whole(hidden, *more), part if usable else None
            )

        def _rows_of(self, head: Any, ids: torch.Tensor) -> Any:
            """The output layer of these rows only; the last one is kept."""
            if self._gathered[0] is not ids:
                weight, bias = head.weight, getattr(head, "bias", None)
                assert self._buffer is not None
                out = self._buffer[: len(ids)]
                torch.index_select(weight, 0, ids, out=out)
                self._gathered = (
                    ids,
                    SimpleNamespace(
                        weight=out,
                        bias=None if bias is None else bias[ids],
                        quant_method=head.quant_method,
                        tp_size=1,
                        cpu_linear=torch.nn.functional.linear,
                    ),
                )
            return self._gathered[1]

    return Restricted


def __getattr__(name: str) -> Any:
    """`ModtokLlamaForCausalLM` for vLLM's `LlamaForCausalLM`, and so on."""
    if not name.startswith(PREFIX):
        raise AttributeError(name)
    made = _restricted(ModelRegistry.models[name.removeprefix(PREFIX)].load_model_cls())
    made.__name__ = made.__qualname__ = name
    globals()[name] = made
    return made
