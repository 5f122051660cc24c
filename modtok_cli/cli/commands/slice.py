"""`modtok slice`: the model of some languages, as a Hugging Face directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from modtok_cli.base.option import option_of
from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import parse_columns
from modtok_cli.cli.report_output import Report, emit_with_report, load_report
from modtok_cli.model.hf.model_directory import VocabularySlice
from modtok_cli.model.hf.model_files import WrittenModel
from modtok_cli.model.kinds import MODEL
from modtok_cli.model.slice.slice import slice
from modtok_cli.reports.tables import format_bytes

COLUMNS = parse_columns("part, bytes=slice:bytes, full_bytes=full model:bytes, saved:ratio")


@command(
    "slice",
    slice,
    first="langs output top coverage data text tokenizer must_have head append reading writing "
    "report",
    examples="""
    # French and English, for transformers, vLLM or lm-eval
    modtok slice --langs fr,en -o fr-en/
    # any Hugging Face model: the tokens that the text in data/ uses
    modtok slice model/ --langs fr,en -o small/
    # the same, with a tokenizer of modtok adopt
    modtok slice model/ -t adopted --langs fr,en -o small/
    # bits per byte of a text, before and after
    modtok slice model/ --langs fr,en -o small/ --report news.fr.txt
    # add Finnish, from the run of the slice
    modtok slice fr-en/ --append fi
    # a draft of speculative decoding with the output rows of a list
    modtok slice draft/ --head fi-en.txt -o small-draft/
    # full input vocabulary, French output vocabulary (modtok only)
    modtok slice --in full --out fr -o to-fr/
    """,
)
def show(
    call: Call,
    report: Annotated[list[str] | None, option_of(Report, of=(MODEL,))] = None,
    json: Json = False,
) -> None:
    if report or ("head" not in call.values and call.value("verify")):
        require_models()
    texts = load_report(call, report, call.group("reading"))
    part = call()
    path, caption = Path(call.value("run")), part.caption
    emit_with_report(
        call, part.rows(), COLUMNS, texts, path, part.output, caption=caption, json=json
    )
    is_reduced = any(name in call.values for name in ("coverage", "top", "tokenizer", "must_have"))
    is_whole = isinstance(part, VocabularySlice) and not is_reduced
    more = "; --coverage 0.999 saves more, for 0.1% more tokens of text" if is_whole else ""
    call.say(saved(part, part.tokens) + changed(part.fields) + more)


def changed(fields: Mapping[str, Any]) -> str:
    """The change of other text by a slice, for the line of `saved`.

    >>> changed({"changed_lines": 0.125, "changed_tokens": 0.0042})
    '; of held-out lines of the text 12% have other ids, 0.4% of their tokens'
    """
    if "changed_lines" not in fields:
        return ""
    lines, tokens = fields["changed_lines"], fields["changed_tokens"]
    return (
        f"; of held-out lines of the text {lines:.0%} have other ids, {tokens:.1%} of their tokens"
    )


def saved(written: WrittenModel, tokens: tuple[int, int]) -> str:
    """One line about rows, (before, after), and bytes.

    >>> saved(WrittenModel(Path("fr"), {"rows": (3_000_000, 4_000_000)}, {}), (32000, 8000))
    'wrote fr: 8,000 of 32,000 rows, 1.0 MB of 4.0 MB saved (25%)'
    """
    every = written.rows()[-1]
    whole, less = every["full_bytes"], every["full_bytes"] - every["bytes"]
    return (
        f"wrote {written.output}: {tokens[1]:,} of {tokens[0]:,} rows, "
        f"{format_bytes(less)} of {format_bytes(whole)} saved ({less / max(1, whole):.0%})"
    )
