"""Labels of text: languages by their codes, `code`, `math`, and private labels such as `x-law`.

A language is named by its ISO 639-1 code where it has one, else by its ISO 639-3 code:
`fra_Latn`, `fra`, `fre` and `fr-FR` are all French, `fr`. `text.labels` tells where scripts and
regions count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path, PurePath

from modtok_cli.base.errors import UsageError

# ISO 639-1 code, its ISO 639-3 code, and where there is one its older 639-2/B code. Members
# of a macrolanguage that corpora name instead of it (Swahili as swh, Nepali as npi, Latvian
# as lvs, Estonian as ekk, Persian as pes, ...) follow a colon.
_CODES = """
aa aar; ab abk; ae ave; af afr; ak aka :fat; am amh; an arg; ar ara :arb; as asm; av ava
ay aym :ayr; az aze :azj; ba bak; be bel; bg bul; bi bis; bm bam; bn ben; bo bod tib; br bre
bs bos; ca cat; ce che; ch cha; co cos; cr cre; cs ces cze; cu chu; cv chv; cy cym wel; da dan
de deu ger; dv div; dz dzo; ee ewe; el ell gre; en eng; eo epo; es spa; et est :ekk; eu eus baq
fa fas per :pes; ff ful :fuv; fi fin; fj fij; fo fao; fr fra fre; fy fry; ga gle; gd gla; gl glg
gn grn :gug; gu guj; gv glv; ha hau; he heb; hi hin; ho hmo; hr hrv; ht hat; hu hun; hy hye arm
hz her; ia ina; id ind; ie ile; ig ibo; ii iii; ik ipk; io ido; is isl ice; it ita; iu iku :ike
ja jpn; jv jav; ka kat geo; kg kon; ki kik; kj kua; kk kaz; kl kal; km khm; kn kan; ko kor
kr kau :knc; ks kas; ku kur :kmr; kv kom :kpv; kw cor; ky kir; la lat; lb ltz; lg lug; li lim
ln lin; lo lao; lt lit; lu lub; lv lav :lvs; mg mlg :plt; mh mah; mi mri mao; mk mkd mac; ml mal
mn mon :khk; mr mar; ms msa may :zsm; mt mlt; my mya bur; na nau; nb nob; nd nde; ne nep :npi
ng ndo; nl nld dut; nn nno; no nor; nr nbl; nv nav; ny nya; oc oci; oj oji; om orm :gaz
or ori :ory; os oss; pa pan; pi pli; pl pol; ps pus :pbt; pt por; qu que :quy; rm roh; rn run
ro ron rum; ru rus; rw kin; sa san; sc srd; sd snd; se sme; sg sag; sh hbs; si sin; sk slk slo
sl slv; sm smo; sn sna; so som; sq sqi alb :als; sr srp; ss ssw; st sot; su sun; sv swe; sw swa :swh
ta tam; te tel; tg tgk; th tha; ti tir; tk tuk; tl tgl; tn tsn; to ton; tr tur; ts tso; tt tat
tw twi; ty tah; ug uig; uk ukr; ur urd; uz uzb :uzn; ve ven; vi vie; vo vol; wa wln; wo wol; xh xho
yi yid :ydd; yo yor; za zha; zh zho chi :cmn; zu zul
"""
# Languages without a two-letter code that parallel corpora often hold; other three-letter
# codes are taken from a user's list as they are, but not out of file names.
_THREE_LETTERS = """
ace acm aeb ajp apc ars ary arz ast awa ban bar bem bho bjn bug cbk ceb cjk ckb crh dsb dyu ext
fil fon frp frr fur gom gsw hil hne hsb ilo kab kac kam kbp kea kmb lad lij lld lmo ltg lua luo
lus lzh mag mai mhr min mni mos mwl myv nah nap nds new nso nus pag pam pap pcd pms prs quc rue
sah sat scn sco shn szl taq tcy tpi tum tyv tzm udm umb vec vls vro wae war wuu xmf yue zgh zza
"""
# Withdrawn codes that still occur.
_WITHDRAWN = {"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro", "scr": "hr", "scc": "sr"}

DOMAINS = ("code", "math")
"""Labels of text that is in no language; all others are private: `x-law`."""

_PRIVATE = r"x(?:-[A-Za-z0-9]+)+"
# en, fra, fra_Latn, fr-FR, zh-Hant-TW, es-419, fr-x-law
_SHAPE = re.compile(
    r"([A-Za-z]{2,3})(?:[_-]([A-Za-z]{4}))?(?:[_-]([A-Za-z]{2}|[0-9]{3}))?"
    rf"(?:[_-]({_PRIVATE}))?"
)
_OTHER = re.compile(rf"{'|'.join(DOMAINS)}|[Xx]{_PRIVATE[1:]}")
# The beginning of a file name. "fr_test" and "en-de" look like a script and a region there, and
# "fr-000" is a part, so scripts and regions are written with capitals: fra_Latn, pt-BR.
_IN_NAME = re.compile(
    rf"(?:([A-Za-z]{{2,3}})([_-][A-Z][a-z]{{3}})?([_-][A-Z]{{2}})?(?:-({_PRIVATE}))?)(?=[_-]|$)"
)
# Two or three letters that are words of file names before they are languages.
_NOT_IN_NAMES = frozenset(
    {"dev", "in", "src", "ref", "trg", "tgt", "out", "raw", "all", "new", "old", "ext"}
)


@cache
def _table() -> dict[str, str]:
    table = {code: code for code in _THREE_LETTERS.split()} | _WITHDRAWN
    for entry in _CODES.replace("\n", ";").split(";"):
        if entry.strip():
            short, *longer = entry.split()
            table[short] = short
            for code in longer:
                table[code.lstrip(":")] = short
    return table


def subtags(label: str) -> tuple[str, str, str, str] | None:
    """Language, script, region and private part of a label, as `canonical` writes them.

    `code`, `math` and `x-law` are languages here. None if `label` has not the shape of one.

    >>> subtags("zho_Hant"), subtags("pt-br"), subtags("fr-x-law"), subtags("flores")
    (('zh', 'Hant', '', ''), ('pt', '', 'BR', ''), ('fr', '', '', 'x-law'), None)
    """
    if match := _SHAPE.fullmatch(label):
        language, script, region, private = match.groups(default="")
        base = language.lower()
        return _table().get(base, base), script.title(), region.upper(), private.lower()
    return (label.lower(), "", "", "") if _OTHER.fullmatch(label) else None


def canonical(label: str) -> str:
    """The label with script, region and private part; what is not a label stays.

    >>> [canonical(code) for code in ("fra_Latn", "pt-br", "zho_Hant_TW", "fre", "X-Law")]
    ['fr-Latn', 'pt-BR', 'zh-Hant-TW', 'fr', 'x-law']
    """
    tags = subtags(label)
    return label if tags is None else "-".join(filter(None, tags))


def normalize(code: str) -> str:
    """The short code of a language; script and region are dropped.

    ISO 639-3 codes without a two-letter one stay; so does anything that is not a code.

    >>> [normalize(code) for code in ("fra_Latn", "fre", "pt-BR", "zho_Hant", "ceb", "fr-x-law")]
    ['fr', 'fr', 'pt', 'zh', 'ceb', 'fr-x-law']
    """
    tags = subtags(code)
    return code if tags is None else "-".join(filter(None, (tags[0], tags[3])))


def long_code(code: str) -> str:
    """The ISO 639-3 code of a language; a code without one stays.

    >>> [long_code(code) for code in ("fi", "fr-CA", "zh", "ceb", "x-law")]
    ['fin', 'fra', 'zho', 'ceb', 'x-law']
    """
    short = normalize(code)
    return _long_codes().get(short, short)


@cache
def _long_codes() -> dict[str, str]:
    entries = (entry.split() for entry in _CODES.replace("\n", ";").split(";"))
    return {entry[0]: entry[1] for entry in entries if entry}


def language_list(languages: str | Iterable[str], flag: str = "--langs") -> list[str]:
    """Language codes as a list: a string holds one code, or several between commas or spaces.

    >>> language_list("fi"), language_list("fr, en"), language_list(("fr", "en"))
    (['fi'], ['fr', 'en'], ['fr', 'en'])

    Raises:
        UsageError: a string with an empty entry or a repeated language; names the flag.
    """
    if not isinstance(languages, str):
        return list(languages)
    parts = languages.split(",") if "," in languages else languages.split()
    codes = [part.strip() for part in parts]
    if not all(codes):
        what = f"{flag} {languages!r} has an empty entry"
        raise UsageError(what, remedy=f"as in: {flag} en,fi,fr")
    first_of: dict[str, str] = {}
    for code in codes:
        first = first_of.setdefault(canonical(code), code)
        if codes.count(code) > 1:
            raise UsageError(f"{flag} repeats {code!r}", remedy="give each language once")
        if first != code:
            raise UsageError(
                f"{flag}: {first!r} and {code!r} are one language",
                remedy=f"both mean {canonical(code)!r}: give it once",
            )
    return codes


def optional_languages(
    languages: str | Iterable[str] | None, flag: str = "--langs"
) -> list[str] | None:
    """`language_list` of languages; None stays."""
    return None if languages is None else language_list(languages, flag)


def is_language(code: str) -> bool:
    """Whether `code` is a label: a known code, one of three letters, `code`, `math` or `x-…`.

    >>> [is_language(code) for code in ("fi", "fra_Latn", "ceb", "code", "x-law", "xx", "part")]
    [True, True, True, True, True, False, False]
    """
    tags = subtags(code)
    return tags is not None and (len(tags[0]) > 2 or tags[0] in _table())


def label_of_path(path: str | Path) -> str | None:
    """The label a file is named after, with script and region, or its nearest directory's.

    >>> [label_of_path(p) for p in ("fra_Latn.devtest", "data/fi/part-0.jsonl.zst", "x-law.txt")]
    ['fr-Latn', 'fi', 'x-law']
    >>> label_of_path("newstest2019-ref.swa.txt"), label_of_path("flores.txt")
    ('sw', None)
    """
    parts = PurePath(path).parts
    if not parts:
        return None
    label = code_of_name(parts[-1])
    if label:
        return canonical(label)
    for directory in reversed(parts[:-1]):
        # A directory counts only if all of its name is a code of a language: "data" and "tmp"
        # are not one, and a directory "code" may hold anything.
        if _known(directory):
            return canonical(directory)
    return None


def code_of_name(name: str) -> str | None:
    """The label in a file name as it is spelled there; None without one.

    >>> code_of_name("fra_Latn.devtest"), code_of_name("fr_test.txt"), code_of_name("EN.txt")
    ('fra_Latn', 'fr', 'en')
    >>> code_of_name("zh-Hant-000.jsonl"), code_of_name("code-000.jsonl"), code_of_name("x-law.gz")
    ('zh-Hant', 'code', 'x-law')
    """
    fields = name.split(".")
    # The first field, then the others, the last (a suffix) never.
    for number, part in enumerate(fields[:-1] if len(fields) > 1 else fields):
        if _OTHER.fullmatch(part):
            return part.lower()
        match = _IN_NAME.match(part)
        # Part numbers and the like only in the first field: fr_train.txt, fr-000.jsonl
        if match is None or (number > 0 and match.end() < len(part)):
            continue
        language, script, region, private = match.groups(default="")
        base = language.lower()
        if (base in _NOT_IN_NAMES and (not number or script)) or not (
            base in _table() or ((script or private) and len(base) == 3)
        ):
            continue
        return base + script + region + (private and "-" + private)
    first = re.split(r"[_-]", fields[0])[0].lower()
    return first if first in DOMAINS else None


def _known(code: str) -> bool:
    """A code of the table, or a three-letter one with its script (`ceb_Latn`, or bare `ceb`)."""
    match = _SHAPE.fullmatch(code)
    if not match or match[1].lower() in _NOT_IN_NAMES:
        return False
    return match[1].lower() in _table() or "_" in code


def suggest(name: str, known: Sequence[str]) -> str:
    """`did you mean 'fr'? ` as the beginning of a remedy, or an empty string."""
    from difflib import get_close_matches

    close = get_close_matches(normalize(name), known, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'? " if close else ""
