"""Every option reaches what it configures: the model, the stream of batches, the loop."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import torch

from helpers.metrics import read_metrics
from modtok_cli.base.errors import Stopped, UsageError
from modtok_cli.base.progress import SILENT, Silent
from modtok_cli.training import heldout, loop, prepare, run_state, step
from modtok_cli.training.config import Config, check_ranks
from modtok_cli.training.data.sampling import Mixture
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.resolve import resolve
from modtok_cli.training.run import Stage
from modtok_cli.training.settings import OPTIONS, RunSettings
from modtok_cli.training.stored_config import config_as_json, config_from_json

# Options of the model and of its batches: option → its value, options that it needs, and what
# changes: where → value.
REACHES: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "sampling": ("sub:2", {}, {"regime": "sub:2", "draws": None}),
    "p": (0.25, {}, {"p": 0.25, "draws": None}),
    "dropout": (0.1, {}, {"dropout": 0.1}),
    "draw": ("step", {}, {"group": 12}),
    "layers": (5, {}, {"shape.layers": 5, "init.projections": 0.02 / 10**0.5}),
    "hidden_size": (48, {}, {"shape.hidden_size": 48}),
    "ffn": (80, {}, {"shape.ffn": 80}),
    "heads": (8, {}, {"shape.heads": 8}),
    "kv_heads": (1, {}, {"shape.kv_heads": 1}),
    "head_width": (16, {}, {"shape.head_width": 16}),
    "rope_theta": (5e5, {}, {"shape.rope_theta": 5e5}),
    "qk_norm": (True, {}, {"shape.qk_norm": True}),
    "tied": (True, {}, {"shape.tied": True}),
    "steps": (77, {"lr_steps": 50, "warmup": 5}, {"last_step": 77}),
    "batch_size": (6, {}, {"slots": 6, "mine": [0, 1, 2, 3, 4, 5]}),
    "micro_batch": (4, {}, {"group": 4, "sequences": 4}),
    "seq_length": (40, {}, {"length": 40}),
    "workers": (3, {}, {"workers": 3}),
    "seed": (7, {}, {"seed": 7, "stream seed": 7, "draws": None}),
    "recompute": (1, {}, {"recompute": 1}),
    "dtype": ("bfloat16", {}, {"dtype": torch.bfloat16}),
    "attention": ("document", {}, {"end_of_text": 3}),
    "distributed_optimizer": (True, {}, {"distributed": True}),
    "beta1": (0.8, {}, {"adamw.beta1": 0.8}),
    "beta2": (0.99, {}, {"adamw.beta2": 0.99}),
    "eps": (1e-6, {}, {"adamw.epsilon": 1e-6}),
    "weight_decay": (0.2, {}, {"adamw.weight_decay": 0.2}),
    "decay_params": (("norms",), {}, {"adamw.decayed": ("norms",)}),
    "clip": (0.5, {}, {"clip": 0.5}),
    "z_loss": (1e-4, {}, {"z_loss": 1e-4}),
    "init_std": (0.01, {"init_embedding_std": 0.02, "init_projection_std": 0.01},
                 {"init.matrices": 0.01}),
    "init_projection_std": (0.003, {}, {"init.projections": 0.003}),
    "init_embedding_std": (0.1, {}, {"init.embeddings": 0.1}),
    "offload": (True, {}, {"offload.delay": 1, "offload.moments": torch.float32}),
    "offload_delay": (0, {"offload": True}, {"offload.delay": 0}),
    "offload_moments": ("bfloat16", {"offload": True}, {"offload.moments": torch.bfloat16}),
    "offload_file": (Path("disk"), {"offload": True}, {"offload.directory": Path("disk")}),
    "lr": (1e-2, {"final_lr": 1e-5}, {"lr": None}),
    "final_lr": (1e-5, {}, {"lr": None}),
    "schedule": ("wsd", {}, {"lr": None}),
    "lr_steps": (90, {}, {"lr": None}),
    "decay_steps": (30, {"schedule": "wsd"}, {"lr": None}),
    "warmup": (9, {}, {"lr": None}),
}  # fmt: skip
BASE: dict[str, Any] = {
    "model": "tiny", "layers": 2, "hidden_size": 32, "ffn": 64, "heads": 4, "kv_heads": 2,
    "head_width": 8, "steps": 100, "batch_size": 12, "micro_batch": 2, "seq_length": 32,
    "sampling": "sub:1", "lr": 1e-3,
}  # fmt: skip


def reached(monkeypatch: pytest.MonkeyPatch, config: Config) -> dict[str, Any]:
    """What a configuration gives to the model, the stream, and the schedule, flat."""
    mixture = Mixture(("en", "fi", "fr"), (0.5, 0.25, 0.25))
    found: dict[str, Any] = {
        "lr": [config.lr_at(now) for now in range(1, 100)],
        "draws": list(map(str, config.draws(mixture, 1, range(99)))),
    }

    def model(shape: Any, vocabulary: int, ranks: Any, **options: Any) -> None:
        parts = {"shape": shape, **{name: options.pop(name) for name in ("adamw", "init")}}
        if (offload := options.pop("offload")) is not None:
            parts["offload"] = SimpleNamespace(
                delay=offload.delay, moments=offload.moments, directory=offload.directory
            )
        for part, value in parts.items():
            found.update({f"{part}.{name}": each for name, each in vars(value).items()})
        found.update(options)

    def stream(plan: Any, mine: Any, **options: Any) -> None:
        found.update({**vars(plan), "seed": found["seed"], "regime": str(plan.regime)})
        found.update({"stream seed": plan.seed, "mine": list(mine), **options})

    def prefetcher(stream: Any, subtokenizers: Any, ranks: Any, sequences: int, warn: Any) -> None:
        found["sequences"] = sequences

    monkeypatch.setattr(run_state, "Model", model)
    monkeypatch.setattr(run_state, "BatchStream", stream)
    monkeypatch.setattr(run_state, "Prefetcher", prefetcher)
    run: Any = SimpleNamespace(
        config=config, ranks=start_ranks(), progress=SILENT, only_rows=None, tokenizer=Path("t"),
        subtokenizers=SimpleNamespace(size=40, end_of_text=3), chunk=2048,
        recompute=config.parallelism.recompute or 0,
    )  # fmt: skip
    run_state.build_model(run)
    run_state.open_stream(Stage(run, config.periods[0], {}, mixture), 1, {})
    return found


@pytest.mark.parametrize("name", REACHES)
def test_an_option_reaches_the_model_or_its_batches(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after it was stored; and nothing else."""
    value, needed, expected = REACHES[name]
    base = RunSettings(**{**BASE, **needed})
    plain = reached(monkeypatch, resolve(base, gpu=False))
    config = resolve(base.changed(**{name: value}), gpu=False)
    stored = orjson.loads(orjson.dumps(config_as_json(config)))
    there = reached(monkeypatch, config_from_json(stored))
    changed = {each for each in plain | there if plain.get(each) != there.get(each)}
    assert changed == set(expected)
    for each, wanted in expected.items():
        assert wanted is None or there[each] == pytest.approx(wanted), each


