"""Checkpoints: safetensors and JSON, complete or absent, for any number of ranks.

    checkpoints/step-00000100/
        state.json                                   step, stream positions, sizes and CRCs
        shard-0-of-2-part-0-of-4.safetensors, ...    weights and moments, float32

Every rank writes a file: the table rows that it owns, and an equal range of rows of each backbone
tensor of its tensor-parallel shard. The directory gets its name when all files are on the disk.
Files are written in the background while training continues; a checkpoint can be read on any
number of ranks. The last two are kept by default: if one is damaged, the one before it is used.
"""

from modtok_cli.training.checkpoint.checkpoint_files import check, last_step, newest
from modtok_cli.training.checkpoint.read import ShardFile, load, open_shards, row_files
from modtok_cli.training.checkpoint.saving import Checkpointer, NotFinite, save_weights

__all__ = [
    "Checkpointer",
    "NotFinite",
    "ShardFile",
    "check",
    "last_step",
    "load",
    "newest",
    "open_shards",
    "row_files",
    "save_weights",
]
