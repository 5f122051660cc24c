"""`--report` of `modtok slice`, `graft` and `transplant`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from modtok_cli.base.option import Option
from modtok_cli.base.parameters import PATHS
from modtok_cli.cli.command import Call
from modtok_cli.cli.output import Column, emit_tables, parse_columns
from modtok_cli.text.reading import Reading

if TYPE_CHECKING:
    from modtok_cli.measure.texts import Text

Report = Annotated[
    list[str] | None,
    Option(
        "Compare tokens and bits per byte on this text, before and after. Repeatable.",
        metavar="TEXT",
        accepts=PATHS,
    ),
]
# Language of texts whose name and documents do not say it.
_UNKNOWN = "unknown"
COLUMNS = parse_columns(
    "text, language=lang, full_tokens_per_byte=tokens/byte before:ratio, "
    "tokens_per_byte=after:ratio, full_bits_per_byte=bits/byte before:ratio, "
    "bits_per_byte=after:ratio, change:ratio, low=from:ratio, high=to:ratio"
)


def load_report(call: Call, report: Sequence[str] | None, reading: Reading) -> list[Text]:
    """Read the texts before the work starts.

    Raises:
        ModtokError: one is missing, empty or damaged.
    """
    if not report:
        return []
    from modtok_cli.measure.texts import load_texts

    return load_texts(
        report,
        language=None,
        references=None,
        keep_documents=True,
        reading=reading,
        progress=call.progress,
        unknown=_UNKNOWN,
    )


def emit_with_report(
    call: Call,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    texts: Sequence[Text],
    before: Path,
    after: Path,
    *,
    caption: str,
    json: bool,
) -> None:
    """Print the sizes of a model's weights and, if there are texts, its bits per byte.

    Raises:
        ModtokError: a model does not fit in memory, or transformers does not open it.
    """
    tables: list[tuple[str, Sequence[Mapping[str, Any]], Sequence[Column]]] = [
        ("Size of the weights", rows, columns)
    ]
    compared: list[dict[str, Any]] = []
    if texts:
        from modtok_cli.evaluate.bits import compare_directories

        compared = compare_directories(before, after, texts, progress=call.progress)
        heading = (
            f"Text in {compared[0]['rows']:,} of {compared[0]['full_rows']:,} rows"
            if compared[0]["rows"] <= compared[0]["full_rows"]
            else f"Text in {compared[0]['rows']:,} rows instead of {compared[0]['full_rows']:,}"
        )
        tables.append((heading, compared, COLUMNS))
    emit_tables([*rows, *compared], tables, json=json, caption=caption)
