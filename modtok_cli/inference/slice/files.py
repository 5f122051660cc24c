"""The files of a slice beside its weights: configurations, tokenizer, `modtok.json`, model card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import torch

from modtok_cli.inference.run.backbone import backbone_config
from modtok_cli.inference.slice.directory import NAME, TOKENIZER_OUT, SliceFacts
from modtok_cli.inference.vocabularies import Vocabularies

README = "README.md"
OUR_ARCHITECTURE = "ModtokTwoVocabularies"


def slice_files(
    facts: SliceFacts, vocabularies: Vocabularies, sizes: Mapping[str, tuple[int, int]]
) -> dict[str, bytes]:
    """File name → content; `sizes`: part → (bytes of the slice, bytes of the whole model)."""
    end = facts.end_of_text
    files = {
        "config.json": _json(_config(facts, vocabularies)),
        "generation_config.json": _json(
            {"bos_token_id": end, "eos_token_id": end, "pad_token_id": end, "do_sample": False}
        ),
        "tokenizer.json": vocabularies.tokenizer_in.to_json(),
        "tokenizer_config.json": _json(_tokenizer_config(facts, vocabularies)),
        NAME: facts.to_json(),
        README: _model_card(facts, sizes, vocabularies).encode(),
    }
    if facts.bos:
        files["tokenizer.json"] = with_bos(files["tokenizer.json"], vocabularies.text_of(end), end)
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
    if "<unk>" in vocabularies.tokenizer_in.vocabulary.specials:
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


_CARD = """\
---
language:
{names}
license: {license}
library_name: {library}
pipeline_tag: text-generation
base_model: {base_model}
tags:
- modtok
- modular-tokenizer
---

# A slice for {languages}

Extracted by modtok from a multilingual model with a modular tokenizer: the whole
backbone, and the embedding rows of these languages only. Its logits are those of
the whole model for these tokens. Text in other languages needs more tokens and stays
lossless.

| | |
|---|---|
| languages | {languages} |
| vocabulary | {vocabulary} |
| layers, hidden size, context | {shape.layers}, {shape.hidden_size}, {facts.context} |
| dtype | {facts.dtype} |
| signature | {facts.signature} |
| run, step, tokenizer | {facts.run}, {facts.step:,}, {facts.tokenizer} |

| part | bytes | whole model |
|---|---:|---:|
{parts}

{usage}
"""
_USE_TRANSFORMERS = """\
```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained(".")
tokenizer = AutoTokenizer.from_pretrained(".")
ids = tokenizer({text}, return_tensors="pt")
tokenizer.decode(model.generate(**ids, max_new_tokens=50)[0])
```

Every text in training follows `{end}`: {note}."""
_USE_MODTOK = """\
Input and output vocabularies differ, which only modtok can run:

```
modtok generate . "…"
```"""


def _model_card(
    facts: SliceFacts, sizes: Mapping[str, tuple[int, int]], vocabularies: Vocabularies
) -> str:
    """Markdown with the metadata of the Hugging Face Hub."""
    reading, writing = vocabularies.tokenizer_in, vocabularies.tokenizer_out
    end = vocabularies.text_of(facts.end_of_text)
    if vocabularies.same:
        vocabulary, languages = f"{reading.size:,} tokens", ", ".join(facts.inputs)
        usage = _USE_TRANSFORMERS.format(
            end=end,
            text='"…"' if facts.bos else f'"{end}" + "…"',
            note="the tokenizer adds it" if facts.bos else "put it before prompts",
        )
    else:
        vocabulary = f"input {reading.size:,} tokens, output {writing.size:,}"
        languages = f"input {', '.join(facts.inputs)}; output {', '.join(facts.outputs)}"
        usage = _USE_MODTOK
    return _CARD.format(
        names="\n".join(f"- {name}" for name in sorted({*facts.inputs, *facts.outputs})),
        license=_quoted(facts.license),
        library="transformers" if vocabularies.same else "modtok",
        base_model=_quoted(facts.base_model),
        languages=languages,
        vocabulary=vocabulary,
        shape=facts.shape,
        facts=facts,
        parts="\n".join(
            f"| {part} | {here:,} | {whole:,} |" for part, (here, whole) in sizes.items()
        ),
        usage=usage,
    )


def _quoted(text: str) -> str:
    """A YAML string: JSON strings are YAML, whatever characters they contain."""
    return orjson.dumps(text).decode()
