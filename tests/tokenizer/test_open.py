from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import tiktoken
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from helpers.external_tokenizers import KINDS, external_tokenizer, sentencepiece_model
from helpers.handmade_tokenizers import write_ranks, write_tekken
from helpers.toy_tokenizers import NASTY, toy
from modtok_cli.base import extras
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.learn.merges import byte_order
from modtok_cli.measure.check import check, split_arguments
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.tokenizer.adopted.adopt import read_tokenizer_file
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.encoding import external
from modtok_cli.tokenizer.encoding.external import library_tokenizer
from modtok_cli.tokenizer.formats import hugging_face
from modtok_cli.tokenizer.formats import tiktoken as tiktoken_format
from modtok_cli.tokenizer.formats.hugging_face import LibraryTokenizer
from modtok_cli.tokenizer.formats.tiktoken import RANK_PATTERNS, RankTokenizer
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_bytes, open_tokenizer
from modtok_cli.tokenizer.segmenters import SEGMENTATIONS
from modtok_cli.tokenizer.segmenters.interface import segmentation
from modtok_cli.tokenizer.segmenters.sentencepiece_file import Kind, SentencePieceFile, write_model
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

LINES = ["the cat sat on the mat", "le chat est là, le chat dort", "kissa istui matolla 12"] * 5


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    toy(3).save(tmp_path / "tok")
    return tmp_path / "tok"


def trained(pre_tokenizer: pre_tokenizers.PreTokenizer) -> bytes:
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizer
    model.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator(LINES, trainer)
    return model.to_str().encode()


RANKS = [*(bytes([byte]) for byte in byte_order()), b"th", b"the", b" c", b" ca", b" cat", b" the"]
RANK_FILE = b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(RANKS))


def test_open_modular_directory_and_subsets(directory: Path) -> None:
    tokenizer = toy(3)
    whole = open_tokenizer(str(directory))
    assert (whole.name, whole.size, whole.pretokenizer) == (str(directory), tokenizer.size, BPE)
    assert whole.signature == tokenizer.full().signature
    assert whole.languages == tokenizer.full().languages != ()
    some = open_tokenizer(f"{directory}@fr,eng")
    assert some.signature == tokenizer.subset(["en", "fr"]).signature
    assert some.name == f"{directory}@fr,eng"
    with pytest.raises(UsageError, match="no language 'xx'"):
        open_tokenizer(f"{directory}@fr,xx")


_SPECIAL = {"SpecialToken": {"id": "<s>", "type_id": 0}}
_A, _B = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
_TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [_SPECIAL, _A],
    "pair": [_SPECIAL, _A, _B],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
}
_OFFSETS = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


@pytest.mark.parametrize(
    ("processor", "ours"),
    [
        (_TEMPLATE, True),
        (_OFFSETS, True),
        ({"type": "Sequence", "processors": [_OFFSETS, _TEMPLATE]}, True),
        ({**_TEMPLATE, "single": [_A, _SPECIAL]}, True),
        ({**_TEMPLATE, "single": [_A, _A]}, False),
        ({"type": "BertProcessing", "sep": ["<s>", 0], "cls": ["<s>", 0]}, False),
    ],
)
def test_post_processor_that_adds_special_tokens(
    directory: Path, tmp_path: Path, processor: object, ours: bool
) -> None:
    """Such a file is run by our encoder, with the ids of the library."""
    document = json.loads(ModularTokenizer.load(directory).full().to_json())
    data = json.dumps(document | {"post_processor": processor}).encode()
    path = tmp_path / "processed.json"
    path.write_bytes(data)
    found = open_tokenizer(str(path))
    assert isinstance(found, Subtokenizer) is ours
    theirs = LibraryTokenizer("theirs", data, "here")
    for text in NASTY:
        assert found.encode(text).tolist() == theirs.encode(text).tolist()


def test_merges_joined_by_spaces_are_read_too(directory: Path) -> None:
    document = json.loads((directory / "tokenizer.json").read_bytes())
    document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]
    old = json.dumps(document).encode()
    assert open_tokenizer("-", stdin=io.BytesIO(old)).signature == toy(3).full().signature


