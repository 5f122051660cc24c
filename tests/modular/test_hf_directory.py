"""Directories for transformers: ids, special tokens, chat prompts, refusals."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from helpers.toy_tokenizers import toy
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.modular import render_template
from modtok_cli.modular.hf_directory import TEMPLATES, template_of, write_hf_directory
from modtok_cli.modular.open import open_tokenizer
from modtok_cli.modular.subtokenizer import Subtokenizer

MESSAGES = [{"role": "user", "content": "abc é <|im_end|>"}, {"role": "assistant", "content": "1"}]


@pytest.fixture(scope="module")
def subset() -> Subtokenizer:
    return toy(3, specials=("<|endoftext|>", "<|pad|>")).subset(["en", "fr"])


def opened(directory: Path) -> Any:
    transformers = pytest.importorskip("transformers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformers.AutoTokenizer.from_pretrained(directory)


def test_transformers_gives_the_same_ids_and_special_tokens(
    subset: Subtokenizer, tmp_path: Path
) -> None:
    row = subset.save_pretrained(tmp_path / "hf", specials=["<|tool|>", "<|pad|>"])
    assert row["added"] == {"<|tool|>": subset.size}
    found = opened(tmp_path / "hf")
    assert (found.eos_token, found.pad_token) == ("<|endoftext|>", "<|pad|>")
    assert len(found) == row["tokens"] == subset.size + 1
    for text in ("abc  é1\n", "क abcde"):
        assert found(text)["input_ids"] == subset.encode(text).tolist()
        assert found.decode(subset.encode(text)) == text
    assert found("a<|tool|>b")["input_ids"][-2] == subset.size
    assert found.decode([subset.size], skip_special_tokens=True) == ""
    subset.save_pretrained(tmp_path / "plain")
    assert open_tokenizer(str(tmp_path / "plain")).signature == subset.signature


@pytest.mark.parametrize("name", TEMPLATES)
def test_chat_prompt_ends_with_the_turn_of_the_assistant(
    subset: Subtokenizer, tmp_path: Path, name: str
) -> None:
    added, end, _ = TEMPLATES[name]
    row = subset.save_pretrained(tmp_path / "hf", chat_template=name)
    assert row["added"] == {text: subset.size + i for i, text in enumerate(added)}
    found = opened(tmp_path / "hf")
    assert found.eos_token == end
    prompt = found.apply_chat_template(MESSAGES, add_generation_prompt=True, tokenize=False)
    assert prompt.startswith(added[0] + "user")
    assert prompt.rstrip("\n").endswith("assistant" if name == "chatml" else added[1])
    ids = found.apply_chat_template(MESSAGES, tokenize=True, return_dict=False)
    assert ids.count(row["added"][end]) == 2 + (name == "chatml")  # one is in the text
    assert ids[0] == subset.size
    ids = open_tokenizer(str(tmp_path / "hf")).encode("abc é1")
    assert ids.tolist() == subset.encode("abc é1").tolist()


def test_template_in_a_file(subset: Subtokenizer, tmp_path: Path) -> None:
    path = tmp_path / "chat.jinja"
    path.write_text("{% for m in messages %}<|turn|>{{ m['content'] }}{% endfor %}")
    with pytest.raises(UsageError, match=r"<\|turn\|>, not a special token.*--special '<\|turn"):
        subset.save_pretrained(tmp_path / "hf", chat_template=str(path))
    assert not (tmp_path / "hf").exists()
    subset.save_pretrained(tmp_path / "hf", chat_template=str(path), specials=["<|turn|>"])
    text = opened(tmp_path / "hf").apply_chat_template(MESSAGES, tokenize=False)
    assert text == "<|turn|>abc é <|im_end|><|turn|>1"


def test_invalid_requests(subset: Subtokenizer, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ordinary token"):
        subset.save_pretrained(tmp_path / "hf", specials=["a"])
    with pytest.raises(UsageError, match="is empty"):
        subset.save_pretrained(tmp_path / "hf", specials=[""])
    with pytest.raises(UsageError, match="expected a file or one of: chatml"):
        subset.save_pretrained(tmp_path / "hf", chat_template="chatmll")
    subset.save_pretrained(tmp_path / "hf")
    with pytest.raises(UsageError, match="already exists"):
        subset.save_pretrained(tmp_path / "hf")
    subset.save_pretrained(tmp_path / "hf", force=True)
    (tmp_path / "hf" / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match="contains other files"):
        subset.save_pretrained(tmp_path / "hf", force=True)


def test_tokenizer_without_special_tokens(tmp_path: Path) -> None:
    bare = toy(3, specials=()).subset(["en"])
    row = write_hf_directory(tmp_path / "hf", bare.to_json())
    assert (row["eos"], row["pad"]) == (None, None)
    config = json.loads((tmp_path / "hf" / "tokenizer_config.json").read_text())
    assert "eos_token" not in config
    assert opened(tmp_path / "hf")("abc")["input_ids"] == bare.encode("abc").tolist()


LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}x"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (b"a\n{% if %}", r"t.jinja:2: the chat template fails \(TemplateSyntaxError: Expected"),
        (b"a {{ messages[0]['content'] }}\0", "has a NUL character"),
        (b" \n", "is empty"),
        (b"\xff", "is not UTF-8"),
        (b"{# #}", "writes nothing"),
        (b"x" * (1 << 20) + b"yy", "larger than|at most|more than"),
        (b"{{ nothing.x }}", r"fails \(UndefinedError"),
        (b"{{ ''.__class__.__mro__[1].__subclasses__() }}", r"fails \(SecurityError"),
        (b"{{ 'x' * 2000000 }}", "writes more than 1,048,576 characters"),
        (b"{{ 'x' * 2000000000 }}", "memory"),
        (LOOPS.encode(), "does not end within 1 seconds"),
    ],
)
def test_a_template_that_is_wrong_is_not_written(
    template: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render_template, "SECONDS", 1)
    (tmp_path / "t.jinja").write_bytes(template)
    with pytest.raises(ModtokError, match=message) as caught:
        template_of(str(tmp_path / "t.jinja"))
    assert "\n" not in str(caught.value)


def test_a_template_may_demand_or_refuse_a_system_message(tmp_path: Path) -> None:
    file = tmp_path / "t.jinja"
    for test in ("!=", "=="):
        text = (
            "{% if messages[0]['role'] "
            + test
            + " 'system' %}{{ raise_exception('no') }}{% endif %}"
            "{% for m in messages %}{% if m.role == 'x' %}{% continue %}{% endif %}{% generation %}"
            "{{ m['content'] | tojson }}{{ strftime_now('%d') }}{% endgeneration %}{% endfor %}"
        )
        file.write_text(text)
        assert template_of(str(file)) == ((), None, text)
