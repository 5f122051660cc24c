"""Files that are read execute nothing and write nowhere else."""

from __future__ import annotations

import ast
import io
import json
import pickletools
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zstandard

from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.corpus import language
from modtok_cli.corpus.build import corpus_build
from modtok_cli.corpus.build_plan import BuildSettings, begin, make_plan
from modtok_cli.corpus.publish import check_places, replaced_folders
from modtok_cli.model.draft.formats import FORMATS
from modtok_cli.text.streams import read_chunks
from modtok_cli.tokenizer.formats.hugging_face import LibraryTokenizer
from modtok_cli.tokenizer.modular_directory import read_references
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_tokenizer

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "modtok_cli").rglob("*.py"))

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
NAMES = {"eval", "exec", "compile", "__import__", "execfile"}


def offences(source: str) -> Iterator[tuple[int, str]]:
    """(line, name) of every call that could execute the content of a file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in (getattr(node, "module", None), *(alias.name for alias in node.names)):
                if name and name.split(".")[0] in MODULES:
                    yield node.lineno, f"import {name}"
        elif isinstance(node, ast.Call):
            yield from _of_call(node)


def _of_call(node: ast.Call) -> Iterator[tuple[int, str]]:
    called = ast.unparse(node.func)
    last = called.split(".")[-1]
    words = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    if isinstance(node.func, ast.Name) and last in NAMES:
        yield node.lineno, called
    if called in ("torch.load", "load_state") and not _is(words.get("weights_only"), True):
        yield node.lineno, "torch.load without weights_only"
    if called.startswith("yaml.") and last not in ("safe_load", "safe_dump", "YAMLError"):
        yield node.lineno, called
    if called in ("torch.save", "os.system", "os.popen", "joblib.load"):
        yield node.lineno, called
    if last in ("all_gather_object", "broadcast_object_list", "gather_object"):
        yield node.lineno, f"{last} pickles"
    for name in ("allow_pickle", "trust_remote_code", "shell"):
        if name in words and not _is(words[name], False):
            yield node.lineno, f"{name}="


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


# SGLang reads a list of token ids only as a file of torch.save; see the test of its content.
ALLOWED = ("modtok_cli/model/draft/formats.py", "torch.save")


def test_the_one_file_of_torch_names_no_code() -> None:
    data = FORMATS["sglang"].content([0, 300, 70_000], 80_000)
    assert torch.load(io.BytesIO(data), weights_only=True) == [0, 300, 70_000]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        used = {code.name for code, _, _ in pickletools.genops(archive.read(name))}
    assert not used & {"GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE"}
    assert not {name for name in used if "EXT" in name or "PERSID" in name}


def test_sources_execute_nothing_from_data() -> None:
    assert len(SOURCES) > 150
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in SOURCES
        for line, what in offences(path.read_text(encoding="utf-8"))
        if (str(path.relative_to(ROOT)), what) != ALLOWED
    ]
    assert found == []


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("security") / "tokenizer"
    bpe_seq(["en", "fi"], data=SAMPLE / "data", output=path, k=300)
    return path


def test_linked_content_must_match_the_manifest(tokenizer: Path, tmp_path: Path) -> None:
    """Hubs store files behind links; other content is refused."""
    copy = tmp_path / "copy"
    shutil.copytree(tokenizer, copy)
    real = tmp_path / "blob"
    (copy / "references" / "en.json").rename(real)
    (copy / "references" / "en.json").symlink_to(real)
    assert set(read_references(copy)) == {"en", "fi"}
    (tmp_path / "secret").write_text("secret")
    (copy / "references" / "en.json").unlink()
    (copy / "references" / "en.json").symlink_to(tmp_path / "secret")
    with pytest.raises(ModtokError, match="changed after it was written") as caught:
        read_references(copy)
    assert "secret" not in str(caught.value)


def test_corpus_report_cannot_name_directories_to_remove(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name in ("fi", "mine", "both", "../up"):
        (data / name).mkdir(parents=True)
    for name in ("fi", "both"):
        (data / name / "00000.jsonl.zst").write_bytes(b"")
    for name in ("mine", "both"):
        (data / name / "thesis.tex").write_text("years of work")
    (data / "link").symlink_to(tmp_path)
    names = ["fi", "mine", "both", "../up", "link", "/etc", ".", "..", "", 7, None, "gone"]
    rows = [{"language": name} for name in names]
    report: dict[str, object] = {"languages": rows, "dropped": [], "changed": [], "bad": []}
    (data / "corpus.json").write_text(json.dumps(report))
    assert replaced_folders(data / "corpus.json", data) == ["fi"]
    # Nor does --force remove what no build wrote.
    (data / "file").write_text("years of work")
    for name, record in (("other", b'{"text": "x"}\n'), ("damaged", b"x\n")):
        (data / name).mkdir()
        (data / name / "00000.jsonl.zst").write_bytes(zstandard.compress(record))
    for name in ("mine", "both", "file", "other", "damaged"):
        with pytest.raises(UsageError, match=f"{name}: holds files that modtok did not write"):
            check_places([data / name], force=True)
    check_places([data / "fi", data / "gone"], force=True)


def test_moved_plan_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the directory to write to."""
    page = tmp_path / "page.html"
    page.write_text("<p>text</p>")
    monkeypatch.chdir(tmp_path)
    plan = make_plan([page], BuildSettings(), Path("a"))
    begin(plan.work, plan.content)
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(UsageError, match="an unfinished build"):
        corpus_build([page], output="b")


