"""A progress that keeps what is said."""

from modtok_cli.base.progress import Silent


class Said(Silent):
    """Collects notes too."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)
