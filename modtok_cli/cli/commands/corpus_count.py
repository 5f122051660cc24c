"""`modtok corpus count`: text → one table of word counts per language."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import emit_rows, parse_columns
from modtok_cli.corpus.count import corpus_count

COLUMNS = parse_columns(
    "language, documents:int, bytes=text:bytes, words:int, unique_words=unique:int, path=counts"
)


@command(
    "corpus count",
    corpus_count,
    examples="""
    # all languages in data/, into counts/
    modtok corpus count
    # two languages; invalid UTF-8 is replaced
    modtok corpus count --langs fi,fr --errors replace
    # hundreds of gigabytes on a cluster, by 200 tasks
    modtok corpus count --executor slurm --count-tasks 200 \\
        --executor-option partition=cpu --executor-option time=4:00:00
    # hundreds of gigabytes on this machine
    modtok corpus count --memory 8GB
    # learn from the counts instead of the text
    modtok bpe-seq --data counts --langs fi,fr -k 24000
    """,
    resumes=True,
)
def show(call: Call, json: Json = False) -> None:
    emit_rows(call(), COLUMNS, title="Word counts", json=json)
