"""`python -m modtok_cli` is `modtok`."""

from modtok_cli.cli.main import main

main()
