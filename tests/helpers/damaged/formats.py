"""Every format that modtok reads: a file of it, how it is damaged, and what reads it.

A reader does what a command would do with the file, to the point where results depend on
it. It may raise `ModtokError`; anything else is a defect.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import orjson
import torch

from helpers.damaged import readers
from helpers.damaged.mutations import mutate, mutate_json
from modtok_cli.base.progress import SILENT, Silent
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.settings_file import load_settings
from modtok_cli.construct.journal import JournalDir
from modtok_cli.construct.states import merges_from_arrays
from modtok_cli.evaluate import mcq
from modtok_cli.evaluate.compare import compare
from modtok_cli.evaluate.documents import Documents
from modtok_cli.evaluate.generation import TASKS, pieces_of
from modtok_cli.evaluate.parallel_text import find_parallel
from modtok_cli.evaluate.results import Evaluation, data_digest, example
from modtok_cli.evaluate.text_scores import rouge
from modtok_cli.learn.sequential import SequentialLearner
from modtok_cli.model.load import load
from modtok_cli.reports.report import report
from modtok_cli.tokenizer.encoding.lines import decode
from modtok_cli.tokenizer.manifest import _checksum
from modtok_cli.tokenizer.modular_directory import read_references
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_bytes, open_tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.training import checkpoint
from modtok_cli.training.rundir import RunDirectory
from modtok_cli.training.stored_config import config_from_json

TEXT = "Ein hübscher Text, 1234 <s> καλημέρα\n\n def f(x): pass"


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        name: what it is called in results.
        file: the sound file, below the directory of samples; all beside it in the same
            directory, if `beside`, is copied along.
        read: reads the damaged file at a path.
        as_json: half of the damages keep it JSON.
        repair: corrects checksums, so that the checks behind them are reached.
        needs: which samples it takes: "light", "corpus" or "run"; or "library", a light one
            whose library may end the process, which is tried in children only.
    """

    name: str
    file: str
    read: Callable[[Path], object]
    as_json: bool = False
    beside: bool = False
    repair: Callable[[Path], None] | None = None
    needs: str = "light"

    def damage(self, data: bytes, rng: random.Random) -> bytes:
        if self.as_json and rng.random() < 0.7:
            return mutate_json(data, rng)
        return mutate(data, rng)


def _tokenizer(path: Path) -> None:
    tokenizer = open_tokenizer(str(path))
    ids = tokenizer.encode(TEXT)
    assert len(ids) == 0 or ids.min() >= 0, "a negative id"
    tokenizer.encode_batch([TEXT, "", "a"])
    tokenizer.decode(ids)
    tokenizer.decode_bytes(ids)


def _ours(path: Path) -> None:
    """A tokenizer of ours: what it encodes decodes to itself, and it is written again."""
    tokenizer = open_tokenizer(str(path))
    ids = tokenizer.encode(TEXT)
    if isinstance(tokenizer, Subtokenizer):
        assert tokenizer.decode(ids) == TEXT, "does not give the text back"
        tokenizer.to_json()
    else:
        tokenizer.decode(ids)


def _above(path: Path, name: str) -> Path:
    """The nearest directory above that has an entry of that name."""
    return next((each for each in path.parents if (each / name).exists()), path.parent)


def _directory(path: Path) -> None:
    directory = _above(path, "manifest.json")
    tokenizer = ModularTokenizer.load(directory)
    for name in tokenizer.languages:
        subset = tokenizer.subset([name])
        assert subset.decode(subset.encode(TEXT)) == TEXT, "does not give the text back"
        subset.to_json()
    for language, data in read_references(directory).items():
        open_bytes(data, language, language).encode(TEXT)
    open_tokenizer(f"{directory}@{tokenizer.languages[0]}").encode(TEXT)


def _sign(path: Path) -> None:
    """Checksums of a modular directory as an ill-wisher would set them right."""
    directory = _above(path, "manifest.json")
    place = directory / "manifest.json"
    try:
        manifest = json.loads(place.read_bytes())
        for name, entry in manifest["files"].items():
            if (directory / name).is_file():
                entry["sha256"] = hashlib.sha256((directory / name).read_bytes()).hexdigest()
        manifest["checksum"] = _checksum(manifest)
        place.write_bytes(json.dumps(manifest).encode())
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
        return


