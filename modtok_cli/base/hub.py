"""Models and tokenizers by the names that others give them: `owner/name` of the hub, `gpt-4o`.

`local_path` downloads what a command needs into the cache of the library that owns the name, and
gives the place there, which is an argument as any other. `name_of` gives the name back.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.extras import is_installed, require
from modtok_cli.base.files import is_there
from modtok_cli.base.progress import Progress
from modtok_cli.base.read_file import read_object

Kind = Literal["tokenizer", "model"]
_NAME = re.compile(
    r"(?P<name>(?!runs/)(?P<owner>[A-Za-z0-9][\w.-]*)/[A-Za-z0-9][\w.-]*)"
    r"(@(?P<revision>[^@#]*))?(@(?P<languages>[^@#]*))?"
)
_FILE = re.compile(
    r".*\.(json|jsonl|ndjson|model|tiktoken|gguf|safetensors|txt|parquet|csv|tsv|arrow|counts|toml"
    r"|gz|bz2|xz|zst)",
    re.IGNORECASE,
)
"""Names of files that modtok reads: `data/fi.txt` is none of the hub, whether it exists or not."""
_TOKENIZER = [
    "tokenizer.json", "tokenizer_config.json", "config.json", "generation_config.json",
    "manifest.json", "arrays.safetensors", "references/*.json",
]  # fmt: skip
_USUAL = ("tokenizer.json", "manifest.json")
_OTHER_TOKENIZERS = ["tekken.json", "tokenizer.model", "*.tiktoken", "tiktoken.model"]
_INDEX = "model.safetensors.index.json"
_MODEL = [
    *_TOKENIZER[:4], "tokenizer_out.json", "chat_template.jinja",
    "additional_chat_templates/*.jinja", "special_tokens_map.json", "added_tokens.json",
    "adapter_config.json", "modtok*.json", "LICENSE*", "NOTICE*", "README.md",
    "model.safetensors", _INDEX,
]  # fmt: skip
_RANKS = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_RANK_FILES = {
    "gpt2": "r50k_base", "p50k_edit": "p50k_base", "o200k_harmony": "o200k_base",
}  # fmt: skip
"""Encodings of tiktoken whose ranks are in the file of another one."""
_LIKE_TIKTOKEN = re.compile(
    r"(ft:|chat)?gpt-?\d|o\d|(cl100k|o200k|[pr]50k)_|(text|code)-(ada|davinci|embedding|search)"
)
"""Names of tiktoken, without it."""
_NAMES: dict[str, str] = {}  # place → the name that it was given by


def name_of(place: str | os.PathLike[str]) -> str:
    """The name that a place was given by, else the place."""
    return _NAMES.get(os.fspath(place), os.fspath(place))


def model_name(path: Path) -> str:
    """A short name of a model: the last part of its path, or of its name on the hub."""
    given = _NAMES.get(str(path))
    return path.resolve().name if given is None else given.partition("@")[0].rpartition("/")[2]


def is_hub_name(spec: str) -> bool:
    """Whether an argument is `owner/name`, `owner/name@revision` or `owner/name@revision@fr,en`.

    Where the directory `owner` exists, it is a path; so are `runs/NAME` and the name of a file.
    """
    match = _NAME.fullmatch(spec)
    return match is not None and not _FILE.fullmatch(match["name"]) and not (
        is_there(match["owner"]) or is_there(spec)
    )  # fmt: skip


def local_path(spec: str, kind: Kind, progress: Progress) -> str:
    """The place of a model or tokenizer: of a name in the cache, all else as it is.

    `owner/name@revision@fr,en` is a directory with `@fr,en`, the name of a model or encoding of
    tiktoken its rank file.

    Raises:
        UsageError: the owner does not know it, or does not give it to this user.
        ModtokError: it is not in the cache, and there is no connection.
    """
    if is_hub_name(spec):
        match = _NAME.fullmatch(spec)
        assert match is not None
        if match["languages"] and kind == "model":
            raise UsageError(
                "a model is not of languages",
                where=spec,
                remedy="what follows the first @ is a revision; choose languages with --langs",
            )
        place = str(_snapshot(match["name"], match["revision"] or None, kind, progress))
        place += f"@{match['languages']}" if match["languages"] else ""
    elif kind == "tokenizer" and (encoding := _encoding_of(spec)) is not None:
        place = _rank_file(spec, encoding)
    else:
        return spec
    _NAMES[place] = spec
    return place


# --- the hub ---


def _snapshot(name: str, revision: str | None, kind: Kind, progress: Progress) -> Path:
    require(f"{name}: a name of the hub", published=["huggingface_hub"])
    import huggingface_hub

    files = _TOKENIZER if kind == "tokenizer" else _MODEL

    def get(patterns: list[str], revision: str | None) -> Path:
        return Path(
            huggingface_hub.snapshot_download(name, revision=revision, allow_patterns=patterns)
        )

    def lack(what: str) -> ModtokError:
        # Without a connection, the library gives a cache that may have some of the files.
        try:
            huggingface_hub.HfApi().list_repo_files(name, revision=place.name)
        except (OSError, huggingface_hub.errors.OfflineModeIsEnabled):
            if not any(place.glob("*.bin")):
                raise
            kept = f"its copy in the cache {huggingface_hub.constants.HF_HUB_CACHE} has no {what}"
            remedy = "with a connection, repeat the command"
            return ModtokError(f"{kept}, and the hub is not reached", where=name, remedy=remedy)
        return UsageError(f"has no {what}", where=name)

    with _of_hub(name, revision, kind, progress):
        place = get(files, revision)
        if kind == "model" and not (place / "model.safetensors").is_file():
            parts = _parts(place / _INDEX)
            if not parts:
                raise lack("weights in safetensors")
            get(parts, place.name)
        if not any((place / each).is_file() for each in _USUAL):
            get(_OTHER_TOKENIZERS, place.name)
            if not any(found for each in _OTHER_TOKENIZERS for found in place.glob(each)):
                raise lack("tokenizer that modtok reads")
    progress.note(f"{name}: revision {place.name[:12]}")
    return place


def _parts(index: Path) -> list[str]:
    """The files of weights that an index names; none without an index."""
    table = read_object(index).get("weight_map") if index.is_file() else None
    names = set(table.values()) if isinstance(table, dict) else set()
    return sorted(each for each in names if isinstance(each, str) and Path(each).name == each)


@contextmanager
def _of_hub(name: str, revision: str | None, kind: Kind, progress: Progress) -> Iterator[None]:
    """Give the library's errors in one line, with a remedy; bars only where tasks are visible."""
    from huggingface_hub import constants, utils
    from huggingface_hub.utils import logging

    shown, verbosity = not utils.are_progress_bars_disabled(), logging.get_verbosity()
    logging.set_verbosity_error()
    if shown and not progress.draws:
        utils.disable_progress_bars()
    try:
        yield
    except ModtokError:
        raise
    except Exception as error:  # of the library, or the one of its versions that makes requests
        files = " tokenizer.json tokenizer_config.json config.json" if kind == "tokenizer" else ""
        at = f" --revision {revision}" if revision else ""
        download = f"with a connection: hf download {name}{files}{at}"
        remedies = {
            "GatedRepoError": f"accept its terms at {constants.ENDPOINT}/{name}: hf auth login",
            "RevisionNotFoundError": "name a branch, tag or commit",
            "RepositoryNotFoundError": "check the name, or: hf auth login",
            "LocalEntryNotFoundError": download,
            "OfflineModeIsEnabled": download,
        }
        known = [each.__name__ for each in type(error).__mro__ if each.__name__ in remedies]
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise (UsageError if known and remedies[known[0]] != download else ModtokError)(
            f"is not a path here, and {constants.ENDPOINT} does not give it ({reason})",
            where=name,
            remedy=remedies[known[0]] if known else "check HF_ENDPOINT, and repeat the command",
        ) from error
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            utils.enable_progress_bars()


