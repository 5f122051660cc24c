"""Delayed updates in the simplest form: one thread, rows on the device, each update a step late.

Step t computes with tables that lack the update of step t - 1, which is applied after it. The
pipeline of `offload` must equal this bit for bit.
"""

from __future__ import annotations

from typing import Any

import torch

from modtok_cli.training.model.model import Model


class LateModel(Model):
    """`Model` whose rows are updated one step late."""

    held: tuple[Any, float] | None = None

    def update(self, unions: Any, rate: float, dense: bool, finite: torch.Tensor) -> None:
        held, self.held = self.held, (unions, rate)
        if held is not None:
            super().update(*held, dense, finite)

    def finish(self) -> None:
        """Apply the update that is held back."""
        if self.held is not None:
            super().update(*self.held, False, torch.tensor(True))
            self.held = None
