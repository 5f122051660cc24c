"""The page of `modtok explore`: tokenizers in a compact form, and the program that runs them."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.core import backend
from modtok_cli.modular.directory import is_modular
from modtok_cli.modular.open import Tokenizer, open_tokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.reports.explore.packing import packed_tokenizer
from modtok_cli.text.language_names import language_name

Spec = str | Tokenizer | ModularTokenizer
TITLE = "Explore tokenizers"


def explore(
    tokenizers: Sequence[Spec],
    output: Path,
    *,
    languages: Iterable[str] | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Write one HTML page that segments typed text in the browser.

    Args:
        tokenizers: modular tokenizers or directories, whose languages can be chosen on the page,
            and tokenizers to compare them with: files of modtok, a `tokenizer.json` that
            changes no text but by NFC (of bytes) or SentencePiece's spaces, rank files.
        output: file to write; it refers to no other file and no network.
        languages: chosen when the page opens; by default English if it is there, else the first.
        force: replace an existing file.

    Returns:
        `output`, `bytes`, and the names of the `tokenizers`.

    Raises:
        UsageError: `output` exists; an unknown language; a tokenizer that only its library runs.
        ModtokError: a tokenizer is damaged; the core is not there as WebAssembly.
    """
    if output.exists() and not force:
        raise UsageError(
            "already exists", where=str(output), remedy="choose another -o, or pass --force"
        )
    packed, names, modular = [], [], []
    with progress.task("packing", total=len(tokenizers), unit="tokenizers") as task:
        for spec in tokenizers:
            tokenizer = _opened(spec, progress)
            if isinstance(tokenizer, ModularTokenizer):
                modular.append(tokenizer)
            name = _short(spec) if isinstance(spec, str) else getattr(spec, "name", "tokenizer")
            names.append(name)
            packed.append(packed_tokenizer(tokenizer, name))
            task.advance(1)
    there = dict.fromkeys(code for each in modular for code in each.languages)
    chosen = _chosen(languages, modular, there)
    sentences = samples()
    offered = [code for code in there if code in sentences] or list(sentences)
    offered.sort(key=language_name)
    payload = {
        "core": base64.b64encode(zlib.compress(_core(), 9)).decode(),
        "chosen": chosen,
        "samples": [
            {"code": code, "name": language_name(code), "text": sentences[code]} for code in offered
        ],
        "tokenizers": packed,
    }
    first = [code for code in chosen if code in sentences][:4] or offered[:1]
    resources = files("modtok_cli.reports.explore")
    text = Template((resources / "page.html").read_text("utf-8")).substitute(
        title=escape(TITLE),
        text=escape("\n".join(sentences[code] for code in first)),
        hidden="" if there else " hidden",
        payload=_script_safe(orjson.dumps(payload).decode()),
        segment=(resources / "segment.js").read_text("utf-8"),
        page=(resources / "page.js").read_text("utf-8"),
    )
    data = text.encode()
    write_bytes(output, data)
    return {"output": str(output), "bytes": len(data), "tokenizers": names}


def _core() -> bytes:
    """The native core compiled to WebAssembly."""
    path = backend.CORE / backend.WASM
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModtokError(
            "the native core was not compiled for the page",
            where=str(path),
            remedy=f"pip install ziglang, then: python {path.with_name('backend.py')}",
        ) from None


def _opened(spec: Spec, progress: Progress) -> Tokenizer | ModularTokenizer:
    if not isinstance(spec, str):
        return spec
    if is_modular(Path(spec)):
        return ModularTokenizer.load(Path(spec))
    return open_tokenizer(spec, progress=progress)


def _short(spec: str) -> str:
    return spec.rstrip("/").rpartition("/")[2] or spec


def _chosen(
    languages: Iterable[str] | None, modular: Sequence[ModularTokenizer], there: Iterable[str]
) -> list[str]:
    there = list(there)
    if languages is None:
        return ["en"] if "en" in there else there[:1]
    if not modular:
        raise UsageError("--langs requires a modular directory among the tokenizers")
    return sorted(modular[0].resolve(list(languages)))


def _script_safe(json: str) -> str:
    """JSON that ends no script element and opens no comment."""
    return json.replace("<", "\\u003c")


@cache
def samples() -> dict[str, str]:
    """Language to sentence, written for this project; each has the same content to compare by.

    >>> samples()["sw"]
    'Asubuhi tunakunywa kahawa na kusoma habari za mji kabla mvua haijaanza.'
    """
    text = files("modtok_cli.reports.explore").joinpath("samples.txt").read_text("utf-8")
    rows = (line.partition(" ") for line in text.splitlines())
    return {code: sentence for code, _, sentence in rows}
