"""`modtok extract`: a compact tokenizer of some languages."""

from pathlib import Path
from typing import Annotated

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Force
from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import check_output, emit_chunks, emit_each
from modtok_cli.construct.parameters import Specials
from modtok_cli.tokenizer.extract import content_of, extract
from modtok_cli.tokenizer.hf_directory import write_hf_directory

Name = Annotated[
    str | None,
    Option("Same as -t TOKENIZER.", argument=True, metavar="TOKENIZER", hub="tokenizer"),
]
HfDirectory = Annotated[
    Path | None,
    Option(
        "Write a directory that AutoTokenizer.from_pretrained opens, instead of a file.",
        metavar="DIR",
        writes=True,
    ),
]
ChatTemplate = Annotated[
    str | None,
    Option(
        "Chat template: chatml, headers, or a Jinja file. Requires --hf.",
        metavar="TEMPLATE",
    ),
]


@command(
    "extract",
    extract,
    tables=False,
    examples="""
    # French and English, as a standard tokenizer.json
    modtok extract --langs fr,en -o fr-en.json
    # pipe into a measurement
    modtok extract --langs fr,en | modtok nsl flores.txt
    # from another directory
    modtok extract -t bpe-joint --langs fi > fi.json
    # a Unigram tokenizer for SentencePiece
    modtok extract -t unigram-merged --langs fr -o fr.model
    # a directory for transformers, with a chat template and its special tokens
    modtok extract --langs fr,en --hf fr-en-chat/ --chat-template chatml
    # French in the 16,000 tokens that its text needs most
    modtok extract --langs fr --top 16000 --text data/fr.jsonl.zst -o small.json
    # the 24,000 tokens most frequent in French, of an external model
    modtok extract --top 24000 --text data/fr.jsonl.zst other.model -o fr.model
    """,
)
def show(
    call: Call,
    name: Name = None,
    hf: HfDirectory = None,
    special: Specials = (),
    chat_template: ChatTemplate = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """--hf writes a directory for transformers: EOS and padding tokens, the special tokens of
    --special, which get the ids after the last one, and a chat template. A named template adds
    its special tokens, and its end-of-turn token becomes the EOS token.
    """
    if name is not None:
        if call.values.get("tokenizer", name) != name:
            raise UsageError(
                f"two tokenizers given, {name} and {call.values['tokenizer']}", remedy="give one"
            )
        call.values["tokenizer"] = name
    output = call.values.get("output")
    if hf is not None:
        if output is not None:
            raise UsageError("-o and --hf are mutually exclusive", remedy="give one of them")
        made = content_of(call(), ".json")
        row = write_hf_directory(
            hf, made, specials=special, chat_template=chat_template, force=force
        )
        call.say(f"wrote {hf}: {row['tokens']:,} tokens, EOS {row['eos']}, pad {row['pad']}")
        emit_each([row] if json else ())
        return
    if special or chat_template is not None:
        raise UsageError(
            "--special and --chat-template require --hf",
            remedy="as in: modtok extract --langs fr,en --hf DIR --chat-template chatml",
        )
    if output is None and json:
        raise UsageError("--json requires -o or --hf, since the tokenizer is written to stdout")
    remedy = "write to a file with -o, or pipe: modtok extract --langs fr,en | modtok nsl …"
    check_output(output, force, remedy)
    part = call()
    if output is None:
        emit_chunks([content_of(part)])
        return
    kept = int(part.segmenter.needed.sum())
    call.say(f"wrote {output}: {part.size:,} tokens, {kept:,} of them bytes and special tokens")
    emit_each([{"output": str(output), "bytes": output.stat().st_size}] if json else ())
