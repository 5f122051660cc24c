"""Identified languages and filters of `corpus build` on good text, by language.

    python -m benchmarks page_filters CORPUS NTREX [--documents 200] [--lang-model FILE]

CORPUS has `LANG.jsonl.zst`, NTREX `LANG.txt`. Of each language: shares of lines of NTREX, of lines
of documents (40 to 300 characters) and of pages (documents, six lines of NTREX) that get their
label, with the languages of all files as wanted ones; shares of these below the threshold;
documents that each filter drops. The last row is the mean, and the share above the threshold of
pages whose language is taken away from the model (`--lang-model` has no such row).
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

from datatrove.data import Document

from benchmarks.common import emit, parser_of, texts
from modtok_cli.corpus import language as module
from modtok_cli.corpus.filters import FilterPages, known_languages
from modtok_cli.corpus.language import LanguageModel

FILTERS = ("gopher-repetition", "gopher-quality", "c4")


def shares(model: LanguageModel, language: str, pieces: list[str]) -> tuple[float, float]:
    """Shares of right labels, and of right ones that are below the threshold."""
    found = [model.identify(piece) for piece in pieces]
    right = [score for name, score in found if name == language]
    below = sum(score < model.threshold for score in right)
    return len(right) / len(found), below / max(1, len(right))


def unknown(language: str, pages: list[str]) -> float:
    """Share of pages above the threshold if the model lacks their language."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    model.set_languages({*model.labels} - {language})
    asked = LanguageModel()
    asked._rank = lambda text: model.rank(text)[: module._FIRST]
    return sum(asked.identify(page)[1] >= asked.threshold for page in pages) / len(pages)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("ntrex", type=Path)
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--lang-model", type=Path)
    options = parser.parse_args()
    files = sorted(options.ntrex.glob("*.txt"))
    names = [path.stem for path in files]
    model = LanguageModel(options.lang_model, names)
    rows: list[dict[str, float]] = []
    for path, name in zip(files, names, strict=True):
        lines = [line for line in path.read_text("utf-8").split("\n") if line.strip()]
        source = options.corpus / f"{name}.jsonl.zst"
        documents = list(islice(texts(source), options.documents))
        pieces = [" ".join(lines[n : n + 6]) for n in range(0, len(lines), 6)]
        own = [line for text in documents for line in text.split("\n") if 40 < len(line) < 300]
        row: dict[str, float] = {}
        for what, each in {
            "ntrex": lines, "lines": own[:500], "pages": [*documents, *pieces],
        }.items():  # fmt: skip
            row[what], row[f"{what}_below"] = shares(model, name, each)
        if not options.lang_model:
            row["unknown_above"] = unknown(name, pieces[:100])
        for each in FILTERS:
            if name in (known_languages(each) or ()):
                block = FilterPages(each)
                found = [block.reason(Document(t, "", [], {"lang": name})) for t in documents]
                row[each] = sum(reason is not None for reason in found) / len(documents)
        rows.append(row)
        emit({"language": name} | {key: round(value, 4) for key, value in row.items()})
    keys = Counter(key for row in rows for key in row)
    mean = {key: sum(row.get(key, 0) for row in rows) / number for key, number in keys.items()}
    emit({"language": "mean"} | {key: round(value, 4) for key, value in mean.items()})


if __name__ == "__main__":
    main()
