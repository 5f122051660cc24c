"""English names of languages, for tables and pages."""

from __future__ import annotations

import re
from functools import cache

from modtok_cli.text.languages import code_of_name, normalize, subtags

UNKNOWN = "und"
"""Code of text in an unknown language (ISO 639-2)."""

_NAMES = """
aa Afar; ab Abkhaz; ae Avestan; af Afrikaans; ak Akan; am Amharic; an Aragonese; ar Arabic;
as Assamese; av Avar; ay Aymara; az Azerbaijani; ba Bashkir; be Belarusian; bg Bulgarian;
bi Bislama; bm Bambara; bn Bengali; bo Tibetan; br Breton; bs Bosnian; ca Catalan; ce Chechen;
ch Chamorro; co Corsican; cr Cree; cs Czech; cu Church Slavonic; cv Chuvash; cy Welsh; da Danish;
de German; dv Dhivehi; dz Dzongkha; ee Ewe; el Greek; en English; eo Esperanto; es Spanish;
et Estonian; eu Basque; fa Persian; ff Fula; fi Finnish; fj Fijian; fo Faroese; fr French;
fy West Frisian; ga Irish; gd Scottish Gaelic; gl Galician; gn Guarani; gu Gujarati; gv Manx;
ha Hausa; he Hebrew; hi Hindi; ho Hiri Motu; hr Croatian; ht Haitian Creole; hu Hungarian;
hy Armenian; hz Herero; ia Interlingua; id Indonesian; ie Interlingue; ig Igbo; ii Nuosu;
ik Inupiaq; io Ido; is Icelandic; it Italian; iu Inuktitut; ja Japanese; jv Javanese; ka Georgian;
kg Kongo; ki Kikuyu; kj Kwanyama; kk Kazakh; kl Greenlandic; km Khmer; kn Kannada; ko Korean;
kr Kanuri; ks Kashmiri; ku Kurdish; kv Komi; kw Cornish; ky Kyrgyz; la Latin; lb Luxembourgish;
lg Ganda; li Limburgish; ln Lingala; lo Lao; lt Lithuanian; lu Luba-Katanga; lv Latvian;
mg Malagasy; mh Marshallese; mi Maori; mk Macedonian; ml Malayalam; mn Mongolian; mr Marathi;
ms Malay; mt Maltese; my Burmese; na Nauruan; nb Norwegian Bokmål; nd Northern Ndebele; ne Nepali;
ng Ndonga; nl Dutch; nn Norwegian Nynorsk; no Norwegian; nr Southern Ndebele; nv Navajo;
ny Chichewa; oc Occitan; oj Ojibwe; om Oromo; or Odia; os Ossetian; pa Punjabi; pi Pali;
pl Polish; ps Pashto; pt Portuguese; qu Quechua; rm Romansh; rn Rundi; ro Romanian; ru Russian;
rw Kinyarwanda; sa Sanskrit; sc Sardinian; sd Sindhi; se Northern Sami; sg Sango;
sh Serbo-Croatian; si Sinhala; sk Slovak; sl Slovenian; sm Samoan; sn Shona; so Somali;
sq Albanian; sr Serbian; ss Swazi; st Southern Sotho; su Sundanese; sv Swedish; sw Swahili;
ta Tamil; te Telugu; tg Tajik; th Thai; ti Tigrinya; tk Turkmen; tl Tagalog; tn Tswana; to Tongan;
tr Turkish; ts Tsonga; tt Tatar; tw Twi; ty Tahitian; ug Uyghur; uk Ukrainian; ur Urdu; uz Uzbek;
ve Venda; vi Vietnamese; vo Volapük; wa Walloon; wo Wolof; xh Xhosa; yi Yiddish; yo Yoruba;
za Zhuang; zh Chinese; zu Zulu; und unknown language; ace Acehnese; acm Mesopotamian Arabic;
aeb Tunisian Arabic; ajp South Levantine Arabic; apc North Levantine Arabic; ars Najdi Arabic;
ary Moroccan Arabic; arz Egyptian Arabic; ast Asturian; awa Awadhi; ban Balinese; bar Bavarian;
bem Bemba; bho Bhojpuri; bjn Banjar; bug Buginese; ceb Cebuano; ckb Central Kurdish;
crh Crimean Tatar; dsb Lower Sorbian; dyu Dyula; ext Extremaduran; fil Filipino; fon Fon;
frp Arpitan; frr North Frisian; fur Friulian; gom Konkani; gsw Swiss German; hil Hiligaynon;
hne Chhattisgarhi; hsb Upper Sorbian; ilo Ilocano; kab Kabyle; kac Kachin; kam Kamba; kbp Kabiye;
kea Cape Verdean Creole; kmb Kimbundu; lad Ladino; lij Ligurian; lmo Lombard; ltg Latgalian;
lua Luba-Lulua; luo Luo; lus Mizo; lzh Classical Chinese; mag Magahi; mai Maithili;
min Minangkabau; mni Meitei; mos Mossi; nap Neapolitan; nds Low German; new Newar;
nso Northern Sotho; nus Nuer; pag Pangasinan; pam Kapampangan; pap Papiamento; prs Dari;
sah Yakut; sat Santali; scn Sicilian; sco Scots; shn Shan; szl Silesian; taq Tamasheq;
tpi Tok Pisin; tum Tumbuka; udm Udmurt; umb Umbundu; vec Venetian; vro Võro; war Waray;
yue Cantonese; zgh Tamazight; code Program code; math Mathematics
"""


_COUNTRIES = {
    "cn": "zh", "cz": "cs", "dk": "da", "gr": "el", "il": "he", "ir": "fa", "jp": "ja", "rs": "sr",
    "tw": "zh", "ua": "uk", "vn": "vi",
}  # fmt: skip
"""Codes of countries that are no codes of languages, and what is spoken there."""


@cache
def _table() -> dict[str, str]:
    entries = (entry.split(maxsplit=1) for entry in _NAMES.split(";"))
    return {code: " ".join(name.split()) for code, name in entries}


def language_name(code: str) -> str:
    """The English name of a language, or its code if the name is not in the table.

    Script and region follow in parentheses.

    >>> language_name("fi"), language_name("sr-Latn"), language_name("math"), language_name("xyz")
    ('Finnish', 'Serbian (Latn)', 'Mathematics', 'xyz')
    """
    tags = subtags(code)
    if tags is None or tags[0] not in _table():
        return code
    more = ", ".join(filter(None, tags[1:]))
    return f"{_table()[tags[0]]} ({more})" if more else _table()[tags[0]]


@cache
def _codes() -> dict[str, str]:
    return _COUNTRIES | {name.lower(): code for code, name in _table().items() if code != UNKNOWN}


def guess_language(name: str) -> str | None:
    """The language that the name of a file seems to mean without being a label; None without one.

    >>> [guess_language(f"{name}.txt") for name in ("french", "jp", "fr copy", "notes")]
    ['fr', 'ja', 'fr', None]
    """
    words = re.findall(r"[^\W\d_]+", name.split(".")[0].lower())
    for word in (" ".join(words), *words[:1]):
        if label := _codes().get(word) or code_of_name(word):
            return normalize(label)
    return None
