"""Tokens of changed text relative to monolingual BPE, and boundaries at morphemes.

    python -m benchmarks robustness PARALLEL REFERENCES -t seq@each -t seq@each,en -t llama3.json
        [--morphemes GOLD] [--langs fi,hu]

PARALLEL/<lang>.txt is encoded as it is and in the changes of `modtok check --robust`; tokens are
relative to those of REFERENCES/<lang>.json, a monolingual tokenizer, on the same changed text.
`each` stands for the language of the text. GOLD is what `python -m benchmarks morphemes` wrote; the
measures are those of `modtok nsl --morphemes`. Prints JSON lines, then a Markdown table: means
over the languages, and over those but English for mixed text.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from benchmarks.common import LANGUAGES, describe, emit, parser_of
from modtok_cli.base.progress import SILENT
from modtok_cli.measure.morphology import Morphemes, align
from modtok_cli.measure.robustness import FIELDS, Changed
from modtok_cli.measure.texts import Text, load_texts
from modtok_cli.measure.usage import usage
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.open import open_tokenizer
from modtok_cli.tokenizer.protocol import Tokenizer

MEASURES = ("morph_score", "boundary_precision", "boundary_recall", "boundary_f1")


def text_of(path: Path, language: str) -> Text:
    (text,) = load_texts(
        [path], language=language, references=None, keep_documents=True, reading=Reading(),
        progress=SILENT,
    )  # fmt: skip
    return text


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("parallel", type=Path)
    parser.add_argument("references", type=Path)
    parser.add_argument("-t", dest="tokenizers", action="append", required=True)
    parser.add_argument("--morphemes", type=Path)
    parser.add_argument("--langs", default=",".join(LANGUAGES))
    options = parser.parse_args()
    gold = Morphemes(options.morphemes) if options.morphemes else None
    emit({"what": "machine", "machine": describe()})
    whole = {name: open_tokenizer(name) for name in options.tokenizers if "@each" not in name}
    english = text_of(options.parallel / "en.txt", "en")
    rows: dict[str, list[dict[str, Any]]] = {}
    for language in options.langs.split(","):
        text = text_of(options.parallel / f"{language}.txt", language)
        texts = {"clean": text, **Changed.of(text, english if language != "en" else None).texts}
        reference = open_tokenizer(str(options.references / f"{language}.json"))
        expected = {field: usage(reference, changed).tokens for field, changed in texts.items()}
        opened: dict[str, Tokenizer] = {"monolingual BPE": reference}
        for name in options.tokenizers:
            spec = name.replace("@each,en", "@en") if language == "en" else name
            spec = spec.replace("@each", f"@{language}")
            opened[name] = whole.get(name) or open_tokenizer(spec)
        for name, tokenizer in opened.items():
            row: dict[str, Any] = {"what": "robustness", "tokenizer": name, "language": language}
            for field, changed in texts.items():
                tokens = usage(tokenizer, changed).tokens
                row[field] = round(tokens / expected[field], 4)
                row[f"{field}_tokens"] = tokens
            words = gold.of(language) if gold else None
            if words:
                row.update(align(tokenizer, words, language))
            rows.setdefault(name, []).append(row)
            emit(row)
    fields = ["clean", *FIELDS, *(MEASURES if gold else ())]
    print("\n| tokenizer |", " | ".join(fields), "|")
    print("|---|" + "---:|" * len(fields))
    for name, each in rows.items():
        cells = [[row[field] for row in each if row.get(field) is not None] for field in fields]
        print(f"| {name} |", " | ".join(f"{statistics.mean(cell):.3f}" for cell in cells), "|")
