"""Names of the hub and of tiktoken wherever a model or a tokenizer is taken."""

from __future__ import annotations

import hashlib
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import huggingface_hub.constants as library
import huggingface_hub.file_download
import orjson
import pytest
import safetensors.numpy
import tiktoken.load
from huggingface_hub import ModelCard

from helpers.contents import contents
from helpers.external_models import build
from helpers.external_tokenizers import external_tokenizer
from helpers.hub import COMMIT, Hub, serving
from helpers.toy_tokenizers import toy
from modtok_cli.base.hub import is_hub_name
from modtok_cli.base.progress import SILENT
from modtok_cli.base.public import located
from modtok_cli.tokenizer.open import load
from modtok_cli.training.settings import RunSettings

Here = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    place = tmp_path_factory.mktemp("repositories")
    toy().save(place / "modular")
    model = contents(build(place / "model"))
    weights = model.pop("model.safetensors")
    index = {
        "weight_map": dict.fromkeys(safetensors.numpy.load(weights), "model-1-of-1.safetensors")
    }
    parts = {
        "model.safetensors.index.json": orjson.dumps(index),
        "model-1-of-1.safetensors": weights,
    }
    others = {"pytorch_model.bin": b"x", "modeling.py": b"1 / 0", "onnx/config.json": b"{}"}
    tokenizer = {"tokenizer.json": external_tokenizer("byte-level"), "README.md": b"#"}
    return {
        "acme/tok": tokenizer,
        "acme/cut": tokenizer,
        "acme/gated": tokenizer,
        "acme/none": {"README.md": b"#"},
        "acme/ranks": {"config.json": b"{}", "model.safetensors": weights, "a.tiktoken": b"YQ== 0"},
        "acme/modular": contents(place / "modular"),
        "acme/tiny": {**model, **others, "model.safetensors": weights},
        "acme/parts": {**model, **others, **parts},
    }


@pytest.fixture
def hub(
    repositories: dict[str, dict[str, bytes]], workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Hub]:
    with serving(Hub(repositories, gated={"acme/gated"})) as served:
        monkeypatch.setattr(library, "ENDPOINT", served.endpoint)
        template = served.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(library, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(library, "HF_HUB_CACHE", str(workspace / "cache"))
        monkeypatch.setattr(library, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(huggingface_hub.file_download.time, "sleep", lambda _: None)
        (workspace / "fi.txt").write_text("Hyvää päivää, maailma\n" * 9)
        yield served


def test_what_one_shares_is_loaded_by_its_name(hub: Hub, here: Here, workspace: Path) -> None:
    toy().save(workspace / "shared")
    line = "extract -t shared --langs fi --hf part"
    assert here(*line.split())[0] == 0
    line = "slice acme/tiny --text fi.txt --must-have ids.txt -o small"
    (workspace / "ids.txt").write_text("300\n301\n")
    status, _, err = here(*line.split())
    assert status == 0, err
    names = {"me/all": "shared", "me/part": "part", "me/small": "small"}
    more = {name: contents(workspace / place) for name, place in names.items()}
    hub.repositories = {**hub.repositories, **more}
    for pair in (("me/all@main@fi", "shared@fi"), ("me/part", "part"), ("me/small", "small")):
        ids = [here("encode", "-t", each, "fi.txt")[1] for each in pair]
        assert ids[0] == ids[1] != ""
    words = ["Hyvää", "--max-tokens", "2"]
    written = [here("generate", each, *words)[:2] for each in ("me/small", "small")]
    assert written[0] == written[1] == (0, written[0][1])
    data = ModelCard.load(workspace / "small" / "README.md").data
    assert (data.base_model, data.language, data.license) == ("acme/tiny", None, None)


def test_tokenizers_and_models_of_the_hub(hub: Hub, here: Here, workspace: Path) -> None:
    status, out, err = here("check", "acme/tok", "acme/modular@main@fi", "fi.txt", "--no-keep")
    assert status == 0, err
    names = [orjson.loads(line)["tokenizer"] for line in out.splitlines()]
    assert names == ["acme/tok", "acme/modular@main@fi"]
    assert f"acme/tok: revision {COMMIT[:12]}" in err
    assert "tokenizer.json" in hub.fetched
    assert "README.md" not in hub.fetched
    assert load("acme/modular").languages == toy().languages
    status, out, err = here("cost", "-t", "acme/tok", "-t", "acme/modular@@fi", "--model", "1b")
    names = [orjson.loads(line)["tokenizer"] for line in out.splitlines()]
    assert (status, names) == (0, ["acme/tok", "acme/modular@@fi"]), err

    hub.fetched.clear()
    status, _, err = here("adopt", "acme/tiny@old", "--langs", "fi", "--data", "fi.txt", "-o", "t")
    assert status == 0, err
    assert "model.safetensors" not in hub.fetched
    for name in ("tiny", "parts"):
        status, _, err = here("slice", f"acme/{name}", "-t", "t", "--langs", "fi", "-o", name)
        assert (status, "modeling.py" in contents(workspace / name)) == (0, False), err
    assert {"model.safetensors", "model-1-of-1.safetensors", "LICENSE"} <= {*hub.fetched}
    # A branch is looked up once: the weights are of the commit of the configuration.
    assert [each for each in hub.asked if each[0] == "parts"].count(("parts", "main")) == 1
    assert not {"pytorch_model.bin", "modeling.py", "tokenizer.model"} & {*hub.fetched}
    hub.fetched.clear()
    assert here("export", "acme/ranks", "-o", "x.gguf")[0] != 0  # no model, but all files of one
    assert "a.tiktoken" in hub.fetched
    settings = located(None, RunSettings(init_from=Path("acme/tiny"), steps=3), SILENT)
    assert (settings.init.init_from / "config.json").is_file()
    assert settings.schedule.steps == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("acme/typo", "Repository Not Found"),
        ("acme/typo", "; check the name, or: hf auth login"),
        ("acme/gated", "; accept its terms at"),
        ("acme/tok@v9", "; name a branch, tag or commit"),
        ("acme/empty", "; name a branch, tag or commit"),
        ("acme/busy", "429"),
        ("acme/broken", "502"),
        ("acme/page", "JSONDecodeError"),
        ("acme/other", "; check HF_ENDPOINT, and repeat the command"),
        ("acme/none", "acme/none: has no tokenizer that modtok reads"),
        ("acme/cut", "; check HF_ENDPOINT, and repeat the command"),
        ("acme/offline", "hf download acme/offline tokenizer.json"),
        ("gpt-4o", "o200k_base.tiktoken is not reached; with a connection, download it, and copy"),
        ("gpt-5", "name of tiktoken requires tiktoken; pip install 'modtok[published]'"),
    ],
)
def test_each_failure_is_one_line(
    hub: Hub, here: Here, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.instead = {
        "acme/empty": (404, {"X-Error-Code": "RevisionNotFound"}, b""),
        "acme/busy": (429, {}, b""),
        "acme/broken": (502, {}, b""),
        "acme/page": (200, {}, b"<html>sign in</html>"),
        "acme/other": (200, {}, b"[]"),
    }
    hub.cut = {"tokenizer.json"} if name == "acme/cut" else set()
    monkeypatch.setattr(library, "HF_HUB_OFFLINE", name == "acme/offline")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "ranks")
    monkeypatch.setattr(tiktoken.load, "read_file", lambda _: 1 / 0)
    if name == "gpt-5":
        monkeypatch.setitem(sys.modules, "tiktoken", None)
    status, out, err = here("check", name, "fi.txt")
    assert (status != 0, out, err.count("\n"), message in err) == (True, "", 1, True), err


