"""Outputs of sixty commands under two checkouts, compared byte by byte.

    python -m benchmarks same_outputs --before DIR --after DIR [--only WORD] [--keep DIR]

Every command runs on the sample text with the code of each checkout, the same interpreter and the
same path of the workspace. Standard output and every file written are compared byte by byte.
Files that differ are compared again without the recorded version and times; what differs then is a
difference. One JSON line per command:

    same      files (and standard output) that are identical byte by byte
    plain     files that are identical without version and times
    differ    files that differ otherwise, with the first differences of each
    status    exit statuses, where they differ or are not 0

The last line holds the totals. Exit status 1 if anything differs.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from benchmarks.common import SAMPLE, emit, parser_of

# Fields that hold a time or a rate, the version, or a checksum over fields that hold one.
PASSING = {
    "seconds", "time", "version", "written_by", "checksum", "crc", "step_seconds", "mfu",
    "tokens_per_second", "tokens_per_s", "modtok", "date", "created", "started", "ended",
    "sha256", "elapsed", "ms", "milliseconds", "pid", "host", "peak_bytes", "free_bytes",
}  # fmt: skip
SMALL = (
    "--langs en,fi,fr --batch-size 4 --micro-batch 2 --seq-length 64 --eval-every 10 --workers 1"
)
# Words after `modtok`, and the file for standard input.
CALLS = (
    "corpus count -o counts --json",
    "corpus stats --json",
    "corpus stats --json parallel/en.txt parallel/fi.txt",
    "bpe --langs en,fr -k 900 -o alone --json",
    "bpe --langs en,fr,ne --joint -k 1500 -o joint --json",
    "bpe-seq -k 900 -o tokenizer --json",
    "bpe-seq --data counts -k 900 --passes 2 -o two --json",
    "bpe-seq --langs el,en -k 700 --special <|user|> --no-default-specials -o grown --json",
    "bpe-seq -t grown --append fi,fr -o grown-2 --json",
    "bpe-seq -k 700 --segmentation fewest-tokens -o few --json",
    "bpe-merge -k 700 -o merged --json",
    "bpe-merge --langs el,en,fi -k 600 --whole-characters -o whole --json",
    "bpe-merge -t whole --append sw -o whole-2 --json",
    "unigram --langs el,fi -k 600 -o pieces-alone --json",
    "unigram --langs el,fi --joint -k 900 -o pieces-joint --json",
    "unigram-merge -k 600 -o pieces --json",
    "unigram-merge -k 600 --langs en,fr --iterations 3 -o pieces-few --json",
    "extract --langs fr,en -o fr-en.json",
    "extract -t merged --langs fi -o fi-merged.json",
    "extract -t pieces --langs fi,sw -o fi-sw-pieces.json",
    "extract -t few --langs el,ne",
    "extract pieces-joint/tokenizer.json --top 500 --text parallel/fi.txt -o top.json",
    "encode --langs fr,en parallel/fr.txt parallel/en.txt",
    "encode --tokens parallel/ne.txt",
    "encode --langs fi --global-ids --add-special-tokens parallel/fi.txt",
    "encode -t pieces --langs sw parallel/sw.txt",
    "encode -t few --langs sw parallel/sw.txt",
    "decode --langs fr,en ids.txt",
    "inspect --json",
    "inspect -t pieces --json",
    "inspect -t few --check --json",
    "inspect --find the --json",
    "nsl -t tokenizer -t tokenizer@each -t two@each -t merged@each -t few@each -t "
    "joint/tokenizer.json --references tokenizer/references parallel --json --plot nsl.svg",
    "nsl -t pieces@each parallel --json",
    "fairness -t tokenizer -t joint/tokenizer.json parallel --json --plot fairness.svg",
    "origin parallel --json --plot origin.svg",
    "cost -t tokenizer -t joint/tokenizer.json parallel --json",
    f"pretrain --sampling sub:1 --steps 30 {SMALL} --save-every 15 --name first --json",
    f"pretrain --sampling none -t pieces --steps 6 {SMALL} --name pieces --json",
    "pretrain --sampling full -t few --set architecture.tied=true --set "
    f"optimizer.update=dense --steps 6 {SMALL} --name few",
    f"pretrain --sampling sub:2 --offload --steps 6 {SMALL} --name offload",
    "cost runs/first --json",
    "slice runs/first --langs fr -o fr --json",
    "slice fr --append en -o fr-en --json",
    "slice runs/pieces --in fi --out en -o fi-to-en --dtype bfloat16 --json",
    "export fr --langs fr -o fr.gguf --inexact",
    "generate fr-en --max-tokens 8 --json < prompts.jsonl",
    "generate runs/first --langs auto --max-tokens 8 --json < prompts.jsonl",
    "eval mcq runs/first --langs en,fi --limit 12 --batch-size 4 --examples mcq.examples --json",
    "eval mcq runs/first --langs en --tasks facts --infer full --limit 8 --json",
    "eval mt runs/first --pairs en-fr --limit 4 --max-tokens 8 --json",
    "eval sum runs/first --langs fr --limit 4 --max-tokens 8 --json",
)  # fmt: skip

# Imported once; every call is a fork of this process.
SERVER = """
import json, os, sys
sys.path = [path for path in sys.path if path]
import modtok_cli.__main__
for name in ("numpy", "tokenizers", "torch", "transformers", "lm_eval.evaluator", "sacrebleu"):
    __import__(name)
