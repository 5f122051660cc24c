"""`modtok tokens`: ids of the tokens of some languages, for other programs."""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import atomic_directory, check_directory, check_suffix
from modtok_cli.base.option import Option, options_of
from modtok_cli.base.parameters import Force
from modtok_cli.cli.command import Call, Json, OutputOrStdout, Plot, command
from modtok_cli.cli.output import (
    TABLES,
    check_output,
    emit_chunks,
    emit_rows,
    emit_tables,
    parse_columns,
    wants_json,
)
from modtok_cli.cli.plotting import emit_plot
from modtok_cli.model.draft.draft_vocabulary import DraftVocabulary
from modtok_cli.model.draft.formats import FORMATS, ListFormat, list_format, write_list
from modtok_cli.model.draft.tokens import draft_coverage, model_rows, tokens
from modtok_cli.reports.kinds.drafts import knee, tables

COVERAGE = parse_columns("language, coverage=covered %:percent")
ListFormatName = Annotated[
    str, Option(f"Format of the output. One of {', '.join(FORMATS)}.", metavar="NAME")
]
Sizes = Annotated[
    bool,
    Option(
        "Instead of a list, measure the share of held-out text that lists cover whose sizes are "
        "powers of two."
    ),
]
Test = Annotated[Path | None, options_of(draft_coverage)["test"]]
Draft = Annotated[Path | None, options_of(draft_coverage)["draft"]]


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
    # a map for TensorRT-Edge-LLM
    modtok tokens model/ --langs fi,en --size 16384 --format tensorrt-edge-llm \\
        -o map/
    # another list beside one of the same size, by language
    modtok tokens model/ --langs fi,en --sizes --test texts \\
        --read fr.json
    # and how many tokens the model accepts of a draft, for each size
    modtok tokens model/ --langs fi,en --sizes --test texts --draft draft/
    # a list for each language, and one for all
    modtok tokens model/ --size 16384 --each -o lists/
    """,
)
def show(
    call: Call,
    format: ListFormatName = "ids",
    output: OutputOrStdout = None,
    force: Force = False,
    *,
    sizes: Sizes = False,
    test: Test = None,
    draft: Draft = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Formats of requests that restrict the output: vllm, llama.cpp, openai.

    Formats of drafts: sglang is a file for --speculative-token-map; eagle3 has d2t and t2d, gguf
    has d2t for llama.cpp; speculators (for vLLM) and tensorrt-edge-llm are directories; rtp-llm is
    output_tokens.json of a checkpoint; executorch maps rows to ids.
    """
    if sizes:
        _show_sizes(call, test, draft, plot, json)
        return
    rows_only = {
        "--test": test,
        "--draft": draft,
        "--plot": plot,
        "--json": json,
        "--table": TABLES.get(),
    }
    for flag, given in rows_only.items():
        if given:
            raise UsageError("requires --sizes", where=flag, remedy="add --sizes")
    model, chosen, each = call.value("model"), list_format(format), call.value("each")
    if output is None and (each or not chosen.suffix):
        flag = "--each" if each else f"--format {format}"
        raise UsageError(f"{flag} requires -o", remedy=f"as in: {flag} -o lists/")
    if output is not None and (each or not chosen.suffix):
        check_directory(output)
    elif output is not None:
        check_suffix(output, [chosen.suffix])
    if output is not None or chosen.binary:
        check_output(output, force, "write to a file with -o")
    rows = model_rows(str(model)) if chosen.has_rows else 0  # before any text is read
    _write(call, chosen, rows, output)


def _write(call: Call, chosen: ListFormat, rows: int, output: Path | None) -> None:
    lists: Mapping[str, Sequence[int]] | Sequence[int] = call()
    if isinstance(lists, Mapping):
        assert output is not None
        with atomic_directory(output) as beside:
            for name, ids in lists.items():
                write_list(beside / f"{name}{chosen.suffix}", chosen.content(ids, rows))
        call.say(f"wrote {output}: {', '.join(f'{name}{chosen.suffix}' for name in lists)}")
    elif output is not None:
        write_list(output, chosen.content(lists, rows))
        shares = getattr(lists, "coverage", {}).items()
        covers = ", ".join(f"{share:.3f} of {name}" for name, share in shares)
        use = chosen.use and f", {chosen.use}"
        call.say(f"wrote {len(lists):,} ids to {output}{use}{covers and f'; they cover {covers}'}")
    elif chosen.suffix == ".txt" and not wants_json(False):  # a terminal, and an id on each line
        _summarize(call, lists)
    else:
        content = chosen.content(lists, rows)
        assert isinstance(content, bytes)
        emit_chunks([content])


def _summarize(call: Call, ids: Sequence[int]) -> None:
    """Say on a terminal what a list has; thousands of lines would say nothing."""
    vocabulary = DraftVocabulary.open(str(call.value("model")))
    rest = [each for each in ids if not vocabulary.needed[each]]
    shown = [repr(vocabulary.tokenizer.decode([each])) for each in (*rest[:6], *rest[-6:])]
    coverage = getattr(ids, "coverage", {})
    if coverage:
        rows = [{"language": name, "coverage": share} for name, share in coverage.items()]
        emit_rows(rows, COVERAGE, title="Share of the text", json=False)
    call.say(
        f"{len(ids):,} of {vocabulary.tokens.sum():,} tokens, {len(ids) - len(rest):,} of them "
        "bytes and special tokens"
    )
    if len(rest) > len(shown):
        call.say(f"the first others are {', '.join(shown[:6])}; the last {', '.join(shown[6:])}")
    call.say("the list goes to -o FILE, or to a pipe")


def _show_sizes(
    call: Call, test: Path | None, draft: Path | None, plot: str | None, json: bool
) -> None:
    rows: list[dict[str, Any]] = inspect.unwrap(draft_coverage)(
        **call.values,
        test=test,
        draft=draft,
        reading=call.group("reading"),
        progress=call.progress,
    )
    emit_tables(rows, tables(rows), json=json)
    if call.value("read") is None:
        if wants_json(json):  # else it is below the tables
            call.say(knee(rows))
        emit_plot(call.say, plot, rows, "drafts")
