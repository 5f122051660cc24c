"""Install modtok as users do and try it: `make install-check`.

Builds the wheel from a copy of the checkout in a directory with spaces in its name, installs
it into empty environments, bare and with each extra alone, for every Python from 3.11 on that
is found; bare also the copy itself, with and without a C compiler: only without one pip fetches
ziglang. Every module is imported, and the commands run that should work there; a module or a
command of an extra that is not there must name it in one line. An installation without extras has
at most 150 MB, with the bytecode that pip compiles, and nothing of modtok is left after `pip
uninstall`. Needs the package index; takes minutes; prints a table.

    python .ci/install_check.py [--extras lm,eval] [--pythons 3.11,3.13] [--dist dist]

With `--dist`, the files of a release are installed instead: pip chooses the wheel, and the sdist is
installed too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
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
    "corpus": ("modtok corpus build --langs fi data/fi.jsonl -o built",),
}
# Without the extra: exit status 1 or 2, and one line that names extras to install.
WITHOUT = {
    "lm": "modtok pretrain --langs en,fi --sampling sub:1 --steps 2 --name no",
    "corpus": "modtok corpus build parallel -o built",
    "plot": "modtok nsl -t tokenizer@each parallel --plot no.svg",
    "published": "echo IQ== 0 > ranks.tiktoken; modtok encode -t ranks.tiktoken < parallel/en.txt",
    "data": "printf PAR1 > fi.parquet; modtok corpus stats fi.parquet",
    "eval": "modtok eval mcq runs/try tasks",
    "serve": "modtok serve runs/try",
    "log": "modtok pretrain --langs en,fi --sampling sub:1 --steps 2 --name no --log wandb",
}
# Imports every module: extras that lack a module, and what fails for another reason than these.
IMPORTS = """
import importlib, json, sys
from pathlib import Path
import modtok_cli
from modtok_cli.base.extras import EXTRAS, is_installed, missing_package
lacks = {extra: [name for name in EXTRAS[extra] if not is_installed(name)] for extra in EXTRAS}
failures = [f"[{extra}] lacks {lacks[extra]}" for extra in sys.argv[1:] if lacks.get(extra)]
root = Path(modtok_cli.__file__).parent
for path in sorted({*root.rglob("*.py")} - {*root.rglob("__main__.py")}):
    name = ".".join(path.relative_to(root.parent).with_suffix("").parts)
    try:
        importlib.import_module(name)
    except ImportError as error:
        hint = isinstance(error, ModuleNotFoundError) and missing_package(error)
        if not hint or not any(f"[{extra}]" in str(hint) for extra in lacks if lacks[extra]):
            failures.append(f"{name}: {error}")
print(json.dumps({"lacking": [extra for extra in lacks if lacks[extra]], "failures": failures}))
"""


def run(command: str, cwd: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """`command` by bash, with the environment at `path` first."""
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


def install(venv: Path, target: str, compiler: bool) -> list[str]:
    """Install `target` by pip; what failed. With a C compiler, no other one is fetched."""
    place = venv.parent
    (place / "constraint.txt").write_text(CONSTRAINT)
    done = subprocess.run(
        [str(venv / "bin" / "python"), "-m", "pip", "install", "-v", "-c",
         str(place / "constraint.txt"), target],
        env=machine(compiler), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return [f"pip: {done.stderr.strip().splitlines()[-1]}"]
    fetched = "Collecting ziglang" in done.stdout + done.stderr
    expected = not compiler and not target.partition("[")[0].endswith(".whl")
    return [] if fetched == expected else [f"ziglang: fetched is {fetched}"]


def tried(work: Path, venv: Path, extra: str) -> list[str]:
    """Imports, what must work, and what must name an extra; what failed."""
    written = run(f"modtok sample '{work}'", venv.parent, venv)
    if written.returncode:
        return [f"modtok sample: {written.stderr.strip()[-600:]}"]
    (work / "imports.py").write_text(IMPORTS)
    imported = run(f"python imports.py {extra}", work, venv)
    if imported.returncode:
        return [f"imports: {imported.stderr.strip()[-600:]}"]
    found = json.loads(imported.stdout.splitlines()[-1])
    failures = list(found["failures"])
    for command in (*BASE, *WITH.get(extra, ())):
        done = run(command, work, venv)
        if done.returncode:
            failures.append(f"{command}: {(done.stdout + done.stderr).strip()[-600:]}")
    for command in (WITHOUT[each] for each in found["lacking"] if each in WITHOUT):
        done = run(command, work, venv)
        lines = done.stderr.strip().splitlines() or [""]
        named = re.findall(r"modtok\[([\w,]+)\]", lines[-1])
        said = bool(named) and {*named[0].split(",")} <= {*found["lacking"]}
        if done.returncode not in (1, 2) or not said or "Traceback" in done.stderr:
            failures.append(f"{command}: {done.returncode} {lines[-3:]}")
    return failures


def check(python: str, extra: str, file: Path, place: Path, compiler: bool) -> dict[str, object]:
    """One environment: made, filled, tried, removed. The row of the table."""
    venv, work = place / "environment of a user", place / "work space"
    for directory in (venv, work):
        shutil.rmtree(directory, ignore_errors=True)
    began = time.monotonic()
    subprocess.run([python, "-m", "venv", str(venv)], check=True)
    row: dict[str, object] = {"extra": extra or "(none)", "file": file.name, "compiler": compiler}
    failures = install(venv, f"{file}[{extra}]" if extra else str(file), compiler)
    row["install_seconds"] = round(time.monotonic() - began)
    if not failures:
        own, bytecode = installed_mb(venv)
        megabytes = own + bytecode
        row |= {"bytecode_mb": bytecode, "installed_mb": megabytes}
        if not extra and megabytes > MAX_MB:
            failures.append(f"{megabytes} MB are installed, more than {MAX_MB}")
        failures += tried(work, venv, extra)
        pip = [str(venv / "bin" / "python"), "-m", "pip"]
        subprocess.run([*pip, "uninstall", "-q", "-y", "modtok"], check=True)
        failures += [f"left after pip uninstall: {path}" for path in venv.rglob("*modtok*")]
    shutil.rmtree(venv, ignore_errors=True)
    return {**row, "failures": failures}


def machine(compiler: bool) -> dict[str, str]:
    """Variables of a machine with or without a C compiler."""
    path = os.environ["PATH"] if compiler else str(Path(sys.executable).parent)
    return {name: value for name, value in os.environ.items() if name != "CC"} | {"PATH": path}


def built(place: Path) -> tuple[Path, Path]:
    """The wheel of the tracked files, made as on a machine without a C compiler, and their copy."""
    copy = place / "a checkout"
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, tracked.stdout.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name, follow_symlinks=False)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(place), str(copy)]
    subprocess.run(pip, check=True, env=machine(compiler=False))
    (wheel,) = place.glob("modtok-*.whl")
    return wheel, copy


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
        wheel, sources = of_release(options.dist, place) if options.dist else built(place)
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
            cases = [(extra, wheel, False) for extra in options.extras.split(",")]
            for case in [*cases, ("", sources, False), ("", sources, True)]:
                row = {"python": version} | check(python, *case[:2], place, case[2])
                failed = failed or bool(row["failures"])
                print(json.dumps(row, ensure_ascii=False), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
