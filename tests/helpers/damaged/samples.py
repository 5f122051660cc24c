"""One small sound file of every format that we read, made by the code that writes it."""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import orjson
import zstandard

from helpers.external_tokenizers import external_tokenizer, sentencepiece_model
from helpers.handmade_tokenizers import write_ranks, write_tekken
from helpers.hf_models import save_model
from helpers.sample import SAMPLE, sample_text
from modtok_cli.base.files import write_lines
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.construct.journal import JournalDir, JournalState
from modtok_cli.construct.states import merges_to_arrays
from modtok_cli.construct.unigram_merge import unigram_merge
from modtok_cli.evaluate.results import ResultBuilder, example
from modtok_cli.measure.fairness import fairness
from modtok_cli.measure.nsl import nsl
from modtok_cli.measure.origin import origin
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.table_files import save_counts, sources_of
from modtok_cli.tokenizer.adopted.adopt import adopt
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.training.recipe import PRESETS
from modtok_cli.training.settings import RunSettings

LANGUAGES = ("en", "fi")
RECIPE = """[architecture]
model = "tiny"

[schedule]
steps = 300
lr = 3e-4
"""


def light_samples(root: Path) -> None:
    """Text, tables, tokenizers, pages, settings, results: all that takes no training."""
    _texts(root)
    _rows(root)
    data = root / "data"
    bpe_seq(LANGUAGES, data=data, output=root / "bpe", k=330)
    bpe_merge(LANGUAGES, data=data, output=root / "least", k=330, references=False)
    unigram_merge(LANGUAGES, data=data, output=root / "unigram", k=330, references=False)
    _tables(root)
    _plain_tokenizers(root)
    _external_tokenizers(root)
    _journal(root)
    _results(root)
    _asked(root)
    _models(root)


def corpus_samples(root: Path) -> None:
    """Crawled pages and the files of a build; needs the extra `corpus`."""
    from helpers.crawl import around, compressed, http, page, paragraphs, record
    from helpers.fasttext_files import write_model

    languages = {"the": "en", "and": "en", "että": "fi", "ja": "fi"}
    write_model(root / "languages.bin", languages, ["en", "fi"])
    write_model(root / "languages.ftz", languages, ["en", "fi"], quantized=True)
    body = paragraphs("en")
    records = [*around(), record(http(page(body[:4]))), record(http(page(paragraphs("fi")[:4])))]
    packed = "Content-Type: text/html\r\nContent-Encoding: gzip"
    records.append(record(http(gzip.compress(page(body[4:8]), mtime=0), packed)))
    for how in ("plain", "gz", "zst"):
        suffix = "" if how == "plain" else f".{how}"
        content = b"".join(compressed(raw, how) for raw in records)
        (root / f"crawl.warc{suffix}").write_bytes(content)
    (root / "page.html").write_bytes(page(body[:4]))
    words = dict.fromkeys(["the", "of", "and", "to"], "good") | {"x1": "bad", "x2": "bad"}
    write_model(root / "quality.bin", words, ["good", "bad"])
    _plan(root)


def _plan(root: Path) -> None:
    """What a build notes: its plan, its report."""
    from modtok_cli.corpus.build_plan import BuildSettings, begin, make_plan

    made = root / "made"
    settings = BuildSettings(("en",))
    plan = make_plan([root / "crawl.warc"], settings, made)
    begin(plan.work, plan.content)
    row = {"language": "en", "pages": 3, "paragraphs": 9, "characters": 999}
    empty: dict[str, list] = {"dropped": [], "changed": [], "bad": []}
    report = {"format": "modtok corpus", "build": {}, "languages": [row], **empty}
    (made / "corpus.json").write_bytes(orjson.dumps(report))


def run_samples(root: Path) -> None:
    """A run of a few steps and a slice of it; needs the extra `lm`, after `light_samples`."""
    from modtok_cli.model.slice.slice import slice as slice_model
    from modtok_cli.training.loop import pretrain

    know_toy()
    pretrain(
        RunSettings(
            model="toy-faults",
            sampling="sub:1",
            data=root / "data",
            tokenizer=root / "bpe",
            runs=root / "runs",
            workers=0,
            save_every=2,
            eval_every=4,
            name="it",
        )
    )
    slice_model(root / "runs" / "it", ["en"], output=root / "slice", tokenizer=root / "bpe")


