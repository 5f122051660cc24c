"""GGUF, the file of llama.cpp.

llama.cpp splits text in its own ways (see `gguf_tokenizer`) and has one vocabulary per model.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from yaml import YAMLError

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.model.architecture.stored_model import GENERATION, HfDirectory
from modtok_cli.model.export.gguf_tokenizer import GgufTokenizer
from modtok_cli.model.vocabularies import Ends
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

# Sampling in GGUF → field of generation_config.json.
_SAMPLING = {
    "sampling_temp": "temperature", "sampling_top_k": "top_k", "sampling_top_p": "top_p",
    "sampling_min_p": "min_p", "sampling_penalty_repeat": "repetition_penalty",
}  # fmt: skip
# transformers → GGUF, of the matrices that Megatron keeps together.
_GGUF = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
}
_FILE_TYPES = {"float32": 0, "float16": 1, "bfloat16": 32}


@dataclass(frozen=True, eq=False)
class ExportedModel:
    """The content of a file.

    Attributes:
        embedding, head: (|V|, d) input and output rows, one object if tied.
        backbone: parameters under their transformers names, float32.
        chat_templates: in the language of Jinja by name, "default" among them.
        where: the model, for messages.
        directory: a model directory with a model card and generation_config.json; None of a run.
    """

    shape: Shape
    tokenizer: Subtokenizer
    embedding: torch.Tensor
    head: torch.Tensor
    backbone: Mapping[str, torch.Tensor]
    context: int
    ends: Ends
    chat_templates: Mapping[str, str]
    where: str
    directory: Path | None = None


def write_file(path: Path, model: ExportedModel, tokenizer: GgufTokenizer, dtype: str) -> None:
    """Write a model with weights of a dtype, and its tokenizer as llama.cpp runs it.

    Raises:
        UsageError: gguf is not installed, or llama.cpp has no such rotary scaling.
        ModtokError: the model card is damaged.
    """
    try:
        import gguf
    except ImportError as error:
        raise UsageError(
            "the package gguf is not installed", remedy="pip install 'modtok[lm]'"
        ) from error
    writer = gguf.GGUFWriter(path, model.shape.gguf_name)
    _card(gguf, model).set_gguf_meta_model(writer)
    _add_shape(gguf, writer, model.shape, model.where)
    writer.add_context_length(model.context)
    writer.add_vocab_size(model.tokenizer.size + len(tokenizer.twins))
    writer.add_file_type(_FILE_TYPES[dtype])
    tokenizer.write(writer)
    _add_ends(writer, model.ends)
    writer.add_add_space_prefix(tokenizer.adds_space)
    if model.chat_templates:
        rows = [{"name": name, "template": text} for name, text in model.chat_templates.items()]
        writer.add_chat_template(rows)
    for name, tensor in _tensors(model, tokenizer.twins):
        _add_tensor(gguf, writer, name, tensor, dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _card(gguf: Any, model: ExportedModel) -> Any:
    """The fields of model card and generation_config.json of the model, under the names of GGUF."""
    directory, languages = model.directory, model.tokenizer.languages
    if directory is None:
        said = gguf.Metadata()
    else:
        try:
            card = gguf.Metadata.load_model_card(directory)
            said = gguf.Metadata.apply_metadata_heuristic(gguf.Metadata(), card, None, None)
        except (ValueError, TypeError, AttributeError, LookupError, YAMLError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ModtokError(
                f"the model card is damaged ({reason})",
                where=directory / "README.md",
                remedy="correct what is between its first lines of ---",
            ) from error
        sampling = HfDirectory(directory).configs.get(GENERATION, {})
        for ours, theirs in _SAMPLING.items():
            # Without sampling, transformers uses the penalty only.
            if sampling.get("do_sample") or theirs == "repetition_penalty":
                setattr(said, ours, sampling.get(theirs))
    said.name = f"modtok {','.join(languages) or model.tokenizer.name}"
    said.languages = list(languages) or said.languages
    return said


def _add_shape(gguf: Any, writer: Any, shape: Shape, where: str) -> None:
    scaling = shape.rope_scaling
    if scaling is not None and scaling.kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(scaling.factor)
    elif scaling is not None and not shape.gguf_factors:
        raise UsageError(
            f"llama.cpp has no rotary scaling '{scaling.kind}' for {shape.gguf_name}",
            where=where,
            remedy="use transformers or vLLM",
        )
    writer.add_embedding_length(shape.hidden_size)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_width)
    writer.add_value_length(shape.head_width)
    writer.add_rope_dimension_count(shape.head_width)
    writer.add_rope_freq_base(float(shape.rope_theta))
    writer.add_layer_norm_rms_eps(shape.norm_epsilon)
    if shape.input_scale != 1:
        writer.add_embedding_scale(shape.input_scale)
    if (factor := shape.logit_factor) != 1:
        writer.add_logit_scale(1 / factor if shape.gguf_divides else factor)
    if shape.logit_cap is not None:
        writer.add_final_logit_softcapping(shape.logit_cap)


def _add_ends(writer: Any, ends: Ends) -> None:
    writer.add_bos_token_id(ends.begin)
    writer.add_eos_token_id(ends.end)
    writer.add_pad_token_id(ends.pad)
    if ends.turn is not None:
        writer.add_eot_token_id(ends.turn)
    if ends.message is not None:
        writer.add_eom_token_id(ends.message)
    for kind, index in ends.others.items():
        getattr(writer, f"add_{kind}_token_id")(index)
    # llama.cpp adds it before prompts.
    writer.add_add_bos_token(ends.adds_begin)
    writer.add_add_eos_token(False)


def _tensors(model: ExportedModel, twins: Sequence[int]) -> Iterable[tuple[str, torch.Tensor]]:
    """Names and weights as llama.cpp expects them.

    A name behind our tokens has the input row of its twin. Its output row is the mean of
    all output rows: its logit is the mean of all logits, so its probability is the geometric mean
    of theirs, at most 1/|V|, and close to 0 where the model is sure of any token.
    """
    embedding, head = model.embedding, model.head
    tied = head is embedding
    if twins:
        mean = head.float().mean(0, keepdim=True).expand(len(twins), -1).to(head.dtype)
        embedding = torch.cat([embedding, mean if tied else embedding[list(twins)]])
        head = torch.cat([head, mean])
    yield "token_embd.weight", embedding
    if not tied:
        yield "output.weight", head
    divisors, scaling = model.shape.rope_divisors(), model.shape.rope_scaling
    if divisors is not None and scaling is not None and scaling.kind != "linear":
        yield "rope_freqs.weight", torch.from_numpy(divisors).float()
    for name, tensor in model.backbone.items():
        yield _backbone_tensor(model.shape, name, tensor)


def _backbone_tensor(shape: Shape, name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
    """Name and layout in GGUF of a backbone parameter, given under its transformers name."""
    if name == "norm.weight":
        return "output_norm.weight", tensor
    parts = name.split(".", 2)
    module, _, kind = parts[-1].rpartition(".")
    short = (_GGUF | {hf: gguf for hf, gguf, _ in shape.layer_tensors.values()}).get(module)
    if parts[0] != "layers" or short is None:
        raise ModtokError(f"parameter '{name}' has no counterpart in GGUF")
    heads = {"attn_q": shape.heads, "attn_k": shape.kv_heads}.get(short)
    if shape.gguf_pairs and heads is not None:
        # From halves to pairs: a head with rows 0 1 2 3 (0 rotates with 2) becomes 0 2 1 3.
        split = tensor.reshape(heads, 2, -1, tensor.shape[1])
        tensor = split.transpose(1, 2).reshape(tensor.shape)
    return f"blk.{parts[1]}.{short}.{kind}", tensor


def _add_tensor(gguf: Any, writer: Any, name: str, tensor: torch.Tensor, dtype: str) -> None:
    data: npt.NDArray[Any] = tensor.detach().float().contiguous().numpy()
    if data.ndim == 1 or dtype == "float32":
        writer.add_tensor(name, data)
    elif dtype == "float16":
        writer.add_tensor(name, data.astype(np.float16))
    else:
        kind = gguf.GGMLQuantizationType.BF16
        writer.add_tensor(name, gguf.quants.quantize(data, kind), raw_dtype=kind)
