"""`modtok tokens`: ids of the tokens of some languages, for other programs."""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import atomic_directory, check_directory, check_suffix, write_bytes
from modtok_cli.base.option import Option, options_of
from modtok_cli.base.parameters import Force
from modtok_cli.cli.command import Call, Json, OutputOrStdout, Plot, command
from modtok_cli.cli.output import TABLES, check_output, emit_chunks, emit_tables
from modtok_cli.cli.plotting import emit_plot
from modtok_cli.model.draft.formats import FORMATS, list_format
from modtok_cli.model.draft.tokens import draft_coverage, model_rows, tokens
from modtok_cli.reports.kinds.drafts import knee, tables

ListFormatName = Annotated[str, Option(f"List format: {', '.join(FORMATS)}.", metavar="NAME")]
Sizes = Annotated[
    bool,
    Option(
        "Instead of a list, measure the share of held-out text that lists of several sizes cover."
    ),
]
Test = Annotated[Path | None, options_of(draft_coverage)["test"]]


@command(
    "tokens",
    tokens,
    examples="""
    # ids of the French tokens, one per line
    modtok tokens tokenizer --langs fr > fr.txt
    # of any model, by the text in data/, for requests to llama.cpp's server
    modtok tokens model/ --langs fr --format llama.cpp -o fr.json
    # how many rows a draft of Finnish and English needs
    modtok tokens model/ --langs fi,en --sizes --test texts
    # token map for speculative decoding in SGLang: 16,384 rows
    modtok tokens model/ --langs fi,en --size 16384 --format sglang -o fi-en.pt
    # a list for each language, and one for all
    modtok tokens model/ --size 16384 --each -o lists/
    """,
)
def show(
    call: Call,
    format: ListFormatName = "ids",
    output: OutputOrStdout = None,
    force: Force = False,
    sizes: Sizes = False,
    test: Test = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """The formats vllm, llama.cpp and openai are fields of a request; sglang is a file for
    --speculative-token-map; eagle3 has d2t and t2d of EAGLE-3, gguf d2t for llama.cpp.
    """
    if sizes:
        _show_sizes(call, test, plot, json)
        return
    rows_only = {"--test": test, "--plot": plot, "--json": json, "--table": TABLES.get()}
    for flag, given in rows_only.items():
        if given:
            raise UsageError("requires --sizes", where=flag, remedy="add --sizes")
    model, chosen, each = call.value("model"), list_format(format), call.value("each")
    if each and output is None:
        raise UsageError("--each requires -o", remedy="as in: --each -o lists/")
    if output is not None and each:
        check_directory(output)
    elif output is not None:
        check_suffix(output, [chosen.suffix])
    if output is not None or chosen.binary:
        check_output(output, force, "write to a file with -o")
    rows = model_rows(str(model)) if chosen.has_rows else 0  # before any text is read
    lists: Mapping[str, Sequence[int]] | Sequence[int] = call()
    if isinstance(lists, Mapping):
        assert output is not None
        with atomic_directory(output) as beside:
            for name, ids in lists.items():
                write_bytes(beside / f"{name}{chosen.suffix}", chosen.content(ids, rows))
        call.say(f"wrote {output}: {', '.join(f'{name}{chosen.suffix}' for name in lists)}")
    elif output is None:
        emit_chunks([chosen.content(lists, rows)])
    else:
        write_bytes(output, chosen.content(lists, rows))
        call.say(f"wrote {len(lists):,} ids to {output}")


def _show_sizes(call: Call, test: Path | None, plot: str | None, json: bool) -> None:
    rows: list[dict[str, Any]] = inspect.unwrap(draft_coverage)(
        **call.values, test=test, reading=call.group("reading"), progress=call.progress
    )
    emit_tables(rows, tables(rows), json=json)
    call.say(knee(rows))
    emit_plot(call.say, plot, rows, "drafts")