def _asked(root: Path) -> None:
    """What evaluation reads: questions, tasks, documents, parallel text, and what it kept."""
    place = root / "asked"
    for name in ("facts/en.jsonl", "facts/en.train.jsonl", "facts/task.yaml", "endings/en.jsonl"):
        (place / "mcq" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SAMPLE / "tasks" / "mcq" / name, place / "mcq" / name)
    # JSON is YAML too, and damage of values keeps it so.
    suite = {"task": "endings", "prompt": "{context} {question}", "shots": 0}
    suite |= {"normalization": "characters", "title": "Endings", "about": "how a text goes on"}
    (place / "mcq" / "endings" / "task.yaml").write_text(json.dumps(suite))
    shutil.copytree(SAMPLE / "tasks" / "sum", place / "sum")
    (place / "mt").mkdir()
    texts = [(root / "data" / f"{name}.jsonl").read_bytes().splitlines() for name in LANGUAGES]
    lines = [[json.loads(line)["text"].split("\n")[0] for line in text[:20]] for text in texts]
    rows = [LANGUAGES, *zip(*lines, strict=False)]
    text = "".join("\t".join(row).replace("\r", "") + "\n" for row in rows)
    (place / "mt" / "test.tsv").write_text(text, "utf-8")
    _kept(root / "kept.jsonl", root / "shown" / "results" / "evaluation.jsonl")


def _kept(path: Path, results: Path) -> None:
    """What `modtok eval --examples` keeps of translations and of questions; and its rows."""
    lines = [
        (SAMPLE / "parallel" / f"{language}.txt").read_text("utf-8").splitlines()[:12]
        for language in LANGUAGES
    ]
    rows = [
        example(
            "mt", "en-fi", str(number), {"in language": float(number % 3 > 0)},
            source=source, reference=target, output=target[number:], lowercase=False,
        )
        for number, (source, target) in enumerate(zip(*lines, strict=True), 1)
    ]  # fmt: skip
    for language in LANGUAGES:
        for number in range(6):
            scores = {"acc_norm": float(number % 2), "acc": 0.0}
            facts = {"question": "?", "choices": ["a", "b"], "answer": 0}
            rows.append(example("facts", language, f"q{number}", scores, **facts))
    write_lines(path, rows)
    signed = ("facts|data:ab12|infer:lang:en", {"checkpoint": "it@4/cd34"})
    sheets = [
        ResultBuilder("facts", name, 6, 2, "lang", *signed, {"chance": 50.0}) for name in LANGUAGES
    ]
    sheets.append(ResultBuilder("mt", "en-fi", 12, 5, "lang", *signed, {"tokens": 99}))
    for sheet in sheets:
        sheet.add_mean("BLEU" if sheet.task == "mt" else "acc_norm", [0.0, 1.0, 1.0])
    told = [result.as_row() for sheet in sheets for result in sheet.results]
    results.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in told))


def know_toy() -> None:
    """Make the size of the sample run known to this process."""
    shape = {"layers": 1, "hidden_size": 32, "head_width": 8, "ffn": 48, "heads": 4, "kv_heads": 2}
    data = {"seq_length": 32, "batch_size": 2, "micro_batch": 1}
    PRESETS["toy-faults"] = {**shape, **data, "steps": 4, "warmup": 1, "lr": 1e-2}


def _texts(root: Path) -> None:
    data = root / "data"
    sample_text(data, *LANGUAGES)
    raw = (data / "en.jsonl").read_bytes()
    text = (SAMPLE / "parallel" / "fi.txt").read_bytes()
    (root / "fi.txt").write_bytes(text)
    (root / "fi.txt.zst").write_bytes(zstandard.compress(text))
    (root / "en.jsonl").write_bytes(raw)
    (root / "en.jsonl.gz").write_bytes(gzip.compress(raw, mtime=0))
    (root / "ids.jsonl").write_bytes(b'{"ids": [1, 2, 300]}\n[301, 5, 17]\n7 8 9\n')
    (root / "modtok.toml").write_text(
        '[default]\ndata = "text"\nk = 16000\n\n[bpe-seq]\nlangs = ["en", "fi"]\npasses = 2\n'
        '[corpus.count]\nthreads = 3\n[pretrain]\nlr = 1e-3\nsampling = "sub:1"\n',
        encoding="utf-8",
    )


