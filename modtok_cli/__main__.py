"""Entry point of `python -m modtok_cli` and of the script `modtok`."""

from __future__ import annotations

import os
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line; Ctrl-C while modules are imported is handled here."""
    try:
        from modtok_cli.base.interrupts import install

        install()
        from modtok_cli.cli.main import main as start

        start()
    except KeyboardInterrupt:
        os.write(2, b"modtok: interrupted; no partial output remains\n")
        os._exit(130)


if __name__ == "__main__":
    main()
