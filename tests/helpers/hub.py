"""A server on this machine that answers as the hub of Hugging Face."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import orjson

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """Files by name for each repository, which has the revisions `main` and `old`.

    Attributes:
        gated: repositories whose files need a permission.
        cut: files that end in the middle.
        fetched: files that were downloaded.
        asked: revisions of repositories that were looked up.
        instead: what the server answers about a repository in place of its files.
    """

    repositories: Mapping[str, Mapping[str, bytes]]
    gated: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    fetched: list[str] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    endpoint: str = ""
    instead: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content."""
        parts = unquote(urlsplit(path).path).strip("/").split("/")
        parts = parts[2:] if parts[:2] == ["api", "models"] else parts
        if len(parts) < 4:  # what the library asks about programs that use it
            return 404, {}, b""
        owner, name, what, revision, *file = parts
        if f"{owner}/{name}" in self.instead:
            return self.instead[f"{owner}/{name}"]
        files = self.repositories.get(f"{owner}/{name}")
        if files is None:
            return 401, {"X-Error-Code": "RepoNotFound"}, b""
        if revision not in ("main", "old", COMMIT):
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        if what == "revision":
            self.asked.append((name, revision))
            siblings = [{"rfilename": each} for each in files]
            facts = {"id": f"{owner}/{name}", "sha": COMMIT, "siblings": siblings}
            return 200, {}, orjson.dumps(facts)
        if what == "tree":
            rows = [{"type": "file", "path": each, "size": len(content), "oid": _oid(content)}
                    for each, content in files.items()]  # fmt: skip
            return 200, {}, orjson.dumps(rows)
        if f"{owner}/{name}" in self.gated:
            return 401, {"X-Error-Code": "GatedRepo"}, b""
        content = files["/".join(file)]
        return 200, {"ETag": f'"{_oid(content)}"', "X-Repo-Commit": COMMIT}, content


def _oid(content: bytes) -> str:
    return sha1(content, usedforsecurity=False).hexdigest()


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """The hub at its `endpoint`."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET(with_content=False)

        def do_GET(self, *, with_content: bool = True) -> None:
            status, headers, content = hub.answer(self.path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if with_content and status == 200:
                file = self.path.rpartition("/")[2]
                if "/resolve/" in self.path:
                    hub.fetched.append(file)
                self.wfile.write(content[: len(content) // 2 if file in hub.cut else None])

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
