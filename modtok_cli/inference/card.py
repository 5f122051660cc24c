"""The model card of a slice: what it is, how to run it, where it comes from."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from modtok_cli.inference.slicefile import SliceFacts
from modtok_cli.inference.vocabularies import Vocabularies


def model_card(
    facts: SliceFacts, sizes: Mapping[str, tuple[int, int]], vocabularies: Vocabularies
) -> str:
    """Markdown with the metadata of the Hugging Face Hub.

    `sizes`: part → (bytes of the slice, bytes of the whole model).
    """
    languages = sorted({*facts.inputs, *facts.outputs})
    header = ["---", "language:", *(f"- {language}" for language in languages)]
    header += [
        f"license: {_quoted(facts.license)}",
        f"library_name: {'transformers' if vocabularies.same else 'modtok'}",
        "pipeline_tag: text-generation",
        f"base_model: {_quoted(facts.base_model)}",
        "tags:",
        "- modtok",
        "- modular-tokenizer",
        "---",
        "",
    ]
    return "\n".join([*header, *_body(facts, sizes, vocabularies)]) + "\n"


def _quoted(text: str) -> str:
    """A YAML string: JSON strings are YAML, whatever characters they contain."""
    return orjson.dumps(text).decode()


def _body(
    facts: SliceFacts, sizes: Mapping[str, tuple[int, int]], vocabularies: Vocabularies
) -> list[str]:
    shape = facts.shape
    reading, writing = vocabularies.tokenizer_in, vocabularies.tokenizer_out
    vocabulary = f"{reading.size:,} tokens"
    languages = ", ".join(facts.inputs)
    if not vocabularies.same:
        vocabulary = f"input {reading.size:,} tokens, output {writing.size:,}"
        languages = f"input {languages}; output {', '.join(facts.outputs)}"
    lines = [
        f"# A slice for {languages}",
        "",
        "Extracted by modtok from a multilingual model with a modular tokenizer: the whole",
        "backbone, and the embedding rows of these languages only. Its logits are those of",
        "the whole model for these tokens. Text in other languages needs more tokens and stays",
        "lossless.",
        "",
        "| | |",
        "|---|---|",
        f"| languages | {languages} |",
        f"| vocabulary | {vocabulary} |",
        f"| layers, hidden size, context | {shape.layers}, {shape.hidden_size}, {facts.context} |",
        f"| dtype | {facts.dtype} |",
        f"| signature | {facts.signature} |",
        f"| run, step, tokenizer | {facts.run}, {facts.step:,}, {facts.tokenizer} |",
        "",
        "| part | bytes | whole model |",
        "|---|---:|---:|",
        *(f"| {part} | {here:,} | {whole:,} |" for part, (here, whole) in sizes.items()),
        "",
    ]
    return lines + (_stock(facts, vocabularies) if vocabularies.same else _own())


def _stock(facts: SliceFacts, vocabularies: Vocabularies) -> list[str]:
    end = vocabularies.text_of(facts.end_of_text)
    text = '"…"' if facts.bos else f'"{end}" + "…"'
    note = "the tokenizer adds it" if facts.bos else "put it before prompts"
    return [
        "```python",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        'model = AutoModelForCausalLM.from_pretrained(".")',
        'tokenizer = AutoTokenizer.from_pretrained(".")',
        f'ids = tokenizer({text}, return_tensors="pt")',
        "tokenizer.decode(model.generate(**ids, max_new_tokens=50)[0])",
        "```",
        "",
        f"Every text in training follows `{end}`: {note}.",
    ]


def _own() -> list[str]:
    return [
        "Input and output vocabularies differ, which only modtok can run:",
        "",
        "```",
        'modtok generate . "…"',
        "```",
    ]
