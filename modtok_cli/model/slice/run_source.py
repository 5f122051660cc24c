"""A pretraining run as a source: any subset of a checkpoint, weights read as they are needed.

Rows of the tables are read by id from memory-mapped files, so a slice of a large run needs memory
for its own rows only; moments are not read.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import torch
from safetensors import SafetensorError

from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.read_file import read_object
from modtok_cli.base.signature import digest
from modtok_cli.model.architecture.megatron_layout import megatron_partition, to_hf
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.model.source import Chat, ModelSource
from modtok_cli.model.vocabularies import LANG, Side, Vocabularies, is_full
from modtok_cli.tokenizer.modular_tokenizer import MODEL, ModularTokenizer, resolve
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.training import checkpoint
from modtok_cli.training.checkpoint import ShardFile
from modtok_cli.training.checkpoint.checkpoint_files import step_directory, steps_in
from modtok_cli.training.data.conversation import FILE
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.rundir import (
    CHAT,
    CHECKPOINTS,
    CONFIG,
    RunDirectory,
    find_tokenizer,
    is_run,
    run_of,
    trained_languages,
)
from modtok_cli.training.settings import DTYPES, OPTIONS, SECTIONS
from modtok_cli.training.stored_config import at_step, stored_shape

_BACKBONE = "backbone.weight/"


class RunSource(ModelSource):
    """A checkpoint of a run, with its settings and tokenizer.

    Attributes:
        path: the run's directory.
        checkpoint: the directory of the checkpoint.
        step: steps trained.
        state: the state of the checkpoint.
        config: content of the run's config.json; `settings` are the options in its field "config".
        tokenizer_path: modular directory with the run's signature.
    """

    mode, hf_path = LANG, None
    shape: Shape
    context: int

    def __init__(
        self,
        path: Path,
        checkpoint: Path,
        state: Mapping[str, Any],
        config: Mapping[str, Any],
        shape: Shape,
        tokenizer_path: Path,
    ) -> None:
        self.path, self.checkpoint = path, checkpoint
        self.tokenizer_path = self.modular = tokenizer_path
        self.config, self.shape, self.state = config, shape, state
        self.settings: Mapping[str, Any] = {
            name: value for table in SECTIONS for name, value in config["config"][table].items()
        }
        self.name = path.resolve().name
        self.step = int(state["step"])
        self.context = int(self.settings["seq_length"])
        # Weights are stored in float32.
        self.dtype: torch.dtype = getattr(torch, str(self.settings["dtype"]))

    @cached_property
    def tokenizer(self) -> ModularTokenizer:
        """T with its membership."""
        return ModularTokenizer.load(self.tokenizer_path)

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Languages that the run was trained in; T may have others, with untrained rows."""
        return trained_languages(self.config, self.tokenizer)

    @property
    def place(self) -> Path:
        """The checkpoint."""
        return self.checkpoint

    @cached_property
    def digest(self) -> str:
        """`NAME@STEP/DIGEST`, of the checksums of the checkpoint, and of its tokenizer."""
        files = orjson.dumps(self.state.get("files"), option=orjson.OPT_SORT_KEYS)
        return f"{self.path.name}@{self.step}/{digest(files, self.tokenizer.signature.encode())}"

    def labels(self) -> dict[str, Any]:
        """Step, sampling and seed; `recipe` is of all other settings of the model."""
        names = {name for name, each in OPTIONS.items() if not each.changeable} - {"seed"}
        names.add("steps")
        shared: list[Any] = sorted((k, v) for k, v in self.settings.items() if k in names)
        shared += [self.shape.as_json(), self.step, self.tokenizer.signature]
        own = {name: self.settings.get(name) for name in ("sampling", "p", "seed")}
        recipe = digest(orjson.dumps(shared, default=str), length=8)
        return {"step": self.step, **own, "recipe": recipe}

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the weights: CRC-32 of the state, which has the checksums of files."""
        return f"{int(self.state.get('crc', 0)):08x}"

    @cached_property
    def _subsets(self) -> SubtokenizerCache:
        return SubtokenizerCache(self.tokenizer, str(self.tokenizer_path))

    @cached_property
    def _full(self) -> Subtokenizer:
        """T, as a tokenizer of the languages of the run."""
        whole = self._subsets.of(None)
        whole.languages = self.languages
        return whole

    def side(self, languages: Side) -> Subtokenizer:
        """The subtokenizer of one side; None and "full" are T.

        Raises:
            UsageError: a language that the run was not trained in.
        """
        if languages is None or is_full(languages):
            return self._full
        names = [languages] if isinstance(languages, str) else languages
        wanted = resolve(self.languages, names, MODEL)
        return self._subsets.of(tuple(name for name in self.languages if name in wanted))

    def vocabularies(self, inputs: Side, outputs: Side) -> Vocabularies:
        """Both sides by their languages."""
        reading = self.side(inputs)
        writing = reading if outputs is None else self.side(outputs)
        return Vocabularies(reading, reading if writing.signature == reading.signature else writing)

    def end_of_text(self, vocabularies: Vocabularies) -> int:
        """Row of the token between documents."""
        return int(np.searchsorted(vocabularies.ids, self._subsets.end_of_text))

    def chat(self, vocabularies: Vocabularies) -> Chat | None:
        """Of a run that was trained on conversations, or of the model that it began from."""

        def rows(*names: object) -> list[int]:
            ids = [self._subsets.specials[str(n)] for n in names if n in self._subsets.specials]
            return [int(row) for row in np.searchsorted(vocabularies.ids, ids)]

        if (self.path / FILE).is_file():
            fields = read_object(self.path / FILE)
            turn = rows(fields.get("eos_token")) or [self.end_of_text(vocabularies)]
            return Chat(str(fields.get("chat_template", "")), tuple(turn))
        fields = self.config.get("initial", {}).get(CHAT)
        if not isinstance(fields, Mapping):
            return None
        begin, end = ([*rows(fields.get(name)), None][0] for name in ("bos", "eos"))
        return Chat(fields.get("template"), tuple(rows(*fields.get("ends", ()))), begin, end)

    def tables(self, vocabularies: Vocabularies) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of the checkpoint; one tensor for both if tied and the sides are equal."""
        embedding = self._rows("input", vocabularies.ids)
        if self.shape.tied and vocabularies.same:
            return embedding, embedding
        return embedding, self._rows("output", vocabularies.tokenizer_out.global_ids)

    @cached_property
    def _shards(self) -> list[ShardFile]:
        try:
            return checkpoint.open_shards(self.checkpoint, self.state)
        except (OSError, SafetensorError) as error:
            raise ModtokError(f"cannot be read ({error})", where=self.checkpoint) from error

    def _rows(self, table: str, ids: npt.NDArray[np.integer]) -> torch.Tensor:
        """Rows of "input" or "output" by ids of T; (n, width) float32."""
        name = "table.weight" if self.shape.tied else f"{table}.weight"
        wanted = torch.from_numpy(np.asarray(ids, dtype=np.int64))
        files = checkpoint.row_files(self._shards)
        rows = torch.empty(len(wanted), self.shape.hidden_size)
        try:
            for shard, file in enumerate(files):
                here = wanted % len(files) == shard
                rows[here] = file.get_tensor(name)[wanted[here] // len(files)].float()
        except (SafetensorError, IndexError, RuntimeError) as error:
            raise ModtokError(
                f"table '{name}' is damaged ({error})",
                where=self.checkpoint,
                remedy="choose another step with --step",
            ) from error
        return rows

    def parameters(self) -> dict[str, torch.Tensor]:
        """Parameters of the backbone under their transformers names, whole, in float32."""
        return to_hf(self.shape, self.megatron_parameters())

    def megatron_parameters(self) -> dict[str, torch.Tensor]:
        """Parameters of the backbone under Megatron's names, whole, in float32."""
        try:
            names = [name for name in self._shards[0].names if name.startswith(_BACKBONE)]
            return {
                name.removeprefix(_BACKBONE): _joined(
                    [file.get_tensor(name) for file in self._shards],
                    megatron_partition(name),
                )
                for name in names
            }
        except (SafetensorError, RuntimeError) as error:
            raise ModtokError(f"is damaged ({error})", where=self.checkpoint) from error


def _joined(shards: list[torch.Tensor], partition: tuple[int, int] | None) -> torch.Tensor:
    if len(shards) == 1 or partition is None:
        return shards[0]
    dimension, parts = partition
    pieces = [shard.chunk(parts, dimension) for shard in shards]
    return torch.cat([piece[part] for part in range(parts) for piece in pieces], dimension)


def find_run(name: str, tokenizer: str, *, near: Path) -> Path | None:
    """The run of that name and tokenizer signature, near a path or in the current workspace."""
    places = [*near.parents[:2], Path()]
    for place in (each / runs / name for each in places for runs in ("runs", ".")):
        with suppress(ModtokError):
            if is_run(place) and _signature(place) == tokenizer:
                return place
    return None


def _signature(run: Path) -> str:
    return str(RunDirectory(run).read_config()["tokenizer"]["signature"])


def open_run(
    path: Path,
    *,
    tokenizer: Path | None = None,
    step: int | None = None,
    progress: Progress = SILENT,
) -> RunSource:
    """Open `runs/NAME` (its last valid checkpoint, or `step`) or a checkpoint directory.

    The tokenizer with the run's signature is `tokenizer`, or in the run, its workspace or the
    current directory.
    """
    path = Path(path)
    root = run_of(path)
    if not is_run(path):
        raise missing(path, "pass a run of modtok pretrain", "is not a run")
    if root != path:
        own = int(path.name.removeprefix("step-"))
        if step not in (None, own):
            raise UsageError(
                f"is the checkpoint of step {own}, not {step}",
                where=path,
                remedy="leave --step out, or pass the run",
            )
        step = own
    _config(root, step or 0)
    directory, state = _checkpoint(root / CHECKPOINTS, step, progress)
    config, shape = _config(root, state["step"])
    return RunSource(
        root.resolve() if root.is_symlink() else root,
        directory,
        state,
        config,
        shape,
        find_tokenizer(root, config["tokenizer"], tokenizer),
    )


def _config(root: Path, step: int) -> tuple[dict[str, Any], Shape]:
    """The content of config.json at a step, and the model's shape."""
    file = root / CONFIG
    config = at_step(RunDirectory(root).read_config(), step, str(file))
    stored = config["config"]
    length, dtype = stored["data"].get("seq_length"), stored["precision"].get("dtype")
    wrong = ""
    if type(length) is not int or not 1 <= length < 1 << 31:
        wrong = f"field 'config.data.seq_length' is {length!r}"
    elif dtype not in DTYPES:
        wrong = f"field 'config.precision.dtype' is {dtype!r}"
    if wrong:
        remedy = "restore it, or choose another run"
        raise ModtokError(f"is damaged ({wrong})", where=file, remedy=remedy)
    return config, stored_shape(stored, str(file))


def steps_of(path: Path) -> list[int]:
    """Steps of the checkpoints of a run, or the step of a checkpoint; ascending."""
    root = run_of(path)
    return _steps(root / CHECKPOINTS) if root == path else [int(path.name.removeprefix("step-"))]


def _steps(directory: Path) -> list[int]:
    return [int(path.name[5:]) for path in steps_in(directory)]


def _checkpoint(
    directory: Path, step: int | None, progress: Progress
) -> tuple[Path, Mapping[str, Any]]:
    if step is None:
        newest = checkpoint.newest(directory, progress)
        if newest is None:
            raise ModtokError(
                "has no checkpoint yet", where=directory, remedy="wait until one is saved"
            )
        return newest
    path = step_directory(directory, step)
    if not path.is_dir():
        steps = _steps(directory)
        raise UsageError(
            f"has no checkpoint of step {step}",
            where=directory,
            remedy=f"choose from {', '.join(map(str, steps)) or 'none'}",
        )
    wrong, state = checkpoint.check(path)
    if state is None:
        raise ModtokError(wrong, remedy="choose another step with --step")
    return path, state
