"""The model card of a slice: what it is, for whom, how to run it, where it comes from."""

from __future__ import annotations

from collections.abc import Mapping

from modtok_cli.inference.slicefile import SliceFacts
from modtok_cli.inference.vocabularies import Vocabularies


def model_card(
    facts: SliceFacts, sizes: Mapping[str, tuple[int, int]], vocabularies: Vocabularies
) -> str:
    """Markdown with the header that model hubs read.

    `sizes`: part → (bytes here, bytes of the whole model).
    """
    languages = sorted({*facts.inputs, *facts.outputs})
    header = ["---", "language:", *(f"- {language}" for language in languages)]
    header += ["tags:", "- modtok", "- modular-tokenizer", "---", ""]
    return "\n".join([*header, *_body(facts, sizes, vocabularies)]) + "\n"


def _body(
    facts: SliceFacts, sizes: Mapping[str, tuple[int, int]], vocabularies: Vocabularies
) -> list[str]:
    shape = facts.shape
    reading, writing = vocabularies.tokenizer_in, vocabularies.tokenizer_out
    vocabulary = f"{reading.size:,} tokens"
    languages = ", ".join(facts.inputs)
    if not vocabularies.same:
        vocabulary = f"reads {reading.size:,} tokens, predicts {writing.size:,}"
        languages = f"reads {languages}; writes {', '.join(facts.outputs)}"
    lines = [
        f"# A slice for {languages}",
        "",
        "Cut by modtok out of a multilingual model with a modular tokenizer: the whole",
        "backbone, and the vocabulary rows of these languages only. Its logits are those of",
        "the whole model over these tokens. Other text stays lossless, at more tokens.",
        "",
        "| | |",
        "|---|---|",
        f"| languages | {languages} |",
        f"| vocabulary | {vocabulary} |",
        f"| layers, width, context | {shape.layers}, {shape.hidden_size}, {facts.context} |",
        f"| numbers | {facts.dtype} |",
        f"| signature | {facts.signature} |",
        f"| from tokenizer, step | {facts.tokenizer}, {facts.step:,} |",
        "",
        "| part | bytes | whole model |",
        "|---|---:|---:|",
        *(f"| {part} | {here:,} | {whole:,} |" for part, (here, whole) in sizes.items()),
        "",
    ]
    return lines + (_stock(facts, vocabularies) if vocabularies.same else _own())


def _stock(facts: SliceFacts, vocabularies: Vocabularies) -> list[str]:
    end = vocabularies.tokenizer_in.vocabulary.specials[facts.end_of_text]
    return [
        "```python",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        'model = AutoModelForCausalLM.from_pretrained(".")',
        'tokenizer = AutoTokenizer.from_pretrained(".")',
        f'ids = tokenizer("{end}" + "…", return_tensors="pt")',
        "tokenizer.decode(model.generate(**ids, max_new_tokens=50)[0])",
        "```",
        "",
        f"Every text in training follows `{end}`: begin prompts with it.",
    ]


def _own() -> list[str]:
    return [
        "The vocabularies differ, which only modtok can run:",
        "",
        "```",
        'modtok generate . "…"',
        "```",
    ]
