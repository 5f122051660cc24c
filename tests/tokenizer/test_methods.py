"""The names of `tokenizers` and transformers, compared with the library; their directories."""

from __future__ import annotations

import json
import pickle
import warnings
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.decoders import DecodeStream

from helpers.external_tokenizers import external_tokenizer
from helpers.made_tokenizers import fewest_tokens, unigram
from helpers.toy_tokenizers import ALPHABET, NASTY, toy
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.tokenizer import render_template
from modtok_cli.tokenizer.adopted.restrict import with_places
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile
from modtok_cli.tokenizer.formats.hugging_face import LibraryTokenizer
from modtok_cli.tokenizer.hf_directory import TEMPLATES, template_of, write_hf_directory
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

MODULAR = toy(3)
OURS = MODULAR.subset("en,fr")
LIBRARY = Tokenizer.from_str(OURS.to_json().decode())
LIBRARY.encode_special_tokens = True
TEXTS = st.text(ALPHABET.decode()) | st.sampled_from(NASTY)


def test_the_vocabulary_is_that_of_the_library() -> None:
    assert OURS.get_vocab() == LIBRARY.get_vocab()
    assert len(OURS) == OURS.vocab_size == LIBRARY.get_vocab_size()
    for index in range(len(OURS)):
        token = OURS.id_to_token(index)
        assert token == LIBRARY.id_to_token(index)
        assert OURS.token_to_id(str(token)) == index
    assert OURS.token_to_id("no such token") is None
    assert OURS.id_to_token(len(OURS)) is None
    assert OURS.id_to_token(-1) is None


@given(TEXTS)
def test_offsets_are_those_of_the_library(text: str) -> None:
    """Of characters; offsets of bytes give the bytes of the tokens."""
    expected = LIBRARY.encode(text)
    ids, offsets = OURS.encode_with_offsets(text)
    assert ids.tolist() == expected.ids
    assert offsets.tolist() == [list(pair) for pair in expected.offsets]
    assert LIBRARY.decode(expected.ids, skip_special_tokens=False) == text
    ids, places = OURS.encode_with_offsets(text, unit="bytes")
    parts = [text.encode()[a:b] for a, b in places]
    assert parts == [OURS.vocabulary.token_bytes(i) for i in ids]


@given(TEXTS, st.integers(0, 12))
def test_truncation_and_counting(text: str, length: int) -> None:
    whole = OURS.encode(text)
    assert OURS.encode(text, max_length=length).tolist() == whole[:length].tolist()
    assert OURS.encode_batch([text], max_length=length)[0].tolist() == whole[:length].tolist()
    ids, offsets = OURS.encode_with_offsets(text, max_length=length)
    assert len(ids) == len(offsets) == min(length, len(whole))
    assert OURS.count(text) == len(whole)


@given(st.lists(st.integers(0, len(OURS) - 1)), st.booleans())
def test_streamed_text_is_the_decoded_text(ids: list[int], skip: bool) -> None:
    stream = OURS.decode_stream(skip_special_tokens=skip)
    parts = [stream.step(index) for index in ids]
    assert "".join(parts) + stream.finish() == OURS.decode(ids, skip_special_tokens=skip)


@given(TEXTS)
def test_streams_give_text_as_early_as_the_library(text: str) -> None:
    theirs, ours = DecodeStream(), OURS.decode_stream()
    library = stream = ""
    for index in OURS.encode(text).tolist():
        library += theirs.step(LIBRARY, index) or ""
        stream += ours.step(index)
        assert stream.startswith(library)
    assert stream == text


def test_special_tokens_are_skipped_on_request() -> None:
    ids = OURS.encode("<s>ab</s>", specials=True)
    assert (ids.dtype, ids[[0, -1]].tolist()) == (np.int32, [0, 1])
    assert not {0, 1} & {*OURS.encode("<s>ab</s>").tolist()}
    plain = toy(3, specials=()).full()
    assert plain.encode("<s>a", specials=True).tolist() == plain.encode("<s>a").tolist()
    assert OURS.decode(ids) == "<s>ab</s>"
    assert OURS.decode(ids, skip_special_tokens=True) == "ab"
    assert OURS.decode_batch([ids, ids[:1]], skip_special_tokens=True) == ["ab", ""]
    assert OURS.decode_batch([ids.tolist()]) == ["<s>ab</s>"]
    assert LIBRARY.decode(ids.tolist(), skip_special_tokens=True) == "ab"
    assert Tokenizer.from_str(OURS.to_json().decode()).encode("<s>ab</s>").ids == ids.tolist()


