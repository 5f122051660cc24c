"""Errors, atomic files, memory, progress and signatures, for all other packages."""
