"""The stub in place of CUDA's runtime and driver: `stub.c`, and the rest generated."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from pathlib import Path

HERE = Path(__file__).parent
_SYMBOL = re.compile(r" (_*cu(?:da)?[A-Z]\w*)")


def library(build: Path) -> Path:
    """Compile the stub for the CUDA build of torch of this environment, if it is not there.

    One library stands for libcudart, which it precedes, and for libcuda. What `stub.c` does not
    define returns 0: the functions that libcudart exports, and those of the driver that torch's
    libraries import.
    """
    packages = Path(sysconfig.get_path("purelib"))
    target, source = build / "stub" / "libcuda.so.1", HERE / "stub.c"
    if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    runtime = next(packages.glob("nvidia/*/lib/libcudart.so.*"))
    names = _symbols("--defined-only", runtime)
    for torch_library in packages.glob("torch/lib/lib*cuda*.so"):
        names |= _symbols("--undefined-only", torch_library)
    rest = target.with_name("rest.c")
    rest.write_text(
        "".join(
            f"__attribute__((weak)) int {name}(void) {{ return 0; }}\n" for name in sorted(names)
        )
    )
    include = packages / "triton" / "backends" / "nvidia" / "include"  # the others are in parts
    made = target.with_suffix(".new")
    options = [
        "-O1",
        "-w",
        "-fno-builtin",
        "-shared",
        "-fPIC",
        f"-I{include}",
        f"-Wl,-soname,{target.name}",
    ]
    subprocess.run(["cc", *options, source, rest, "-o", made, "-lpthread"], check=True)
    made.replace(target)
    return target


def _symbols(which: str, path: Path) -> set[str]:
    listing = subprocess.run(
        ["nm", "-D", which, path], check=True, capture_output=True, text=True
    ).stdout
    return set(_SYMBOL.findall(listing))


def environment(build: Path, rank: int, world: int, port: str) -> dict[str, str]:
    """Variables under which a program sees `world` GPUs and is rank `rank` of so many.

    Torch of the program, and of programs that it starts, then runs under `device.py`.
    """
    stub = library(build)
    site = HERE / "site"
    path = [str(site), str(HERE.parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    ranks = (
        {}
        if world == 1
        else {
            "RANK": str(rank),
            "WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
    )
    return {
        **os.environ,
        **ranks,
        "LOCAL_RANK": str(rank),
        "LD_PRELOAD": str(stub),
        "LD_LIBRARY_PATH": str(stub.parent),
        "PYTHONPATH": os.pathsep.join(path),
        "REHEARSAL_GPUS": str(world),
        "OMP_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",
    }
