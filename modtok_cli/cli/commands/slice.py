"""`modtok slice`: the model of some languages, as a Hugging Face directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.inference_options import (
    LATEST,
    Coverage,
    Dtype,
    In,
    Model,
    Out,
    RunTokenizer,
    Step,
    TokensPerLanguage,
    require_models,
    sides,
)
from modtok_cli.cli.options import Data, Force, Json, Langs, Output
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.report_output import Report, emit_with_report, load_report
from modtok_cli.cli.session import Session
from modtok_cli.reports.tables import format_bytes
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading

if TYPE_CHECKING:
    from modtok_cli.inference.hf.slice import Selection

COLUMNS = (
    Column("part", "part"),
    Column("bytes", "slice", "bytes"),
    Column("full_bytes", "full model", "bytes"),
    Column("saved", "saved", "ratio"),
)

Append = Annotated[
    str | None,
    typer.Option("--append", metavar="LANG,...", help="Add these languages to the slice MODEL."),
]
Origin = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="DIR", help="With --append: the run of the slice, if it has moved."
    ),
]

Bos = Annotated[
    bool | None,
    typer.Option(
        "--bos/--no-bos",
        show_default=False,  # that of a slice that is extended is its own
        help="Tokenizer adds the end of text before every text, as in training; on by default.",
    ),
]
License = Annotated[
    str | None,
    typer.Option("--license", metavar="ID", help="License in the model card; unknown by default."),
]
BaseModel = Annotated[
    str | None,
    typer.Option(
        "--base-model", metavar="ID", help="Base model in the model card; the run by default."
    ),
]
Text = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="TEXT",
        help="Hugging Face model: keep the tokens that this text uses. Repeatable.",
    ),
]
Keep = Annotated[
    Path | None,
    typer.Option(
        "--token-ids",
        metavar="FILE",
        help="Hugging Face model: keep these token ids (JSON list, or an id per line).",
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify/--no-verify",
        help="Hugging Face model: load the result, and compare its logits with the model's.",
    ),
]


@command(
    "slice",
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
    # full input vocabulary, French output vocabulary (modtok only)
    modtok slice --in full --out fr -o to-fr/
    """,
)
def slice(
    session: Session,
    model: Model = LATEST,
    langs: Langs = None,
    reading: In = None,
    writing: Out = None,
    append: Append = None,
    origin: Origin = None,
    output: Output = None,
    step: Step = None,
    dtype: Dtype = None,
    tokenizer: RunTokenizer = None,
    data: Data = Path("data"),
    text: Text = None,
    token_ids: Keep = None,
    k: TokensPerLanguage = None,
    coverage: Coverage = None,
    report: Report = None,
    text_reading: Reading = Reading(),
    bos: Bos = None,
    license: License = None,
    base_model: BaseModel = None,
    verify: Verify = True,
    force: Force = False,
    json: Json = False,
) -> None:
    """Extract the model of some languages.

    The source is a run or any Hugging Face model.

    For a run, the output is a standard Hugging Face Llama directory: backbone, embedding rows of
    these languages, and their tokenizer. Its logits equal those of the full model over this
    vocabulary.

    With different --in and --out, the output is in a format that only modtok generate and
    modtok eval read.

    For a Hugging Face directory with safetensors, the output is the same model with fewer tokens:
    those that the languages in data/ use (or --text, or --token-ids), and all that these are built
    from. Special tokens, chat template and configuration stay, with new ids. Its logits equal
    those of the full model for the kept tokens, which is tested with a few tokens where both fit
    in memory; --no-verify leaves that out. Weights are streamed: a model may be larger than
    memory.
    """
    run = model
    from modtok_cli.inference.hf.slice import Selection, is_model_directory

    if is_model_directory(run) and not (run / "modtok.json").is_file():
        if append or reading or writing or step is not None or dtype or origin:
            raise UsageError(
                "--append, --from, --in, --out, --step and --dtype are for runs of modtok pretrain",
                where=str(run),
            )
        _slice_directory(
            session,
            run,
            output,
            Selection(
                languages=tuple(optional_languages(langs) or ()),
                tokenizer=tokenizer,
                data=data,
                texts=tuple("-" if name == "-" else Path(name) for name in text or ()),
                keep=token_ids,
                k=session.if_explicit("k", k) if tokenizer else k,
                coverage=session.if_explicit("coverage", coverage) if tokenizer else coverage,
            ),
            report=report,
            reading=text_reading,
            verify=verify,
            force=force,
            json=json,
        )
        return
    if (
        text
        or token_ids
        or report
        or session.if_explicit("k", k)
        or session.if_explicit("coverage", coverage)
        or "verify" in session.explicit
    ):
        raise UsageError(
            "--text, --token-ids, --report, -k, --coverage and --no-verify are for Hugging Face "
            "models",
            where=str(run),
        )
    added = optional_languages(append, "--append")
    inputs, outputs = sides(langs, reading, writing)
    if added is not None and (inputs is not None or outputs is not None):
        raise UsageError(
            "--append adds languages to both sides of a slice",
            remedy="omit --langs, --in and --out",
        )
    if added is None and inputs is None and outputs is None:
        raise UsageError("no languages given", remedy="as in: modtok slice --langs fr,en -o fr-en/")
    if added is None and output is None:
        raise UsageError(
            "no output directory given", remedy="as in: modtok slice --langs fr,en -o fr-en/"
        )
    require_models()
    from modtok_cli.inference.slice.slice import slice_model

    made = slice_model(
        run,
        output=output or run,
        inputs=inputs,
        outputs=outputs if outputs is not None else inputs,
        append=added,
        run=origin,
        tokenizer=tokenizer,
        step=step,
        dtype=dtype,
        bos=bos,
        license=license,
        base_model=base_model,
        force=force,
        progress=session.progress,
    )
    facts = made.facts
    caption = f"{made.output}  (signature {facts.signature}, step {facts.step:,})"
    rows = made.rows()
    emit_rows(rows, COLUMNS, title="Size of the weights", json=json, caption=caption)
    session.say(saved(made.output, made.tokens, (rows[-1]["full_bytes"], rows[-1]["bytes"])))


