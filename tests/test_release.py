"""What a release consists of, without building it: README, metadata, recipe, workflows, checks."""

from __future__ import annotations

import io
import re
import runpy
import subprocess
import tarfile
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement

from modtok_cli.core import backend

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[1]
URL = "https://example.org/group/modtok"


RELEASE = SimpleNamespace(**runpy.run_path(str(ROOT / ".ci" / "release.py")))
VERSION = RELEASE.version_of(ROOT)
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_links_of_the_readme_are_right_on_an_index() -> None:
    links = RELEASE.LINK.findall(RELEASE.readme(README, URL, VERSION))
    assert len(links) > 12
    for image, _, target in links:
        if target.startswith(URL):
            folder = f"{URL}/{'raw' if image else 'blob'}/v{VERSION}/"
            assert target.startswith(folder)
            assert (ROOT / target.removeprefix(folder).partition("#")[0]).exists(), target
        else:
            assert re.match(r"https://|#", target), target


def test_a_readme_without_an_address_has_no_links_that_break() -> None:
    text = RELEASE.readme("![p](a.png) see [this](b.md), [that](https://c.org)", "", VERSION)
    assert text == " see this, [that](https://c.org)"


@pytest.mark.parametrize(
    ("remote", "page"),
    [
        ("https://example.org/group/modtok.git\n", URL),
        ("git@example.org:group/modtok.git", URL),
        ("ssh://git@example.org/group/modtok", URL),
        ("ssh://git@example.org:2222/group/modtok.git", URL),
        ("https://me:token@example.org/group/modtok.git", URL),  # would be published
        ("/srv/git/modtok.git", ""),
        ("", ""),
    ],
)
def test_the_page_of_a_remote(remote: str, page: str) -> None:
    assert RELEASE.web_address(remote) == page


def test_metadata_of_a_release_has_addresses_author_and_keywords() -> None:
    project = tomllib.loads(RELEASE.project(PROJECT, URL, VERSION))["project"]
    assert {"Repository", "Documentation", "Changelog", "Issues"} <= project["urls"].keys()
    assert all(page.startswith(URL) for page in project["urls"].values())
    assert project["authors"]
    assert "multilingual" in project["keywords"]
    assert project["scripts"] == tomllib.loads(PROJECT)["project"]["scripts"]
    assert RELEASE.project(PROJECT, "", VERSION) == PROJECT


def test_files_agree_on_the_version() -> None:
    assert set(RELEASE.stated_versions(ROOT).values()) == {VERSION}


def test_the_conda_recipe_has_the_dependencies_of_the_package() -> None:
    text = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    plain = re.sub(r"{{.*?}}", "x", re.sub(r"^{%.*%}$", "", text, flags=re.M))
    recipe = yaml.safe_load(plain)
    project = tomllib.loads(PROJECT)
    run = {Requirement(line.replace(" ", "")) for line in recipe["requirements"]["run"]}
    needed = {Requirement(line) for line in project["project"]["dependencies"]}
    needed = {Requirement(f"{each.name}{each.specifier}") for each in needed}
    assert run - needed == {Requirement(f"python{project['project']['requires-python']}")}
    assert needed <= run
    (setuptools,) = project["build-system"]["requires"]
    assert setuptools in {line.replace(" ", "") for line in recipe["requirements"]["host"]}


def steps(path: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").iterdir()), ids=str)
def test_workflows_call_make_targets_only(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.M))
    settings = set(re.findall(r"^([A-Z]+) :=", MAKEFILE, flags=re.M))
    runs = [step["run"] for step in steps(path) if "run" in step]
    assert runs
    for run in runs:
        program, target, *given = re.sub(r"\${{.*?}}", "x", run).split()
        assert program == "make"
        assert target in targets
        assert {word.partition("=")[0] for word in given} <= settings


def test_the_image_copies_what_its_context_holds() -> None:
    docker = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lets = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }
    copied = {
        name
        for line in re.findall(r"^COPY (?!--)(.*) \S+$", docker, flags=re.M)
        for name in line.split()
    }
    assert copied == lets
    assert all((ROOT / name).exists() for name in copied)
    torch = re.search(r"^ARG TORCH=(.*)$", docker, flags=re.M)
    assert torch is not None
    assert f"'torch=={torch[1]}'" in MAKEFILE


def tracked() -> list[str]:
    listed = ["git", "ls-files", "modtok_cli", "man"]
    try:
        done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # also of another user's checkout
        pytest.skip("not a git checkout")
    return done.stdout.split()


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with empty files in place of the contents of wheels and sdist."""
    dist = tmp_path_factory.mktemp("dist")
    names = tracked()
    with tarfile.open(dist / f"modtok-{VERSION}.tar.gz", "w:gz") as sdist:
        for name in [*names, "LICENSE", "README.md", "pyproject.toml"]:
            sdist.addfile(tarfile.TarInfo(f"modtok-{VERSION}/{name}"), io.BytesIO())
    for tag in backend.TAGS.values():
        with zipfile.ZipFile(dist / f"modtok-{VERSION}-py3-none-{tag}.whl", "w") as wheel:
            for name in [*names, "modtok_cli/core/libmodtok.so"]:
                wheel.writestr(name, "")
    return dist


def test_a_complete_release_gets_its_checksums(complete: Path) -> None:
    assert RELEASE.check(complete) == []
    done = subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=complete, check=False
    )
    assert done.returncode == 0
    assert len((complete / "SHA256SUMS").read_text().splitlines()) == 7


def test_what_is_missing_in_a_release_is_named(complete: Path, tmp_path: Path) -> None:
    for file in complete.iterdir():
        if not fnmatch(file.name, "*macosx*arm64.whl") and file.name != "SHA256SUMS":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with zipfile.ZipFile(tmp_path / f"modtok-{VERSION}-py3-none-manylinux_2_28_x86_64.whl", "w"):
        pass
    wrong = RELEASE.check(tmp_path, tag="v9.9")
    assert [line.partition(":")[0].split(" lacks ")[0] for line in wrong] == [
        "versions differ",
        "no wheel for macosx_11_0_arm64",
        f"modtok-{VERSION}-py3-none-manylinux_2_28_x86_64.whl",
        "CHANGELOG.md",
    ]
    assert not (tmp_path / "SHA256SUMS").exists()
