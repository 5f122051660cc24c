"""Studies over many tokenizers: rows on disk first, pictures second."""
