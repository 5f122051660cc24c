"""The version of the package, which tools of the release read."""

__version__ = "0.1.0"
