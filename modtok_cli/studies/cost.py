"""`modtok study cost`: cost of a tokenizer for a model, computed from operation counts.

A tokenizer determines the number of tokens of a text and the number of output columns per token. A
token costs N + d·|V| multiplications, with N weights in the backbone's matrices and hidden size d,
so that relative to a reference

    cost = tokens / tokens_ref · (N + d·|V|) / (N + d·|V_ref|).

Attention over the context and hardware efficiency are ignored; `modtok latency` measures.
"""

from typing import Any

from modtok_cli.architectures.shape import Shape
from modtok_cli.architectures.sizes import PAPER, SIZES
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.parameters import AnyTokenizers, Lang, References, Texts, optional_path
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.signature import signature
from modtok_cli.measure.candidates import named
from modtok_cli.measure.nsl import nsl
from modtok_cli.measure.references import find_references
from modtok_cli.text.reading import Reading

# The paper's models (its table of memory by scale).
SCALES = {name.upper(): SIZES[name] for name in PAPER}


def step_cost(size: int, reference_size: int, shape: Shape) -> float:
    """Multiplications per token with `size` output rows, relative to `reference_size`."""
    backbone, width = shape.layers * shape.layer_products, shape.hidden_size
    return (backbone + width * size) / (backbone + width * reference_size)


@public
def study_cost(
    texts: Texts,
    tokenizers: AnyTokenizers,
    *,
    references: References = None,
    language: Lang = None,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Estimate the inference cost of tokenizers by model size.

    Models have 0.5B to 30B parameters. Cost is tokens times multiplications per token,
    including the output layer, relative to the monolingual reference of the language. It is
    computed, not measured.

    Returns:
        One row per text, language, tokenizer and scale: size, NSL, `step` (cost of a token) and
        `cost` (of the text), both relative to the language's monolingual reference.

    Examples:
        >>> len(modtok.study_cost("parallel/fi.txt", "tokenizer@each"))  # one per model size
        6

    Raises:
        ModtokError: a file is missing or damaged, or no language has a reference.
    """
    measured = nsl(
        tokenizers,
        texts,
        references=references,
        language=language,
        reading=reading,
        progress=progress,
    )
    against = find_references(optional_path(references), named(tokenizers))
    rows: list[dict[str, Any]] = []
    for row in measured:
        if row["nsl"] is None:
            continue
        reference_size = against[row["language"]].tokenizer.size
        for scale, shape in SCALES.items():
            step = step_cost(row["size"], reference_size, shape)
            rows.append(
                {
                    "tokenizer": row["tokenizer"],
                    "text": row["text"],
                    "language": row["language"],
                    "scale": scale,
                    "size": row["size"],
                    "nsl": row["nsl"],
                    "step": step,
                    "cost": row["nsl"] * step,
                    "signature": signature(
                        "cost", scale=scale, nsl=row["signature"].replace("|", "/")
                    ),
                }
            )
    if not rows:
        raise ModtokError("no text in a language with a reference")
    return rows
