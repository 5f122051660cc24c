"""Studies over many tokenizers; each writes its rows to a file first."""
