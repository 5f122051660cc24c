"""`modtok sample`: a workspace with text to try modtok with."""

import shutil
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import atomic_directory, check_directory, is_vacant
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import FilePath
from modtok_cli.base.public import public
from modtok_cli.samples.stories import write_stories

PARTS = ("data", "parallel", "tasks/mcq", "tasks/sum", "jobs")


@public
def sample(
    output: Annotated[
        FilePath, Option("Directory to create.", argument=True, metavar="DIR", writes=True)
    ] = "sample",
) -> Path:
    """Write text to try modtok with.

    Text in English, Finnish, French, Greek, Nepali and Swahili: data/ to learn from, parallel/ to
    measure on, tasks/ to evaluate models on; and short stories in English, Finnish and French,
    stories/ and unseen/, that a tiny model learns in minutes. jobs/ has scripts that train with
    torchrun and on Slurm. About 2.5 MB.

    Returns:
        `output`.

    Examples:
        >>> sorted(path.name for path in modtok.sample("try-it").iterdir())
        ['data', 'jobs', 'parallel', 'stories', 'tasks', 'unseen']

    Raises:
        UsageError: the directory exists and is not empty.
    """
    output = Path(output)
    check_directory(output)
    if not is_vacant(output):
        raise UsageError("already exists", where=output, remedy="name another directory")
    # No other directory can take the place of the current one: the parts are moved into it.
    whole = output / "sample" if output.resolve() == Path.cwd() else output
    with atomic_directory(whole) as folder, as_file(files(__package__)) as source:
        for part in PARTS:
            shutil.copytree(source / part, folder / part)
        (folder / "tasks" / "mt").symlink_to("../parallel")
        write_stories(folder)
    if whole != output:
        for each in sorted(whole.iterdir()):
            each.rename(output / each.name)
        whole.rmdir()
    return output