def test_language_model_labels_are_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each becomes a directory."""

    class Model:
        def predict(self, text: str, **options: object) -> tuple[list[str], list[float]]:
            return ["__label__../../up", "__label__fi"], [0.5, 0.5]

    monkeypatch.setattr(language, "load_fasttext", lambda path: Model())
    with pytest.raises(ModtokError, match="invalid language label"):
        language.LanguageModel(Path("x.bin"))


def _bomb(path: Path, compressor: Any) -> Path:
    """256 MiB of zeros, in kilobytes."""
    piece = bytes(1 << 24)
    parts = [compressor.compress(piece) for _ in range(16)]
    path.write_bytes(b"".join([*parts, compressor.flush()]))
    return path


def _zstd() -> Any:
    return zstandard.ZstdCompressor(level=3).compressobj()


def test_decompression_bomb_is_read_in_pieces(tmp_path: Path) -> None:
    gzip = zlib.compressobj(1, wbits=31)
    for name, compressor, most in (("zst", _zstd(), 128 << 20), ("gz", gzip, 4 << 20)):
        sizes = [len(chunk) for chunk in read_chunks(_bomb(tmp_path / f"b.txt.{name}", compressor))]
        assert sum(sizes) == 1 << 28
        assert max(sizes) <= most


def test_endless_line_is_refused_before_memory_is_used(tmp_path: Path) -> None:
    """A document has a maximal size."""
    bomb = _bomb(tmp_path / "bomb.txt.zst", _zstd())
    code = (
        "import sys\n"
        "from modtok_cli.base.errors import ModtokError\n"
        "from modtok_cli.text import reading, readers\n"
        "short = reading.Reading(longest=64 << 20)\n"
        "try:\n"
        "    for document in readers.read_documents(sys.argv[1], short): pass\n"
        "except ModtokError as error:\n"
        "    print(error)\n"
        # Not ru_maxrss: a process begins with what its parent had.
        "lines = open('/proc/self/status').read().splitlines()\n"
        "print(next(int(line.split()[1]) >> 10 for line in lines if line[:6] == 'VmHWM:'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(bomb)],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    said, megabytes = done.stdout.splitlines()
    assert "more than 67,108,864 bytes in one document" in said
    assert said.startswith(f"{bomb}:1:")
    assert int(megabytes) < 600


def test_special_tokens_in_text_are_text(tokenizer: Path) -> None:
    """In encoding, counting, and in the input of an external tokenizer."""
    opened = open_tokenizer(str(tokenizer))
    specials = ModularTokenizer.load(tokenizer).vocabulary.specials
    assert specials
    for special in specials:
        text = f"a {special} b{special}"
        for ids in (opened.encode(text), *opened.encode_batch([text, text])):
            assert (np.asarray(ids) >= len(specials)).all()
            assert opened.decode(ids) == text
        library = LibraryTokenizer("x", opened.to_json(), "x")  # type: ignore[attr-defined]
        assert (library.encode(text) >= len(specials)).all()
        assert (library.encode_batch([text])[0] >= len(specials)).all()
        asked = opened.encode(text, specials=True)  # type: ignore[call-arg]
        assert (np.asarray(asked) < len(specials)).sum() == 2
