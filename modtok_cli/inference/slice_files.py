"""The files of a slice beside its weights: configurations, tokenizer, `modtok.json`, model card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import torch

from modtok_cli.inference.backbone import backbone_config
from modtok_cli.inference.card import model_card
from modtok_cli.inference.slicefile import NAME, TOKENIZER_OUT, SliceFacts
from modtok_cli.inference.vocabularies import Vocabularies

README = "README.md"
OUR_ARCHITECTURE = "ModtokTwoVocabularies"


@dataclass(frozen=True)
class Labels:
    """What a slice tells other programs about itself.

    Attributes:
        bos: whether its tokenizer puts the end of text before every text, as training does.
        license: license identifier of the Hugging Face Hub.
        base_model: model on the Hub that it was extracted from; the run's name by default.
    """

    bos: bool = True
    license: str = "unknown"
    base_model: str | None = None


def slice_files(
    facts: SliceFacts, vocabularies: Vocabularies, sizes: Mapping[str, tuple[int, int]]
) -> dict[str, bytes]:
    """File name → content; `sizes` are those of `model_card`."""
    reading, end = vocabularies.tokenizer_in, facts.end_of_text
    name = vocabularies.text_of(end)
    files = {
        "config.json": _json(_config(facts, vocabularies)),
        "generation_config.json": _json(
            {"bos_token_id": end, "eos_token_id": end, "pad_token_id": end, "do_sample": False}
        ),
        "tokenizer.json": reading.to_json(),
        "tokenizer_config.json": _json(_tokenizer_config(facts, vocabularies)),
        NAME: facts.to_json(),
        README: model_card(facts, sizes, vocabularies).encode(),
    }
    if facts.bos:
        files["tokenizer.json"] = with_bos(files["tokenizer.json"], name, end)
    if not vocabularies.same:
        files[TOKENIZER_OUT] = vocabularies.tokenizer_out.to_json()
    return files


def _config(facts: SliceFacts, vocabularies: Vocabularies) -> dict[str, Any]:
    config = backbone_config(
        facts.shape,
        vocabulary=len(vocabularies.ids),
        context=facts.context,
        end=facts.end_of_text,
        dtype=getattr(torch, facts.dtype),
    )
    document: dict[str, Any] = orjson.loads(config.to_json_string())
    # transformers before version 5 reads these; without "rope_theta" it assumes 10,000.
    document["rope_theta"] = float(facts.shape.rope_theta)
    document["torch_dtype"] = facts.dtype
    if not vocabularies.same:
        # transformers decides by the model type, and must not open this as an ordinary model.
        document |= {"architectures": [OUR_ARCHITECTURE], "model_type": "modtok"}
    return document


def _tokenizer_config(facts: SliceFacts, vocabularies: Vocabularies) -> dict[str, Any]:
    specials = vocabularies.tokenizer_in.vocabulary.specials
    name = vocabularies.text_of(facts.end_of_text)
    document = {
        # By the model type transformers would choose LlamaTokenizer, which has a pre-tokenizer of
        # its own.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": name,
        "eos_token": name,
        "pad_token": name,
        "add_bos_token": facts.bos,
        "add_eos_token": False,
        # transformers before version 5 also returns token types, which a Llama refuses.
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "model_max_length": facts.context,
    }
    if "<unk>" in specials:
        document["unk_token"] = "<unk>"
    return document


def with_bos(data: bytes, name: str, index: int) -> bytes:
    """A `tokenizer.json` with a post-processor that puts a special token before every text."""
    document = orjson.loads(data)
    first = {"SpecialToken": {"id": name, "type_id": 0}}
    texts = [{"Sequence": {"id": part, "type_id": kind}} for kind, part in enumerate("AB")]
    second = {"SpecialToken": {"id": name, "type_id": 1}}
    document["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [first, texts[0]],
        "pair": [first, texts[0], second, texts[1]],
        "special_tokens": {name: {"id": name, "ids": [index], "tokens": [name]}},
    }
    return orjson.dumps(document)


def _json(document: dict[str, Any]) -> bytes:
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS
    return orjson.dumps(document, option=option)
