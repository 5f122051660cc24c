"""File formats of tokenizers, one a file: each module holds a `FORMAT`."""
