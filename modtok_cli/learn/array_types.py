"""Types of arrays in the signatures of kernels."""

from numba import types

# Read-only in the signature: such a function takes arrays of either kind.
U8 = types.Array(types.uint8, 1, "C", readonly=True)
I32 = types.Array(types.int32, 1, "C", readonly=True)
I64 = types.Array(types.int64, 1, "C", readonly=True)
U64 = types.Array(types.uint64, 1, "C", readonly=True)
MERGES = types.Array(types.int32, 2, "C", readonly=True)
