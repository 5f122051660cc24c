"""One file decodes to one text, whole, adopted and extracted: the text of its own decoder."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import orjson
import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from modtok_cli.base.public import ModtokWarning
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.measure.check import check
from modtok_cli.measure.nsl import nsl
from modtok_cli.text.counts import count_documents
from modtok_cli.tokenizer.adopted.adopt import adopt, adopt_counts
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile
from modtok_cli.tokenizer.encoding.lines import decode
from modtok_cli.tokenizer.formats.hugging_face import LibraryTokenizer
from modtok_cli.tokenizer.open import load, open_bytes

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
NAMES = [
    "<s>", "▁", "▁▁", "▁a", "a▁", "a", "b", "##a", "##", "a</w>", "</w>", "|", "<pad>", " do not",
    ".", " ", "é", "中", "Ġa", "Ã", "©", "<0xc3>", "<0x+a>", "<｜▁｜>", "n't", "�", "𝒳", "aa", " '",
    "<unk>", *BYTES,
]  # fmt: skip
REPLACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
TEXT = {"type": "Replace", "pattern": {"String": "aa"}, "content": "é"}
REGEX = {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "x"}
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
FALLBACK, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}
MARK = {"type": "Metaspace", "replacement": "▁", "split": False}
PIECES = {"type": "WordPiece", "prefix": "##"}
CTC = {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|"}
BPE = {"type": "BPEDecoder", "suffix": "</w>"}


def strip(start: int, content: str = " ") -> dict:
    return {"type": "Strip", "content": content, "start": start, "stop": 0}


def steps(*parts: dict) -> dict:
    return {"type": "Sequence", "decoders": list(parts)}


DECODERS = [
    None, LEVEL, FALLBACK, FUSE, REPLACE, TEXT, REGEX, BPE, steps(), strip(1), strip(2, "▁"),
    *({**MARK, "prepend_scheme": name} for name in ("first", "always", "never")), MARK,
    *({**kind, "cleanup": cleanup} for kind in (PIECES, CTC) for cleanup in (True, False)),
    steps(REPLACE, FALLBACK, FUSE), steps(REPLACE, FALLBACK, FUSE, strip(1)),
    steps(REPLACE, FALLBACK, FUSE, strip(3)), steps(FALLBACK, {**MARK, "prepend_scheme": "first"}),
    steps(FUSE, TEXT), steps(FUSE, REPLACE, TEXT), steps(FALLBACK, FUSE, TEXT), steps(LEVEL, TEXT),
    steps({**CTC, "cleanup": True}, {**PIECES, "cleanup": True}), steps(BPE, FALLBACK),
    steps(strip(1, "▁"), REPLACE, FALLBACK, FUSE), steps(FUSE, REGEX), steps(LEVEL, LEVEL),
    steps(FALLBACK, LEVEL), steps(REPLACE, LEVEL), steps(steps(REPLACE), FUSE, strip(1)),
    steps(FALLBACK, REPLACE), steps({**PIECES, "cleanup": False}, REPLACE), steps(FUSE, FALLBACK),
    steps(FALLBACK, {**REPLACE, "pattern": {"String": "é"}}), steps(FUSE, BPE, {**MARK}),
]  # fmt: skip


@cache
def forms(kind: int) -> tuple:
    """The library's tokenizer; whole, adopted and extracted from two languages."""
    special = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    document = {
        "version": "1.0",
        "added_tokens": [
            {**special, "id": NAMES.index(name), "content": name, "special": name[:1] == "<"}
            for name in ("<s>", "▁▁", "<｜▁｜>", "<unk>")
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": None,
        "decoder": DECODERS[kind],
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "byte_fallback": True,
            "vocab": {name: index for index, name in enumerate(NAMES)},
            "merges": [["▁", "a"], ["a", "▁"], ["a", "a"]],
        },
    }
    data = orjson.dumps(document)
    file = TokenizerFile(document, "t")
    counts = {"en": count_documents([["".join(NAMES).encode()]], file.pretokenizer)}
    adopted = adopt_counts(file, counts)
    ids = {index for index in range(len(NAMES)) if adopted.token_membership[index].all()}
    extracted = open_bytes(adopted.subset("en").to_json(), "t", "t")
    whole = LibraryTokenizer("t", data, "t")
    return tokenizers.Tokenizer.from_buffer(data), whole, adopted, extracted, sorted(ids)


