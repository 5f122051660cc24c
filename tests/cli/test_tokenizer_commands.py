"""extract, encode, decode, inspect, nsl and corpus on a small real tokenizer."""

import json
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from .conftest import rows

LANGUAGES = ["el", "en", "fr"]


def test_extract(at, learned: Path) -> None:
    from tokenizers import Tokenizer

    status, out, err = at("extract", "--langs", "fr,en")
    assert (status, err) == (0, "")
    loaded = Tokenizer.from_str(out)
    assert loaded.decode(loaded.encode("C’est l’été.").ids) == "C’est l’été."
    assert at("extract", "--langs", "en,fr")[1] == at("extract", "tokenizer@fr,en")[1] == out
    status, nothing, err = at("extract", "--langs", "fr,en", "-o", "fr-en.json")
    assert (status, nothing, err) == (
        0,
        "",
        "wrote fr-en.json: 644 tokens, 258 of them bytes and special tokens\n",
    )
    assert (learned / "fr-en.json").read_text(encoding="utf-8") == out
    status, _, err = at("extract", "--langs", "fr", "-o", "fr-en.json")
    assert status == 2
    assert err == "modtok: error: fr-en.json: already exists; choose another -o, or pass --force\n"
    assert at("extract", "--langs", "fr", "-o", "fr-en.json", "--force")[0] == 0
    assert (learned / "fr-en.json").read_text(encoding="utf-8") != out


def test_extract_for_transformers(at, learned: Path) -> None:
    words = "--hf chat --chat-template headers --special <|tool|> --json"
    status, out, err = at("extract", "--langs", "fr,en", *words.split())
    assert status == 0
    (row,) = rows(out)
    assert (row["output"], row["eos"], row["pad"]) == ("chat", "<|eot_id|>", "<|pad|>")
    assert next(iter(row["added"])) == "<|tool|>"
    assert err == f"wrote chat: {row['tokens']:,} tokens, EOS <|eot_id|>, pad <|pad|>\n"
    assert sorted(path.name for path in (learned / "chat").iterdir()) == [
        "README.md",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("extract", "no languages given; as in: modtok extract --langs fr,en"),
        ("extract --langs fr -t none", "none@fr: does not exist"),
        ("extract --langs fr --special <|x|>", "require --hf"),
        ("extract --langs fr --hf d -o f", "mutually exclusive"),
        ("extract --top 300", "--text and --top or --coverage require each other"),
        ("extract --text fr.txt", "--text and --top or --coverage require each other"),
        ("extract --langs fr --field body", "no text is read without --text: omit --field"),
        ("extract a -t b --langs fr", "two tokenizers given, a and b"),
        ("extract a --top 300 --text x", "a: does not exist"),
        ("encode --langs xx fr.txt", "the tokenizer has no language 'xx'"),
        ("encode -t none fr.txt", "none: does not exist"),
        ("encode -t tokenizer@fr --langs fr fr.txt", "already selects languages"),
        ("encode -t -", "text and tokenizer cannot both be standard input"),
        ("encode fr.txt --format npy", "writes a directory"),
        ("encode fr.txt --format npy -o x --tokens", "is for JSON lines"),
        ("encode fr.txt --format npy -o x --add-special-tokens", "is for JSON lines"),
        ("encode fr.txt --format jsonl -o x", "JSON lines go to standard output"),
        ("encode fr.txt --format csv -o x", "unknown format 'csv'; choose from: npy, bin"),
        ("encode fr.txt --tokens --global-ids", "--global-ids: excludes --tokens"),
        ("decode -t -", "ids and tokenizer cannot both be standard input"),
        ("decode none.txt", "none.txt: does not exist; check the name"),
        ("extract tokenizer@fr --langs fr", "already selects languages"),
        ("inspect --check --find x", "mutually exclusive"),
        ("inspect --merges the --check", "mutually exclusive"),
        ("inspect --find (", "is not a regular expression"),
        ("inspect -t tokenizer@fr --langs fr", "already selects languages"),
        ("inspect --check -t tokenizer@fr --langs en", "already selects"),
        ("inspect -t tokenizer@fr,", "tokenizer@'fr,' has an empty entry"),
        ("inspect tokenizer/references/fr.json --langs fr", "--langs requires"),
        ("inspect -t tokenizer a b", "3 tokenizers are given"),
        ("nsl none.txt", "none.txt: does not exist"),
        ("nsl fr.txt --lang de", "de"),
        ("check tokenizer", "no text among the arguments: tokenizer"),
        ("check nowhere.json", "nowhere.json: does not exist"),
        ("origin parallel --plot origin.pdf", "expected FILE.svg, FILE.png or -"),
        ("corpus stats fr.txt --langs fr", "TEXT is given: omit --langs"),
        ("corpus stats fr.txt --data data", "TEXT is given: omit --data"),
        ("cost --limit 2 --lang fr", "no text given: omit --lang, --limit"),
        ("corpus stats --lang fr", "--lang is the language of TEXT"),
        ("corpus count --data none", "none: does not exist"),
        (
            "tokens tokenizer --langs fr -o x.json",
            "x.json: names another format; choose a name that ends in",
        ),
        (
            "tokens tokenizer --size 300 --each -o x.json",
            "x.json: names a file, and a directory is written",
        ),
        ("sample x.json", "x.json: names a file, and a directory is written"),
        ("eval fetch -o x.json", "x.json: names a file, and a directory is written"),
        ("extract --langs fr -o x.gguf", "x.gguf: names another format"),
        ("report -o x.pdf", "x.pdf: names another format"),
        ("explore tokenizer -o x.svg", "x.svg: names another format"),
        ("eval mcq --examples x.csv", "x.csv: names another format"),
    ],
)
def test_errors(at, line: str, said: str) -> None:
    status, out, err = at(*line.split())
    assert (status, out) == (1 if line.endswith("--lang de") else 2, "")
    assert said in err
    assert err.startswith("modtok: error: ")
    assert err.count("\n") == 1


