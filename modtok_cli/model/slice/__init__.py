"""The model of some languages of a run: as a directory, and what reads it."""