def _slice_directory(
    session: Session,
    path: Path,
    output: Path | None,
    selection: Selection,
    *,
    report: list[str] | None,
    reading: Reading,
    verify: bool,
    force: bool,
    json: bool,
) -> None:
    """Slice a Hugging Face directory, print sizes and the report.

    Raises:
        UsageError: no output, or as `slice_directory`.
    """
    from modtok_cli.inference.hf.slice import slice_directory

    if output is None:
        raise UsageError(
            "no output directory given", remedy=f"as in: modtok slice {path} --langs fr,en -o fr-en"
        )
    if report or verify:
        require_models()
    texts = load_report(session, report, reading)
    made = slice_directory(
        path,
        selection,
        output,
        reading=reading,
        verify=verify,
        force=force,
        progress=session.progress,
    )
    emit_with_report(
        session,
        made.table_rows(),
        COLUMNS,
        texts,
        path,
        made.output,
        title="Size of the weights",
        caption=str(made.output),
        json=json,
    )
    before = max(rows for rows, _ in made.rows.values())
    is_reduced = selection.coverage or selection.k or selection.tokenizer
    more = "" if is_reduced else "; --coverage 0.999 saves more, for 0.1% more tokens of text"
    session.say(saved(made.output, (before, len(made.ids)), made.total) + more)


def saved(output: Path, rows: tuple[int, int], size: tuple[int, int]) -> str:
    """One line about rows and bytes, (before, after) each.

    >>> saved(Path("fr"), (32000, 8000), (4_000_000, 3_000_000))
    'wrote fr: 8,000 of 32,000 rows, 1.0 MB of 4.0 MB saved (25%)'
    """
    whole, less = size[0], size[0] - size[1]
    return (
        f"wrote {output}: {rows[1]:,} of {rows[0]:,} rows, "
        f"{format_bytes(less)} of {format_bytes(whole)} saved ({less / max(1, whole):.0%})"
    )