for line in sys.stdin:
    call = json.loads(line)
    pid = os.fork()
    if not pid:
        os.setsid()
        os.chdir(call["place"])
        for to, path, flags in ((0, call["source"], os.O_RDONLY),
                                (1, call["out"], os.O_WRONLY | os.O_CREAT),
                                (2, call["err"], os.O_WRONLY | os.O_CREAT)):
            os.dup2(os.open(path, flags, 0o644), to)
        sys.argv = ["modtok", *call["words"]]
        sys.exit(modtok_cli.__main__.main())
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@dataclass
class Outcome:
    """Of one call with one checkout: its exit status, standard output, and new or changed files."""

    status: int
    seconds: float
    message: str
    files: dict[str, Path] = field(default_factory=dict)


def listing(place: Path) -> dict[str, tuple[int, int]]:
    """Every file of a workspace, with what tells that it was written again."""
    found = {}
    for top, _, names in os.walk(place):
        for name in names:
            path = Path(top, name)
            if path.is_file() and not path.is_symlink():
                stat = path.stat()
                found[str(path.relative_to(place))] = (stat.st_mtime_ns, stat.st_ino)
    return found


def commit_of(checkout: Path) -> str:
    """Commit of a checkout, with what is changed since; for the name of a cache."""
    git = ["git", "-C", str(checkout)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    diff = subprocess.run([*git, "diff", "HEAD"], capture_output=True)
    changed = hashlib.sha256(diff.stdout).hexdigest()[:6] if diff.stdout else ""
    return head.stdout.strip() + (f"+{changed}" if changed else "")


def run_all(checkout: Path, place: Path, kept: Path, only: str) -> Iterator[tuple[str, Outcome]]:
    """Run all calls in `place`; copies of what each wrote are stored under `kept`."""
    # Bytecode of other code, or of a file changed within a second, must not be loaded.
    cache = Path(tempfile.gettempdir()) / f"modtok-same-outputs-{commit_of(checkout)}"
    environment = os.environ | {
        "PYTHONPATH": str(checkout),
        "PYTHONPYCACHEPREFIX": str(cache),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "100",
    }
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name in ("data", "parallel", "tasks"):
        shutil.copytree(SAMPLE / name, place / name, symlinks=True)
    (place / "ids.txt").write_text("300 301 400\n5 6 7 8\n\n")
    prompts = [{"prompt": text} for text in ("The baker", "La petite ville", "Kirjastossa")]
    (place / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in prompts))
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=place.parent,
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None
    for number, call in enumerate(CALLS):
        if only not in call:
            continue
        line, _, source = call.partition(" < ")
        folder = kept / f"{number:02d}"
        folder.mkdir(parents=True)
        before = listing(place)
        started = time.monotonic()
        request = {
            "words": line.split(),
            "place": str(place),
            "source": str(place / source) if source else os.devnull,
            "out": str(folder / "stdout"),
            "err": str(folder / "stderr"),
        }
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        message = (folder / "stderr").read_text(errors="replace")
        outcome = Outcome(status, round(time.monotonic() - started, 1), message[-400:])
        outcome.files["stdout"] = folder / "stdout"
        for name, mark in listing(place).items():
            if before.get(name) != mark and not name.endswith("lock"):
                copy = folder / "files" / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(place / name, copy)
                outcome.files[name] = copy
        print(f"{outcome.seconds:7.1f} s  {line}", file=sys.stderr)
        yield call, outcome
    server.stdin.close()
    server.wait()


