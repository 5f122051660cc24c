"""Install modtok as users do and try it: `make install-check`.

Builds the wheel from a copy of the checkout in a directory with spaces in its name, installs
it into empty environments, bare and with each extra alone, for every Python from 3.11 on that
is found, and runs the commands that should work there; a command of an extra that is not
there must say so in one line. An installation without extras has at most 150 MB, with the bytecode
that pip compiles, and nothing of modtok is left after `pip uninstall`. Needs the package index;
takes minutes; prints a table.

    python .ci/install_check.py [--extras lm,eval] [--pythons 3.11,3.13] [--dist dist]

With `--dist`, the files of a release are installed instead: pip chooses the wheel, and the sdist is
installed too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
CONSTRAINT = "torch==2.13.0\n"  # a range would take the newest build, with its CUDA packages
MAX_MB = 150  # of an installation without extras, with the bytecode that pip compiles

# What must work without any extra, in a workspace with the sample text.
BASE = (
    "modtok --version",
    "modtok doctor --json",
    "modtok bpe-seq --langs en,fi -k 600 -q",
    "modtok extract --langs fi,en | modtok nsl parallel/fi.txt",
    "printf 'Kirjasto' | modtok encode -t tokenizer@fi | modtok decode -t tokenizer@fi",
    "modtok unigram --langs en -k 500 -o uni -q",
    "modtok explore tokenizer -o page.html",
    "modtok cost --model 0.5b",
)
WITH = {
    "plot": (
        "modtok nsl -t tokenizer@each parallel --plot nsl.png && test -s nsl.png",
        "modtok report && test -s report.html",
    ),
    "lm": (
        "modtok pretrain --langs en,fi --sampling sub:1 --steps 2 --name try --eval-every 2 -q",
        "modtok slice runs/try --langs fi -o fi -q",
        "modtok generate runs/try --langs fi --max-tokens 4 Kirjasto",
    ),
    "eval": ("modtok eval mcq --help",),
    "corpus": ("modtok corpus build --help",),
}
# Without the extra: exit status 1 or 2, and one line that names what to install.
WITHOUT = {
    "lm": "modtok pretrain --langs en,fi --sampling sub:1 --steps 2 --name no",
    "corpus": "modtok corpus build parallel -o built",
    "plot": "modtok nsl -t tokenizer@each parallel --plot no.svg",
    "published": "echo IQ== 0 > ranks.tiktoken; modtok encode -t ranks.tiktoken < parallel/en.txt",
}
# Extras whose packages require those of another one.
CONTAIN = {"lm": ("published",), "eval": ("lm", "published"), "corpus": ("published",)}


def run(command: str, cwd: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """`command` by sh, with the environment at `path` first."""
    environment = {"PATH": f"{path / 'bin'}:/usr/bin:/bin", "HOME": str(cwd), "LANG": "C.UTF-8"}
    return subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def installed_mb(venv: Path) -> tuple[int, int]:
    """Size of all packages but those of venv itself, and of their bytecode, in 10^6 bytes."""
    (packages,) = venv.glob("lib/python*/site-packages")
    own = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
    sizes = [0, 0]
    for path in packages.rglob("*"):
        if path.is_file() and not path.relative_to(packages).parts[0].startswith(own):
            sizes[path.suffix == ".pyc"] += path.stat().st_size
    return round(sizes[0] / 1e6), round(sizes[1] / 1e6)


def check(python: str, extra: str, wheel: Path, place: Path) -> dict[str, object]:
    """One environment: made, filled, tried, removed. The row of the table."""
    venv, work = place / "environment of a user", place / "work space"
    for directory in (venv, work):
        shutil.rmtree(directory, ignore_errors=True)
    constraint = place / "constraint.txt"
    constraint.write_text(CONSTRAINT)
    began = time.monotonic()
    subprocess.run([python, "-m", "venv", str(venv)], check=True)
    target = f"{wheel}[{extra}]" if extra else str(wheel)
    pip = [str(venv / "bin" / "python"), "-m", "pip"]
    installed = subprocess.run(
        [*pip, "install", "-q", "-c", str(constraint), target],
        capture_output=True,
        text=True,
        check=False,
    )
    row: dict[str, object] = {"python": python, "extra": extra or "(none)", "file": wheel.name}
    row["install_seconds"] = round(time.monotonic() - began)
    failures = []
    if installed.returncode:
        failures.append(f"pip: {installed.stderr.strip().splitlines()[-1]}")
    else:
        own, row["bytecode_mb"] = installed_mb(venv)
        row["installed_mb"] = megabytes = own + row["bytecode_mb"]
        if not extra and megabytes > MAX_MB:
            failures.append(f"{megabytes} MB are installed, more than {MAX_MB}")
        written = run(f"modtok sample '{work}'", place, venv)
        if written.returncode:
            failures.append(f"modtok sample: {written.stderr.strip()[-600:]}")
        for command in () if written.returncode else (*BASE, *WITH.get(extra, ())):
            done = run(command, work, venv)
            if done.returncode:
                failures.append(f"{command}: {(done.stdout + done.stderr).strip()[-600:]}")
        for missing, command in WITHOUT.items():
            if missing not in (extra, *CONTAIN.get(extra, ())):
                done = run(command, work, venv)
                lines = done.stderr.strip().splitlines()
                said = bool(lines) and f"[{missing}]" in lines[-1]
                if done.returncode not in (1, 2) or not said or "Traceback" in done.stderr:
                    failures.append(f"{command}: {done.returncode} {lines[-3:]}")
        subprocess.run([*pip, "uninstall", "-q", "-y", "modtok"], check=True)
        failures += [f"left after pip uninstall: {path}" for path in venv.rglob("*modtok*")]
    row["failures"] = failures
    shutil.rmtree(venv, ignore_errors=True)
    return row


def built(place: Path) -> Path:
    """The wheel of the tracked files, made as on a machine without a C compiler."""
    copy = place / "a checkout"
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, tracked.stdout.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name, follow_symlinks=False)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(place), str(copy)]
    # The package ziglang compiles the core.
    bare = {**os.environ, "PATH": str(Path(sys.executable).parent)}
    bare.pop("CC", None)
    subprocess.run(pip, check=True, env=bare)
    (wheel,) = place.glob("modtok-*.whl")
    return wheel


def of_release(dist: Path, place: Path) -> tuple[Path, Path]:
    """The wheel that pip chooses on this machine, and the sdist."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-index"]
    find = ["--find-links", str(dist), "-d", str(place), "--only-binary", ":all:", "modtok"]
    subprocess.run([*pip, *find], check=True)
    (wheel,) = place.glob("modtok-*.whl")
    (sdist,) = dist.glob("modtok-*.tar.gz")
    return wheel, sdist.resolve()


def main() -> int:
    """Every Python by every extra; 0 when nothing failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extras", default="", help="lists begin with a comma: none, then each")
    parser.add_argument("--pythons", default=",".join(PYTHONS))
    parser.add_argument("--dist", type=Path)
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="install check ") as directory:
        place = Path(directory)
        files = of_release(options.dist, place) if options.dist else (built(place),)
        for version in options.pythons.split(","):
            python = shutil.which(f"python{version}")
            works = (
                python
                and not subprocess.run(
                    [python, "--version"], capture_output=True, check=False
                ).returncode
            )
            if not python or not works:
                print(json.dumps({"python": version, "skipped": "not on this machine"}), flush=True)
                continue
            for extra, file in product(options.extras.split(","), files):
                row = check(python, extra, file, place)
                row["python"] = version
                failed = failed or bool(row["failures"])
                print(json.dumps(row, ensure_ascii=False), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
