"""The page of `modtok explore`: tokenizers in a compact form, and the program that runs them.

The form is what segment.js reads: JSON, and byte planes of arrays.
"""

import base64
import os
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import GENERATOR, check_page, check_suffix, write_bytes
from modtok_cli.base.hub import name_of
from modtok_cli.base.parameters import Force, Langs, OutputFile
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.core import backend
from modtok_cli.core.text import native_pretokenizers
from modtok_cli.learn.fewest_tokens import EACH
from modtok_cli.reports.explore.published import (
    Packed,
    byte_planes,
    file_tables,
    pieces,
    runs,
    whole_file,
    width_of,
)
from modtok_cli.text.languages import Label, optional_languages
from modtok_cli.tokenizer.adopted.segmenter import Library, ModularLibrary
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_spec
from modtok_cli.tokenizer.parameters import AnyTokenizers
from modtok_cli.tokenizer.protocol import Tokenizer
from modtok_cli.tokenizer.segmenters.fewest_tokens import FewestTokens
from modtok_cli.tokenizer.segmenters.merges import Merges
from modtok_cli.tokenizer.segmenters.unigram import Unigram
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.vocabulary import PieceVocabulary, Vocabulary

TITLE = "Explore tokenizers"


@public
def explore(
    tokenizers: AnyTokenizers,
    output: OutputFile = "explore.html",
    *,
    languages: Langs = None,
    force: Force = False,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Write a page that segments typed text in the browser.

    Shows tokens in the color of their language, token counts and vocabulary sizes, for any
    set of languages of a modular tokenizer and for other tokenizers beside it. The page is one
    HTML file that needs no server and no network; it computes the same ids as modtok encode.

    Tokenizers: modular directories and plain files of modtok; BPE of bytes (GPT-2, Llama 3, Qwen)
    or of characters with byte fallback (Gemma, Llama 2) as tokenizer.json, rank file or .model;
    a tokenizer.json with Unigram without a normalizer.
    `languages` are the selected languages of the new page; by default English, else the first.

    Returns:
        `output`, its size in `bytes`, and the names of the `tokenizers`.

    Examples:
        >>> modtok.explore(["tokenizer", "tokenizer@fi"], languages="fi", force=True)["tokenizers"]
        ['tokenizer', 'tokenizer@fi']

    Raises:
        UsageError: `output` is another file; an unknown language; a tokenizer that only its
            library runs.
        ModtokError: a tokenizer is damaged; the core is not there as WebAssembly.
    """
    output = Path(output)
    is_list = isinstance(tokenizers, list | tuple)
    specs: list[Any] = list(tokenizers) if is_list else [tokenizers]  # type: ignore[arg-type]
    check_suffix(output, [".html"])
    check_page(output, "explore", force=force)
    packed, names, modular = [], [], []
    with progress.task("packing", total=len(specs), unit="tokenizers") as task:
        for spec in specs:
            tokenizer = open_spec(spec, progress=progress)
            if isinstance(tokenizer, ModularTokenizer):
                modular.append(tokenizer)
            is_path = isinstance(spec, str | os.PathLike)
            name = _short(name_of(spec)) if is_path else getattr(spec, "name", "tokenizer")
            names.append(name)
            packed.append(packed_tokenizer(tokenizer, name))
            task.advance(1)
    there = dict.fromkeys(code for each in modular for code in each.languages)
    chosen = _chosen(optional_languages(languages), modular, there)
    sentences = samples()
    offered = [code for code in there if code in sentences] or list(sentences)
    offered.sort(key=lambda code: Label.of(code).name)
    payload = {
        "core": base64.b64encode(zlib.compress(_core(), 9)).decode(),
        "chosen": chosen,
        "samples": [
            {"code": code, "name": Label.of(code).name, "text": sentences[code]} for code in offered
        ],
        "tokenizers": packed,
        "patterns": {each.name.decode(): each.pattern.decode() for each in native_pretokenizers()},
    }
    first = [code for code in chosen if code in sentences][:4] or offered[:1]
    resources = files("modtok_cli.reports.explore")
    text = Template((resources / "page.html").read_text("utf-8")).substitute(
        generator=GENERATOR.format("explore"),
        title=escape(TITLE),
        text=escape("\n".join(sentences[code] for code in first)),
        hidden="" if there else " hidden",
        # JSON that ends no script element and opens no comment.
        payload=orjson.dumps(payload).decode().replace("<", "\\u003c"),
        segment="\n".join(
            (resources / name).read_text("utf-8") for name in ("segment.js", "dropped.js")
        ),
        page=(resources / "page.js").read_text("utf-8"),
    )
    data = text.encode()
    write_bytes(output, data)
    return {"output": str(output), "bytes": len(data), "tokenizers": names}


def _core() -> bytes:
    """The native core compiled to WebAssembly."""
    return (backend.CORE / backend.WASM).read_bytes()


def _short(spec: str) -> str:
    return spec.rstrip("/").rpartition("/")[2] or spec


def _chosen(
    languages: Sequence[str] | None, modular: Sequence[ModularTokenizer], there: Iterable[str]
) -> list[str]:
    there = list(there)
    if languages is None:
        return ["en"] if "en" in there else there[:1]
    if not modular:
        raise UsageError("--langs requires a modular directory among the tokenizers")
    return sorted(modular[0].resolve(languages))


@cache
def samples() -> dict[str, str]:
    """Language to sentence, written for this project; each has the same content to compare by.

    >>> samples()["sw"]
    'Asubuhi tunakunywa kahawa na kusoma habari za mji kabla mvua haijaanza.'
    """
    text = files("modtok_cli.reports.explore").joinpath("samples.txt").read_text("utf-8")
    rows = (line.partition(" ") for line in text.splitlines())
    return {code: sentence for code, _, sentence in rows}


def packed_tokenizer(tokenizer: Tokenizer | ModularTokenizer, name: str) -> dict[str, Any]:
    """`meta` and `data` (base64 of deflated planes) of a tokenizer.

    Raises:
        UsageError: a segmentation that the page does not have.
    """
    packed = _packed(tokenizer)
    if packed is None:
        raise UsageError(
            "the page does not run this kind of tokenizer; it runs modtok's, BPE of bytes "
            "(GPT-2, Llama 3, Qwen) or with byte fallback (Gemma, Llama 2), and Unigram without a "
            "normalizer in a tokenizer.json",
            where=name,
            remedy="leave it out",
        )
    meta, planes = packed
    meta |= {"name": name, "size": tokenizer.size}
    data = base64.b64encode(zlib.compress(b"".join(planes), 9)).decode()
    return {"meta": meta, "data": data}


def _packed(tokenizer: Tokenizer | ModularTokenizer) -> Packed | None:
    """None where the core does not give its ids."""
    if isinstance(tokenizer, ModularTokenizer | Subtokenizer):
        segmenter = tokenizer.segmenter
        if isinstance(segmenter, Library | ModularLibrary) and not runs(segmenter.file):
            return None
        splitter = tokenizer.pretokenizer.name.partition("+")[0]
        meta, planes = _of_modtok(tokenizer)
    else:
        whole = whole_file(tokenizer)
        if whole is None:
            return None
        splitter = whole.pretokenizer.name.partition("+")[0]
        meta, planes = file_tables(whole)
    names = [each.name.decode() for each in native_pretokenizers()]
    if splitter not in names:  # of another package
        return None
    return {"splitter": names.index(splitter), **meta}, planes


def _of_modtok(tokenizer: ModularTokenizer | Subtokenizer) -> Packed:
    if isinstance(tokenizer, Subtokenizer):
        modular, kind = None, type(tokenizer.segmenter)
    else:
        modular, kind = tokenizer, tokenizer.segmenter.kind
    if kind in (Unigram, FewestTokens):
        meta, planes = _search(tokenizer)
    elif isinstance(tokenizer.segmenter, Library):
        meta, planes = file_tables(tokenizer.segmenter)
    elif isinstance(tokenizer.segmenter, ModularLibrary):
        meta, planes = file_tables(Library(tokenizer.segmenter.file))
    else:
        assert kind is Merges
        meta, planes = _merges(tokenizer.vocabulary, tokenizer.merges)
    if modular is None:
        return meta, planes
    meta["languages"] = [{"code": code, "name": Label.of(code).name} for code in modular.languages]
    if kind is Merges:
        planes += [plane.tobytes() for plane in modular.merge_membership.planes]
    elif kind is Library:
        meta["between"] = True
    elif kind is FewestTokens:
        meta["counts"] = []
        for counts in modular.token_counts:
            width = width_of(int(counts.max(initial=0)))
            meta["counts"].append((len(counts), width))
            planes += byte_planes(counts, width)
    planes += [plane.tobytes() for plane in modular.token_membership.planes]
    return meta, planes


def _merges(vocabulary: Vocabulary, merges: npt.NDArray[np.int32]) -> Packed:
    width = width_of(len(vocabulary))
    meta = {
        "kind": "merges",
        "merges": len(merges),
        "width": width,
        "bytes": vocabulary.byte_ids.tolist(),
    }
    return meta, [plane for column in merges.T for plane in byte_planes(column, width)]


def _search(tokenizer: ModularTokenizer | Subtokenizer) -> Packed:
    """Tokens, and the scores where they are the same in every subset."""
    vocabulary, scores = tokenizer.vocabulary, tokenizer.scores
    is_unigram, first = False, len(vocabulary.specials)
    if isinstance(vocabulary, PieceVocabulary):
        is_unigram, first = True, vocabulary.first
    data = vocabulary.data[vocabulary.offsets[first] :].tobytes()
    meta, planes = pieces(vocabulary.lengths, data, scores if is_unigram else None, first)
    meta["bytes"] = vocabulary.byte_ids.tolist()
    if not is_unigram and isinstance(tokenizer, Subtokenizer):
        assert scores is not None
        meta["scores"] = 2
        planes += byte_planes(np.maximum(scores + EACH, 0).astype(np.int64), 2)
    return meta, planes