def test_sentencepiece(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    keep = {"remove_extra_whitespaces": False, "normalization_rule_name": "identity"}
    path.write_bytes(sentencepiece_model(LINES, vocab_size=330, **keep))
    tokenizer = open_tokenizer(str(tmp_path))  # the only file of a directory
    inner = sentencepiece.SentencePieceProcessor(model_file=str(path))
    assert tokenizer.size == inner.get_piece_size()
    texts = ["le chat dort", "kissa 中", ""]
    batch = tokenizer.encode_batch(texts)
    for text, ids in zip(texts, batch, strict=True):
        assert ids.dtype == np.int32
        assert ids.tolist() == inner.encode(text) == tokenizer.encode(text).tolist()
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode_bytes(ids) == text.encode()
    with pytest.raises(ModtokError, match="cannot decode"):
        tokenizer.decode([10**6])
    assert tokenizer.pretokenizer is None
    with pytest.raises(ModtokError, match="does not split text into the words"):
        tokenizer.token_lengths(WordCounts.from_pairs([(b"a", 1)]))


def test_the_owner_runs_a_model_that_only_looks_like_ours() -> None:
    """With the settings that modtok writes, but its bytes are in another order."""
    names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "a", "▁b"]
    kinds = [Kind.UNKNOWN, *[Kind.BYTE] * 256, Kind.NORMAL, Kind.NORMAL]
    data = write_model(
        SentencePieceFile(tuple(names), (0.0, *[-9.0] * 256, -1.0, -2.0), tuple(kinds))
    )
    inner = sentencepiece.SentencePieceProcessor(model_proto=data)
    for text in ("b a", "a\n b", "▁"):
        assert open_bytes(data, "m", "m").encode(text).tolist() == inner.encode(text)


@pytest.mark.parametrize("pattern", [None, *RANK_PATTERNS])
def test_rank_files(tmp_path: Path, pattern: str | None) -> None:
    # Llama 3's rank file has SentencePiece's ending: the content decides.
    path = tmp_path / "tokenizer.model"
    path.write_bytes(RANK_FILE)
    tokenizer = open_tokenizer(str(path) + (f"#{pattern}" if pattern else ""))
    assert tokenizer.size == len(RANKS)
    text = "the cat, 12345  the\n\ncats' CATS don't 😀"
    ids = tokenizer.encode(text)
    inner = tiktoken.Encoding(
        "t",
        pat_str=RANK_PATTERNS[pattern or "cl100k"],
        mergeable_ranks={token: i for i, token in enumerate(RANKS)},
        special_tokens={},
    )
    assert ids.tolist() == inner.encode(text) == tokenizer.encode_batch([text])[0].tolist()
    assert ids[0] == RANKS.index(b"the")
    assert ids[1] == RANKS.index(b" cat")
    assert tokenizer.decode(ids) == text
    with pytest.raises(ModtokError, match="outside the vocabulary"):
        tokenizer.decode_bytes([5000])