def _rows(root: Path) -> None:
    """Tables: texts of two languages in every format with columns, and morphemes."""
    texts = ["A house, a tree.", 'Talo ja "puu".\nPuu on korkea.', None]
    labels = ["en", "fi", "fi"]
    for suffix, delimiter in (("csv", ","), ("tsv", "\t")):
        written = io.StringIO()
        rows = csv.writer(written, delimiter=delimiter, lineterminator="\n")
        rows.writerows([("text", "lang"), *zip(texts, labels, strict=True)])
        (root / f"rows.{suffix}").write_text(written.getvalue(), "utf-8")
    (root / "rows.csv.gz").write_bytes(gzip.compress((root / "rows.csv").read_bytes(), mtime=0))
    records = [{"text": text, "lang": label} for text, label in zip(texts, labels, strict=True)]
    (root / "rows.jsonl").write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in records))
    if find_spec("pyarrow"):
        _columns(root, records)
    (root / "morphemes").mkdir()
    (root / "morphemes" / "fi.tsv").write_text("talossa\ttalo|ssa\nkissan\tkissa|n\n", "utf-8")
    words = 'full_word,pt1,rest\ntalossa,talo,ssa\n"kissan",kissa,n\n'
    (root / "morphemes" / "fi.csv").write_text(words, "utf-8")


def _columns(root: Path, records: list[dict[str, str | None]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist(records)
    pq.write_table(table, root / "rows.parquet")
    with (
        pa.OSFile(str(root / "rows.arrow"), "wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table)


def _tables(root: Path) -> None:
    table = count_corpus([root / "fi.txt"])
    save_counts(table, root / "fi.counts", "fi", sources_of([root / "fi.txt"]))
    # Words with characters that a table escapes are left out.
    plain = (pair for pair in table.pairs() if not {*b"\t\r\n\\"} & {*pair[0]})
    lines = b"".join(b"%b\t%d\n" % pair for pair in plain)
    (root / "fi.counts.tsv").write_bytes(lines)
    (root / "fi.counts.tsv.zst").write_bytes(zstandard.compress(lines))


def _plain_tokenizers(root: Path) -> None:
    for name in ("bpe", "least", "unigram"):
        whole = ModularTokenizer.load(root / name).full()
        (root / f"{name}.json").write_bytes(whole.to_json())
    (root / "unigram.model").write_bytes(whole.to_model())


def _external_tokenizers(root: Path) -> None:
    lines = (root / "fi.txt").read_text(encoding="utf-8").splitlines()
    (root / "external.json").write_bytes(external_tokenizer("characters"))
    (root / "external.model").write_bytes(sentencepiece_model(lines, vocab_size=330))
    tokens = [b"th", b"the", b" t", b" the", b"en"]
    write_ranks(root / "ranks.tiktoken", tokens)
    every = [bytes([byte]) for byte in range(256)] + tokens
    pattern = r"\p{L}+|\p{N}|\s+|[^\s\p{L}\p{N}]+"
    write_tekken(root / "tekken.json", every, pattern, 3)


def _journal(root: Path) -> None:
    learned = ModularTokenizer.load(root / "bpe").learned()
    notes = {"languages": learned.languages, "specials": learned.specials}
    kept = JournalState(merges_to_arrays(learned), notes, {"en": b"{}"})
    JournalDir(root / "half", {"k": 330}).write(kept)


def _results(root: Path) -> None:
    """A workspace whose rows a report shows: every kind of measurement."""
    place = root / "shown"
    (place / "results").mkdir(parents=True)
    tokenizers: list[str] = [str(root / "bpe")]
    texts: list[Path | str] = [SAMPLE / "parallel" / f"{language}.txt" for language in LANGUAGES]
    measured = {
        "nsl": nsl(tokenizers, texts),
        "fairness": fairness(tokenizers, texts),
        "origin": origin(tokenizers[0], texts),
    }
    for name, rows in measured.items():
        lines = [orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n" for row in rows]
        (place / "results" / f"{name}.jsonl").write_bytes(b"".join(lines))


def _models(root: Path) -> None:
    """A model as it is published, with weights in two files, and what is made of it."""
    place = root / "published"
    save_model("llama", place, external_tokenizer("byte-level"), rows=602, shard="200KB")
    names = {"eos_token": {"content": "</s>"}, "bos_token": "<s>"}
    (place / "tokenizer_config.json").write_text(json.dumps(names))
    adopt(place, ["en", "fi"], data=root / "data").save(root / "adopted")
    (root / "keep.json").write_text("[0, 5, 300, 301]\n")
    (root / "recipe.toml").write_text(RECIPE)
