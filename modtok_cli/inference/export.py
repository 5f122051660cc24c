"""`modtok export`: a slice as one file for llama.cpp (GGUF), or a refusal that says why.

llama.cpp cuts text in its own ways (see `gguf_tokenizer`), and none is quite ours. So the ids are
compared on a probe first: words of the slice's own vocabulary, or a text of the user's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import atomic_file
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.inference.gguf_tokenizer import GgufTokenizer, candidates
from modtok_cli.inference.sources import RunSource, Side, SliceSource, Source, open_source
from modtok_cli.modular.subtokenizer import Subtokenizer

_PROBE_WORDS = 16  # to a line
DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class ExportReport:
    """What was written, and how well its tokenizer agrees.

    Attributes:
        tokenizer: what llama.cpp calls the pre-tokenizer, or the search, that it runs.
        lines, different: of the probe, and how many of them get other ids there.
    """

    output: Path
    bytes: int
    vocabulary: int
    tokenizer: str
    lines: int
    different: int


def export(
    path: Path,
    output: Path,
    *,
    languages: Side = None,
    probe: Sequence[str] | None = None,
    inexact: bool = False,
    dtype: str = "float16",
    tokenizer: Path | None = None,
    step: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> ExportReport:
    """Write a slice, or some languages of a run, as GGUF.

    `probe`: texts whose ids must be the same in llama.cpp; with `inexact` the file is
    written even if they are not (every text stays lossless).

    Raises:
        UsageError: two vocabularies, a tokenizer that llama.cpp cannot run, ids that differ,
            an output that is there.
    """
    output = Path(output)
    if output.exists() and not force:
        raise UsageError(
            "is there already", where=str(output), remedy="choose another -o, or --force"
        )
    source = open_source(path, tokenizer=tokenizer, step=step, progress=progress)
    vocabularies = source.vocabularies(languages, None)
    if not vocabularies.same:
        raise UsageError(
            "reads by one vocabulary and predicts in another, for which GGUF has no place",
            where=str(path),
            remedy="slice the run with --langs, then export that",
        )
    own = vocabularies.tokenizer_in
    texts = list(probe) if probe is not None else _own_words(own)
    ways = candidates(own, str(path))
    found = [disagreements(own, way, texts) for way in ways]
    different = min(found)
    theirs = ways[found.index(different)]
    if different and not inexact:
        raise UsageError(
            f"llama.cpp would cut {different:,} of {len(texts):,} probe lines otherwise: "
            f"{theirs.why}",
            where=str(path),
            remedy="--inexact writes it all the same; transformers reads the slice exactly",
        )
    with atomic_file(output) as beside:
        _write(beside, source, vocabularies, theirs, dtype)
        size = beside.stat().st_size
    return ExportReport(output, size, own.size, theirs.name, len(texts), different)


def _own_words(tokenizer: Subtokenizer) -> list[str]:
    """Lines of the vocabulary's own words, numbers and signs, sixteen a line."""
    words = []
    for index in range(len(tokenizer.vocabulary.specials) + 256, tokenizer.size):
        try:
            word = tokenizer.vocabulary.token_bytes(index).decode().strip()
        except UnicodeDecodeError:
            continue
        if word:
            words.append(word)
    return [
        " ".join(words[start : start + _PROBE_WORDS])
        for start in range(0, len(words), _PROBE_WORDS)
    ]


def disagreements(own: Subtokenizer, theirs: GgufTokenizer, texts: Sequence[str]) -> int:
    """How many texts get other ids in llama.cpp."""
    pairs = zip(own.encode_batch(list(texts)), theirs.encode_batch(texts), strict=True)
    return sum(ours.tolist() != found for ours, found in pairs)


def _write(
    path: Path, source: Source, vocabularies: Any, theirs: GgufTokenizer, dtype: str
) -> None:
    try:
        import gguf
    except ImportError as error:
        raise UsageError(
            "the package gguf is not installed", remedy="pip install 'modtok[lm]'"
        ) from error
    assert isinstance(source, RunSource | SliceSource)
    shape = source.run.shape if isinstance(source, RunSource) else source.facts.shape
    tokenizer = vocabularies.tokenizer_in
    writer = gguf.GGUFWriter(path, shape.gguf_name)
    writer.add_name(f"modtok {','.join(tokenizer.languages)}")
    writer.add_languages(list(tokenizer.languages))
    writer.add_context_length(source.context)
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
    writer.add_vocab_size(tokenizer.size + len(theirs.twins))
    writer.add_file_type({"float32": 0, "float16": 1, "bfloat16": 32}[dtype])
    theirs.write(writer)
    _add_ends(writer, source.end_of_text())
    for name, tensor in _tensors(source, vocabularies, theirs.twins, shape):
        _add_tensor(gguf, writer, name, tensor, dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_ends(writer: Any, end: int) -> None:
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)
    writer.add_pad_token_id(end)
    # As training begins every text behind an end of text, llama.cpp puts it before prompts.
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)


def _tensors(
    source: Source, vocabularies: Any, twins: Sequence[int], shape: Any
) -> Iterable[tuple[str, torch.Tensor]]:
    """Names and weights as llama.cpp's Llama has them.

    A name behind our tokens is read as its twin is. It is predicted by the mean of all output
    rows: its logit is the mean of all logits, so its probability is the geometric mean of
    theirs, which is 1/|V| at most and next to nothing where the model is sure of anything.
    """
    embedding, head = source.tables(vocabularies)
    tied = head is embedding
    if twins:
        mean = head.float().mean(0, keepdim=True).expand(len(twins), -1).to(head.dtype)
        embedding = torch.cat([embedding, mean if tied else embedding[list(twins)]])
        head = torch.cat([head, mean])
    yield "token_embd.weight", embedding
    if not tied:
        yield "output.weight", head
    backbone = source.backbone(torch.float32, torch.device("cpu"))
    for name, tensor in backbone.state_dict().items():
        if name != "embed_tokens.weight":
            yield shape.gguf_tensor(name, tensor)


def _add_tensor(gguf: Any, writer: Any, name: str, tensor: torch.Tensor, dtype: str) -> None:
    data: npt.NDArray[Any] = tensor.detach().float().contiguous().numpy()
    if data.ndim == 1 or dtype == "float32":
        writer.add_tensor(name, data)
    elif dtype == "float16":
        writer.add_tensor(name, data.astype(np.float16))
    else:
        kind = gguf.GGMLQuantizationType.BF16
        writer.add_tensor(name, gguf.quants.quantize(data, kind), raw_dtype=kind)
