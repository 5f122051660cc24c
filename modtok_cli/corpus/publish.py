"""The last step of a build, as a block: finished files go to their places."""

from __future__ import annotations

from typing import Any

from modtok_cli.corpus.blocks import Documents, Step


class Publish(Step):
    """Move the languages out of the work directory and write the report."""

    name = "publish"

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Documents:
        """Nothing."""
        from modtok_cli.corpus.build import publish

        publish(self.plan)
        yield from ()
