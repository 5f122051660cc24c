"""--field and --lang-field of commands and of modtok.toml, and the error for a wrong field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson

Here = Callable[..., tuple[int, str, str]]


def test_fields_choose_text_and_language(here: Here) -> None:
    rows = [("yksi kaksi", "fin_Latn"), ("un deux trois", "fra"), (None, "fi")]
    lines = [{"doc": {"body": text}, "code": code} for text, code in rows]
    Path("mixed").mkdir()
    Path("mixed/part-0.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    options = ["--field", "doc.body", "--lang-field", "code"]
    status, out, err = here("corpus", "count", "--data", "mixed", "-o", "c", *options, "--json")
    counted = [orjson.loads(line) for line in out.splitlines()]
    assert (status, [(row["language"], row["words"]) for row in counted]) == (
        0,
        [("fi", 2), ("fr", 3)],
    )
    assert "mixed/part-0.jsonl:3: no text in field 'doc.body'; 1 document skipped" in err
    status, out, _ = here("corpus", "stats", "mixed/part-0.jsonl", "--lang", "fi", *options)
    assert orjson.loads(out)["documents"] == 1
    Path("modtok.toml").write_text('[corpus.count]\nfield = "doc.body"\nlang_field = "code"\n')
    status, out, _ = here("corpus", "count", "--data", "mixed", "-o", "d", "--json")
    assert status == 0
    assert Path("d/fr.counts").read_bytes() == Path("c/fr.counts").read_bytes()


def test_a_wrong_field_is_one_line(here: Here) -> None:
    Path("a.jsonl").write_text('{"content": "a", "id": 1}\n')
    status, _, err = here("corpus", "stats", "a.jsonl", "--lang", "fi")
    assert status == 1
    assert "a.jsonl:1: no field 'text'; choose one with --field: content, id" in err
    status, _, err = here("corpus", "stats", "a.jsonl", "--lang", "fi", "--field", "a..b")
    assert (status, "--field: 'a..b' is not the name of a field" in err) == (2, True)