def test_options_reach_the_loop(settings: RunSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {"applied": [], "upcoming": [], "saved": [], "probed": [], "bytes": []}

    def spy(module: Any, name: str, note: Any) -> None:
        real = getattr(module, name)

        def called(*words: Any, **options: Any) -> Any:
            note(*words, **options)
            return real(*words, **options)

        monkeypatch.setattr(module, name, called)

    def note(key: str, of: Any) -> Any:
        return lambda *words, **options: found[key].append(of(*words, **options))

    spy(step, "apply", note("applied", lambda model, gradients, lr, dense: (lr, dense)))
    spy(step, "mean_gradients", note("upcoming", lambda model, now, upcoming: upcoming is not None))
    spy(loop, "save_checkpoint", note("saved", lambda stage, model, stream, step, evaluated:
                                      (step, evaluated)))  # fmt: skip
    spy(run_state, "evaluate_held_out", note("probed", lambda stage, model, step, *rest: step))
    spy(heldout, "first_texts", note("bytes", lambda store, documents, most: most))
    spy(loop, "Watchdog", lambda ranks, seconds: found.update(seconds=seconds))
    spy(prepare, "Checkpointer", lambda directory, ranks, **options: found.update(options))
    spy(prepare, "require_loggers", lambda names: found.update(log=names))
    notes: list[str] = []
    progress = Silent()
    monkeypatch.setattr(progress, "note", notes.append)
    chosen = settings.changed(
        update="dense", steps=9, eval_every=4, save_every=3, keep=5, keep_every=2,
        mix={"en": 0.4}, mix_rest="uniform", eval_bytes=333, hang_timeout=7.5, device_flops=1e9,
        log_every=4, log=(),
    )  # fmt: skip
    loop.pretrain(chosen, progress=progress)
    config = resolve(chosen, gpu=False)
    assert found["applied"] == [(config.lr_at(now), True) for now in range(1, 10)]
    assert not any(found["upcoming"])
    # A save looks at a loss, unless the evaluation of this very step did.
    assert found["saved"] == [(3, False), (6, False), (9, True)]
    assert found["probed"] == [3, 6]
    assert set(found["bytes"]) == {333, run_state._PROBE}
    assert found["seconds"] == 450
    assert (found["keep"], found["keep_every"]) == (5, 2)
    assert found["log"] == ()
    stored = orjson.loads((settings.runs / "it" / "config.json").read_bytes())
    assert stored["mixture"] == pytest.approx({"en": 0.4, "el": 0.2, "fi": 0.2, "fr": 0.2})
    lines = read_metrics(settings.runs / "it")
    assert [line["step"] for line in lines if "held_out" in line] == [4, 8, 9]
    assert all(line["time"]["mfu"] > 0 for line in lines if "time" in line)
    assert [note.split(":")[0].split(",")[0] for note in notes if "tokens/s" in note] == [
        "step 4/9", "step 8/9",
    ]  # fmt: skip
    found["upcoming"].clear()
    loop.pretrain(settings.changed(offload=True, steps=3, name="delayed"))
    assert found["upcoming"] == [True, True, False]
    assert found["applied"][-1][1] is False


def test_a_signal_in_the_last_step_stops_nothing(settings: RunSettings, before_step: Any) -> None:
    two = settings.changed(steps=2)
    before_step(2, lambda: signal.raise_signal(signal.SIGUSR1))
    assert loop.pretrain(two).step == 2
    before_step(1, lambda: signal.raise_signal(signal.SIGUSR1))
    with pytest.raises(Stopped, match="SIGUSR1 after step 1"):
        loop.pretrain(two, force=True)


# Options that tests of their own follow to where they act.
ELSEWHERE = {
    "test_run.py": ("name", "runs", "data", "tokenizer", "model", "langs"),
    "test_reads.py": ("chat_template", "max_epochs", "source_field", "valid"),
    "test_stages.py": ("sources",),
    "test_run_guards.py": ("errors",),
    "test_eval_tasks.py": ("eval_tasks", "eval_tasks_every", "eval_tasks_data",
                           "eval_tasks_langs", "eval_tasks_limit"),
    "test_init_from.py": ("init_from", "init_rows", "train"),
    "test_profiling.py": ("profile",),
    "test_memory.py": ("device_memory",),
    "test_parallel.py": ("tp",),
    "test_launched_runs.py": ("gpus",),
    "test_megatron.py": ("transformer_engine", "attention_kernel", "deterministic"),
    "test_corpus.py": ("field", "lang_field"),
}  # fmt: skip
IN_THE_LOOP = {
    "update", "eval_every", "save_every", "keep", "keep_every", "eval_bytes", "hang_timeout",
    "device_flops", "log_every", "log", "mix", "mix_rest",
}  # fmt: skip


def test_every_option_is_followed() -> None:
    named = {*REACHES, *IN_THE_LOOP, *(name for names in ELSEWHERE.values() for name in names)}
    assert named == set(OPTIONS)


@pytest.mark.parametrize(
    ("valid", "change", "world", "message"),
    [
        ({"micro_batch": 6}, {"micro_batch": 5}, 1, "--micro-batch: a batch of 12 is not divisib"),
        ({"final_lr": 1e-3}, {"final_lr": 1.1e-3}, 1, "final_lr: 0.0011 is above --lr 0.001"),
        ({"offload": True}, {"update": "dense"}, 1, "optimizer.update: dense updates read"),
        ({"init_from": "a", "train": "rows"}, {"update": "dense"}, 1, "update: dense updates ch"),
        ({"init_from": "a", "train": "rows"}, {"distributed_optimizer": True}, 1,
         "--set parallelism.distributed_optimizer: shards the state of the backbone"),
        ({}, {"offload_delay": 0}, 1, "--set parallelism.offload_delay: needs --offload"),
        ({}, {"offload_moments": "bfloat16"}, 1, "offload_moments: needs --offload"),
        ({}, {"offload_file": Path("x")}, 1, "offload_file: needs --offload"),
        ({}, {"tp": 2}, 3, "--tp 2 needs a multiple of 2 processes; this run has 3"),
        ({"tp": 2, "kv_heads": 2}, {"kv_heads": 1}, 2, "--tp: tiny has 1 key-value heads"),
        ({"tp": 2, "ffn": 62}, {"ffn": 63}, 2, "--tp: tiny has .* size of 63, not both"),
        ({"batch_size": 6, "tp": 2}, {"batch_size": 8}, 6, "--batch-size: 8 sequences per step"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit(
    valid: dict[str, Any], change: dict[str, Any], world: int, message: str
) -> None:
    """The smallest change of options that fit."""

    def check(options: dict[str, Any]) -> None:
        config = resolve(RunSettings(**{**BASE, **options}), gpu=False)
        assert config_from_json(orjson.loads(orjson.dumps(config_as_json(config)))) is not None
        check_ranks(config, world)

    if world != 3:
        check(valid)
    with pytest.raises(UsageError, match=message):
        check(valid | change)
