"""What holds for every test."""

from hypothesis import settings

# On a busy machine a single example may take a second, at first use of a kernel many.
settings.register_profile("modtok", deadline=None)
settings.load_profile("modtok")