def test_what_is_in_the_cache_needs_no_connection(
    hub: Hub, here: Here, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert here("inspect", "acme/tok")[0] == 0
    monkeypatch.setattr(library, "HF_HUB_OFFLINE", True)
    assert here("inspect", "acme/tok")[0] == 0
    status, _, err = here("transplant", "acme/tok", "-o", "new")
    assert (status, "hf download acme/tok\n" in err) == (1, True), err
    part = workspace / "cache" / "models--acme--modular"  # without the list of its files
    (part / "snapshots" / COMMIT).mkdir(parents=True)
    (part / "refs").mkdir()
    (part / "refs" / "main").write_text(COMMIT)
    status, _, err = here("inspect", "acme/modular")
    assert (status, "hf download acme/modular tokenizer.json" in err) == (1, True), err
    url = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
    ranks = b"".join(b"%b %d\n" % (b64encode(bytes([i])), i) for i in range(256))
    (workspace / hashlib.sha1(url.encode()).hexdigest()).write_bytes(ranks)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(workspace))
    monkeypatch.setattr(tiktoken, "get_encoding", lambda _: None)
    status, out, err = here("check", "gpt-4o", "fi.txt", "--no-keep")
    assert (status, orjson.loads(out)["tokenizer"]) == (0, "gpt-4o"), err


def test_a_cached_model_with_other_weights(
    hub: Hub, here: Here, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As other programs leave it there: the files are there, and are of no use here."""
    assert here("export", "acme/none", "-o", "x.gguf")[0] != 0
    place = workspace / "cache" / "models--acme--none" / "snapshots" / COMMIT
    place.mkdir(parents=True, exist_ok=True)
    (place / "pytorch_model.bin").write_bytes(b"x")
    monkeypatch.setattr(library, "HF_HUB_OFFLINE", True)
    status, _, err = here("export", "acme/none", "-o", "x.gguf")
    said = "has no weights in safetensors, and the hub is not reached; with a connection, repeat"
    assert (status, said in err, err.count("\n")) == (1, True, 1), err


def test_what_is_a_path(workspace: Path) -> None:
    assert is_hub_name("acme/tok")
    assert is_hub_name("acme/tok@main@fr,en")
    paths = ("tokenizer", "acme/tok/x", "/acme/tok", "runs/latest", "acme/fi.txt", "acme/t.json")
    assert not any(map(is_hub_name, paths))
    (workspace / "acme").mkdir()
    assert not is_hub_name("acme/tok")