def test_the_tokens_of_a_rank_file_tell_its_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong pattern splits tokens, which no text then gives; what is guessed is said."""
    marked, digits = "\u0924\u0c46", "12"  # cl100k splits before the mark
    for name, tokens, expected, said in [
        ("a", [marked, "HelloWorld"], "qwen35", None),
        ("a", [marked, "HelloWorld", digits], "cl100k", "1 of 3 tokens are split, as by llama3"),
        ("a", [marked, " World's"], "o200k", "0 of 2 tokens are split, as by kimi"),
        # A name tells nothing.
        ("o200k_base", [marked], "o200k", "0 of 1 tokens are split, as by tekken, qwen35, kimi"),
        ("qwen", ["HelloWorld"], "cl100k", "0 of 1 tokens are split, as by llama3, r50k, qwen2"),
        ("kimi", ["\u4e2d\u4e2d"], "cl100k", "0 of 1 tokens are split"),
    ]:
        path = write_ranks(tmp_path / f"{name}.tiktoken", [token.encode() for token in tokens])
        progress = Silent()
        found = open_tokenizer(str(path), progress=progress)
        assert isinstance(found, RankTokenizer)
        assert found.pattern == RANK_PATTERNS[expected]
        assert len(progress.warnings) == (said is not None)
        assert (said or "") in "".join(progress.warnings)
    # A published file whose tokens tell another.
    place = write_ranks(tmp_path / "b.tiktoken", [marked.encode(), b"HelloWorld"])
    told = hashlib.sha256(Path(place).read_bytes()).hexdigest()
    monkeypatch.setitem(tiktoken_format._PUBLISHED, told, "qwen2")
    found = open_tokenizer(str(place), progress=progress)
    assert (found.pattern, len(progress.warnings)) == (RANK_PATTERNS["qwen2"], 1)
    regex = "[^@/#]|." + "|." * 200  # longer than names of files
    assert split_arguments([f"{path}#{regex}"]) == ([f"{path}#{regex}"], [])
    free = open_tokenizer(f"{path}#{regex}", progress=progress)  # and no other line
    assert len(free.encode("\u4e2d\u4e2d@")) == 3 + 3 + 1
    assert len(open_tokenizer(str(path)).encode("\u4e2d\u4e2d@")) == 2
    for odd, message in (("gpt5", "unknown pattern 'gpt5'; choose from: cl100k"), ("(", "refuses")):
        with pytest.raises(ModtokError, match=message):
            open_tokenizer(f"{path}#{odd}")


@pytest.mark.parametrize("kind", KINDS)
def test_to_encode_a_file_is_loaded_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    def load(*args: Any) -> Any:
        loaded.append(args)
        return library_tokenizer(*args)

    for place in (external, hugging_face):
        monkeypatch.setattr(place, "library_tokenizer", load)
    tokenizer = open_bytes(external_tokenizer(kind), "t", "t.json")
    tokenizer.decode_bytes(tokenizer.encode("a b"))
    assert len(loaded) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_in_a_text_are_text(kind: str) -> None:
    tokenizer = open_bytes(external_tokenizer(kind), "t", "t.json")
    assert isinstance(tokenizer, LibraryTokenizer)
    for text in ("a</s>b", "<s> <pad>", "x<|im_end|>y"):
        ids = {*tokenizer.encode(text).tolist()}
        assert not ids & {1, 2, 3, tokenizer.inner.token_to_id("<|im_end|>")}
    assert tokenizer.decode([1, 2]).replace(" ", "") == "<s></s>"  # of ids they are tokens


def test_tekken(tmp_path: Path) -> None:
    path = tmp_path / "tekken.json"
    write_tekken(path, RANKS, RANK_PATTERNS["o200k"], 10, [b"beyond the size"])
    tokenizer = open_tokenizer(str(path))
    assert tokenizer.size == len(RANKS) + 10
    ids = tokenizer.encode("the cat")
    assert ids.tolist() == [10 + RANKS.index(b"the"), 10 + RANKS.index(b" cat")]
    assert tokenizer.decode(ids) == "the cat"
    path.write_text(path.read_text().replace('"rank"', '"rang"', 1))
    with pytest.raises(ModtokError, match="tekken file: 'rank'"):
        open_tokenizer(str(path))


@pytest.mark.parametrize(
    ("package", "name", "content"),
    [("tiktoken", "x.tiktoken", RANK_FILE), ("tokenizers", "x.json", b'{"model": {}}')],
)
def test_a_missing_library_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    monkeypatch.setattr(extras, "is_installed", lambda module: module != package)
    with pytest.raises(UsageError, match=f"requires {package}") as error:
        open_tokenizer(str(path))
    assert "'modtok[published]'" in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"plain text, no tokenizer", "unknown kind of tokenizer"),
        (bytes(range(200)), "unknown kind of tokenizer"),
        (b"{", ":1: not JSON"),
        (b'{\n"a": 1,\n}', ":2: not JSON"),
        (b'{"a": 1}', "field 'model' is not an object"),
        (b'{"model": {"type": "BPE"}}', "the tokenizers library cannot load it"),
        (RANK_FILE.replace(b"\n", b" x\n", 1), "unknown kind of tokenizer"),
        (RANK_FILE + b"!! 900\n", ":263: not 'base64 rank'"),
        (RANK_FILE + b"dGhX 1_0\n", ":263: not 'base64 rank'"),
        (RANK_FILE + b"dGhl 900\n", ":263: a token or a rank occurs twice"),
        (RANK_FILE[RANK_FILE.index(b"\n") + 1 :], "byte 0x21 has no rank"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ModtokError) as caught:
        open_tokenizer(str(path))
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files_and_languages(tmp_path: Path, directory: Path) -> None:
    for spec, message in [
        ("tokenizer", "no tokenizer in tokenizer/; learn one with modtok bpe-seq, or pass -t"),
        ("nowhere", "nowhere: does not exist"),
        (f"{tmp_path}@fr", f"{tmp_path}: the directory contains no tokenizer"),
        (
            f"{directory}/tokenizer.json@fi",
            f"^{directory}/tokenizer.json: is no modular directory, .*: modtok adopt ",
        ),
        (f"{directory}@", f"{directory}@ is empty; as in: {directory}@en,fi"),
        (f"{directory}@fi,,en", f"{directory}@'fi,,en' has an empty entry"),
        (f"{directory}@fi,fi", f"{directory}@ repeats 'fi'"),
        (f"{directory}@fi,fin", f"{directory}@: 'fi' and 'fin' are one language"),
        (str(tmp_path), "the directory contains no tokenizer"),
        (f"{directory}/tokenizer.json#o200k", "'#o200k' is for tiktoken rank files"),
    ]:
        with pytest.raises(UsageError, match=message):
            open_tokenizer(spec)
    with pytest.raises(ModtokError, match="stdin: standard input is empty"):
        open_tokenizer("-", stdin=io.BytesIO(b""))


def test_damaged_tokenizer_json_names_the_field(directory: Path) -> None:
    good = json.loads((directory / "tokenizer.json").read_bytes())
    names = list(good["model"]["vocab"])
    kept = {name: i for i, name in enumerate(name for name in names if name != "!")}
    cases: list[tuple[Callable[[dict], None], str]] = [
        (lambda m: m.update(vocab=[]), "field 'model.vocab': not an object"),
        (lambda m: m["vocab"].update({names[9]: 10**6}), "ids are not 0 to"),
        (lambda m: m["vocab"].update({names[9]: "9"}), f"the id of '{names[9]}' is not an integer"),
        (lambda m: m["vocab"].update({names[9]: 2**63}), "an id is out of range"),
        (lambda m: m["vocab"].update({names[0]: 1, names[1]: 0}), "special tokens are not"),
        (lambda m: m.update(merges={}), "field 'model.merges': not a list"),
        (lambda m: m["merges"].__setitem__(3, ["a"]), "merges[3]': not a pair"),
        (lambda m: m["merges"].__setitem__(3, ["a", 1]), "merges[3]': not a pair"),
        (lambda m: m["merges"].__setitem__(3, ["a", "zz"]), "merges[3]': 'zz' is not in"),
        (lambda m: m["merges"].__setitem__(3, ["z", "z"]), "merges[3]': 'zz' is not in"),
        (lambda m: m.update(vocab=kept), "byte 0x21 is not a token"),
    ]
    for change, message in cases:
        document = json.loads(json.dumps(good))
        change(document["model"])
        with pytest.raises(ModtokError, match=re.escape(message)):
            open_tokenizer("-", stdin=io.BytesIO(json.dumps(document).encode()))


def without_bytes(document: dict) -> None:
    model, lacking = document["model"], {"ĉ", "!"}
    kept = [name for name in model["vocab"] if not lacking & set(name)]
    model["vocab"] = {name: i for i, name in enumerate(kept)}
    model["merges"] = [pair for pair in model["merges"] if "".join(pair) in model["vocab"]]


def with_gap(document: dict) -> None:
    vocab = document["model"]["vocab"]
    vocab[max(vocab, key=vocab.get)] += 7


def with_a_merge_twice(document: dict) -> None:
    merges = document["model"]["merges"]
    merges.append(merges[0])


def with_another_spelling(document: dict) -> None:
    vocab = document["model"]["vocab"]
    vocab["\t"] = len(vocab)


ODD = {
    without_bytes: "is not a token",
    with_gap: "ids are not 0 to",
    with_a_merge_twice: "is the same as 'model.merges[0]'; delete the first",
    with_another_spelling: "is not a byte-level spelling",
}


@pytest.mark.parametrize("change", ODD, ids=lambda change: change.__name__)
def test_files_that_our_encoder_cannot_run_use_the_library(
    tmp_path: Path, change: Callable[[dict], None]
) -> None:
    """Files of other programs; of our own such a file is damaged."""
    document = json.loads(trained(pre_tokenizers.ByteLevel(add_prefix_space=False)))
    change(document)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(document))
    ours, theirs = open_tokenizer(str(path)), Tokenizer.from_file(str(path))
    theirs.encode_special_tokens = True
    assert isinstance(ours, LibraryTokenizer)
    assert ours.size == max(document["model"]["vocab"].values()) + 1
    texts = [*NASTY, *LINES, "the\tcat!\x05 mat", "cat\t!"]
    for text in texts:
        ids = ours.encode(text)
        assert (ids.dtype, ids.tolist()) == (np.int32, theirs.encode(text).ids)
    with pytest.raises(ModtokError, match="id 999999 is outside"):
        ours.decode_bytes([999999])
    (tmp_path / "en.txt").write_text("\n".join(LINES))
    rows = check([str(path)], [tmp_path / "en.txt"], language="en")
    assert rows[0]["tokens"] == sum(len(theirs.encode(line)) for line in LINES)
    if change is with_a_merge_twice:
        with pytest.raises(ModtokError, match=re.escape(ODD[change])):
            read_tokenizer_file(path)
    else:
        adopted = Subtokenizer(Library(read_tokenizer_file(path)))
        assert [adopted.encode(text).tolist() for text in texts] == [
            theirs.encode(text).ids for text in texts
        ]
    document["model"]["modtok"] = {"segmentation": "merges"}
    path.write_text(json.dumps(document))
    with pytest.raises(ModtokError, match=re.escape(ODD[change])):
        open_tokenizer(str(path))


def test_ids_that_are_too_high_are_refused(tmp_path: Path) -> None:
    document = json.loads(trained(pre_tokenizers.ByteLevel(add_prefix_space=False)))
    document["model"]["vocab"]["th"] = 1 << 30
    with pytest.raises(ModtokError, match="id 1073741824 is too high"):
        open_tokenizer("-", stdin=io.BytesIO(json.dumps(document).encode()))


def test_segmentations_are_known_by_the_names_of_their_kinds() -> None:
    assert [segmentation(name).kind.name for name in SEGMENTATIONS] == list(SEGMENTATIONS)
    assert SEGMENTATIONS[0] == "library"  # asked first, see the registry