@pytest.mark.parametrize("kind", range(len(DECODERS)))
def test_every_decoder_gives_the_text_of_the_library(kind: int) -> None:
    library, whole, adopted, extracted, kept = forms(kind)
    local = {index: place for place, index in enumerate(kept)}
    parts = ("'aa'", "a+", "Fuse'}, {'", "Fallback'}, {'type': 'ByteLevel'")
    changes_earlier_text = any(part in str(DECODERS[kind]) for part in parts)
    changes_earlier_text &= DECODERS[kind] not in STABLE

    @settings(max_examples=examples(12), deadline=None)
    @given(st.lists(st.one_of(st.sampled_from(range(31)), st.integers(0, 285)), max_size=9))
    @example([*range(31)])
    @example([NAMES.index(name) for name in ("<0xE4>", "<0xB8>", "<0xAD>", "<0xE4>", "a")])
    @example([1, 2, 1, 5])
    @example([1] * 5 + [5])
    @example([NAMES.index(name) for name in ("<0xC6>", "<0x80>", "<0xC3>", "<0x80>")])
    def agree(ids: list[int]) -> None:
        text = library.decode(ids, skip_special_tokens=False)
        data = whole.decode_bytes(ids)
        assert whole.decode(ids) == adopted.decode(ids) == text
        assert adopted.decode_bytes(ids) == data
        if "\ufffd" not in text:
            assert data.decode() == text
        some = [index for index in ids if index in local]
        inside = [local[index] for index in some]
        assert extracted.decode(inside) == library.decode(some, skip_special_tokens=False)
        if not changes_earlier_text and "\ufffd" not in text:
            stream = adopted.decode_stream()
            assert "".join(map(stream.step, ids)) + stream.finish() == text

    agree()


STABLE = [
    each for each in DECODERS
    if each and any(strip(n) in each.get("decoders", ()) for n in (1, 3))
]  # fmt: skip


@pytest.mark.parametrize("kind", ["spaces", "unknown", "dropped"])
def test_check_sees_losses_of_adopted_and_extracted_files(kind: str, tmp_path: Path) -> None:
    """Runs of spaces are an added token here; "x" is unknown, or a byte that is dropped."""
    vocab = dict.fromkeys(NAMES) if kind == "spaces" else dict.fromkeys(["<unk>", "▁", "a", "b"])
    vocab = {name: index for index, name in enumerate(vocab)}
    added = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    split = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True}
    document = {
        "version": "1.0",
        "added_tokens": [{**added, "id": vocab["<unk>"], "content": "<unk>", "special": True}],
        "normalizer": None,
        "pre_tokenizer": split,
        "decoder": split,
        "model": {"type": "BPE", "unk_token": "<unk>", "vocab": vocab, "merges": []},
    }
    if kind == "spaces":
        document["added_tokens"].append(
            {**added, "id": vocab["▁▁"], "content": "▁▁", "special": False}
        )
        document |= {"normalizer": {**REPLACE, "pattern": {"String": " "}, "content": "▁"}}
        document |= {"pre_tokenizer": None, "decoder": steps(REPLACE, FALLBACK, FUSE)}
        document["model"] |= {"byte_fallback": True, "merges": [["▁", "▁"]]}
    if kind == "dropped":
        document |= {"pre_tokenizer": {**LEVEL, "use_regex": True}, "decoder": LEVEL}
        document["model"] |= {"unk_token": None, "vocab": {**vocab, "Ġ": 4}}
    file = tmp_path / "t.json"
    file.write_bytes(orjson.dumps(document))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "en.txt").write_text("ab  a\n" if kind == "spaces" else "ab\n")
    text = tmp_path / "en.txt"
    text.write_text("a  b\n" if kind == "spaces" else "axb\n")
    adopt(file, data=tmp_path / "d", output=tmp_path / "adopted")
    subset = load(f"{tmp_path}/adopted@en")
    subset.save(tmp_path / "extracted.json")
    bpe_seq(["en"], data=tmp_path / "d", output=tmp_path / "own", k=258)
    rows = []
    for name in ("t.json", "adopted@en", "extracted.json"):
        tokenizer = load(f"{tmp_path}/{name}")
        (row,) = check([f"{tmp_path}/{name}"], [text])
        if kind == "unknown":
            with pytest.warns(ModtokWarning, match="1 of 3 tokens are unknown"):
                nsl([f"{tmp_path}/{name}"], [text], references=tmp_path / "own" / "references")
        ids = tokenizer.encode(text.read_text().strip())
        (tmp_path / "ids").write_text(str(ids.tolist()))
        lost = tokenizer.losses.of("axb", tokenizer.encode("axb")) if tokenizer.losses else (0, 0)
        rows.append([*decode(tmp_path / "ids", f"{tmp_path}/{name}"), row["unknown_tokens"]])
        rows[-1] += [row["lossy_lines"], row["tokens"], lost]
    expected = {
        "spaces": [b"a  b", 0, 0, 3, (0, 0)],
        "unknown": [b"a<unk>b", 1 / 3, 1, 3, (1, 1)],
        "dropped": [b"ab", 0, 1, 2, (0, 1)],
    }[kind]
    assert rows == [expected] * 3
