"""Language codes as corpora write them, and the languages of file names."""

from __future__ import annotations

import pytest

from modtok_cli.text import languages
from modtok_cli.text.languages import (
    label_of_path,
    normalize,
    suggest,
)


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
def test_normalize(code, expected):
    assert normalize(code) == expected
    assert normalize(expected) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("fr.txt", "fr"), ("fra_Latn.devtest", "fr"), ("/a/b/fi.jsonl.zst", "fi"),
        ("data/fr/part-0.jsonl.zst", "fr"), ("data/fra_Latn/2024/x.txt", "fr"),
        ("newstest2019-ref.swa.txt", "sw"), ("newstest2019-src.eng.txt", "en"),
        ("fr_train.txt", "fr"), ("fr-00.jsonl", "fr"), ("zh-Hant.txt", "zh"), ("pt-br.txt", "pt"),
        ("ceb.txt", "ceb"), ("ceb_Latn.txt", "ceb"), ("fr.counts", "fr"), ("fr.tsv.gz", "fr"),
        ("flores.txt", None), ("a.txt", None), ("part.jsonl", None), ("text.txt", None),
        ("all.txt", None), ("new.txt", None), ("tmp/data.txt", None), ("out.txt", None),
        ("in/web.parquet", None),
        ("-", None), ("", None), ("corpus.jsonl.zst", None), ("readme.fr.txt", "fr"),
        ("mol.txt", "ro"), ("tmp.txt", None), ("pat/x.txt", None), ("ar-eng.txt", "ar"),
        ("zh-yue_dev.txt", "yue"), ("fr-1996.txt", "fr"), ("en-train/x.txt", None),
    ],
)  # fmt: skip
def test_label_of_path(path, expected):
    label = label_of_path(path)
    assert (label and normalize(label)) == expected


def test_variants_are_labels_where_there_are_several():
    names = ["de-1901.txt", "de-1996.txt", "be/x.txt", "be-tarask/x.txt", "ca-valencia.jsonl"]
    found = languages.by_label([(label_of_path(name), name) for name in names])
    assert list(found) == ["de-1901", "de-1996", "be", "ca"]
    assert languages.matching("ca-ES-valencia", list(found)) == ["ca"]
    assert languages.matching("de", list(found)) == ["de-1901", "de-1996"]
    assert languages.language_name("de-1901") == "German (1901)"


def test_suggest():
    assert suggest("fii", ["fi", "fr", "sv"]) == "did you mean 'fi'? "
    assert suggest("zz", ["fi", "fr"]) == ""
