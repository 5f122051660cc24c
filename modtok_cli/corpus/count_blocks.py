"""The tasks of `modtok corpus count` as a datatrove block."""

from pathlib import Path
from typing import Any

from modtok_cli.base.remote import path_of
from modtok_cli.corpus.blocks import FileBlock
from modtok_cli.corpus.build_plan import PLAN, Job, read_json
from modtok_cli.text.corpus import count_into
from modtok_cli.text.counts import WordCounter
from modtok_cli.text.reading import Reading
from modtok_cli.text.table_files import TableSource, merge_files, read_header, save_counts
from modtok_cli.text.workspace import empty_language


class CountOrMerge(FileBlock):
    """Write the tables of one task of a stage of `modtok corpus count`."""

    name = "count"

    def __init__(self, work: Path, stage: int, memory: int | None = None) -> None:
        super().__init__()
        self.work, self.stage, self.memory = str(work), stage, memory

    def _do(self, rank: int, world_size: int) -> None:
        plan = read_json(Path(self.work) / PLAN)
        for content in plan["stages"][self.stage][rank]:
            job = Job(**content)
            # Of a task that was stopped; a final table may be one of an earlier count.
            if job.last or not Path(job.output).exists():
                self._write(job, plan)

    def _write(self, job: Job, plan: Any) -> None:
        # State at the start: a file that changes meanwhile will be counted again.
        sources = [TableSource(**source) for source in plan["stamps"][job.language] if job.last]
        reading = Reading(**plan["reading"])
        inputs, output = [path_of(path) for path in job.inputs], Path(job.output)
        if self.stage:
            scratch = Path(self.work) / "scratch" / job.language
            merge_files(inputs, output, job.language, scratch, sources, reading)
        else:
            header = count_into(
                output,
                job.language,
                inputs,
                reading.of(job.language),
                sources,
                memory=self.memory,
                recorded=reading,
                may_be_empty=not job.last or len(inputs) > 1,
            )
            if header is None:  # the merge expects a table of every task
                save_counts(WordCounter().result(), output, job.language, sources, reading)
        if job.last and not read_header(output).unique:
            output.unlink()
            raise empty_language(job.language, plan["files"][job.language])
