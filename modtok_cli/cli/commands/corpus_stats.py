"""`modtok corpus stats`: size, words, duplicates and tokens of texts."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import emit_rows, parse_columns, wants_json
from modtok_cli.measure.corpus_stats import corpus_stats

COLUMNS = parse_columns(
    "language, documents:int, characters:int, bytes=text:bytes, words:int, "
    "unique_words=unique:int, duplicates:int, tokens:int"
)


@command(
    "corpus stats",
    corpus_stats,
    examples="""
    # all languages in data/
    modtok corpus stats
    # two files, with three sample documents each
    modtok corpus stats fr.txt fi.jsonl.zst --samples 3
    # with token counts under the subtokenizer of each language
    modtok corpus stats -t tokenizer@each
    # a file with no language in its name
    modtok corpus stats --lang sw stories.txt
    """,
)
def show(call: Call, json: Json = False) -> None:
    rows = call()
    columns = COLUMNS if "tokenizer" in call.values else COLUMNS[:-1]
    emit_rows(rows, columns, title="Corpus", json=json)
    if not wants_json(json):
        for row in rows:
            for sample in row["samples"]:
                call.say(f"{row['language']}: {sample}")
