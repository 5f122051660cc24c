"""A model directory as transformers opens it: does it load, are logits and token ids the same."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.extras import quiet, transformers
from modtok_cli.base.memory import available
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.model.architecture.complete import model_class
from modtok_cli.model.architecture.stored_model import open_config
from modtok_cli.tokenizer.encoding.external import one_line

_TOKENS = (2, 12)  # sequences, and tokens of each
_PROBE = "Année 1986: e\u0301te\u0301, 12 fois;\n\n  x = 1"
_TOLERANCE = 1e-3
_INFO = ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")


def warn_of_other_ids(directory: Path, progress: Progress) -> None:
    """Warn if AutoTokenizer does not use the directory's `tokenizer.json` as it is.

    For some model types, such as qwen2, it replaces normalizer and pre-tokenizer by the model's.
    """
    from tokenizers import Tokenizer

    own = Tokenizer.from_buffer((directory / "tokenizer.json").read_bytes())
    expected = own.encode(_PROBE, add_special_tokens=False).ids
    try:
        with quiet():
            auto = transformers().AutoTokenizer.from_pretrained(
                str(directory), local_files_only=True, trust_remote_code=False
            )
        same = auto.encode(_PROBE, add_special_tokens=False) == expected
    except UnicodeError:  # of the path: the library opens no such file
        return
    except Exception as error:  # each tokenizer checks its files in its own way
        progress.warn(f"{directory}: AutoTokenizer does not open it ({one_line(error)})")
        return
    if not same:
        progress.warn(
            f"{directory}: AutoTokenizer, and programs that use it such as vLLM, have other token "
            f"ids: it opens {type(auto).__name__}, which has a pre-tokenizer of its own; in Python "
            "use PreTrainedTokenizerFast.from_pretrained"
        )


def check_slice(
    whole: Path,
    part: Path,
    ids: Int32Array,
    sample: Int32Array,
    *,
    size: int,
    progress: Progress = SILENT,
) -> None:
    """Load both models in float32, one at a time, and compare what they make of some tokens.

    Args:
        whole, part: the model and its slice.
        ids: (n,) the id in `whole` of each token of `part`.
        sample: tokens of `part` to compare with.
        size: rows of `whole`.

    Models that do not fit in memory, or do not take token ids alone, are not compared: a warning
    says why.
    """
    stored = sum(file.stat().st_size for file in whole.glob("*.safetensors"))
    if not fits(3 * stored, progress):  # float32 from 16 bits, and some more
        return
    draw = np.random.default_rng(0).choice(sample, size=_TOKENS)
    before, old, reason = outputs_of(whole, ids[draw])
    if old is None:
        progress.warn(f"logits are not compared: transformers does not load {whole} ({reason})")
        return
    after, new, wrong = outputs_of(part, draw)
    if new is None:
        raise _failed(whole, f"transformers does not load the result ({wrong})")
    if more := sorted(new - old):
        raise _failed(whole, more[0])
    if not before:
        progress.warn(f"logits are not compared: {reason}")
        return
    if not after:
        raise _failed(whole, f"the result does not run ({wrong})")
    for name, values in before.items():
        expected = values[..., ids] if values.shape[-1] == size else values
        if expected.shape != after[name].shape:
            raise _failed(whole, f"'{name}' is {after[name].shape}, expected {expected.shape}")
        if (gap := difference(after[name], expected, _TOLERANCE)) is not None:
            raise _failed(whole, f"'{name}' of kept tokens differ by {gap:.2g}")


def fits(need: int, progress: Progress) -> bool:
    """Whether a comparison of logits has `need` bytes of memory; a warning says if it has not."""
    free = available()
    if free is None or need <= free:
        return True
    progress.warn(f"logits are not compared: needs {need / 2**30:.0f} GiB of memory")
    return False


def difference(
    found: npt.NDArray[Any], expected: npt.NDArray[Any], tolerance: float
) -> float | None:
    """The largest difference, if it exceeds this share of the largest expected value."""
    largest = float(np.abs(found - expected).max(initial=0))
    return None if largest <= tolerance * float(np.abs(expected).max(initial=0)) else largest


def _failed(where: Path, what: str) -> ModtokError:
    return ModtokError(f"cannot be sliced: {what}; the output was removed", where=where)


def outputs_of(path: Path, ids: Int32Array) -> tuple[dict[str, Any], set[str] | None, str]:
    """Outputs in float32 by name, faults of the tensors, and the reason of missing outputs.

    None in place of tensors: the model is not loaded.
    """
    import torch

    config = open_config(path)
    try:
        with quiet():
            model, info = model_class(config).from_pretrained(
                str(path),
                config=config,
                dtype=torch.float32,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
    except Exception as error:  # as many as there are architectures
        return {}, None, one_line(error)[:300]
    problems = {
        f"tensor '{each[0] if isinstance(each, tuple) else each}' is {kind.split('_')[0]}"
        for kind in _INFO
        for each in info.get(kind) or ()
    }
    try:
        with quiet(), torch.random.fork_rng(devices=[]), torch.inference_mode():
            torch.manual_seed(0)
            outputs = model.eval()(**_inputs(model, config, torch.from_numpy(ids).long()))
    except Exception as error:  # as above
        return {}, problems, one_line(error)[:300]
    values = {
        name: value.float().numpy()
        for name, value in outputs.items()
        if isinstance(value, torch.Tensor) and value.is_floating_point()
    }
    return values, problems, ""


def _inputs(model: Any, config: Any, ids: Any) -> dict[str, Any]:
    """Token ids, of models with a decoder for both sides; of a model of speech, silence."""
    import torch

    names = {"input_ids": ids}
    if model.main_input_name == "input_features":
        width = 2 * config.max_source_positions
        names = {"input_features": torch.zeros(len(ids), config.num_mel_bins, width)}
    if config.is_encoder_decoder:
        names["decoder_input_ids"] = ids.flip(1)
    return names
