"""Options of trained models, each a type for parameters of public functions."""

from pathlib import Path
from typing import Annotated, Literal

from modtok_cli.base.option import Option
from modtok_cli.base.parameters import FilePath, Languages, languages_option
from modtok_cli.model.kinds import RUN, model_kind

LATEST = "runs/latest"
HfModel = Annotated[
    FilePath,
    Option(
        "Hugging Face model (directory or name on the hub) with safetensors and tokenizer.",
        argument=True,
        metavar="MODEL",
        hub="model",
    ),
]
Model = Annotated[
    FilePath,
    Option(
        "Run, checkpoint, slice, or Hugging Face model (directory or name on the hub).",
        key="model",
        argument=True,
        metavar="MODEL",
        hub="model",
        kind_of=lambda path, _: model_kind(Path(path)),
    ),
]
Step = Annotated[
    int | None,
    Option("Step of the checkpoint; the last one by default.", metavar="N", low=0, of=(RUN,)),
]
Inputs = Annotated[
    Languages | None,
    languages_option("Languages of the input vocabulary, or full.", "--in", key="reading"),
]
Outputs = Annotated[
    Languages | None,
    languages_option("Languages of the output vocabulary, or full.", "--out", key="writing"),
]
Gpus = Annotated[
    int,
    Option("Number of processes, one per GPU; without GPUs, on the CPU.", metavar="N", low=1),
]
MustHave = Annotated[
    FilePath | None,
    Option(
        "List of tokens to keep in any case. In a format of modtok tokens but sglang, such as "
        "a JSON list or an id per line.",
        metavar="LIST",
    ),
]
DtypeName = Literal["float32", "bfloat16", "float16"]
Dtype = Annotated[
    DtypeName | None,
    Option("Dtype of the weights. Default: that of training."),
]
RunTokenizer = Annotated[
    FilePath | None,
    Option(
        "Modular directory of the run; found by the run's settings by default.",
        flags="-t --tokenizer",
        metavar="TOKENIZER",
        hub="tokenizer",
        complete="tokenizers",
        of=(RUN,),
    ),
]