def without_passing(value: Any) -> Any:
    """A JSON value without the fields that differ from run to run."""
    if isinstance(value, dict):
        kept = {k: without_passing(v) for k, v in value.items() if k not in PASSING}
        if "sha256" in value:  # the size of a file, which has the version in it
            kept.pop("bytes", None)
        return {k: v for k, v in kept.items() if not re.search(r"_(seconds|ms|per_s)$", k)}
    if isinstance(value, list):
        return [without_passing(each) for each in value]
    return value


def tensors(data: bytes) -> dict[str, Any] | None:
    """Every tensor of a safetensors file by name, with its digest; None for anything else."""
    size = int.from_bytes(data[:8], "little")
    if not 2 <= size <= len(data) - 8 or data[8:9] != b"{":
        return None
    try:
        header = orjson.loads(data[8 : 8 + size])
    except orjson.JSONDecodeError:
        return None
    body = data[8 + size :]
    found: dict[str, Any] = {"__metadata__": header.pop("__metadata__", None)}
    for name in sorted(header):
        first, last = header[name].pop("data_offsets")
        found[name] = {**header[name], "digest": hashlib.sha256(body[first:last]).hexdigest()}
    return found


def gguf(data: bytes) -> dict[str, Any]:
    """Every field and tensor of a GGUF file by name; their order means nothing."""
    from gguf import GGUFReader

    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(data)
        file.flush()
        reader = GGUFReader(file.name)
        found: dict[str, Any] = {name: reader.fields[name].contents() for name in reader.fields}
        for tensor in reader.tensors:
            digest = hashlib.sha256(bytes(tensor.data)).hexdigest()
            found[tensor.name] = [str(tensor.tensor_type), tensor.shape.tolist(), digest]
    return {name: found[name] for name in sorted(found)}


def unversioned(text: bytes) -> bytes:
    """`text` without the version, and without digests of files that have it."""
    # The digest of a checkpoint in a signature is also over its config.json.
    text = re.sub(rb"(checkpoint:[^@|]*@\d+)/[0-9a-f]+", rb"\1", text)
    text = re.sub(rb"\|of:[0-9a-f]+", b"|of", text)  # of the rows that a mean is over
    return re.sub(rb"modtok[: ]\d+\.\d+\.\d+[\w.]*", b"modtok", text)


def meaning(data: bytes) -> Any:
    """What is left of a file without version and times; JSON is parsed."""
    if data[:4] == b"GGUF":
        return gguf(data)
    if parsed := tensors(data):
        text = unversioned(orjson.dumps(parsed))
        return orjson.loads(orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS))
    data = unversioned(data)
    try:
        return without_passing(orjson.loads(data))
    except orjson.JSONDecodeError:
        pass
    try:
        return [without_passing(orjson.loads(line)) for line in data.splitlines()]
    except orjson.JSONDecodeError:
        return data