def _settings(path: Path) -> None:
    load_settings(command_tree(), path.parent)


def _ids(path: Path) -> None:
    tokenizer = open_tokenizer(str(SAMPLES / "bpe"))
    for whole in (False, True):
        list(decode([str(path)], tokenizer, global_ids=whole))


def _journal(path: Path) -> None:
    name = path.parent.name.removeprefix(".").removesuffix(".resume")
    kept = JournalDir(path.parent.parent / name, {"k": 330}).read()
    if kept is not None:
        notes = kept.notes
        learned = merges_from_arrays(kept.arrays, notes["languages"], notes["specials"])
        SequentialLearner(330, learned.specials, start=learned)


def _report(path: Path) -> None:
    place = path.parent.parent
    report(place, output=place / "page.html", force=True, progress=Silent())


def _questions(path: Path) -> None:
    """As far as the model: what is asked, how it is put, and what would be kept of it."""

    data, settings = path.parents[2], mcq.McqSettings()
    own, foreign = mcq.tasks_of(settings.tasks, data)
    assert not foreign
    jobs, skipped = mcq._collect_jobs(own, ["en"], data, settings, SILENT)
    Evaluation(skipped=skipped).require_complete()
    for job in jobs:
        assert data_digest(mcq._texts(job))
        for row in (*job.shown, *job.questions):
            assert 0 <= row.answer < len(row.choices)
            for text in (job.suite.render(row.question, row.context, "en"), *row.choices):
                text.encode()
            kept = example(job.suite.task, "en", row.name, {"acc": 1.0}, choices=row.choices)
            orjson.dumps(kept)
        names = [row.name for row in job.questions]
        assert len(set(names)) == len(names), "two of one name"


def _to_summarize(path: Path) -> None:
    shots, tests = Documents(path.parent.parent).of("en", 2)
    for row in (*shots, *tests):
        for piece in pieces_of(TASKS["sum"], row, whole=True):
            piece.text.encode()
        assert 0 <= rouge(row.target, row.source)["rougeL"] <= 1


def _parallel(path: Path) -> None:
    shots, tests = find_parallel(path.parent.parent).pair("en", "fi", 2)
    for row in (*shots, *tests):
        text = "".join(piece.text for piece in pieces_of(TASKS["mt"], row, whole=True))
        assert text.count("\n") == 1, "an example of more than a line"


def _compared(path: Path) -> None:
    for row in compare(path, path):
        assert row["difference"] == 0
        assert row["p"] == 1
    compare(SAMPLES / "kept.jsonl", path)


def _corpus_report(path: Path) -> None:
    from modtok_cli.corpus.build_report import load_report

    load_report(path.parent)


def _plan(path: Path) -> None:
    from modtok_cli.corpus.build_plan import read_json

    read_json(path)


def _pages(path: Path) -> None:
    from modtok_cli.corpus.input_pages import read_pages

    for page in read_pages(path):
        del page


def _html(path: Path) -> None:
    """As the build does: in a process of its own, whose death is the page's fault."""
    from modtok_cli.corpus.input_pages import decode
    from modtok_cli.corpus.sandbox import Failed

    try:
        _sandbox().main_text(decode(path.read_bytes(), None, True))
    except Failed:
        return


@cache
def _sandbox():
    from modtok_cli.corpus.sandbox import Sandbox

    return Sandbox()


def _quality(path: Path) -> None:
    from modtok_cli.corpus.quality import QualityModel

    QualityModel(path).score(TEXT)


def _language(path: Path) -> None:
    from modtok_cli.corpus.language import LanguageModel

    LanguageModel(path).identify(TEXT)


def _run(path: Path) -> None:
    model = load(_above(path, "checkpoints"), ["en"], tokenizer=SAMPLES / "bpe")
    model.logits(torch.tensor([[model.end_of_text, *model.encode_in("a text")]]))


