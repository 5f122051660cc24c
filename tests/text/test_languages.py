"""Codes as corpora write them; scripts and regions where they tell text apart; other labels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modtok_cli.base.errors import UsageError
from modtok_cli.text.file_labels import label_of_path, split_name
from modtok_cli.text.languages import (
    Label,
    by_label,
    canonical,
    matching,
    shortened,
    split_pair,
    the_one,
)
from modtok_cli.tokenizer.modular_tokenizer import resolve

_CODES = st.sampled_from(["en", "fr", "sr", "zh", "pt", "ceb", "uz"])
_SCRIPTS = st.sampled_from(["", "Latn", "Cyrl", "Hans", "Hant"])
_REGIONS = st.sampled_from(["", "BR", "TW", "CA"])
_PRIVATE = st.from_regex(r"x(-[a-z0-9]{1,8}){1,2}", fullmatch=True)
_PUBLIC = st.builds(lambda *parts: "-".join(filter(None, parts)), _CODES, _SCRIPTS, _REGIONS)
_DOMAINS = st.sampled_from(["code", "math"])
_LABELS = _PUBLIC | _PRIVATE | _DOMAINS | st.builds("{}-{}".format, _PUBLIC, _PRIVATE)


@given(_LABELS, st.sampled_from([".txt", ".jsonl.zst", ".counts", ".train.jsonl", "/part-0.txt"]))
def test_a_label_names_its_files(label, rest):
    assert canonical(label) == label
    assert Label.of(label).is_known
    assert Label.of(label).is_label
    name = label + rest.split("/")[0]
    assert split_name(name) == (label, name.removeprefix(label))
    assert canonical(label.replace("-", "_", 1 if "x-" not in label else 0)) == label
    short = Label.of(label).short
    assert Label.of(short).short == short


@given(st.lists(_LABELS, unique=True, max_size=6))
def test_short_labels_merge_only_what_may_be_the_same(found):
    short = shortened(found)
    assert set(short) == set(found)
    for label, used in short.items():
        assert used in (label, Label.of(label).short)
        assert Label.of(label).fits(Label.of(used))
    for one in found:
        for other in found:
            if one != other and short[one] == short[other]:
                # One of the language has neither script nor region, so it may be either.
                assert Label.of(one).short == Label.of(other).short in found


@given(_LABELS, st.lists(_LABELS, unique=True, max_size=6))
def test_a_name_means_what_it_does_not_contradict(name, known):
    found = matching(name, known)
    assert found == (
        [name] if name in known else [each for each in known if Label.of(name).fits(Label.of(each))]
    )
    assert the_one(name, known) == (found[0] if len(found) == 1 else None)
    for each in known:
        assert Label.of(name).fits(Label.of(each)) == Label.of(each).fits(Label.of(name))
        if Label.of(name).fits(Label.of(each)):
            assert Label.of(name).short == Label.of(each).short


@given(_PUBLIC, _PUBLIC)
def test_pairs_of_labels(source, target):
    assert split_pair(f"{source}-{target}") == (source, target)
    under = f"{source.replace('-', '_')}-{target.replace('-', '_')}"
    assert tuple(map(canonical, split_pair(under))) == (source, target)


def test_what_is_no_pair():
    assert [split_pair(text) for text in ("en", "flores", "en-", "-fr", "")] == [None] * 5
    assert split_pair("EN-FR") == ("EN", "FR")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("fr", "fr"), ("fra", "fr"), ("fre", "fr"), ("FRA", "fr"), ("fra_Latn", "fr"),
        ("fr-FR", "fr"), ("fr_CA", "fr"), ("pt-BR", "pt"), ("es-419", "es"), ("zh-Hant-TW", "zh"),
        ("zho_Hans", "zh"), ("deu", "de"), ("ger", "de"), ("ell_Grek", "el"), ("gre", "el"),
        ("swa", "sw"), ("swh_Latn", "sw"), ("npi_Deva", "ne"), ("nep", "ne"), ("lvs", "lv"),
        ("ekk", "et"), ("est", "et"), ("pes", "fa"), ("arb_Arab", "ar"), ("iw", "he"),
        ("slo", "sk"),
        ("slv", "sl"), ("rum", "ro"), ("scr", "hr"), ("nob", "nb"), ("nno", "nn"), ("nor", "no"),
        ("ceb", "ceb"), ("ceb_Latn", "ceb"), ("xyz", "xyz"), ("no such code", "no such code"),
        ("mol", "ro"), ("bh", "bho"), ("drh", "mn"), ("zh-cmn-Hans", "zh"), ("zh-yue", "yue"),
        ("ca-valencia", "ca"), ("sl_rozaj_biske-1994", "sl"), ("de-CH-1901", "de"),
        ("en-eng", "en-eng"), ("fr-1996", "fr-1996"), ("fr-train", "fr-train"),
    ],
)  # fmt: skip
def test_short_codes(code, expected):
    assert Label.of(code).short == expected
    assert Label.of(expected).short == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("fr.txt", "fr"), ("fra_Latn.devtest", "fr-Latn"), ("/a/b/fi.jsonl.zst", "fi"),
        ("data/fr/part-0.jsonl.zst", "fr"), ("data/fra_Latn/2024/x.txt", "fr-Latn"),
        ("newstest2019-ref.swa.txt", "sw"), ("newstest2019-src.eng.txt", "en"),
        ("fr_train.txt", "fr"), ("fr-00.jsonl", "fr"), ("pt-br.txt", "pt"), ("ceb.txt", "ceb"),
        ("fr.counts", "fr"), ("fr.tsv.gz", "fr"), ("flores.txt", None), ("a.txt", None),
        ("part.jsonl", None), ("text.txt", None), ("all.txt", None), ("new.txt", None),
        ("tmp/data.txt", None), ("out.txt", None), ("in/web.parquet", None), ("-", None),
        ("", None), ("corpus.jsonl.zst", None), ("readme.fr.txt", "fr"), ("mol.txt", "ro"),
        ("tmp.txt", None), ("pat/x.txt", None), ("ar-eng.txt", "ar"), ("zh-yue_dev.txt", "yue"),
        ("fr-1996.txt", "fr"), ("en-train/x.txt", None), ("sr-Latn.jsonl", "sr-Latn"),
        ("code.jsonl", "code"), ("math-003.jsonl.zst", "math"), ("X-Law.txt", "x-law"),
        ("fr-x-law.txt", "fr-x-law"), ("en-de.txt", "en"), ("zh_TW-000.jsonl", "zh-TW"),
        ("zho_Hant/part.txt", "zh-Hant"), ("code/flores.txt", None), ("x-files/a.txt", None),
        ("foo_test.txt", None), ("codec.txt", None), ("xl.txt", None),
        ("/st/data/fr/train/0.parquet", "fr"), ("/home/dan/w/t/flores.txt", None),
        ("fr/fi/0.parquet", "fi"),
        ("abc_Latn.txt", "abc-Latn"), ("acu-x-acu-1.jsonl", "acu-x-acu-1"),
    ],
)  # fmt: skip
def test_labels_of_files(path, expected):
    assert label_of_path(path) == expected


def test_languages_of_a_tokenizer():
    known = ["fr", "sr-Cyrl", "sr-Latn", "code", "x-law"]
    assert resolve(known, "fra_Latn,code,X-law") == {"fr", "code", "x-law"}
    assert resolve(known, ["srp_Cyrl"]) == {"sr-Cyrl"}
    assert resolve(known, "sr") == {"sr-Cyrl", "sr-Latn"}
    with pytest.raises(UsageError, match="has no language 'math'"):
        resolve(known, "math")


def test_variants_are_labels_where_there_are_several():
    names = ["de-1901.txt", "de-1996.txt", "be/x.txt", "be-tarask/x.txt", "ca-valencia.jsonl"]
    found = by_label([(label_of_path(name), name) for name in names])
    assert list(found) == ["de-1901", "de-1996", "be", "ca"]
    assert matching("ca-ES-valencia", list(found)) == ["ca"]
    assert matching("de", list(found)) == ["de-1901", "de-1996"]
    names = ("de-1901", "zh-Hant-TW", "code", "x-law")
    shown = ["German (1901)", "Chinese (Hant, TW)", "Program code", "x-law"]
    assert [Label.of(name).name for name in names] == shown
