"""Restricted `tokenizer.json`s: every id follows, wherever the file has it."""

import numpy as np
import orjson
import pytest

from helpers.external_tokenizers import external_tokenizer
from modtok_cli.modular.adopted.restrict import indispensable, restrict

tokenizers = pytest.importorskip("tokenizers")

ENDS = {"sep": ["<|im_end|>", 599], "cls": ["<s>", 1]}
PROCESSORS = {
    "bert": {"type": "BertProcessing", **ENDS},
    "roberta": {
        "type": "RobertaProcessing", **ENDS, "trim_offsets": True, "add_prefix_space": False,
    },
    "template": {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "ends", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [
            {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "ends", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 1}},
        ],
        "special_tokens": {
            "ends": {"id": "ends", "ids": [599, 2, 598], "tokens": ["<|im_end|>", "</s>", ""]},
        },
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("nested", [False, True])
def test_the_ids_of_every_post_processor_follow(name: str, nested: bool) -> None:
    document = orjson.loads(external_tokenizer("byte-level"))
    processor = PROCESSORS[name]
    document["post_processor"] = (
        {"type": "Sequence", "processors": [processor]} if nested else processor
    )
    names = {index: token for token, index in document["model"]["vocab"].items()}
    for special in processor.get("special_tokens", {}).values():
        special["tokens"][2] = names[598]
    rows = indispensable(document, "here")
    if name == "template":
        assert 598 in rows  # an ordinary token, which only the template needs
    assert rows[-1] >= 599 > len(rows)
    whole, part = (
        tokenizers.Tokenizer.from_str(orjson.dumps(each).decode())
        for each in (document, restrict(document, rows, "here"))
    )
    for pair in ((), ("bb",)):
        expected, found = (each.encode("a", *pair).ids for each in (whole, part))
        assert len(expected) > 1
        assert np.asarray(rows)[found].tolist() == expected
