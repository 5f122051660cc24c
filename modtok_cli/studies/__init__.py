"""Studies over many tokenizers, runs and worlds; each writes its rows to files and resumes."""