def differences(one: Any, other: Any, at: str = "") -> Iterator[str]:
    """All places where two values differ, in words."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one:
            if key in other:
                yield from differences(one[key], other[key], f"{at}.{key}")
            else:
                yield f"{at}.{key}: missing after"
        yield from (f"{at}.{key}: only after" for key in other if key not in one)
        common = [key for key in one if key in other]
        if common != [key for key in other if key in one]:
            yield f"{at or 'top'}: fields in another order"
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            yield f"{at}: {len(one)} entries before, {len(other)} after"
        for i, (a, b) in enumerate(zip(one, other, strict=False)):
            yield from differences(a, b, f"{at}[{i}]")
    elif type(one) is not type(other) or one != other:
        if isinstance(one, bytes) and isinstance(other, bytes):
            place = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
            cut = slice(max(0, place - 30), place + 60)
            yield f"{at}: byte {place}: {one[cut]!r} before, {other[cut]!r} after"
        else:
            yield f"{at}: {str(one)[:80]} before, {str(other)[:80]} after"


def compare(one: Outcome, other: Outcome) -> dict[str, Any]:
    """A row: how the files of two outcomes compare."""
    row: dict[str, Any] = {"same": 0, "plain": 0, "differ": {}}
    if one.status or other.status:
        row["status"] = [one.status, other.status]
        row["messages"] = [one.message[-200:], other.message[-200:]]
    for name in sorted(one.files.keys() | other.files.keys()):
        if name not in one.files or name not in other.files:
            row["differ"][name] = [f"only {'after' if name in other.files else 'before'}"]
            continue
        a, b = one.files[name].read_bytes(), other.files[name].read_bytes()
        if a == b:
            row["same"] += 1
        elif found := list(islice(differences(meaning(a), meaning(b)), 5)):
            row["differ"][name] = found
        else:
            row["plain"] += 1
    return row


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--after", type=Path, required=True)
    parser.add_argument("--only", default="", help="calls that contain this text")
    parser.add_argument("--keep", type=Path, help="directory for what both checkouts wrote")
    options = parser.parse_args()
    totals: dict[str, Any] = {"calls": 0, "same": 0, "plain": 0, "differ": 0, "failed": 0}
    with tempfile.TemporaryDirectory() as scratch:
        kept = options.keep or Path(scratch) / "kept"
        # One path for both: absolute paths are recorded.
        place = Path(tempfile.gettempdir()) / "modtok-same-outputs" / "workspace"
        outcomes: list[dict[str, Outcome]] = []
        for name, checkout in (("before", options.before), ("after", options.after)):
            folder = kept / name
            # What the earlier checkout wrote is used again where it was kept.
            if (folder / "outcomes.json").exists():
                stored = json.loads((folder / "outcomes.json").read_bytes())
            else:
                shutil.rmtree(folder, ignore_errors=True)
                found = dict(run_all(checkout.resolve(), place, folder, options.only))
                stored = {line: vars(outcome) for line, outcome in found.items()}
                (folder / "outcomes.json").write_text(json.dumps(stored, default=str))
            outcomes.append(
                {
                    line: Outcome(
                        row["status"], row["seconds"], row["message"],
                        {key: Path(path) for key, path in row["files"].items()},
                    )
                    for line, row in stored.items()
                }
            )  # fmt: skip
        for line in outcomes[1]:
            row = compare(outcomes[0][line], outcomes[1][line])
            emit({"command": line, **row})
            totals["calls"] += 1
            totals["same"] += row["same"]
            totals["plain"] += row["plain"]
            totals["differ"] += len(row["differ"])
            totals["failed"] += any(row.get("status", ()))
    commits = {"before": commit_of(options.before), "after": commit_of(options.after)}
    emit({"total": totals, **commits})
    return 1 if totals["differ"] else 0
