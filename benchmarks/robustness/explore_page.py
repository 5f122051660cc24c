"""Ids of the page of `modtok explore`, computed in a browser, against those of modtok.

    python -m benchmarks explore_page --data FOLDER -t TOKENIZER [-t OTHER] [--lines 1997]

FOLDER holds <lang>.txt of parallel lines. Writes the page, runs its program in headless Chromium on
the lines of each language: under that language alone, together with the next one, under all
languages, and with every other tokenizer. Tests run it in Node. Prints a JSON object for each text
and one at the end; exit 1 if ids differ. They are compared by their number and a checksum.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import emit, parser_of
from modtok_cli.reports.explore.page import explore
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_tokenizer

PROGRAM = """
function checked(tokenizers, requests) {
  return requests.map(([tokenizer, columns, text]) => {
    const ids = tokenizers[tokenizer].encode(text, columns);
    let sum = 7;
    for (const id of ids) sum = (Math.imul(sum, 31) + id) | 0;
    return [ids.length, sum];
  });
}
"""


def checksum(ids: list[int]) -> int:
    total = 7
    for token in ids:
        total = (total * 31 + token) & 0xFFFFFFFF
    return total - (1 << 32) if total >> 31 else total


def in_chromium(page: str, requests: list[Any], place: Path) -> list[list[int]]:
    data = json.dumps(requests).replace("<", "\\u003c")
    script = (
        f"<script>{PROGRAM} loadTokenizers(PAYLOAD).then((tokenizers) => {{"
        f"const found = checked(tokenizers, {data});"
        "const node = document.createElement('pre'); node.id = 'answers';"
        "node.textContent = JSON.stringify(found);"
        "document.body.replaceChildren(node); });</script>"
    )
    (place / "page.html").write_text(page.replace("</body>", script + "</body>"), "utf-8")
    command = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu",
        "--virtual-time-budget=600000", "--dump-dom", (place / "page.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    found = re.search(r'<pre id="answers">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stdout[-500:]
    return json.loads(found[1])  # type: ignore[no-any-return]


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("-t", "--tokenizer", action="append", required=True)
    parser.add_argument("--lines", type=int, default=1997)
    options = parser.parse_args()
    if not shutil.which("chromium"):
        print("chromium is not installed", file=sys.stderr)
        return 2

    modular = ModularTokenizer.load(options.tokenizer[0])
    others = [open_tokenizer(spec) for spec in options.tokenizer[1:]]
    requests: list[Any] = []
    expected: list[list[int]] = []
    labels: list[tuple[str, str]] = []
    languages = list(modular.languages)
    for index, language in enumerate(languages):
        lines = (options.data / f"{language}.txt").read_text("utf-8").split("\n")
        text = "\n".join(lines[: options.lines])
        pair = sorted({index, (index + 1) % len(languages)})
        for columns in ([index], pair, None):
            names = [languages[column] for column in columns or range(len(languages))]
            subset = modular.full() if columns is None else modular.subset(names)
            ids = subset.global_ids[subset.encode(text)].tolist()
            requests.append([0, columns, text])
            expected.append([len(ids), checksum(ids)])
            labels.append((language, "all" if columns is None else ",".join(names)))
        for number, other in enumerate(others, 1):
            ids = other.encode(text).tolist()
            requests.append([number, None, text])
            expected.append([len(ids), checksum(ids)])
            labels.append((language, Path(other.name).name))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "explore.html"
        size = explore([modular, *others], page)["bytes"]
        start = time.perf_counter()
        found = in_chromium(page.read_text("utf-8"), requests, Path(folder))
        seconds = time.perf_counter() - start
    equal = [one == other for one, other in zip(found, expected, strict=True)]
    for (language, vocabulary), (tokens, _), same in zip(labels, expected, equal, strict=True):
        emit({"text": language, "vocabulary": vocabulary, "tokens": tokens, "equal": same})
    emit(
        {
            "what": "explore page",
            "engine": "chromium",
            "signature": modular.signature,
            "page_bytes": size,
            "texts": len(equal),
            "tokens": sum(count for count, _ in expected),
            "different": equal.count(False),
            "seconds": round(seconds, 1),
        }
    )
    return int(not all(equal))
