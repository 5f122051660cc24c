"""A release: its sources, what is checked in dist/, and checksums.

    python .ci/release.py stage DIR [--url URL]   the last commit, as a package index shows it
    python .ci/release.py check DIST [--tag vX]   versions, names and contents; writes SHA256SUMS

An index knows no other files, so links and images of the README become addresses under the
repository's URL: that of `--url`, else of the remote `origin`. Without one, links become plain
text, and images are left out.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import posixpath
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
SCRIPTS = "[project.scripts]"
STATED = "modtok_cli/base/version.py"
VERSION = re.compile(r'^__version__ = "(.*)"$', re.M)


def version_of(root: Path) -> str:
    """The version that the package states."""
    found = VERSION.search((root / STATED).read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def web_address(remote: str) -> str:
    """The page of a remote of git, without a password in it; "" if it has none.

    >>> web_address("git@example.org:group/modtok.git"), web_address("/srv/modtok.git")
    ('https://example.org/group/modtok', '')
    """
    remote = re.sub(r"^ssh://git@([^:/]+)(?::\d+)?/", r"https://\1/", remote.strip())
    remote = re.sub(r"^git@([^:/]+):", r"https://\1/", remote)
    remote = re.sub(r"^https://[^/]*@", "https://", remote)
    return remote.rstrip("/").removesuffix(".git") if remote.startswith("https://") else ""


def readme(text: str, url: str, version: str) -> str:
    """README.md with addresses that are right anywhere; `url` is "" if there is none."""

    def link(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        if not url:
            return "" if image else label
        view = "raw" if image else "blob"
        return f"{image}[{label}]({url}/{view}/v{version}/{posixpath.normpath(target)})"

    return LINK.sub(link, text)


def project(text: str, url: str, version: str) -> str:
    """pyproject.toml with the addresses of the project."""
    if not url:
        return text
    pages = {
        "Repository": url,
        "Documentation": f"{url}/blob/v{version}/docs/index.md",
        "Changelog": f"{url}/blob/v{version}/CHANGELOG.md",
        "Issues": f"{url}/issues",
    }
    table = "".join(f'{name} = "{page}"\n' for name, page in pages.items())
    return text.replace(SCRIPTS, f"[project.urls]\n{table}\n{SCRIPTS}")


def stage(directory: Path, url: str) -> None:
    """Write the last commit into `directory`, with README and metadata for an index."""
    commit = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(commit.stdout)) as archive:
        archive.extractall(directory, filter="data")
    version = version_of(directory)
    for name, change in (("README.md", readme), ("pyproject.toml", project)):
        path = directory / name
        path.write_text(change(path.read_text(encoding="utf-8"), url, version), encoding="utf-8")
    if not url:
        print("without the URL of the repository: no links in METADATA; pass URL=https://...")


def stated_versions(root: Path) -> dict[str, str]:
    """Every file that states the version, and what it states."""
    patterns = {
        "CITATION.cff": r"^version: (.*)$",
        "CHANGELOG.md": r"^## \[(\d[^\]]*)\]",
        "conda/meta.yaml": r'^{% set version = "(.*)" %}$',
    }
    found = {STATED: version_of(root)}
    for name, pattern in patterns.items():
        match = re.search(pattern, (root / name).read_text(encoding="utf-8"), re.M)
        found[name] = match[1] if match else "(none)"
    return found


def names_in(path: Path) -> set[str]:
    """The files in a wheel, or in an sdist without its folder."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return set(wheel.namelist())
    with tarfile.open(path) as sdist:
        return {name.partition("/")[2] for name in sdist.getnames()}


def missing_from(path: Path, root: Path) -> set[str]:
    """What a file of dist/ lacks: data of the package, C sources or libraries, man pages, types."""
    has = names_in(path)
    tracked = subprocess.run(
        ["git", "ls-files", "modtok_cli", "man"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    needed = {name for name in tracked if name.startswith("modtok_cli/")}
    pages = {Path(name).name for name in tracked if name.startswith("man/")}
    if path.suffix == ".whl":
        needed.add("modtok_cli/core/libmodtok.so")
    else:
        needed |= {"LICENSE", "README.md", "pyproject.toml"}
    return (needed - has) | (pages - {Path(name).name for name in has})


def check(dist: Path, tag: str = "", root: Path = ROOT) -> list[str]:
    """What is wrong with the files of `dist`, in words; writes SHA256SUMS if nothing is.

    With a `tag`, which must be `v` and the version, the changelog must have a date.
    """
    versions = stated_versions(root)
    if tag:
        versions["the tag"] = tag.removeprefix("v")
    wrong = [f"versions differ: {versions}"] if len({*versions.values()}) > 1 else []
    files = sorted([*dist.glob("*.whl"), *dist.glob("*.tar.gz")])
    start = f"modtok-{version_of(root)}"
    wrong += [f"{file.name}: not of {start}" for file in files if not file.name.startswith(start)]
    wheels = [file.name for file in files if file.suffix == ".whl"]
    platforms = subprocess.run(
        [sys.executable, str(root / "modtok_cli" / "core" / "backend.py"), "--tags"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    for platform in platforms:
        if not any(name.endswith(f"-py3-none-{platform}.whl") for name in wheels):
            wrong.append(f"no wheel for {platform}")
    if len(wheels) == len(files):
        wrong.append("no sdist")
    for file in files:
        if missing := sorted(missing_from(file, root)):
            wrong.append(f"{file.name} lacks {len(missing)} files: {', '.join(missing[:3])}")
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if tag and not re.search(rf"^## \[{re.escape(tag[1:])}\] - \d{{4}}-\d\d-\d\d$", changes, re.M):
        wrong.append(f"CHANGELOG.md: the date of {tag} is missing")
    if not wrong:
        sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
        (dist / "SHA256SUMS").write_text("".join(sums))
    return wrong


def main() -> int:
    """Stage or check; 0 when nothing is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    staging = commands.add_parser("stage")
    staging.add_argument("directory", type=Path)
    staging.add_argument("--url", default="")
    checking = commands.add_parser("check")
    checking.add_argument("dist", type=Path)
    checking.add_argument("--tag", default="")
    options = parser.parse_args()
    if options.command == "stage":
        remote = subprocess.run(
            ["git", "remote", "get-url", "origin"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        stage(options.directory, options.url.rstrip("/") or web_address(remote.stdout))
        return 0
    wrong = check(options.dist, options.tag)
    print(*wrong, sep="\n") if wrong else print(f"wrote {options.dist / 'SHA256SUMS'}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
