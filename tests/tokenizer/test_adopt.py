"""Tokenizers of other programs made modular: ids, closure, files, budgets."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson
import pytest
import sentencepiece
import tokenizers

from helpers.external_tokenizers import KINDS, external_tokenizer, sentencepiece_model
from helpers.handmade_tokenizers import write_ranks, write_tekken
from helpers.sample import SAMPLE
from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.text.corpus import count_languages
from modtok_cli.text.pretokenizer import find_pretokenizer
from modtok_cli.text.workspace import language_files
from modtok_cli.tokenizer.adopted.adopt import (
    adopt,
    adopt_counts,
    check_output,
    find_end_of_text,
    members,
    of_masks,
    token_counts,
)
from modtok_cli.tokenizer.adopted.converted import check_same
from modtok_cli.tokenizer.adopted.restrict import indispensable, restrict, with_places
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile
from modtok_cli.tokenizer.extract import extract
from modtok_cli.tokenizer.formats.sentencepiece import SentencePieceTokenizer
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_bytes, open_tokenizer
from modtok_cli.tokenizer.subset_check import check_subsets
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.vocabulary import BYTE_NAMES, unspell

LANGUAGES = ("en", "fi", "fr")
KIND = pytest.mark.parametrize("kind", KINDS)


@cache
def source(kind: str) -> TokenizerFile:
    return TokenizerFile(orjson.loads(external_tokenizer(kind)), kind)


@cache
def adopted(kind: str) -> ModularTokenizer:
    files = language_files(SAMPLE / "parallel", LANGUAGES)
    return adopt_counts(
        source(kind), count_languages(files, pretokenizer=source(kind).pretokenizer)
    )


def lines(language: str) -> list[str]:
    return (SAMPLE / "parallel" / f"{language}.txt").read_text("utf-8").splitlines()


@KIND
def test_text_of_a_language_has_the_ids_of_the_original(kind: str) -> None:
    whole = tokenizers.Tokenizer.from_buffer(external_tokenizer(kind))
    whole.encode_special_tokens = True
    for languages in (["fr"], ["fi", "en"], LANGUAGES):
        part = adopted(kind).subset(languages)
        assert part.size < source(kind).size
        for language in languages:
            ours = part.encode_batch(lines(language))
            theirs = whole.encode_batch(lines(language), add_special_tokens=False)
            for ids, encoding in zip(ours, theirs, strict=True):
                assert part.global_ids[ids].tolist() == encoding.ids


@KIND
def test_saved_and_extracted_tokenizers_agree(kind: str, tmp_path: Path) -> None:
    adopted(kind).save(tmp_path / "t")
    loaded = ModularTokenizer.load(tmp_path / "t")
    assert loaded.signature == adopted(kind).signature
    assert loaded.full().to_json() == (tmp_path / "t" / "tokenizer.json").read_bytes()
    part = open_tokenizer(f"{tmp_path / 't'}@fr,en")
    assert isinstance(part, Subtokenizer)
    part.save(tmp_path / "part.json")
    again = open_tokenizer(str(tmp_path / "part.json"))
    assert isinstance(again, Subtokenizer)
    assert (again.signature, again.languages) == (part.signature, ("en", "fr"))
    plain = tokenizers.Tokenizer.from_file(str(tmp_path / "part.json"))
    plain.encode_special_tokens = True
    for text in [*lines("fr")[:20], *lines("fi")[:20], "a ☃"]:
        expected = plain.encode(text, add_special_tokens=False).ids
        assert part.encode(text).tolist() == again.encode(text).tolist() == expected
        if kind != "unigram":  # it has no bytes
            assert part.decode(expected) == text
    # Added tokens of the template follow the new ids.
    end = plain.token_to_id("<|im_end|>")
    assert plain.encode("a").ids[-1] == end < part.size


def foreign(kind: str, place: Path) -> Path:
    """A file of another format, alone in its directory."""
    place.mkdir()
    if kind in ("ranks", "tekken"):
        vocab = orjson.loads(external_tokenizer("byte-level"))["model"]["vocab"]
        made = [bytes(found) for name in vocab if (found := unspell(name)) is not None]
        # Two tokens that no merge makes, one in the middle of ranks.
        tokens = [b" maisons", *(each for each in made if len(each) > 1), b"illassa"]
        if kind == "ranks":
            return Path(write_ranks(place / "tiktoken.model", tokens))
        every = [bytes([byte]) for byte in range(256)] + tokens
        pattern = find_pretokenizer("tekken").pattern
        return Path(write_tekken(place / "tekken.json", every, pattern, 5))
    options: dict[str, object] = {"model_type": kind.partition("-")[0], "vocab_size": 600}
    if kind.endswith("-plain"):
        options |= {"add_dummy_prefix": False, "user_defined_symbols": ["<b>"]}
    if kind == "unigram":
        options["byte_fallback"] = False
    else:
        options |= {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    text = [line for each in ("en", "fr") for line in lines(each)]
    (place / "tokenizer.model").write_bytes(sentencepiece_model(text, **options))
    return place / "tokenizer.model"


@pytest.mark.filterwarnings("ignore:.*in the tokenizers library:UserWarning")
@pytest.mark.parametrize("kind", ["ranks", "tekken", "bpe", "bpe-plain", "unigram", "word"])
def test_files_of_other_formats_are_adopted(kind: str, tmp_path: Path) -> None:
    """With the ids and the texts of the library that owns the file, whole and extracted."""
    file = foreign(kind, tmp_path / "model")
    if kind == "word":
        with pytest.raises(UsageError, match="is neither BPE nor Unigram"):
            adopt(file, data=SAMPLE / "parallel")
        return
    owner = open_tokenizer(str(file))
    end = {"content": "<|end|>", "special": True}  # which a rank file does not contain
    config = {"eos_token": "<|end|>", "added_tokens_decoder": {"700": end}}
    if kind == "ranks":
        (file.parent / "tokenizer_config.json").write_bytes(orjson.dumps(config))
    adopted = adopt(file.parent, "en,fr", data=SAMPLE / "parallel", output=tmp_path / "adopted")
    part = extract(tmp_path / "adopted", "fr", tmp_path / "fr.json")
    again = open_tokenizer(str(tmp_path / "fr.json"))
    assert isinstance(again, Subtokenizer)
    assert again.size == part.size < owner.size
    ends = [name for name in ("<|end|>", "</s>") if name in part.get_vocab()]
    assert (adopted.settings["end_of_text"], adopted.size) == (
        (ends[0] if ends else None), 701 if kind == "ranks" else owner.size
    )  # fmt: skip
    assert ends == (["<|end|>"] if kind == "ranks" else ["</s>"])
    odd = ["  maisons  illassa ☃ \t<b> ", " \n \n  ", *spelled("<b>")]
    for text in [*lines("fr"), *lines("fi"), *odd]:
        ids = owner.encode(text)
        assert adopted.encode(text).tolist() == ids.tolist()
        assert adopted.decode(ids) == owner.decode(ids)
    ids = [adopted.subset("fr").global_ids[again.encode(text)].tolist() for text in lines("fr")]
    assert ids == [each.tolist() for each in owner.encode_batch(lines("fr"))]
    if kind != "unigram":
        assert [again.decode(again.encode(text)) for text in lines("fr")] == lines("fr")


def spelled(symbol: str) -> list[str]:
    """Texts that name tokens, and texts in composed and decomposed characters."""
    names = [f"x{name}y {name}" for name in ("<s>", "</s>", "<unk>", "<0x0A>", "<0xC3>", symbol)]
    forms = [unicodedata.normalize(form, " ".join(lines("fr"))) for form in ("NFC", "NFD")]
    return [*names, *forms, "Garçon ﬁ 각 क़ा Ệ̣", "a\0b"]


MODELS = {
    "unigram": {"byte_fallback": False},
    "unigram of bytes": {"user_defined_symbols": ["[X]"]},
    "unigram, spaces behind": {
        "treat_whitespace_as_suffix": True, "add_dummy_prefix": False,
        "remove_extra_whitespaces": False, "normalization_rule_name": "nfkc_cf",
    },
    "bpe, normalized": {"model_type": "bpe"},
    "bpe, spaces kept": {
        "model_type": "bpe", "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False, "user_defined_symbols": ["[X]"],
    },
    "bpe, symbols of spaces": {  # as of Gemma
        "model_type": "bpe", "normalization_rule_name": "identity", "add_dummy_prefix": False,
        "remove_extra_whitespaces": False, "user_defined_symbols": ["\u2581\u2581", "\t"],
    },
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*in the tokenizers library:UserWarning")
@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_a_model_has_the_ids_and_texts_of_sentencepiece(options: dict, tmp_path: Path) -> None:
    """Adopted, extracted, and grown; SentencePiece runs the files."""
    text = [line for each in ("en", "fr") for line in lines(each)]
    data = sentencepiece_model(text, **{"vocab_size": 600, **options})
    (tmp_path / "t.model").write_bytes(data)
    probes = [*lines("fr"), *lines("fi")[:20], *spelled("[X]"), " a [X] b  "]
    made = adopt(tmp_path / "t.model", "en,fr", data=SAMPLE / "parallel", output=tmp_path / "t")
    extract(tmp_path / "t", "fr", tmp_path / "fr.json")
    extract(tmp_path / "t", "fr", tmp_path / "fr.model")
    pairs = [
        (made, data),
        (open_tokenizer(str(tmp_path / "fr.json")), (tmp_path / "fr.model").read_bytes()),
    ]
    if options is MODELS["bpe, spaces kept"]:
        bpe_seq(append="fi", tokenizer=tmp_path / "t.model", k=20, data=SAMPLE / "parallel",
                output=tmp_path / "grown")  # fmt: skip
        grown = ModularTokenizer.load(tmp_path / "grown")
        assert grown.size == made.size + 20
        pairs.append((grown, grown.full().to_model()))
    for ours, model in pairs:
        owner = sentencepiece.SentencePieceProcessor(model_proto=model)
        for probe in probes:
            ids = owner.encode(probe)
            assert (probe, ours.encode(probe).tolist()) == (probe, ids)
            assert (probe, ours.decode(ids)) == (probe, owner.decode(ids))
        specials = [owner.unk_id(), 5, owner.bos_id(), owner.eos_id(), 7]
        assert ours.decode(specials) == owner.decode(specials)
        if (byte := owner.piece_to_id("<0xC3>")) != owner.unk_id():
            ids = [owner.piece_to_id("e"), owner.eos_id(), owner.unk_id(), byte]
            assert ours.decode_bytes(ids) == "e \u2047 ".encode() + b"\xc3"


def test_without_the_libraries_files_are_written_or_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.json").write_bytes(external_tokenizer("byte-level"))
    (tmp_path / "t.model").write_bytes(sentencepiece_model([*lines("en")], vocab_size=400))
    for name, place in (("t.json", "bytes"), ("t.model", "pieces")):
        adopt(tmp_path / name, "en", data=SAMPLE / "parallel", output=tmp_path / place)
    monkeypatch.setattr("modtok_cli.base.extras.find_spec", lambda name: None)
    made = open_tokenizer(f"{tmp_path / 'bytes'}@en")
    extract(tmp_path / "bytes", "en", tmp_path / "en.json")
    assert (
        open_tokenizer(str(tmp_path / "en.json")).encode("a b").tolist()
        == made.encode("a b").tolist()
    )
    with pytest.raises(UsageError, match="growth requires tokenizers; pip install"):
        bpe_seq(append="fi", tokenizer=tmp_path / "bytes", k=20, data=SAMPLE / "parallel",
                output=tmp_path / "grown")  # fmt: skip


def test_other_ids_than_of_the_owner_are_refused() -> None:
    class Other:
        """One text gets other ids, or is decoded otherwise."""

        def __init__(self, odd: str, decoded: str = "") -> None:
            self.odd, self.decoded = odd, decoded

        def encode_batch(self, texts: Sequence[str]) -> list[Int32Array]:
            ids = owner.encode_batch(texts)
            return [
                one[:0] if text == self.odd else one for text, one in zip(texts, ids, strict=True)
            ]

        def decode(self, ids: npt.ArrayLike) -> str:
            text = owner.decode(ids)
            return "" if text == self.decoded else text

    data = sentencepiece_model(lines("fr"), vocab_size=600, model_type="bpe",
                               normalization_rule_name="identity")  # fmt: skip
    owner = open_bytes(data, "t", "t.model")
    assert isinstance(owner, SentencePieceTokenizer)
    file = TokenizerFile(owner.document(), "t.model")
    of_byte = f"a{BYTE_NAMES[0]}b"
    for text in (of_byte, " </s> "):
        with pytest.raises(UsageError, match=re.escape(f"{text!r} has other ids than in the")):
            check_same(Other(text), owner, file, "t.model", exact=True)
    with pytest.raises(UsageError, match=f"'{of_byte}' has other decoded text"):
        check_same(Other("", of_byte), owner, file, "t.model", exact=True)


def test_a_model_that_no_tokenizer_json_writes_is_refused(tmp_path: Path) -> None:
    data = sentencepiece_model(lines("fr"), vocab_size=400, treat_whitespace_as_suffix=True)
    (tmp_path / "t.model").write_bytes(data)
    with pytest.raises(UsageError, match=r"texts, such as .*, get other ids as a tokenizer\.json"):
        adopt(tmp_path / "t.model", "fr", data=SAMPLE / "parallel")


@KIND
def test_every_subset_reaches_its_tokens(kind: str) -> None:
    report = check_subsets(adopted(kind), samples=3)
    assert report.sound
    assert len(report.subsets) >= 4


def test_a_subset_without_closure_does_not_reach_its_tokens() -> None:
    file = source("characters")
    counts = token_counts(
        file,
        count_languages(
            language_files(SAMPLE / "parallel", ["fr"]), pretokenizer=file.pretokenizer
        )["fr"],
    )
    mask = (counts > 0) | file.needed
    assert file.closed(mask).sum() > mask.sum()
    assert len(Library(file, mask).unreachable_tokens())
    with pytest.raises(ModtokError, match=r"'fr' lacks token \d+, a part of another"):
        of_masks(file, {"fr": mask}, settings={}, corpora={})


@pytest.mark.parametrize("kind", ["byte-level", "characters"])
def test_budgets_bound_tokens_and_loss(kind: str) -> None:
    file = source(kind)
    files = language_files(SAMPLE / "parallel", ["en"])
    counted = count_languages(files, pretokenizer=file.pretokenizer)["en"]
    counts = token_counts(file, counted)
    everything = members(file, counts)
    size = int(everything.sum()) - 40
    fewer = members(file, counts, k=size)
    assert fewer.sum() == size
    assert not (fewer & ~everything).any()
    assert np.array_equal(file.closed(fewer), fewer)

    def tokens(mask: np.ndarray) -> int:
        part = of_masks(file, {"en": mask}, settings={}, corpora={}).subset(["en"])
        return int(part.token_lengths(counted) @ counted.counts)

    whole = int(counts.sum())
    assert tokens(everything) == whole < tokens(fewer)
    most = members(file, counts, coverage=0.98)
    assert most.sum() < everything.sum()
    assert whole < tokens(most) <= whole * 1.021
    with pytest.raises(UsageError, match=r"100 tokens are too few: \d+ cannot be removed"):
        members(file, counts, k=100)
    with pytest.raises(UsageError, match=r"coverage 0.0 is not between"):
        members(file, counts, coverage=0.0)


@KIND
def test_a_subset_loses_its_least_used_tokens(kind: str, tmp_path: Path) -> None:
    """As `extract -t ADOPTED --langs fi,en -k`: ids of the original, closed, in a file."""
    adopted(kind).save(tmp_path / "adopted")
    text, spec = SAMPLE / "parallel" / "fi.txt", f"{tmp_path / 'adopted'}@fi,en"
    whole = open_tokenizer(spec)
    assert isinstance(whole, Subtokenizer)
    size = int(whole.segmenter.needed.sum()) + 60
    part = extract(spec, top=size, texts=[text], output=tmp_path / "part.json")
    assert isinstance(part, Subtokenizer)
    assert part.size <= size < whole.size
    assert {*part.global_ids.tolist()} < {*whole.global_ids.tolist()}
    names = [source(kind).names[index] for index in part.global_ids]
    assert list(open_tokenizer(str(tmp_path / "part.json")).encode(lines("fi")[0])) == list(
        part.encode(lines("fi")[0])
    )
    assert part.segmenter.names == names


def test_reserved_tokens_are_removed_and_special_tokens_are_kept() -> None:
    part = adopted("byte-level").subset(["en"])
    names = {token.decode("utf-8", "replace") for token in part.vocabulary.tokens()}
    assert {"<|im_end|>", "<s>", "<pad>"} <= names
    assert "<unused0>" not in names


def test_the_end_of_text_and_what_templates_name_are_in_every_language(tmp_path: Path) -> None:
    """Of the end, tokenizer_config.json is asked first; a token that no template names is text."""
    document = orjson.loads(external_tokenizer("byte-level"))
    like, vocab = {**document["added_tokens"][0], "special": False}, document["model"]["vocab"]
    for index, name in ((700, "<think>"), (701, "<tool>")):
        vocab[name] = index
        document["added_tokens"].append({**like, "id": index, "content": name})
    config = {"eos_token": "</s>", "chat_template": "x <think>"}
    for name, content in (
        ("tokenizer.json", with_places(document)),
        ("tokenizer_config.json", config),
        ("config.json", {"eos_token_id": vocab["<pad>"]}),
    ):
        (tmp_path / name).write_bytes(orjson.dumps(content))
    made = adopt(tmp_path, "en,fi", data=SAMPLE / "parallel")
    assert (made.settings["end_of_text"], made.settings["marks"]) == ("</s>", ["<think>"])
    assert made.token_membership[np.array([2, 700])].all()
    assert not made.token_membership[701].any()
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "generation_config.json").write_bytes(orjson.dumps({"eos_token_id": [700]}))
    assert find_end_of_text(tmp_path, TokenizerFile(document, "t")) == "<think>"  # not <pad>


def test_what_cannot_be_adopted(tmp_path: Path) -> None:
    data = SAMPLE / "parallel"
    with pytest.raises(UsageError, match="does not exist"):
        adopt(tmp_path / "none.json", data=data)
    with pytest.raises(UsageError, match="contains no tokenizer"):
        adopt(tmp_path, data=data)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "en.txt").write_text("\n\n")
    (tmp_path / "whole.json").write_bytes(external_tokenizer("byte-level"))
    with pytest.raises(ModtokError, match="the text of language 'en' is empty"):
        adopt(tmp_path / "whole.json", ["en"], data=tmp_path / "data")
    document = orjson.loads(external_tokenizer("byte-level"))
    for change, message in (
        ({"type": "WordPiece"}, "a tokenizer of type 'WordPiece' cannot be restricted"),
        ({"end_of_word_suffix": "</w>"}, "field 'model.end_of_word_suffix' is not supported"),
        ({"merges": [["a", "zz"]]}, r"field 'model.merges\[0\]': 'zz' is not in 'model.vocab'"),
    ):
        file = tmp_path / "tokenizer.json"
        file.write_bytes(orjson.dumps({**document, "model": {**document["model"], **change}}))
        with pytest.raises(ModtokError, match=message):
            adopt(file, ["en"], data=data)
    token = document["added_tokens"][0]
    processor = {"type": "x", "special_tokens": {"<s>": {"ids": [1, "2"]}}}
    for field, value in (
        ("added_tokens", 3),
        ("added_tokens[0]", [{**token, "content": 3}]),
        ("added_tokens[1]", [token, {**token, "id": None}]),
        ("post_processor.special_tokens.<s>.ids", processor),
        ("model.vocab", {"a": None}),
        ("model.merges", 3),
        ("model.merges[1]", [["a", "b"], ["a", 3]]),
        ("model.unk_token", {}),
    ):
        holder, _, name = field.partition("[")[0].partition(".special")[0].rpartition(".")
        changed = {**document[holder], name: value} if holder else value
        file.write_bytes(orjson.dumps({**document, holder or name: changed}))
        with pytest.raises(ModtokError, match=f"field '{re.escape(field)}'"):
            adopt(file, ["en"], data=data)
    unigram = orjson.loads(external_tokenizer("unigram"))
    for field, change in (
        ("model.vocab[0]", {"vocab": [["a"]]}),
        ("model.vocab[0][1]", {"vocab": [["a", "b"]]}),
        ("model.unk_id", {"unk_id": -1}),
    ):
        file.write_bytes(orjson.dumps({**unigram, "model": {**unigram["model"], **change}}))
        with pytest.raises(ModtokError, match=f"field '{re.escape(field)}' is damaged"):
            adopt(file, ["en"], data=data)
    adopted("byte-level").save(tmp_path / "t")
    with pytest.raises(UsageError, match="already exists"):
        check_output(tmp_path / "t")
    check_output(tmp_path / "t", force=True)


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
    rows = indispensable(document)
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


@KIND
def test_an_adopted_tokenizer_has_the_names_of_its_file(kind: str) -> None:
    names = tokenizers.Tokenizer.from_buffer(external_tokenizer(kind)).get_vocab()
    modular = adopted(kind)
    assert modular.get_vocab() == names
    ids = modular.encode("Hello<|im_end|>", specials=True)
    assert ids[-1] == modular.token_to_id("<|im_end|>") == names["<|im_end|>"]
    assert modular.decode(ids, skip_special_tokens=True).strip() == "Hello"
    part = modular.subset("fi")
    if part.decode(part.encode("ab")) == "ab":
        assert part.encode_with_offsets("ab")[1][-1, 1] == 2
    else:  # of a text that changes
        with pytest.raises(ModtokError, match="tokens have no offsets in it"):
            part.encode_with_offsets("ab")
