"""Check that the packages of the extras are installed, without importing them."""

from collections.abc import Sequence
from importlib.util import find_spec

from modtok_cli.base.errors import UsageError


def require(what: str = "this command", /, **extras: Sequence[str]) -> None:
    """Check all modules that `what` needs: extra of the package → modules of it.

    Raises:
        UsageError: some are not installed; names all, and all extras to install.
    """
    missing = {
        extra: [name for name in modules if not is_installed(name)]
        for extra, modules in extras.items()
    }
    if any(missing.values()):
        names = ", ".join(name for names in missing.values() for name in names)
        needed = ",".join(extra for extra, names in missing.items() if names)
        raise UsageError(f"{what} requires {names}", remedy=f"pip install 'modtok[{needed}]'")


def is_installed(name: str) -> bool:
    """Whether a module can be imported, as far as can be known without importing it."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # hidden or partly installed
        return False