def test_extract_refuses_a_terminal(at, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modtok_cli.cli.output._is_terminal", lambda stream: True)
    status, out, err = at("extract", "--langs", "fr")
    assert (status, out) == (2, "")
    assert "write to a file with -o, or pipe" in err


@pytest.mark.parametrize("flags", [[], ["--langs", "fr"], ["--global-ids", "--langs", "el,en"]])
def test_encode_and_decode_are_inverse(at, learned: Path, flags: list[str]) -> None:
    text = "Un éléphant,\n\n  zwei ▁Füße\t\u200d🙂 \nΚαλημέρα".encode() + b"\r\n"
    status, ids, err = at("encode", *flags, stdin=text)
    assert (status, err) == (0, "")
    assert len(rows(ids)) == 4
    assert rows(ids)[1] == {"ids": []}
    (learned / "ids.jsonl").write_text(ids)
    status, out, _ = at("decode", *flags, "ids.jsonl")
    assert (status, out.encode()) == (0, text)


def test_encode_tokens_and_the_three_ways_to_write_ids(at) -> None:
    _, out, _ = at("encode", "--langs", "en", "--tokens", stdin=" the 日\n".encode())
    tokens = rows(out)[0]["tokens"]
    assert tokens[0] == " the"
    assert tokens[-3:] == ["\\xe6", "\\x97", "\\xa5"]
    _, out, _ = at("encode", "--langs", "en", "--ids", stdin=b"bee\n")
    ids = rows(out)[0]["ids"]
    lines = [json.dumps({"ids": ids}), json.dumps(ids), " ".join(map(str, ids))]
    status, text, _ = at("decode", "--langs", "en", stdin="\n".join(lines).encode())
    assert (status, text) == (0, "bee\nbee\nbee\n")
    assert rows(at("decode", "--json", "--langs", "en", stdin=lines[1].encode())[1]) == [
        {"text": "bee"}
    ]


def test_encode_specials(at) -> None:
    text = b"a<|endoftext|>b\n"
    plain = rows(at("encode", stdin=text)[1])[0]["ids"]
    special = rows(at("encode", "--add-special-tokens", stdin=text)[1])[0]["ids"]
    assert len(special) == 3
    assert special[1] == 0
    assert len(plain) > 3


def test_encode_to_flat_files(at, learned: Path) -> None:
    lines = [row["ids"] for row in rows(at("encode", "--langs", "fr", "fr.txt")[1])]
    command = ("encode", "--langs", "fr", "fr.txt", "--format")
    status, out, err = at(*command, "npy", "-o", "flat", "--end-of-text", "<|endoftext|>")
    assert (status, err) == (0, "")
    ids, offsets = np.load(learned / "flat/tokens.npy"), np.load(learned / "flat/offsets.npy")
    assert [part.tolist() for part in np.split(ids, offsets[1:-1])] == [
        [*line, 0] for line in lines
    ]
    row = rows(out)[0]
    assert (row["output"], row["documents"], row["dtype"]) == ("flat", len(lines), "uint16")
    status, out, _ = at(*command, "bin", "-o", "flat", "--force", "--threads", "1")
    assert np.fromfile(learned / "flat/tokens.bin", "<u2").tolist() == [*chain(*lines)]
    assert at(*command, "bin", "-o", "flat")[0] == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1 x", "invalid token ids"),
        (b'{"ids": [1.5]}', "invalid token ids"),
        (b"[true]", "invalid token ids"),
        (b"\xff", "invalid token ids"),
        (b"-1", "outside the vocabulary"),
        (b"[99999999999999999999]", "invalid token ids"),
    ],
)
def test_decode_says_which_line_is_wrong(at, line: bytes, message: str) -> None:
    status, _, err = at("decode", stdin=b"1 2\n" + line + b"\n")
    assert status == 1
    assert err.startswith("modtok: error: stdin:2: ")
    assert message in err
    assert err.count("\n") == 1