# --- tiktoken ---


def _encoding_of(spec: str) -> str | None:
    """The encoding that a name of tiktoken means."""
    if not re.fullmatch(r"[a-z0-9][\w.:-]*", spec) or _FILE.fullmatch(spec) or is_there(spec):
        return None
    if not is_installed("tiktoken"):
        if _LIKE_TIKTOKEN.match(spec):
            require(f"{spec}: a name of tiktoken", published=["tiktoken"])
        return None
    import tiktoken

    if spec in tiktoken.list_encoding_names():
        return spec
    try:
        return tiktoken.encoding_name_for_model(spec)
    except KeyError:
        return None


def _rank_file(name: str, encoding: str) -> str:
    """`FILE#pattern` of an encoding in tiktoken's cache, which tiktoken fills and verifies."""
    import tiktoken

    ranks = _RANK_FILES.get(encoding, encoding)
    url = _RANKS.format(ranks)
    place = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    cache = Path(tempfile.gettempdir(), "data-gym-cache") if place is None else Path(place)
    file = cache / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
    try:
        tiktoken.get_encoding(ranks)
    except Exception as error:  # of the library that makes requests, or a damaged file
        raise ModtokError(
            f"is not a path here, and not in tiktoken's cache, and {url} is not reached",
            where=name,
            remedy=f"with a connection, download it, and copy it to {file}",
        ) from error
    if not file.is_file():
        raise ModtokError("tiktoken keeps no file", where=name, remedy="set TIKTOKEN_CACHE_DIR")
    return f"{file}#{'r50k' if ranks == 'p50k_base' else ranks.removesuffix('_base')}"
