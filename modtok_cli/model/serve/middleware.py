"""In front of vLLM's server: reads "languages" of a request, and answers it if they are wrong."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

from modtok_cli.base.errors import ModtokError
from modtok_cli.model.serve.served_languages import (
    KEY,
    OF_REQUEST,
    OVER,
    Chosen,
    ServedLanguages,
    apart,
    current,
)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MODELS, RENDER = "/v1/models", "/render"
_EXTRA = "vllm_xargs"  # what vLLM passes on to the process of the model
HEADER = b"x-modtok-languages"


class LanguagesOfRequests:
    """ASGI middleware: `vllm serve --middleware` takes its name."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with its languages where vLLM and the renderer look for them."""
        served, path = current(), scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if served is None or scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] == "GET" and path.rstrip("/") == MODELS:
            await self._app(scope, receive, _with_languages(send, served))
        elif scope["method"] == "POST":
            await self._post(served, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _post(
        self, served: ServedLanguages, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Handle a POST to any address: a later version of vLLM may have others that generate."""
        data, ended = await _body(receive)
        body = _object(data)
        if not ended or body is None:  # vLLM says what is wrong
            await self._app(scope, _again(data, receive, ended), send)
            return
        extra = body.get(_EXTRA)
        extra = dict(extra) if isinstance(extra, dict) else {}
        # Of the address: a client such as lm-eval's sends no fields but its own.
        asked = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
        wanted = {name: body.pop(name, None) for name in (KEY, OVER)}
        wanted = {name: extra.get(name) if own is None else own for name, own in wanted.items()}
        wanted = {name: asked.get(name) if own is None else own for name, own in wanted.items()}
        field = KEY
        try:
            chosen = await apart(lambda: served.chosen(wanted[KEY], served.texts_of(body)))
            field = OVER
            chosen = chosen._replace(scored=served.scored(wanted[OVER]))
        except ModtokError as error:
            await _refuse(send, f"{field}: {error}", field)
            return
        try:
            served.check_scored(body, chosen)
        except ModtokError as error:
            await _refuse(send, str(error), str(error.where))
            return
        if not wanted.keys().isdisjoint(extra):
            body[_EXTRA] = {name: value for name, value in extra.items() if name not in wanted}
        data = json.dumps(body).encode()
        length = (b"content-length", str(len(data)).encode())
        headers = [pair for pair in scope["headers"] if pair[0].lower() != length[0]]
        said = (HEADER, str(chosen).encode())

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), said]
            await send(message)

        # What is rendered is posted again, to an address that generates.
        answer = _rendered(told, chosen) if scope["path"].rstrip("/").endswith(RENDER) else told
        token = OF_REQUEST.set(chosen)
        try:
            scope = {**scope, "headers": [*headers, length]}
            await self._app(scope, _again(data, receive, ended), answer)
        finally:
            OF_REQUEST.reset(token)


def _with_languages(send: Send, served: ServedLanguages) -> Send:
    """Adds to each model its languages, and the default of requests."""
    own = {KEY: list(served.languages), "default_languages": served.default}

    def edited(body: Any) -> Any:
        if not isinstance(body, dict) or not isinstance(body.get("data"), list):
            return body
        return {**body, "data": [{**each, **own} for each in body["data"]]}

    return _edited(send, edited)


def _rendered(send: Send, chosen: Chosen) -> Send:
    """Adds the languages to each rendered request."""

    def edited(body: Any) -> Any:
        if isinstance(body, list):
            return [edited(each) for each in body]
        if isinstance(body, dict) and "token_ids" in body:
            return {**body, KEY: str(chosen)} | ({OVER: KEY} if chosen.scored else {})
        return body

    return _edited(send, edited)


def _edited(send: Send, edit: Callable[[Any], Any]) -> Send:
    """Sends an answer in JSON as `edit` changes it, and any other as it is."""
    parts: list[bytes] = []
    start: Message = {}

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
            return
        parts.append(message.get("body", b""))
        if message.get("more_body"):
            return
        data = b"".join(parts)
        with suppress(ValueError, RecursionError):
            data = json.dumps(edit(json.loads(data))).encode()
        length = (b"content-length", str(len(data)).encode())
        headers = [pair for pair in start.get("headers", ()) if pair[0].lower() != length[0]]
        await send({**start, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": data})

    return sent


async def _body(receive: Receive) -> tuple[bytes, bool]:
    """The body of a request, and whether it ended; it did not if the client has gone."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"".join(parts), False
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts), True


def _again(data: bytes, receive: Receive, ended: bool) -> Receive:
    """Receives this body, and what comes after it."""
    waiting: list[Message] = [{"type": "http.request", "body": data, "more_body": False}]
    if not ended:
        waiting = [{"type": "http.disconnect"}]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        # As vLLM reads it: what only one of two parsers accepts would be served in all languages.
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


async def _refuse(send: Send, what: str, param: str) -> None:
    """An error as OpenAI's servers give it."""
    error = {"message": what, "type": "BadRequestError", "param": param, "code": 400}
    data = json.dumps({"error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(data)).encode()),
    ]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": data})
