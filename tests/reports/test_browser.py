"""The pages of explore and report in a browser: no errors, no text beyond the width of a phone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import orjson
import pytest

from helpers.sample import SAMPLE
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.measure.nsl import nsl
from modtok_cli.reports.explore.page import explore
from modtok_cli.reports.report import report
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason=f"needs a browser: {', '.join(NAMES)}"),
]
PHONE, DESK = (375, 667), (1440, 900)
# Each page stands in frames, because a window has a minimal width. Elements beyond the width are
# named if the page itself scrolls to them.
HARNESS = """<!doctype html><body><script>
const found = {}, frames = [];
for (const name of ["explore", "report"]) for (const size of SIZES) {
  const frame = document.body.appendChild(document.createElement("iframe"));
  frame.width = size[0]; frame.height = size[1]; frame.style.border = 0;
  frame.src = name + ".html";
  frames.push([name, size, frame]);
}
const tokens = (page) => [...page.querySelectorAll("#cards .token")];
const isReady = ([name, , {contentDocument: page}]) => page && page.readyState === "complete"
  && page.URL.endsWith(name + ".html") && (name !== "explore" || tokens(page).length);
(async () => {
  // Time stands still while the server answers, so that pages have the real time that they need.
  for (let tick = 0; tick < 1200 && !frames.every(isReady); tick++) await fetch("tick");
  for (const [name, size, frame] of frames) {
    const page = frame.contentDocument, root = page.documentElement;
    const tops = tokens(page).map((token) => token.getBoundingClientRect().top);
    found[name + " " + size[0]] = {
      problems: frame.contentWindow.problems || [],
      beyond: root.scrollWidth > root.clientWidth
        ? [...page.body.querySelectorAll("*")].filter(
            (one) => one.getBoundingClientRect().right > root.clientWidth + 1
          ).map((one) => one.outerHTML.slice(0, 80)) : [],
      seen: tops.filter((top) => top < size[1]).length,
    };
  }
  const node = document.createElement("pre"); node.id = "found";
  node.textContent = JSON.stringify(found);
  document.body.replaceChildren(node);
})();
</script>"""
PROBE = """<head><script>
const problems = []; window.problems = problems;
for (const kind of ["error", "unhandledrejection", "securitypolicyviolation"])
  addEventListener(kind, (event) =>
    problems.push(kind + ": " + (event.message || event.reason || event.violatedDirective)), true);
console.error = console.warn = (...words) => problems.push(words.join(" "));
</script>"""


class Quiet(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path != "/tick":
            return super().do_GET()
        time.sleep(0.05)
        self.send_response(204)
        self.end_headers()
        return None

    def log_message(self, *words: Any) -> None:
        pass


def test_pages_on_a_phone_and_a_desk(tmp_path: Path) -> None:
    bpe_seq(("en", "fi"), data=SAMPLE / "data", output=tmp_path / "tokenizer", k=500)
    texts = [SAMPLE / "parallel" / f"{name}.txt" for name in ("en", "fi")]
    (tmp_path / "results").mkdir()
    rows = nsl([str(tmp_path / "tokenizer"), f"{tmp_path}/tokenizer@each"], texts)
    (tmp_path / "results" / "nsl.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    explore([ModularTokenizer.load(tmp_path / "tokenizer")], tmp_path / "explore.html")
    report(tmp_path, tmp_path / "report.html")
    page = (tmp_path / "explore.html").read_text("utf-8")
    (tmp_path / "explore.html").write_text(page.replace("<head>", PROBE, 1), "utf-8")
    harness = HARNESS.replace("SIZES", json.dumps([PHONE, DESK]))
    (tmp_path / "all.html").write_text(harness, "utf-8")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        done = subprocess.run(
            [
                str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu",
                "--virtual-time-budget=600000", "--dump-dom",
                f"http://127.0.0.1:{server.server_port}/all.html",
            ],
            capture_output=True, check=True, text=True, timeout=600,
        )  # fmt: skip
    finally:
        server.shutdown()
    answer = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert answer, done.stdout[-500:] + done.stderr[-500:]
    found = json.loads(answer[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert len(found) == 4
    for name, one in found.items():
        assert one["problems"] == one["beyond"] == [], name
        assert one["seen"] > 0 or name.startswith("report"), name
