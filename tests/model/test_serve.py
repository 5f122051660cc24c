"""What stands before and in vLLM: languages of requests, directories, active rows."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.external_models import build
from helpers.said import Said
from helpers.sample import SAMPLE
from modtok_cli.base.errors import UsageError
from modtok_cli.cli.execute import run as run_command
from modtok_cli.cli.main import command_tree
from modtok_cli.model.load import load
from modtok_cli.model.serve import serve as serving
from modtok_cli.model.serve.active_rows import ActiveRows, move_to_host
from modtok_cli.model.serve.middleware import LanguagesOfRequests
from modtok_cli.model.serve.serve import serve
from modtok_cli.model.serve.served_directory import (
    dtype_of,
    is_served,
    served_model,
    served_run,
)
from modtok_cli.model.serve.served_languages import (
    CURRENT,
    OF_REQUEST,
    ServedLanguages,
    admit,
    texts_of,
)
from modtok_cli.model.slice import write
from modtok_cli.tokenizer.adopted.adopt import adopt

transformers = pytest.importorskip("transformers")
SETS = ("", "fr", "en,fr", "el,fi", "el,en,fi,fr", "fi")


@pytest.fixture(scope="module")
def directory(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return served_run(run, tmp_path_factory.mktemp("served") / "it")


@pytest.fixture(scope="module")
def served(directory: Path) -> ServedLanguages:
    return ServedLanguages.of(directory)


def lines(language: str) -> list[str]:
    return (SAMPLE / "parallel" / f"{language}.txt").read_text("utf-8").splitlines()


def test_a_directory_of_a_run_is_the_whole_model(run: Path, directory: Path) -> None:
    assert is_served(directory)
    assert not is_served(run)
    config = orjson.loads((directory / "config.json").read_bytes())
    assert config["architectures"] == ["ModtokLlamaForCausalLM"]
    assert dtype_of(directory) == "float32"
    whole = load(run)
    ids = torch.tensor([[whole.end_of_text, *whole.encode_in("Il était une fois")]])
    model = transformers.AutoModelForCausalLM.from_pretrained(directory)
    assert torch.allclose(model(ids).logits, whole.logits(ids), atol=1e-5)


def test_a_directory_is_kept_while_the_weights_are_these(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, heard = tmp_path / "it", Said()
    monkeypatch.setattr(write, "warn_of_other_ids", lambda output, progress: progress.warn("odd"))
    first = served_run(run, place, step=4).stat().st_ino
    assert served_run(run, place, step=4).stat().st_ino == first
    with pytest.raises(UsageError, match=r"already exists; .*--force"):
        served_run(run, place)
    assert served_run(run, place, force=True, progress=heard).stat().st_ino != first
    assert heard.warnings == ["odd"]
    assert served_run(run, place, dtype="bfloat16", force=True) == place
    assert dtype_of(place) == "bfloat16"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(UsageError, match="exists but is not a served directory"):
        served_run(run, tmp_path / "other")


def test_what_vllm_does_not_serve_here_is_refused_first(tmp_path: Path) -> None:
    model = build(tmp_path / "whole", "Llama", "byte-level")
    before = orjson.loads((model / "config.json").read_bytes())
    (model / "config.json").write_text(json.dumps({**before, "architectures": ["GPT2LMHeadModel"]}))
    with pytest.raises(UsageError, match=r"whole/config\.json: field 'architectures' is \['GPT2LM"):
        served_model(model, tmp_path / "adopted", tmp_path / "served")


def test_a_model_is_served_with_its_adopted_tokenizer(tmp_path: Path) -> None:
    model, adopted = build(tmp_path / "whole", "Llama", "byte-level"), tmp_path / "adopted"
    adopt(model, ["en", "fr"], data=SAMPLE / "parallel").save(adopted)
    with pytest.raises(UsageError, match="has no language 'xx'"):
        served_model(model, adopted, tmp_path / "served", default="xx")
    place = served_model(model, adopted, tmp_path / "served")
    config = orjson.loads((place / "config.json").read_bytes())
    before = orjson.loads((model / "config.json").read_bytes())
    assert config == {**before, "architectures": ["ModtokLlamaForCausalLM"]}
    assert (place / "model.safetensors").samefile(model / "model.safetensors")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    own = ServedLanguages.of(place)
    assert own.default == "full"  # it has no references
    with pytest.raises(UsageError, match="no monolingual references"):
        own.chosen("auto", ["Bonjour"])
    for line in lines("fr")[:5]:
        assert own.encode(line, "fr").tolist() == tokenizer.encode(line, add_special_tokens=False)
    with pytest.raises(UsageError, match="already exists"):
        served_model(model, adopted, place)


def test_the_command_of_vllm(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "served"
    with pytest.raises(UsageError, match="has no language 'xx'"):
        serve(run, languages="xx", output=place, prepare=True)
    assert not place.exists()
    command = serve(run, ["--seed", "1"], languages="fr,en", output=place, prepare=True)
    assert command[1:5] == ["-m", "vllm.entrypoints.openai.api_server", "--model", str(place)]
    assert command[-2:] == ["--seed", "1"]
    flags = dict(zip(command[5:-2:2], command[6:-2:2], strict=True))
    assert orjson.loads(flags["--additional-config"]) == {"languages": "fr,en"}
    assert (flags["--dtype"], flags["--served-model-name"]) == ("float32", "it")
    assert serve(place, prepare=True)[4] == str(place)
    (tmp_path / "latest").symlink_to(place)
    command = serve(tmp_path / "latest", prepare=True)
    assert command[command.index("--served-model-name") + 1] == "latest"
    command = serve(place, languages="fr", offload=True, prepare=True)
    config = orjson.loads(command[command.index("--additional-config") + 1])
    assert config == {"languages": "fr", "offload_rows": True}
    with pytest.raises(UsageError, match="has no language 'xx'"):
        serve(place, languages="xx", prepare=True)
    with pytest.raises(UsageError, match="is for runs, not for served"):
        serve(place, step=4, prepare=True)
    monkeypatch.setattr(serving, "is_installed", lambda name: False)
    with pytest.raises(UsageError, match=r"requires vllm; pip install 'modtok\[serve\]'; with"):
        serve(place)


def test_the_command_line(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["serve", str(directory), "--port", "9"]
    words += ["--offload", "--prepare", "--"]
    assert run_command(command_tree(), [*words, "--seed", "1"]) == 0
    printed = shlex.split(capfd.readouterr().out)
    assert printed[1:3] == ["-m", "vllm.entrypoints.openai.api_server"]
    assert '"offload_rows":true' in printed[printed.index("--additional-config") + 1]
    assert printed[-6:] == ["--host", "127.0.0.1", "--port", "9", "--seed", "1"]


def test_languages_of_a_request(served: ServedLanguages) -> None:
    greek = lines("el")[0]

    def chosen(wanted: object, *texts: str) -> str:
        return str(served.chosen(wanted, texts))

    assert chosen(["fr", "en"]) == chosen("fr, en") == "en,fr"
    assert chosen("full") == "full"
    assert chosen(None, greek) == chosen("auto", greek) == "el"
    assert chosen("auto", greek, lines("fi")[0]) == "el,fi"
    assert chosen("auto", " ") == "el,en,fi,fr"  # every language, not T
    assert chosen({"input": ["fr", "en"], "output": "auto"}, greek) == chosen("en,fr|el")
    assert chosen({"input": ["fr"], "output": ["fr"]}) == "fr"


@pytest.mark.parametrize(
    "wrong",
    [
        ["xx"], 3, True, [], "", [3], [None], [["fr"]], "fr,,en,", ["fr", "fr"], "fr,fr",
        ["auto", "fr"], {}, {"fr": 1}, {"input": ["fr"]}, {"input": ["fr"], "output": ["xx"]},
        {"input": ["fr"], "output": {"input": []}}, "en|fr|el", "|fr", ["\ud800"],
    ],
    ids=repr,
)  # fmt: skip
def test_wrong_languages(served: ServedLanguages, wrong: object) -> None:
    with pytest.raises(UsageError):
        served.chosen(wrong, [])


@given(st.text(max_size=40), st.sampled_from(SETS))
def test_ids_spell_the_text_by_the_tokenizer_of_its_languages(
    served: ServedLanguages, text: str, languages: str
) -> None:
    # A prefix cache knows ids of T only. They spell the same text whatever the languages, so what
    # is cached for one request is right for each request that begins with these ids.
    ids, tokenizer = served.encode(text, languages), served.subset(languages)
    assert served.tokenizer.decode(ids) == text
    assert ids.tolist() == tokenizer.global_ids[tokenizer.encode(text)].tolist()
    assert served.encode("<|endoftext|>a", languages)[0] == 0


def test_texts_of_requests(served: ServedLanguages) -> None:
    ids = served.encode("Il", "fr").tolist()
    assert served.texts_of({"prompt": [*ids, 10**9, "a"]}) == ["Il"]
    assert served.texts_of({"prompt": [ids, ids]}) == ["Il", "Il"]
    assert served.texts_of({"prompt": []}) == []
    assert texts_of({"prompt": ["a", "b"]}) == ["a", "b"]
    assert texts_of({"prompt": [1, 2]}) == texts_of({"messages": 3}) == texts_of({}) == []
    assert texts_of({"messages": [{"content": "a"}, {"content": [{"text": "b"}, 3]}, 4]}) == [
        "a\nb"
    ]


# --- logits ---


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("part", [True, False])
def test_logits_are_those_of_each_row(
    monkeypatch: pytest.MonkeyPatch, share: float, part: bool
) -> None:
    monkeypatch.setattr("modtok_cli.model.serve.active_rows.SHARE", share)
    generator = torch.Generator().manual_seed(0)
    head, bias = torch.randn(50, 8, generator=generator), torch.randn(50, generator=generator)
    ids = {"fr": np.arange(0, 20), "en": np.array([0, 3, 30]), "el": np.arange(15, 50)}
    part_calls = []

    def whole(hidden: torch.Tensor) -> torch.Tensor:
        return hidden @ head.T + bias

    def some(hidden: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        part_calls.append(len(chosen))
        return hidden @ head[chosen].T + bias[chosen]

    rows = ActiveRows(lambda names: np.unique(ids[names] if names else np.arange(50)), 50)
    batches: list[dict[int, str]] = [
        {0: "fr", 1: "fr"},
        {0: "fr", 1: "en", 2: "fr"},
        {0: "fr", 1: "en", 2: "fr"},
        {1: "en"},  # the others have all of T
        {0: "el", 1: "en", 2: "fr", 3: "el"},
        {},
        {0: "fr", 1: "fr"},  # as the first one, after others
    ]
    for batch in batches:
        hidden = torch.randn(max(batch, default=2) + 1, 8, generator=generator)
        rows.choose(batch)
        logits = rows.logits(hidden, whole, some if part else None)
        expected = whole(hidden)
        for row in range(len(hidden)):
            if name := batch.get(row):
                outside = np.setdiff1d(np.arange(50), ids[name])
                expected[row, outside] = -torch.inf
        assert torch.allclose(logits, expected, atol=1e-5)
    assert bool(part_calls) == (part and share > 0)
    # Not a batch of requests: nothing was chosen for it.
    hidden = torch.randn(2, 8, generator=generator)
    assert torch.equal(rows.logits(hidden, whole, some), hidden @ head.T + bias)
    # Prompts after a batch, in chunks: the end of one request's and the beginning of the next's.
    rows.choose({}, 2)
    rows.choose_prompts(["fr", "fr", "", "en", "en"])
    rows.logits(hidden, whole, some)
    prompts = torch.randn(5, 8, generator=generator)
    chunks = [rows.logits(chunk, whole, some if part else None) for chunk in prompts.split(2)[:2]]
    expected = whole(prompts)[:4]
    expected[:2, 20:] = -torch.inf
    expected[3, np.setdiff1d(np.arange(50), ids["en"])] = -torch.inf
    assert torch.allclose(torch.cat(chunks), expected, atol=1e-5)
    with pytest.raises(RuntimeError, match="of 1 rows for prompts of 2"):
        rows.logits(prompts[:2], whole, some)
    rows.choose_prompts(["fr", "fr"])
    rows.choose({0: "fr"}, 1)  # what is left belongs to no later batch
    rows.logits(hidden[:1], whole, some)
    assert torch.equal(rows.logits(hidden, whole, some), whole(hidden))
    rows.choose({0: "fr"}, 1)
    with pytest.raises(RuntimeError, match="of 1 rows for a batch of 2"):
        rows.logits(hidden, whole, some)


# --- requests ---


@pytest.fixture
def middleware(served: ServedLanguages) -> Iterator[Any]:
    CURRENT.append(served)
    seen: list[tuple[Any, Any, list[tuple[bytes, bytes]]]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        seen.append((message, OF_REQUEST.get(), scope.get("headers")))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        data = orjson.dumps({"data": [{"id": "it"}]})
        if scope["path"].endswith("/render"):  # of one prompt, or of several
            data = orjson.dumps([{"token_ids": [5], "sampling_params": {}}])
        await send({"type": "http.response.body", "body": data[:5], "more_body": True})
        await send({"type": "http.response.body", "body": data[5:]})

    def request(
        *parts: bytes,
        path: str = "/v1/completions",
        query: str = "",
        gone: bool = False,
        method: str = "POST",
    ) -> Any:
        messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        messages[-1]["more_body"] = gone
        messages.append({"type": "http.disconnect"})
        sent: list[Any] = []

        async def receive() -> Any:
            return messages.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(b"Content-Length", b"1")],
        }
        asyncio.run(LanguagesOfRequests(app)(scope, receive, send))
        return sent, seen.pop() if seen else None

    yield request
    CURRENT.remove(served)


def test_a_request_reaches_vllm_with_its_languages(middleware: Any) -> None:
    body = orjson.dumps({"prompt": "Il", "languages": ["fr"], "vllm_xargs": {"a": 1}})
    sent, (message, languages, headers) = middleware(body[:9], body[9:])
    passed = orjson.loads(message["body"])
    assert passed == {"prompt": "Il", "vllm_xargs": {"a": 1}}
    assert languages == ("fr", "fr", False)
    assert headers == [(b"content-length", str(len(message["body"])).encode())]
    assert sent[0]["headers"] == [(b"x-modtok-languages", b"fr")]
    assert OF_REQUEST.get() is None


def test_models_have_their_languages(middleware: Any) -> None:
    sent, _ = middleware(b"", path="/v1/models", method="GET")
    (model,) = orjson.loads(sent[1]["body"])["data"]
    assert model == {"id": "it", "languages": ["el", "en", "fi", "fr"], "default_languages": "auto"}
    assert sent[0]["headers"] == [(b"content-length", str(len(sent[1]["body"])).encode())]


@pytest.mark.parametrize(
    ("body", "languages"),
    [
        ({"messages": [{"role": "user", "content": "{el}"}]}, "el"),
        ({"prompt": "{el}", "vllm_xargs": {"languages": "fi"}}, "fi"),
        ({"prompt": "{el}", "languages": "fr", "vllm_xargs": {"languages": "fi"}}, "fr"),
        ({"prompt": "{el}", "languages": "full", "vllm_xargs": {"languages": "fi"}}, "full"),
        ({"languages": {"input": ["fr"], "output": ["el"]}}, "fr|el"),
        ({"prompt": [-5, 10**9]}, "el,en,fi,fr"),
        ({"prompt": "a", "languages": ["fr"], "top_p": float("nan")}, "fr"),
    ],
)
def test_where_languages_come_from(middleware: Any, body: Any, languages: str) -> None:
    text = json.dumps(body).replace("{el}", lines("el")[0]).encode()
    sent, (message, found, _) = middleware(text, path="/an/address/of/a/later/vllm")
    assert str(found) == languages
    assert sent[0]["headers"] == [(b"x-modtok-languages", languages.encode())]
    assert b"languages" not in message["body"]


def test_the_engine_admits_what_the_middleware_has_read(served: ServedLanguages) -> None:
    """Beam search and other addresses make parameters of their own."""

    def admitted(chosen: object, **changes: Any) -> Any:
        params = SimpleNamespace(
            extra_args=None,
            allowed_token_ids=None,
            bad_words=[],
            _bad_words_token_ids=None,
            prompt_logprobs=None,
        )
        vars(params).update(changes)
        token = OF_REQUEST.set(None if chosen is None else served.chosen(chosen, []))
        try:
            admit(params)
        finally:
            OF_REQUEST.reset(token)
        return params

    french = served.subset("fr").global_ids.tolist()
    greek = np.setdiff1d(served.subset("el").global_ids, french).tolist()
    with pytest.raises(UsageError, match="are not known"):
        admitted("fr")  # no server in this process
    CURRENT.append(served)
    try:
        assert admitted("el|fr", extra_args={"a": 1}).extra_args == {"a": 1, "languages": "fr"}
        shared = admitted("full").extra_args
        assert shared == admitted("full", extra_args=shared).extra_args == {"languages": ""}
        assert admitted("fr", extra_args={"languages": "fr"}).extra_args == {"languages": "fr"}
        assert admitted("fr", allowed_token_ids=[*greek, french[9]]).allowed_token_ids
        params = admitted("fr", bad_words=["bonjour"])
        assert params.bad_words == []
        assert [served.tokenizer.decode(ids) for ids in params._bad_words_token_ids] == [
            "bonjour", " bonjour",
        ]  # fmt: skip
        assert {each for ids in params._bad_words_token_ids for each in ids} <= {*french}
        said = {"prompt_logprobs_over": "fi"}  # by the client, past the field
        token = OF_REQUEST.set(served.chosen("el|fr", [])._replace(scored=True))
        params = SimpleNamespace(
            extra_args=said, allowed_token_ids=None, bad_words=[], prompt_logprobs=1
        )
        admit(params)
        OF_REQUEST.reset(token)
        assert params.extra_args == {"languages": "fr", "prompt_logprobs_over": "el"}
        assert admitted("fr", extra_args=said).extra_args == {"languages": "fr"}
        for wrong, changes, where in (
            (None, {}, None),
            (None, {"extra_args": {"languages": "fr"}}, None),
            ("fr", {"extra_args": {"languages": "el"}}, None),
            ("fr", {"allowed_token_ids": greek}, "allowed_token_ids"),
            ("fr", {"bad_words": [*map(str, range(99))]}, "bad_words"),  # V2 would end
        ):
            with pytest.raises(UsageError) as error:
                admitted(wrong, **changes)
            assert error.value.where == where  # field "param" of the answer
    finally:
        CURRENT.remove(served)


def test_what_is_rendered_is_generated_in_the_same_languages(middleware: Any) -> None:
    asked = {"prompt": "Il", "languages": {"input": ["en", "fr"], "output": ["fr"]}}
    sent, _ = middleware(orjson.dumps(asked), path="/v1/completions/render")
    ((rendered,), length) = orjson.loads(sent[1]["body"]), (b"content-length",)
    assert rendered == {"token_ids": [5], "sampling_params": {}, "languages": "en,fr|fr"}
    assert (*length, str(len(sent[1]["body"])).encode()) in sent[0]["headers"]
    _, (message, languages, _) = middleware(orjson.dumps(rendered), path="/inference/v1/generate")
    assert str(languages) == "en,fr|fr"
    assert orjson.loads(message["body"]) == {"token_ids": [5], "sampling_params": {}}


def test_auto_looks_at_every_text_of_a_request(middleware: Any, served: ServedLanguages) -> None:
    text = lines("el")[0]
    for body in (
        {"token_ids": served.encode(text, "").tolist()},
        {"query": text, "items": [lines("el")[1]], "label_token_ids": []},
    ):
        assert str(middleware(orjson.dumps(body))[1][1]) == "el"


def test_labels_outside_the_languages_are_refused(middleware: Any, served: ServedLanguages) -> None:
    """Their logit is -inf, which is no number of JSON."""
    french = served.subset("fr").global_ids
    (greek, *_) = np.setdiff1d(served.subset("el").global_ids, french).tolist()
    body = {"query": "Il", "items": ["a"], "languages": ["fr"]}
    good, wrong = ([int(french[9])], [int(french[9]), greek])
    assert middleware(orjson.dumps({**body, "label_token_ids": good}))[1] is not None
    sent, seen = middleware(orjson.dumps({**body, "label_token_ids": wrong}))
    error = orjson.loads(sent[1]["body"])["error"]
    assert (seen, error["param"]) == (None, "label_token_ids")
    assert error["message"].startswith(f"label_token_ids: token {greek} is not one of fr")
    assert middleware(orjson.dumps({**body, "languages": "full", "label_token_ids": wrong}))[1]


def test_prompts_are_scored_over_languages(middleware: Any, served: ServedLanguages) -> None:
    french = served.subset("fr").global_ids
    (greek, *_) = np.setdiff1d(served.subset("el").global_ids, french).tolist()
    body = {"languages": {"input": ["fr"], "output": ["el"]}, "echo": True}
    over = {"prompt_logprobs_over": "languages"}
    for fields in (over, {"vllm_xargs": over}):
        asked = {**body, "prompt": "Il", **fields}
        sent, (message, chosen, _) = middleware(json.dumps(asked).encode(), path="/a/render")
        assert chosen == ("fr", "el", True)
        assert b"over" not in message["body"]
        assert orjson.loads(sent[1]["body"])[0]["prompt_logprobs_over"] == "languages"
    address = "languages=el%2Cfr&prompt_logprobs_over=languages&other"
    _, (_, chosen, _) = middleware(b'{"prompt": "Il", "echo": true}', query=address)
    assert chosen == ("el,fr", "el,fr", True)
    _, (_, chosen, _) = middleware(
        b'{"prompt": "Il", "languages": "fr", "prompt_logprobs_over": "full"}', query=address
    )
    assert chosen == ("fr", "fr", False)  # a field goes before the address
    sent, seen = middleware(b'{"prompt": "Il"}', query="languages=xx")
    assert (seen, orjson.loads(sent[1]["body"])["error"]["param"]) == (None, "languages")
    for value in (None, "full"):
        asked = {**body, "prompt": [5, greek], "prompt_logprobs_over": value}
        assert not middleware(json.dumps(asked).encode())[1][1].scored
    own = int(french[9])
    for prompt, name in (([own, greek], "prompt"), ([[own], [own, own, greek]], "prompt")):
        sent, seen = middleware(json.dumps({**body, **over, name: prompt}).encode())
        error = orjson.loads(sent[1]["body"])["error"]
        assert (seen, error["param"]) == (None, name)
        assert error["message"].startswith(f"{name}: token {greek} is not one of fr")
    sent, _ = middleware(json.dumps({**body, **over, "token_ids": [own, greek]}).encode())
    assert orjson.loads(sent[1]["body"])["error"]["param"] == "token_ids"
    # The first token of a prompt has no score.
    assert middleware(json.dumps({**body, **over, "prompt": [greek, own]}).encode())[1]
    for wrong in ("fr", ["languages"], True, {}):
        sent, seen = middleware(
            json.dumps({**body, "prompt": "Il", "prompt_logprobs_over": wrong}).encode()
        )
        error = orjson.loads(sent[1]["body"])["error"]
        assert (seen, error["param"]) == (None, "prompt_logprobs_over")
        assert error["message"] == 'prompt_logprobs_over: expected "languages" or "full"'
    with pytest.raises(UsageError, match="this version of vLLM computes them over all tokens"):
        replace(served, can_score=False).scored("languages")


@pytest.mark.parametrize("wrong", [["xx"], ["x" * 10**6], 3, {}])
def test_wrong_languages_are_an_error_as_openai_has_it(middleware: Any, wrong: Any) -> None:
    sent, seen = middleware(json.dumps({"prompt": "Il", "languages": wrong}).encode())
    assert seen is None
    assert sent[0]["status"] == 400
    error = json.loads(sent[1]["body"])["error"]
    assert error["message"].startswith("languages: ")
    assert len(error["message"]) < 250
    assert (error["type"], error["param"], error["code"]) == ("BadRequestError", "languages", 400)


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"", b"\xff", b'{"vllm_xargs": 3, "prompt": "a"}', b"[" * 9999]
)
def test_what_is_wrong_otherwise_is_left_to_vllm(middleware: Any, body: bytes) -> None:
    _, (message, _, _) = middleware(body)
    assert message["body"] == body or json.loads(message["body"]) == json.loads(body)


def test_a_client_that_goes_and_other_paths(middleware: Any) -> None:
    assert middleware(b'{"prompt"', gone=True)[1][0] == {"type": "http.disconnect"}
    _, (message, languages, _) = middleware(b"", path="/health", method="GET")
    assert (message["body"], languages) == (b"", None)


def test_tables_move_to_host_memory_once() -> None:
    embedding, head = torch.nn.Embedding(6, 4), torch.nn.Linear(4, 6, bias=False)
    tied = torch.nn.Linear(4, 6, bias=False)
    tied.weight = embedding.weight
    before = {each: (each.weight.detach().clone(), each.weight) for each in (embedding, head)}
    addresses = {each.weight.data_ptr() for each in (embedding, head)}
    viewed: list[torch.Tensor] = []

    def view(host: torch.Tensor) -> torch.Tensor:
        viewed.append(host)
        return host

    move_to_host([each.weight for each in (embedding, head, tied)], view, pin=False)
    assert len(viewed) == 2
    assert tied.weight is embedding.weight
    for layer, (values, parameter) in before.items():
        assert layer.weight is parameter
        assert torch.equal(layer.weight, values)
        assert layer.weight.data_ptr() not in addresses
    with torch.no_grad():  # weights are loaded into the view
        embedding.weight.copy_(torch.ones(6, 4))
    assert torch.equal(viewed[0], torch.ones(6, 4))