def test_decode_global_ids_of_other_languages(at) -> None:
    whole = rows(at("encode", "--langs", "el", "--global-ids", "el.txt")[1])
    line = json.dumps(max((row["ids"] for row in whole), key=max)).encode()
    status, _, err = at("decode", "--langs", "en", "--global-ids", stdin=line)
    assert status == 1
    assert "is not in this subset; add its language to --langs" in err


def test_inspect(at) -> None:
    status, out, _ = at("inspect")
    assert status == 0
    assert [row["language"] for row in rows(out)] == [*LANGUAGES, "union"]
    assert [row["tokens"] for row in rows(out)][:3] == [500, 500, 500]
    two = rows(at("inspect", "--langs", "fr,en")[1])
    assert [row["language"] for row in two] == ["en", "fr", "union"]
    assert 500 < two[2]["tokens"] < rows(out)[3]["tokens"]
    assert two[2]["languages"] == ["en", "fr"]
    assert two == rows(at("inspect", "-t", "tokenizer@fr,en")[1])
    # What English shares with French does not count here.
    other = rows(at("inspect", "tokenizer@en,el")[1])
    assert other[0]["shared"] == other[1]["shared"] == 1000 - other[2]["tokens"]
    assert other[1]["shared"] < rows(out)[1]["shared"]
    table = at("inspect", "tokenizer@fr,en", "--table")[1]
    assert "signature of the subset " + two[2]["signature"] in " ".join(table.split())


def test_inspect_check(at) -> None:
    status, out, err = at("inspect", "--check", "--langs", "el,fr")
    assert (status, err) == (0, "")
    subsets = [row["languages"] for row in rows(out)]
    assert subsets[:5] == [LANGUAGES, ["el"], ["en"], ["fr"], ["el", "fr"]]
    assert all(row["sound"] for row in rows(out))
    (one,) = rows(at("inspect", "--check", "-t", "tokenizer@fr")[1])
    assert one["sound"]


def test_inspect_check_fails_after_the_rows(at, monkeypatch: pytest.MonkeyPatch) -> None:
    from modtok_cli.tokenizer.subset_check import Report, SubsetCheck

    bad = Report((SubsetCheck(("fr",), 500, 240, (), (300,)),))
    monkeypatch.setattr(
        "modtok_cli.cli.commands.inspect.check_subsets", lambda *args, **options: bad
    )
    status, out, err = at("inspect", "--check")
    assert status == 1
    assert rows(out)[0]["unreachable"] == [300]
    assert "1 of 1 subsets have unreachable tokens, first: fr" in err


def test_inspect_find(at) -> None:
    found = rows(at("inspect", "--find", "^ the$")[1])
    assert [row["token"] for row in found] == [" the"]
    assert "en" in found[0]["languages"]
    none = "no token matches ^ the$\n"
    assert at("inspect", "--find", "^ the$", "--langs", "el") == (0, "", none)
    assert rows(at("inspect", "tokenizer@en", "--find", "^ the$")[1]) == found


def test_inspect_merges(at) -> None:
    found = rows(at("inspect", "tokenizer@en", "--merges", " the")[1])
    assert found[0]["pieces"] == [" ", "t", "h", "e"]
    assert found[-1]["pieces"] == [" the"]
    table = at("inspect", "tokenizer@en", "--merges", " the", "--table")[1]
    assert "▁the" in table.splitlines()[-2]


