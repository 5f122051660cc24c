"""The cards of a modular directory, and of a directory with the tokenizer of some languages."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from modtok_cli.tokenizer.manifest import Manifest
from modtok_cli.tokenizer.model_card import Card
from modtok_cli.tokenizer.segmenters.interface import segmentation
from modtok_cli.tokenizer.segmenters.json_frame import PROVENANCE

_LISTED = 8  # most languages that a sentence names
_LEARNED = ("bpe-seq", "bpe-merge", "unigram-merge")


def in_words(languages: Sequence[str]) -> str:
    """Languages in a title.

    >>> in_words(["en", "fr"]), in_words([str(number) for number in range(9)])
    ('en, fr', '9 languages')
    """
    many = len(languages) > _LISTED
    return f"{len(languages)} languages" if many else ", ".join(languages)


def directory_card(manifest: Manifest) -> Card:
    """The card of a modular directory, from its manifest."""
    names = [row.language for row in manifest.languages]
    rows = [
        (row.language, row.tokens, row.corpus.documents, row.corpus.bytes)
        if row.corpus
        else (row.language, row.tokens, "", "")
        for row in manifest.languages
    ]
    listed = ",".join(names)
    own = {row.language: row.k for row in manifest.languages if row.k is not None}
    sizes = ",".join(f"{name}={k}" for name, k in own.items())
    if segmentation(manifest.segmentation).kind.of_file:  # those with a number were appended
        grown = f"--append {','.join(own)} -t TOKENIZER -k {sizes}"
    else:
        grown = f"--langs {listed} -k {manifest.k}{',' * bool(own)}{sizes}"
    made = {
        **{name: f"modtok {name} {grown}" for name in _LEARNED},
        "adopt": f"modtok adopt TOKENIZER --langs {listed}",
    }
    settings = {name: value for name, value in manifest.settings.items() if value not in (None, [])}
    shown = orjson.dumps(settings, option=orjson.OPT_SORT_KEYS).decode()
    return Card(
        title=f"Modular tokenizer for {in_words(names)}",
        about=f"One vocabulary of {manifest.tokens:,} tokens, from which the tokenizer of any of "
        f"{len(names)} languages is taken, with ids of its own. Text in other languages takes more "
        "tokens.",
        languages=names,
        loaded_by="modtok",
        tables=[
            (("language", "tokens", "documents learned from", "bytes"), rows),
            (
                ("algorithm", "segmentation", "pre-tokenizer", "settings"),
                [(manifest.algorithm, manifest.segmentation, manifest.pretokenizer, f"`{shown}`")],
            ),
        ],
        load="import modtok_cli as modtok\n\n"
        "# this directory, or its name on the hub; without @ all languages\n"
        f'tokenizer = modtok.load("NAME@{names[0]}")\n'
        'ids = tokenizer.encode("...")',
        made=made.get(manifest.algorithm, ""),
        signature=manifest.signature,
    )


def part_card(document: Mapping[str, Any], row: Mapping[str, Any]) -> Card:
    """The card of a directory of `modtok extract --hf`; `row` says what it contains."""
    origin = document["model"].get(PROVENANCE) or {}
    names = list(origin.get("languages") or ())
    chosen = {name: origin[name] for name in ("top_k", "coverage") if name in origin}
    of = f" for {in_words(names)}" if names else ""
    about = f"A tokenizer of {row['tokens']:,} tokens"
    about += f", the part of a modular tokenizer{of}." if origin.get("parent") else "."
    if chosen:
        about += " It has the tokens that a text uses most."
    facts = {**chosen, "EOS": row["eos"], "padding": row["pad"], "template": row["chat_template"]}
    languages = f" --langs {','.join(names)}" if names else ""
    return Card(
        title=f"Tokenizer{of}",
        about=about,
        languages=names,
        tables=[
            (("property", "value"), [(name, f"`{v}`") for name, v in facts.items() if v]),
        ],
        load="from transformers import AutoTokenizer\n\n"
        'tokenizer = AutoTokenizer.from_pretrained("NAME")  # this directory, or its hub name',
        made=f"modtok extract{languages} --hf DIR",
        signature=str(origin.get("parent") or ""),
    )
