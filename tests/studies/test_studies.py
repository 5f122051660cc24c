"""Studies: what they find on the sample text, and that a kill costs nothing that was done."""

from __future__ import annotations

import random
import signal
import subprocess
from itertools import permutations
from pathlib import Path
from typing import Any

import orjson
import pytest

from helpers.python_processes import run_python
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Silent
from modtok_cli.cli.output import rounded
from modtok_cli.construct.bpe_concat import bpe_concat
from modtok_cli.measure.nsl import nsl
from modtok_cli.modular.open import open_bytes
from modtok_cli.reports.kinds import kinds
from modtok_cli.studies import budget, combos, cost, orders, scaling
from modtok_cli.studies.bench import load_counts
from modtok_cli.studies.rows import StudyFile, read_study
from modtok_cli.studies.scaling import read_families
from modtok_cli.text.reading import Reading

DATA, PARALLEL = SAMPLE / "data", SAMPLE / "parallel"
LANGUAGES = ["el", "en", "fi", "fr"]
TEXTS = [PARALLEL / f"{language}.txt" for language in LANGUAGES]
K = 700


def study(name: str, output: Path, **more: Any) -> list[dict[str, Any]]:
    settings: dict[str, Any] = {"data": DATA, "k": K, "output": output, **more}
    if name == "scaling":
        return scaling.study_scaling(LANGUAGES, **settings)
    functions = {
        "orders": orders.study_orders,
        "combos": combos.study_combos,
        "budget": budget.study_budget,
    }
    return functions[name](TEXTS, LANGUAGES, **settings)