def test_inspect_difference(at) -> None:
    two = ("inspect", "-t", "tokenizer@en", "tokenizer@en,fr")
    verdict, *found = rows(at(*two, "--json")[1])
    assert rows(at(*two)[1]) == [verdict]
    lines = at(*two, "--table")[1].splitlines()
    assert (lines[0], len(lines) > 1) == (f"verdict: {verdict['reason']}", True)
    assert found[0] == {"difference": "language", "only": "second", "language": "fr"}
    tokens = [row["token"] for row in found if row["difference"] == "token"]
    assert " de" in tokens
    assert verdict["reason"].endswith(
        f"0 tokens are only in the first, {len(tokens):,} only in the second"
    )
    # Sequential BPE on the first languages is a prefix of BPE on all.
    assert at("bpe-seq", "--langs", "el,en", "-k", "500", "-o", "small", "-q")[0] == 0
    (verdict,) = rows(at("inspect", "small", "tokenizer")[1])
    assert verdict["relation"] == "contains"
    assert verdict["reason"].startswith("tokenizer contains small: all ")
    assert verdict["reason"].endswith(" merges unchanged; runs of small can use it")
    assert rows(at("inspect", "tokenizer", "small")[1])[0]["relation"] == "contained"


def test_inspect_shows_the_tokenizer_that_is_named(at) -> None:
    assert at("extract", "--langs", "fr,en", "-o", "to-inspect.json")[0] == 0
    (one,) = rows(at("inspect", "to-inspect.json")[1])
    union = rows(at("inspect", "tokenizer@fr,en")[1])[-1]
    for key in ("tokens", "merges", "languages", "signature"):
        assert one[key] == union[key]
    assert rows(at("inspect", "tokenizer")[1]) == rows(at("inspect")[1])


def test_nsl_of_names_and_pipes(at, learned: Path) -> None:
    status, out, err = at("nsl", "fr.txt", "en.txt", "--no-keep")
    assert (status, err) == (0, "")
    assert [row["language"] for row in rows(out)] == ["fr", "en"]
    by_name = rows(at("nsl", "-t", "tokenizer@fr,en", "fr.txt")[1])
    extracted = at("extract", "--langs", "fr,en")[1].encode()
    status, out, err = at("nsl", "fr.txt", "--no-keep", stdin=extracted)
    assert (status, err) == (0, "reading the tokenizer from standard input\n")
    (piped,) = rows(out)
    assert (piped["nsl"], piped["signature"]) == (by_name[0]["nsl"], by_name[0]["signature"])
    assert piped["tokenizer"] == "stdin@en,fr"
    words = ["nsl", "fr.txt", "-t", "-", "-t", "tokenizer@each", "-t", "tokenizer"]
    order = [row["tokenizer"] for row in rows(at(*words, stdin=extracted)[1])]
    assert order == ["stdin@en,fr", "tokenizer@each", "tokenizer"]
    text = (learned / "fr.txt").read_bytes()
    (piped,) = rows(at("nsl", "-t", "tokenizer@fr,en", "-", "--lang", "fr", stdin=text)[1])
    assert (piped["nsl"], piped["signature"]) == (by_name[0]["nsl"], by_name[0]["signature"])


def test_corpus_stats(at) -> None:
    status, out, _ = at("corpus", "stats", "--samples", "2")
    assert status == 0
    assert [row["language"] for row in rows(out)] == LANGUAGES
    assert all(row["documents"] == 17 and len(row["samples"]) == 2 for row in rows(out))
    samples = [f"{row['language']}: {text}" for row in rows(out) for text in row["samples"]]
    told = at("corpus", "stats", "--samples", "2", "--table")[2]
    assert all(sample[:30] in told for sample in samples)
    (one,) = rows(at("corpus", "stats", "fr.txt")[1])
    assert (one["language"], one["documents"], one["samples"]) == ("fr", 114, [])
    (other,) = rows(at("corpus", "stats", "--lang", "it", "fr.txt")[1])
    assert other["language"] == "it"
    mixed = [f'{{"content": "x", "language": "{name}"}}\n' for name in ("fr", "eng", "fr")]
    Path("all.jsonl").write_text("".join(mixed))
    line = "corpus stats all.jsonl --field content --lang-field language"
    found = {row["language"]: row["documents"] for row in rows(at(*line.split())[1])}
    assert found == {"en": 1, "fr": 2}


def test_tokens_in_corpus_stats(at) -> None:
    found = {}
    for spec in ("tokenizer", "tokenizer@each", "tokenizer@fr"):
        _, out, _ = at("corpus", "stats", "-t", spec)
        found[spec] = {row["language"]: row["tokens"] for row in rows(out)}
    lines = Path("data/fr.jsonl").read_text("utf-8").splitlines()
    text = "\n".join(json.loads(line)["text"] for line in lines)
    _, out, _ = at("encode", "-t", "tokenizer@fr", stdin=text.encode())
    ids = sum(len(row["ids"]) for row in rows(out))
    assert found["tokenizer@fr"]["fr"] == found["tokenizer@each"]["fr"] == ids
    assert found["tokenizer@each"]["en"] < found["tokenizer@fr"]["en"]
    assert found["tokenizer"]["en"] != found["tokenizer@fr"]["en"]
