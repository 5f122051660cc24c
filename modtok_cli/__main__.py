"""`python -m modtok_cli` is `modtok`; the script of that name begins here too."""

from __future__ import annotations

import os
from typing import NoReturn


def main() -> NoReturn:
    """Entry point: what comes before commands can speak for themselves is caught here."""
    try:
        from modtok_cli.cli.main import main as start

        start()
    except KeyboardInterrupt:  # while modules are read: nothing has been begun
        os.write(2, b"modtok: interrupted; no partial output remains\n")
        os._exit(130)


if __name__ == "__main__":
    main()