def summary_of(kind: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ((_, lines, _),) = kinds()[kind].summary(rows)
    return list(lines)  # type: ignore[arg-type]


def test_studies_skip_overlong_words(tmp_path: Path) -> None:
    """So that their references are those of a build on the same text."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "en.txt").write_text("word words\n" + "a" * 70000 + "\n")
    progress = Silent()
    counts = load_counts(None, tmp_path / "data", Reading(), 1, progress)
    assert counts["en"].words() == [b" words", b"word"]
    assert "en: ignoring 1 word of more than 65,536 bytes" in progress.warnings


def test_orders(tmp_path: Path) -> None:
    rows = study("orders", tmp_path / "o.jsonl", orders=3)
    head, saved = read_study(tmp_path / "o.jsonl")
    assert saved == rows
    assert head["settings"]["orders"][0] == LANGUAGES
    assert len(rows) == 3 * 2 * 4 + 4  # orders × (T, extracted) × languages, and joint
    first = [row for row in rows if row["order"] == 0 and row["tokenizer"] == "extracted"]
    assert first[0]["nsl"] == 1.0  # the first language is its own reference
    assert all(row["nsl"] == row["tokens"] / row["reference_tokens"] for row in rows)
    joint = [row for row in rows if row["tokenizer"] == "joint"]
    sizes = [row["size"] for row in rows if row["tokenizer"] == "T"][::4]
    assert joint[0]["size"] == round(sum(sizes) / 3)
    lines = {(line["tokenizer"], line["language"]): line for line in summary_of("orders", rows)}
    values = [
        row["nsl"] for row in rows if (row["tokenizer"], row["language"]) == ("extracted", "fi")
    ]
    line = lines["extracted", "fi"]
    assert (line["min"], line["max"]) == (min(values), max(values))
    assert line["spread"] == pytest.approx(max(values) - min(values))


def test_combos_equal_bpe_concat(tmp_path: Path) -> None:
    rows = study("combos", tmp_path / "c.jsonl", orders=2, sets=3)
    references = tmp_path / f"references-{K}"
    concatenated = [row for row in rows if row["method"] == "concatenated"]
    for n in (2, 3, 4):
        sets = {tuple(row["languages"]) for row in concatenated if row["n"] == n}
        assert len(sets) == (3 if n < 4 else 1)
        for members in sets:
            seen = [row["order"] for row in concatenated if tuple(row["languages"]) == members]
            assert sorted(map(tuple, seen[::n])) == sorted(permutations(members))
    row = random.Random(0).choice([row for row in concatenated if row["n"] == 3])
    made = bpe_concat([str(references / f"{name}.json") for name in row["order"]])
    tokenizer = open_bytes(made.data, "concatenated", "-")
    lines = (PARALLEL / f"{row['language']}.txt").read_text().split("\n")[:-1]
    assert row["tokens"] == sum(len(ids) for ids in tokenizer.encode_batch(lines))
    assert row["size"] == made.size
    alone = [row["nsl"] for row in concatenated if row["n"] == 1]
    assert set(alone) == {1.0}
    summary = {(line["n"], line["method"]): line for line in summary_of("combos", rows)}
    assert summary[3, "concatenated"]["max"] > summary[3, "sequential"]["max"]


def test_sets_are_sampled_evenly() -> None:
    names = [f"l{i:02}" for i in range(21)]
    sets = combos.sample_sets(names, 3, 60, seed=1)
    assert len(set(sets)) == 60
    assert sets == combos.sample_sets(names[::-1], 3, 60, seed=1)
    uses = [sum(name in members for members in sets) for name in names]
    assert max(uses) - min(uses) <= 2
    assert len(combos.sample_sets(names[:5], 2, 60, seed=1)) == 10


def test_scaling_and_budget(tmp_path: Path) -> None:
    rows = study("scaling", tmp_path / "s.jsonl", orders=2)
    assert [row["n"] for row in rows] == [1, 2, 3, 4] * 2
    assert all(row["adopted"] + row["new"] + 258 == row["tokens"] == K for row in rows)
    assert rows[0]["total"] == K
    assert rows[3]["total"] == K + sum(row["new"] for row in rows[1:4])
    assert summary_of("scaling", rows)[3]["n"] == 4
    rows = study("budget", tmp_path / "b.jsonl", budgets=[400, 700, 800])
    alone = {(row["k"], row["language"]): row for row in rows if row["tokenizer"] == "monolingual"}
    assert {k for k, _ in alone} == {400, 700}  # beyond the reference's size there is none
    assert all(row["nsl"] == 1.0 for (k, _), row in alone.items() if k == 700)
    assert alone[400, "fi"]["size"] == 400
    means = [
        line["mean"] for line in summary_of("budget", rows) if line["tokenizer"] == "extracted"
    ]
    assert means == sorted(means, reverse=True)
    with pytest.raises(UsageError, match="k = 200 is too small"):
        study("budget", tmp_path / "x.jsonl", budgets=[200])


def test_smaller_budget_is_a_prefix(tmp_path: Path) -> None:
    """What `first_tokens` cuts from the reference is what learning to that size gives."""
    from modtok_cli.learn.sequential import learn_bpe
    from modtok_cli.studies.bench import load_bench

    bench = load_bench(
        ["fi"], [PARALLEL / "fi.txt"], data=DATA, k=K, output=tmp_path / "x", reading=Reading(),
        threads=1, progress=SILENT,
    )  # fmt: skip
    cut = budget.first_tokens(bench.references["fi"], 400)
    learned = learn_bpe(bench.counts["fi"], 400, bench.specials)
    assert cut.merges.tolist() == learned.merges.tolist()


def test_cost_equals_the_formula(tmp_path: Path) -> None:
    orders.study_orders(TEXTS, LANGUAGES, data=DATA, k=K, orders=1, output=tmp_path / "o.jsonl")
    references = tmp_path / f"references-{K}"
    rows = cost.study_cost([TEXTS[2]], [str(references / "en.json")], references=references)
    (measured,) = nsl([str(references / "en.json")], [TEXTS[2]], references=references)
    assert [row["scale"] for row in rows] == list(cost.SCALES)
    assert all(row["step"] == 1.0 and row["cost"] == measured["nsl"] for row in rows)
    assert cost.SCALES["0.5B"].parameters == pytest.approx(0.504e9, rel=0.01)
    # 387,000 columns against 24,000 at 0.5B: (0.504 + 0.594) / (0.504 + 0.037)
    assert cost.step_cost(387_000, 24_000, cost.SCALES["0.5B"]) == pytest.approx(2.03, abs=0.01)
    assert summary_of("cost", rows)[0]["max"] == measured["nsl"]


@pytest.mark.parametrize("name", ["orders", "combos", "scaling", "budget"])
def test_stopped_study_resumes_to_the_same_result(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more: dict[str, Any] = {"budgets": [400, 500, 600]} if name == "budget" else {"orders": 3}
    if name == "combos":
        more["sets"] = 2
    whole = tmp_path / "whole.jsonl"
    study(name, whole, **more)

    added: list[str] = []
    real = StudyFile.add

    def stop_after_two(self: StudyFile, unit: str, rows: Any) -> None:
        real(self, unit, rows)
        added.append(unit)
        if len(added) == 2:
            raise KeyboardInterrupt

    output = tmp_path / "stopped.jsonl"
    monkeypatch.setattr(StudyFile, "add", stop_after_two)
    with pytest.raises(KeyboardInterrupt):
        study(name, output, **more)
    assert not output.exists()
    partial = tmp_path / ".stopped.jsonl.resume"
    with open(partial, "ab") as handle:  # killed while it wrote
        handle.write(b'{"order": 2, "langu')
    done = list(added)
    added.clear()

    def note_and_add(self: StudyFile, unit: str, rows: Any) -> None:
        added.append(unit)
        real(self, unit, rows)

    monkeypatch.setattr(StudyFile, "add", note_and_add)
    study(name, output, **more)
    assert set(added).isdisjoint(done)
    assert not partial.exists()
    assert output.read_bytes() == whole.read_bytes()


def test_kill_9(tmp_path: Path) -> None:
    """A process killed for good leaves units that the next one takes up."""
    output = tmp_path / "studies" / "combos.jsonl"
    words = ["study", "combos", *map(str, TEXTS)]
    words += ["--langs", ",".join(LANGUAGES), "--data", str(DATA), "-k", str(K)]
    words += ["-o", str(output), "--orders", "2", "--sets", "6"]
    script = (
        "import os, signal, sys\n"
        "from modtok_cli.__main__ import main\n"
        "from modtok_cli.studies.rows import StudyFile\n"
        "real, left = StudyFile.add, [3]\n"
        "def add(self, *rest):\n"
        "    left[0] -= 1\n"
        "    left[0] or os.kill(os.getpid(), signal.SIGKILL)\n"
        "    real(self, *rest)\n"
        "StudyFile.add = add\n"
        "main()"
    )
    killed = run_python(
        ["-c", script, *words],
        stdout=subprocess.DEVNULL, cwd=tmp_path,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    partial = output.parent / f".{output.name}.resume"
    assert not output.exists()
    done = partial.read_bytes().count(b'"closes"')
    assert done == 2
    again = run_python(["-m", "modtok_cli", *words], capture_output=True, cwd=tmp_path, check=True)
    assert f"resuming: {done} units are done" in again.stderr.decode()
    rows = study("combos", tmp_path / "whole.jsonl", orders=2, sets=6)
    assert [orjson.loads(line) for line in again.stdout.splitlines()] == rounded(rows)


def test_scaling_of_families(tmp_path: Path) -> None:
    families = tmp_path / "families.tsv"
    families.write_text("# ISO 639-3\nell\tIndo-European\nen\tIndo-European\n\nfi\tUralic\n")
    families.write_text(families.read_text() + "fra\tIndo-European\nxyz\tUralic\n")
    said = Silent()
    rows = study("scaling", tmp_path / "f.jsonl", families=families, orders=2, progress=said)
    assert [row["n"] for row in rows] == [1, 2, 3] * 2
    assert {row["family"] for row in rows} == {"Indo-European"}
    assert {row["language"] for row in rows} == {"el", "en", "fr"}
    assert "families.tsv: languages without a family of 2 or more: 1" in said.warnings
    (line,) = summary_of("scaling", rows)
    totals = [row["total"] for row in rows if row["n"] == 3]
    assert (line["n"], line["total"]) == (3, round(sum(totals) / 2))
    assert line["share"] == pytest.approx(sum(totals) / 2 / (3 * K))
    assert 3 ** line["exponent"] * K == pytest.approx(sum(totals) / 2)
    with pytest.raises(UsageError, match="already exists with other settings"):
        study("scaling", tmp_path / "f.jsonl", orders=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"en\tA\nfr B\n", "families.tsv:2: line is not a language code, a tab and"),
        (b"en\tA\nquatsch\tB\n", "families.tsv:2: line is not a language code"),
        (b"en\tA\tnote\n", "families.tsv:1: line is not a language code"),
        (b"en\t \n", "families.tsv:1: line is not a language code"),
        (b"en\tA\neng\tB\n", "families.tsv:2: line gives eng a second family"),
        (b"en\tA\nfr\t\xff\n", "families.tsv:2: line is not UTF-8"),
        (b"en\tA\nfr\tB\n", "families.tsv: no family has 2 of the languages"),
    ],
)
def test_bad_families(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "families.tsv"
    path.write_bytes(text)
    with pytest.raises(ModtokError, match=message):
        read_families(path, LANGUAGES)


def test_families_of_labels(tmp_path: Path) -> None:
    path = tmp_path / "families.tsv"
    path.write_text(
        "\ufeffdeu\tGermanic\nsr_Cyrl\tSlavic\nsr-Latn\tOther\nnl\tGermanic\nx-law\tOther"
    )
    labels = ["de-x-deu-1901", "de-x-deu-1996", "nl", "sr-Cyrl", "sr-Latn", "x-law"]
    assert read_families(path, labels) == {
        "Germanic": ["de-x-deu-1901", "de-x-deu-1996", "nl"],
        "Other": ["sr-Latn", "x-law"],
    }


def test_finished_and_other_settings(tmp_path: Path) -> None:
    output = tmp_path / "s.jsonl"
    rows = study("scaling", output, orders=1)
    before = output.stat().st_mtime_ns
    said = Silent()
    assert study("scaling", output, orders=1, progress=said) == rows
    assert "already finished" in said.warnings[0]
    assert output.stat().st_mtime_ns == before
    with pytest.raises(UsageError, match=r"s.jsonl: already exists with other .* pass force"):
        study("scaling", output, orders=2)
    assert len(study("scaling", output, orders=2, force=True)) == 8


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no test text in fi, fr; provide one, or"):
        orders.study_orders(TEXTS[:2], LANGUAGES, data=DATA, k=K, output=tmp_path / "o.jsonl")
    with pytest.raises(UsageError, match="a second text in fi"):
        orders.study_orders([*TEXTS, TEXTS[2]], LANGUAGES, data=DATA, k=K, output=tmp_path / "o")
    with pytest.raises(UsageError, match="expected at least 1"):
        study("scaling", tmp_path / "s.jsonl", orders=0)
    (tmp_path / "not.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(ModtokError, match="not a study"):
        read_study(tmp_path / "not.jsonl")


def test_damaged_reference_is_retrained(tmp_path: Path) -> None:
    study("scaling", tmp_path / "s.jsonl", orders=1)
    first = study("orders", tmp_path / "o.jsonl", orders=1, joint=False)
    reference = tmp_path / f"references-{K}" / "fi.json"
    kept = reference.read_bytes()
    reference.write_bytes(kept[:100])
    assert study("orders", tmp_path / "p.jsonl", orders=1, joint=False) == first
    assert reference.read_bytes() == kept
