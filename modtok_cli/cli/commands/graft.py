"""`modtok graft`: a fine-tuned slice, put back into its run or model."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import parse_columns
from modtok_cli.cli.report_output import Report, emit_with_report, load_report
from modtok_cli.model.slice.graft import graft
from modtok_cli.text.reading import Reading

COLUMNS = parse_columns("part, bytes=replaced:bytes, full_bytes=whole:bytes, saved=kept:ratio")


@command(
    "graft",
    graft,
    examples="""
    # a slice of a run, fine-tuned in place, back into the run
    modtok graft fr-en/ --onto runs/latest -o runs/tuned
    # merged by PEFT; --slice has the tokens
    modtok graft merged/ --slice fr-en/ --onto runs/latest -o runs/tuned
    # a Hugging Face model; bits per byte of a text, before and after
    modtok graft tuned/ --slice part/ --onto model/ -o new/ --report fi.txt
    """,
)
def show(call: Call, report: Report = None, json: Json = False) -> None:
    require_models()
    texts = load_report(call, report, Reading())
    made = call()
    tokens, replaced = made.tokens
    emit_with_report(
        call,
        made.rows(),
        COLUMNS,
        texts,
        made.whole,
        made.output,
        caption=f"{made.output}: {replaced:,} of {tokens:,} rows replaced",
        json=json,
    )
