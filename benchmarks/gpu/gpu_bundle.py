"""A folder with all that `gpu_check` needs on a machine without a network.

    python -m benchmarks gpu_bundle DIR                      # for Python 3.12, which has torch
    python -m benchmarks gpu_bundle DIR --torch 2.13.0       # with torch, 3 GB
    python -m benchmarks gpu_bundle DIR --leave-out numpy,transformers
    python -m benchmarks gpu_bundle DIR --text TEXT          # with a tokenizer of TEXT's languages

Wheels for Linux on x86-64, of modtok and of what it and its tests import; sources of benchmarks and
tests. With `--text` also gpu-data/: a tokenizer of 24,000 tokens a language, learned from that
text, and its first 300 kB of each language, so that runs have a T of real size. There,
`sh check.sh 1` installs the wheels beside itself, and runs call 1.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from benchmarks.common import ROOT, parser_of
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.text.readers import read_documents
from modtok_cli.text.workspace import language_files

PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(39, 4, -1)]
PLATFORMS += ["manylinux2014_x86_64", "linux_x86_64"]
# Parts of a CUDA build of torch.
TORCH = re.compile(r"torch|triton|nvidia-.*|cuda-.*|sympy|mpmath|networkx|jinja2|markupsafe|fsspec")
TESTS = ("pytest", "hypothesis")
CHECK = """\
#!/bin/sh
# check.sh CALL [OPTIONS]: install the wheels beside this file, once, and run a call of gpu_check.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ ! -d "$here/site" ]; then
    python3 -m pip install --quiet --no-index --no-deps --target "$here/new" "$here"/wheels/*.whl
    mv "$here/new" "$here/site"
fi
cd "$here/modtok"
PYTHONPATH="$here/site" exec python3 -m benchmarks gpu_check "$@" --out "$here/rows.jsonl"
"""


def pip(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def normalized(name: str) -> str:
    """A package's name as PEP 503 compares it: `hf_xet` is `hf-xet`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def chosen(modtok: Path, target: list[str], torch: str | None) -> list[str]:
    """The packages for that Python, as NAME==VERSION; torch and its parts only if it is named."""
    wanted = [f"modtok[lm] @ {modtok.as_uri()}", *TESTS, *([f"torch=={torch}"] if torch else [])]
    report = json.loads(
        pip(
            "install",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
            "--report",
            "-",
            *target,
            *wanted,
        )
    )
    packages: list[dict[str, Any]] = [one["metadata"] for one in report["install"]]
    return [
        f"{one['name']}=={one['version']}"
        for one in packages
        if one["name"] != "modtok" and (torch or not TORCH.fullmatch(normalized(one["name"])))
    ]


def pack_text(text: Path, folder: Path, budget: int, most: int) -> None:
    """A tokenizer of the languages of `text`, and about `most` bytes of text of each."""
    bpe_seq(data=text, output=folder / "tokenizer", k=budget, references=False)
    (folder / "data").mkdir()
    for language, files in language_files(text).items():
        size = 0
        with open(folder / "data" / f"{language}.jsonl", "wb") as out:
            for document in chain.from_iterable(map(read_documents, files)):
                out.write(orjson.dumps({"text": document.text.decode()}) + b"\n")
                size += len(document.text)
                if size >= most:
                    break


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12", help="of the machine; default: %(default)s")
    parser.add_argument("--torch", metavar="VERSION", help="with this CUDA build")
    parser.add_argument("--leave-out", default="", help="packages that the machine has")
    parser.add_argument("--text", type=Path, help="text to learn a tokenizer from")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    pip("wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, ROOT)
    (modtok,) = wheels.glob("modtok-*.whl")
    target = ["--only-binary=:all:", "--python-version", options.python, "--implementation", "cp"]
    target += [word for platform in PLATFORMS for word in ("--platform", platform)]
    into = ["--target", str(folder / "site")]
    left_out = set(map(normalized, options.leave_out.split(",")))
    names = [
        name
        for name in chosen(modtok, [*target, *into], options.torch)
        if normalized(name.partition("==")[0]) not in left_out
    ]
    pip("download", "--quiet", "--no-deps", "--dest", wheels, *target, *names)
    for part in ("benchmarks", "tests", "pyproject.toml"):
        source, copy = ROOT / part, folder / "modtok" / part
        if source.is_file():
            shutil.copy(source, copy)
        else:
            ignored = shutil.ignore_patterns("__pycache__", "results", "notes")
            shutil.copytree(source, copy, ignore=ignored)
    if options.text is not None:
        pack_text(options.text, folder / "modtok" / "gpu-data", 24_000, 300_000)
    (folder / "check.sh").write_text(CHECK)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {len(list(wheels.iterdir()))} wheels, {size / 2**20:.0f} MiB")
    return 0
