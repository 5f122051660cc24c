"""`modtok graft`: put a fine-tuned slice back into the run or model that it was cut from."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.memory import check_memory
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import FilePath, Force, Output, optional_path
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.model.architecture.megatron_layout import from_hf
from modtok_cli.model.architecture.stored_model import CONFIG, HfDirectory, is_hf_directory
from modtok_cli.model.hf.graft_hf import ANOTHER, GraftReport, check_vocabulary, graft_directory
from modtok_cli.model.hf.model_directory import NAME as IDS
from modtok_cli.model.hf.model_files import check_output
from modtok_cli.model.kinds import FACTS, MODEL, RUN
from modtok_cli.model.parameters import RunTokenizer


def _home_kind(_: object, values: Mapping[str, Any]) -> str | None:
    """The kind of what the slice was cut from; None if it does not say."""
    home = Path(values.get("original") or values["model"])
    if (home / FACTS).is_file():
        return RUN
    return MODEL if (home / IDS).is_file() else None


@public
def graft(
    model: Annotated[
        FilePath,
        Option(
            "Fine-tuned slice, also merged by PEFT.", argument=True, metavar="SLICE", hub="model"
        ),
    ],
    onto: Annotated[
        FilePath | None,
        Option(
            "Run, checkpoint or Hugging Face model that the slice was cut from.",
            metavar="DIR",
            hub="model",
            kind_of=_home_kind,
        ),
    ] = None,
    *,
    output: Output = None,
    original: Annotated[
        FilePath | None,
        Option(
            "The slice before it was fine-tuned, if SLICE has no modtok.json or "
            "modtok-vocabulary.json of its own.",
            flags="--slice",
            metavar="DIR",
            hub="model",
        ),
    ] = None,
    convert: Annotated[
        bool,
        Option(
            "Hugging Face model: convert weights of SLICE to the dtype of the model.", of=(MODEL,)
        ),
    ] = False,
    tokenizer: RunTokenizer = None,
    force: Force = False,
    progress: Progress = SILENT,
) -> GraftReport:
    """Put a fine-tuned slice back into the model that it was cut from.

    The result has the backbone of the slice and, in the tables, the rows of its tokens. All
    other rows and files of `onto` stay, bit for bit. A slice of the result in the same languages
    has the weights of SLICE, bit for bit.

    Rows of other languages stay while the backbone changes: measure these languages, and train
    their rows again if they got worse.

    Onto a run, the result is a run with one checkpoint of float32 weights, which modtok slice,
    generate, eval and pretrain --init-from read. Onto a Hugging Face model, the result is a model
    in the same dtypes, which may be larger than memory; weights in another dtype are refused
    unless `convert` is given.

    Examples:
        >>> report = modtok.graft("fr-en", "runs/latest", output="runs/tuned")
        >>> [path.name for path in (report.output / "checkpoints").iterdir()]
        ['step-...']

    Raises:
        UsageError: a slice of another model or run, tensors that do not fit, or an existing output.
        ModtokError: a file is damaged.
    """
    if onto is None or output is None:
        raise UsageError(
            f"no {'model' if onto is None else 'output directory'} given",
            remedy="as in: modtok graft tuned/ --onto runs/latest -o runs/tuned",
        )
    part, whole, place = Path(model), Path(onto), Path(output)
    if not is_hf_directory(part):
        remedy = "give a directory that save_pretrained wrote"
        raise missing(part, remedy, "has no weights in safetensors")
    home = optional_path(original) or part
    is_run_slice = (home / FACTS).is_file()
    if not is_run_slice and not (home / IDS).is_file():
        what = f"has no {FACTS} and no {IDS}, which list the tokens of a slice"
        raise missing(home, "name the fine-tuned slice: --slice DIR", what)
    for each in (part, home, whole):
        if place.resolve() in (each.resolve(), *each.resolve().parents):
            raise UsageError(f"would replace {each}", where=place, remedy="choose another -o")
    check_output(place, CONFIG, force=force, kind="model or run")
    if is_run_slice:
        return _graft_run(part, home, whole, place, optional_path(tokenizer), progress)
    if not is_hf_directory(whole):
        what = f"is not the Hugging Face model that {home} is a slice of"
        raise missing(whole, "check the name", what)
    return graft_directory(part, home, whole, place, convert=convert, progress=progress)


def _graft_run(
    part: Path,
    home: Path,
    whole: Path,
    output: Path,
    tokenizer: Path | None,
    progress: Progress,
) -> GraftReport:
    """Write a run with the weights of the fine-tuned slice `part`; `home` describes its origin."""
    import torch

    from modtok_cli.model.slice.run_source import open_run
    from modtok_cli.model.slice.slice_directory import read_facts
    from modtok_cli.tokenizer.adopted.restrict import vocabulary_of
    from modtok_cli.tokenizer.segmenters.json_frame import parse_document
    from modtok_cli.training.checkpoint import save_weights
    from modtok_cli.training.data.conversation import FILE as CHAT
    from modtok_cli.training.rundir import CHECKPOINTS, GRAFTED, METRICS, RunDirectory, run_of

    facts = read_facts(home)
    if facts.row_of_in is not None:
        raise UsageError("reads and writes different languages, which only modtok can train",
                         where=home, remedy="fine-tune a slice of --langs")  # fmt: skip
    own_step = None if run_of(whole) != whole else facts.step
    source = open_run(whole, tokenizer=tokenizer, step=own_step, progress=progress)
    what = ""
    if source.tokenizer.signature != facts.tokenizer:
        what = f"a run with tokenizer {facts.tokenizer}, {whole} has {source.tokenizer.signature}"
    elif (source.step, source.fingerprint) != (facts.step, facts.weights):
        what = f"other weights than {whole} has at step {source.step}"
    if what:
        raise UsageError(f"was cut from {what}", where=home, remedy=ANOTHER)
    reading = source.side(None if facts.full_inputs else facts.inputs)
    expected = vocabulary_of(parse_document(reading.to_json(), str(home)), str(home))
    for directory in dict.fromkeys((home, part)):
        check_vocabulary(directory, expected, whole)
    tuned, full = HfDirectory(part), source.vocabularies("full", "full")
    if tuned.shape != source.shape:
        raise UsageError(f"is a {tuned.shape}, the run a {source.shape}", where=part,
                         remedy="graft a slice of this run")  # fmt: skip
    size = 4 * source.shape.hidden_size
    rows = size * len(facts.ids) * (1 if source.shape.tied else 2)
    table = size * source.tokenizer.size * (1 if source.shape.tied else 2)
    backbone = 4 * source.shape.parameters
    check_memory(table + 2 * backbone, "the run", "use a larger machine")
    names = ("table",) if source.shape.tied else ("input", "output")
    ids, tensors = torch.from_numpy(facts.ids), {}
    for name, parameter in from_hf(source.shape, tuned.backbone):
        tensors[f"backbone.weight/{name}"] = parameter
    for name, every in zip(names, source.tables(full), strict=False):
        own = tuned.table(name)
        if len(own) != len(ids):
            raise UsageError(f"has {len(own):,} rows, the slice {len(ids):,}", where=part,
                             remedy="fine-tune a slice without resizing its tables")  # fmt: skip
        every[ids] = own
        tensors[f"{name}.weight"] = every
    wrong = next((name for name, each in tensors.items() if not each.isfinite().all()), None)
    if wrong is not None:
        raise ModtokError(f"'{wrong}' is not finite", where=part, remedy="fine-tune it again")
    with atomic_directory(output) as beside:
        grafted = {"languages": facts.inputs, "run": source.name, "weights": source.fingerprint}
        config = {**RunDirectory(run_of(whole)).read_config(), GRAFTED: grafted}
        RunDirectory(beside).write_config(config)
        (beside / METRICS).touch()  # numbers of the other run are not of these weights
        if (source.path / CHAT).is_file():
            shutil.copyfile(source.path / CHAT, beside / CHAT)
        shutil.copytree(source.tokenizer_path, beside / "tokenizer")
        save_weights(beside / CHECKPOINTS, source.step, tensors)
    sizes = {"backbone": (backbone, backbone), "vocabulary rows": (rows, table)}
    tokens = source.tokenizer.size, len(ids)
    return GraftReport(output, sizes, {"tokens": len(ids)}, source.checkpoint, tokens)
