"""`modtok slice`: the model of some languages, as a Hugging Face directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import options_of
from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import emit_rows, parse_columns
from modtok_cli.cli.report_output import Report, emit_with_report, load_report
from modtok_cli.model.hf.model_files import WrittenModel
from modtok_cli.model.slice.slice import is_sliceable, slice
from modtok_cli.reports.tables import format_bytes
from modtok_cli.text.reading import Reading

COLUMNS = parse_columns("part, bytes=slice:bytes, full_bytes=full model:bytes, saved:ratio")


@command(
    "slice",
    slice,
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
def show(call: Call, report: Report = None, json: Json = False) -> None:
    path = Path(call.value("run"))
    if "head" in call.values:
        _show_head(call, report, json)
        return
    whole = is_sliceable(path)
    if not whole:
        call.leave_out_settings(("k", "coverage", "data", "verify", *options_of(Reading)))
    elif "tokenizer" in call.values:
        call.leave_out_settings(("k", "coverage", "data"))
    if whole and "languages" not in call.values:
        call.leave_out(("data", "tokenizer"), "no languages given")
        if not call.values.get("texts"):
            others = ("k", "coverage", *(() if report else options_of(Reading)))
            call.leave_out(others, "no text selects tokens")
    if not whole:
        if report:
            raise UsageError(
                "--report is for Hugging Face models: a slice of a run has its logits", where=path
            )
        require_models()
        run_slice = call()
        facts, output = run_slice.facts, run_slice.output
        caption = f"{output}  (signature {facts.signature}, step {facts.step:,})"
        rows = run_slice.rows()
        emit_rows(rows, COLUMNS, title="Size of the weights", json=json, caption=caption)
        call.say(saved(run_slice, run_slice.tokens))
        return
    if report or call.value("verify"):
        require_models()
    texts = load_report(call, report, call.group("reading"))
    part = call()
    emit_with_report(
        call,
        part.rows(),
        COLUMNS,
        texts,
        path,
        part.output,
        caption=str(part.output),
        json=json,
    )
    before = max(tokens for tokens, _ in part.tensors.values())
    is_reduced = any(name in call.values for name in ("coverage", "k", "tokenizer", "token_ids"))
    more = "" if is_reduced else "; --coverage 0.999 saves more, for 0.1% more tokens of text"
    call.say(saved(part, (before, len(part.ids))) + changed(part.fields) + more)


def _show_head(call: Call, report: Report, json: bool) -> None:
    if report:
        raise UsageError("--report is for models that are sliced on both sides", where="--head")
    others = ("k", "coverage", "data", "tokenizer", "verify", *options_of(Reading))
    call.leave_out_settings(others)
    cut = call()
    emit_rows(cut.rows(), COLUMNS, title="Size of the weights", json=json)
    call.say(saved(cut, cut.tokens))


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