@given(st.sampled_from([None, "en", ["fr", "en"], "fi,el"]), st.lists(TEXTS, max_size=3))
def test_a_modular_tokenizer_encodes_by_languages(
    languages: str | list[str] | None, texts: list[str]
) -> None:
    part = MODULAR.full() if languages is None else MODULAR.subset(languages)
    batch = MODULAR.encode_batch(texts, languages=languages)
    for text, ids in zip(texts, batch, strict=True):
        assert ids.tolist() == part.global_ids[part.encode(text)].tolist()
        assert MODULAR.encode(text, languages=languages).tolist() == ids.tolist()
        assert MODULAR.decode(ids) == text
        assert MODULAR.count(text) == len(MODULAR.encode(text))


def test_recent_subsets_are_few_and_not_copied() -> None:
    modular = toy(4, languages=tuple("abcdefghijkl"[i] * 2 for i in range(12)))
    for language in modular.languages:
        modular.encode("abc", languages=iter([language]))
    assert modular._subsets.cache_info().currsize == 8
    copy = pickle.loads(pickle.dumps(modular))
    assert not vars(copy).keys() & {"_subsets", "_names", "signature"}
    assert copy.encode("abc", languages="aa").tolist() == (
        modular.encode("abc", languages="aa").tolist()
    )


@pytest.mark.parametrize("modular", [toy(3), unigram(), fewest_tokens()])
def test_a_copy_is_equal_and_does_not_depend_on_earlier_calls(modular: ModularTokenizer) -> None:
    """`datasets` caches what `map` gives by a hash of the pickle of the tokenizer."""
    languages = modular.languages
    part, other = modular.subset(languages[:1]), modular.subset(languages[1:])
    before = [pickle.dumps(each) for each in (modular, part)]
    for each in (modular, part):
        each.encode("aab <|endoftext|> é", specials=True)
        _ = each.get_vocab(), each.signature, len(each), hash(each)
        _ = part.global_ids, part.local_of_global, part.to_json()
    assert [pickle.dumps(each) for each in (modular, part)] == before
    again, same = (pickle.loads(data) for data in before)
    assert (again, same) == (modular, part)
    assert {again, modular, same, part, modular.subset(languages[:1], name="x")} == {modular, part}
    assert part != other
    assert modular.full() != modular


def _count(tokenizer: Subtokenizer | ModularTokenizer) -> int:
    return tokenizer.count("abc abc")


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_another_process_encodes_the_same(method: str) -> None:
    OURS.get_vocab()
    with get_context(method).Pool(1) as pool:
        assert pool.map(_count, [OURS, MODULAR]) == [_count(OURS), _count(MODULAR)]


def test_mistakes_are_named() -> None:
    with pytest.raises(UsageError, match="max_length: expected 0 or more"):
        OURS.encode("a", max_length=-1)
    with pytest.raises(UsageError, match="unit: expected 'characters' or 'bytes'"):
        OURS.encode_with_offsets("a", unit="words")  # type: ignore[arg-type]
    with pytest.raises(ModtokError, match="outside the vocabulary"):
        OURS.decode_stream().step(len(OURS))
    with pytest.raises(UsageError, match="no language 'xx'"):
        MODULAR.encode("a", languages="xx")


def test_tokenizers_of_other_programs_are_counted_too() -> None:
    words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = LibraryTokenizer("words", words.to_str().encode(), "words")
    assert len(tokenizer) == 3
    assert tokenizer.count("a b c") == 3


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


def test_added_tokens_that_are_text_stay_text(tmp_path: Path) -> None:
    """Of an adopted file; one without a list of added tokens gets one."""
    document = json.loads(external_tokenizer("byte-level"))
    think = {**document["added_tokens"][0], "id": 700, "content": "<think>", "special": False}
    document["model"]["vocab"]["<think>"] = 700
    for added in ([*document["added_tokens"], think], None):
        made = with_places({**document, "added_tokens": added or [], "post_processor": None})
        if added is None:
            del made["added_tokens"]
        library = Subtokenizer(Library(TokenizerFile(made, "t")))
        row = library.save_pretrained(tmp_path / "hf", specials=["<|tool|>"], force=True)
        found = opened(tmp_path / "hf")
        assert found.convert_tokens_to_ids("<|tool|>") == row["added"]["<|tool|>"] == 701
        assert ("<s>" in found.all_special_tokens) == (added is not None)
        assert "<think>" not in found.all_special_tokens
        assert found.decode([68, 700], skip_special_tokens=True).endswith("<think>")


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
    if "1 seconds" in message:  # of processor time; others end before, also on a slow machine
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
