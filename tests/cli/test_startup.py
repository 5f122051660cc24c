"""Help and version answer at once: no heavy module is imported for them."""

import subprocess
import sys

import pytest

from modtok_cli import __version__
from modtok_cli.cli.main import ORDER

HEAVY = {
    "torch",
    "numba",
    "numpy",
    "tokenizers",
    "megatron",
    "sentencepiece",
    "orjson",
    "rich",
    "tiktoken",
    "safetensors",
    "click",
}
PROBE = """
import sys
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.run import run
status = run(command_tree(), sys.argv[1:])
print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["bpe-seq", "--help"], ["nsl"]])
def test_no_heavy_import(args: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *args], capture_output=True, text=True, check=False
    )
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "typer" in loaded
    assert loaded & HEAVY == set()


def test_version(modtok) -> None:
    done = modtok("--version")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"modtok {__version__}\n".encode(),
        b"",
    )


def test_help_lists_every_command_whole(modtok) -> None:
    done = modtok("--help")
    text = done.stdout.decode()
    assert done.returncode == 0
    assert done.stderr == b""
    for words in ORDER:
        assert f"\n  {words.split()[0]} " in text
    assert "...\n" not in text.split("Commands:")[1].split("Examples:")[0]  # none cut short


def test_without_a_command_help_goes_to_stderr(modtok) -> None:
    for args in ([], ["corpus"]):
        done = modtok(*args)
        assert done.returncode == 2
        assert done.stdout == b""
        assert done.stderr.startswith(b"Usage: modtok")


def test_shell_completion(modtok) -> None:
    import os

    script = modtok("--show-completion", env={**os.environ, "SHELL": "/bin/bash"})
    # The shell is found by looking at the parent process, which here is no shell.
    assert script.returncode in (0, 1)
    environment = {
        **os.environ,
        "_MODTOK_COMPLETE": "complete_bash",
        "COMP_WORDS": "modtok bp",
        "COMP_CWORD": "1",
    }
    done = modtok(env=environment)
    assert {b"bpe", b"bpe-seq"} <= set(done.stdout.split())
    assert all(name.startswith(b"bp") for name in done.stdout.split())
    environment |= {"COMP_WORDS": "modtok bpe-seq --pass", "COMP_CWORD": "2"}
    assert modtok(env=environment).stdout.split() == [b"--passes"]
    environment |= {"COMP_WORDS": "modtok bpe-seq --order ", "COMP_CWORD": "3"}
    assert modtok(env=environment).stdout.split() == [b"alphabetical", b"given", b"size"]