def _resume(path: Path) -> None:
    directory = RunDirectory(_above(path, "checkpoints"))
    config_from_json(directory.read_config()["config"])
    found = checkpoint.newest(directory.checkpoints, Silent())
    assert found is not None
    directory.open_metrics(int(found[1]["step"]))
    directory.close()


def _slice(path: Path) -> None:
    model = load(path.parent)
    model.logits(torch.tensor([[model.end_of_text, *model.encode_in("a text")]]))


def _crc(path: Path) -> None:
    """Set right what state.json says of the files of a checkpoint."""
    try:
        state = json.loads((path.parent / "state.json").read_bytes())
        del state["crc"]
        for name, facts in state["files"].items():
            data = (path.parent / name).read_bytes()
            facts |= {"bytes": len(data), "crc": zlib.crc32(data)}
        (path.parent / "state.json").write_bytes(json.dumps(state).encode())
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return


SAMPLES = Path()  # set by whoever makes them

STEP = "runs/it/checkpoints/step-00000004"
FORMATS = (
    Format("text", "fi.txt", readers.documents),
    Format("text, zstd", "fi.txt.zst", readers.documents),
    Format("JSON lines", "en.jsonl", readers.documents, as_json=True),
    Format("JSON lines, gzip", "en.jsonl.gz", readers.documents),
    Format("CSV", "rows.csv", readers.documents),
    Format("CSV, gzip", "rows.csv.gz", readers.documents),
    Format("TSV with a header", "rows.tsv", readers.documents),
    Format("Parquet", "rows.parquet", readers.documents, needs="library"),
    Format("Arrow", "rows.arrow", readers.documents, needs="library"),
    Format("Parquet of two languages", "rows.parquet", readers.mixed, needs="library"),
    Format("CSV of two languages", "rows.csv", readers.mixed),
    Format("JSON lines of two languages", "rows.jsonl", readers.mixed, as_json=True),
    Format("text, counted", "fi.txt", readers.counted),
    Format("word counts", "fi.counts", readers.counts),
    Format("word counts, merged on disk", "fi.counts", readers.merged),
    Format("word counts as text", "fi.counts.tsv", readers.tsv),
    Format("word counts as text, zstd", "fi.counts.tsv.zst", readers.tsv),
    Format("morphemes", "morphemes/fi.tsv", readers.morphemes),
    Format("morphemes of MorphScore", "morphemes/fi.csv", readers.morphemes),
    Format("tokenizer.json, BPE", "bpe.json", _ours, as_json=True),
    Format("tokenizer.json, Unigram", "unigram.json", _ours, as_json=True),
    Format("tokenizer.json, least tokens", "least.json", _ours, as_json=True),
    Format("tokenizer.json, foreign", "external.json", _tokenizer, as_json=True),
    Format("SentencePiece model, ours", "unigram.model", _tokenizer),
    Format("SentencePiece model, foreign", "external.model", _tokenizer),
    Format("tiktoken ranks", "ranks.tiktoken", _tokenizer),
    Format("tekken", "tekken.json", _tokenizer, as_json=True),
    Format("manifest", "bpe/manifest.json", _directory, as_json=True, beside=True),
    Format("manifest, signed anew", "bpe/manifest.json", _directory, True, True, _sign),
    Format("membership", "bpe/arrays.safetensors", _directory, False, True, _sign),
    Format("membership, least tokens", "least/arrays.safetensors", _directory, False, True,
           _sign),
    Format("tokenizer.json of a directory", "bpe/tokenizer.json", _directory, True, True, _sign),
    Format("the same, Unigram", "unigram/tokenizer.json", _directory, True, True, _sign),
    Format("the same, least tokens", "least/tokenizer.json", _directory, True, True, _sign),
    Format("reference", "bpe/references/fi.json", _directory, True, True, _sign),
    Format("journal", ".half.resume/journal.json", _journal, as_json=True, beside=True),
    Format("journal, arrays", ".half.resume/state.safetensors", _journal, beside=True),
    Format("token ids", "ids.jsonl", _ids, as_json=True),
    Format("modtok.toml", "modtok.toml", _settings),
    *(
        Format(f"rows of {name}", f"shown/results/{name}.jsonl", _report, as_json=True)
        for name in ("nsl", "fairness", "origin", "evaluation")
    ),
    Format("questions", "asked/mcq/facts/en.jsonl", _questions, True, True),
    Format("questions that are shown", "asked/mcq/facts/en.train.jsonl", _questions, True, True),
    Format("task.yaml", "asked/mcq/facts/task.yaml", _questions, beside=True),
    Format("task.yaml, its values", "asked/mcq/endings/task.yaml", _questions, True, True),
    Format("documents with summaries", "asked/sum/en.jsonl", _to_summarize, True, True),
    Format("parallel text", "asked/mt/test.tsv", _parallel, beside=True),
    Format("kept examples", "kept.jsonl", _compared, as_json=True),
    *(
        Format(f"{name} of a published model", f"published/{name}", reader, as_json, True)
        for reader, as_json, names in (
            (readers.adopted, True, ("tokenizer.json", "tokenizer_config.json",
                                           "generation_config.json")),
            (readers.sliced, True, ("config.json", "model.safetensors.index.json")),
            (readers.sliced, False, ("model-00001-of-00002.safetensors",)),
        )
        for name in names
    ),
    Format("tokenizer.json of a sliced model", "published/tokenizer.json", readers.sliced,
           True, True),
    Format("adopted directory, tokenizer.json", "adopted/tokenizer.json", _directory, True, True,
           _sign),
    Format("adopted directory, membership", "adopted/arrays.safetensors", _directory, False, True,
           _sign),
    Format("token ids to keep", "keep.json", readers.ids_to_keep, as_json=True),
    Format("recipe", "recipe.toml", readers.recipe),
    Format("WARC", "crawl.warc", _pages, needs="corpus"),
    Format("WARC, gzip", "crawl.warc.gz", _pages, needs="corpus"),
    Format("WARC, zstd", "crawl.warc.zst", _pages, needs="corpus"),
    Format("HTML", "page.html", _html, needs="corpus"),
    Format("quality model", "quality.bin", _quality, needs="corpus"),
    Format("language model", "languages.bin", _language, needs="corpus"),
    Format("language model, quantized", "languages.ftz", _language, needs="corpus"),
    Format("report of a corpus", "made/corpus.json", _corpus_report, True, True, needs="corpus"),
    Format("plan of a build", "made/.corpus-build/plan.json", _plan, True, True, needs="corpus"),
    Format("config.json of a run", "runs/it/config.json", _run, True, True, needs="run"),
    Format("config.json on resume", "runs/it/config.json", _resume, True, True, needs="run"),
    Format("metrics", "runs/it/metrics.jsonl", _resume, True, True, needs="run"),
    Format("state of a checkpoint", f"{STEP}/state.json", _run, True, True, needs="run"),
    Format("state on resume", f"{STEP}/state.json", _resume, True, True, needs="run"),
    Format("shard", f"{STEP}/shard-0-of-1.safetensors", _run, False, True, needs="run"),
    Format("shard, signed anew", f"{STEP}/shard-0-of-1.safetensors", _run, False, True, _crc,
           "run"),
    Format("modtok.json of a slice", "slice/modtok.json", _slice, True, True, needs="run"),
    Format("weights of a slice", "slice/model.safetensors", _slice, False, True, needs="run"),
    Format("config.json of a slice", "slice/config.json", readers.transplanted, True, True,
           needs="run"),
    Format("weights of a slice, in another model", "slice/model.safetensors",
           readers.transplanted, False, True, needs="run"),
    Format("tokenizer.json of a slice", "slice/tokenizer.json", _slice, True, True, needs="run"),
)  # fmt: skip


def place(form: Format, samples: Path, scratch: Path) -> Path:
    """Copy what the file needs around it; where the damaged one goes."""
    top = Path(form.file).parts[0] if form.beside else None
    if form.file.startswith("runs/"):
        top = "runs/it"
    if top:
        shutil.copytree(samples / top, scratch / top, dirs_exist_ok=True)
    (scratch / form.file).parent.mkdir(parents=True, exist_ok=True)
    return scratch / form.file
