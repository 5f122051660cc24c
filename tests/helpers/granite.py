"""Granite as another package would add it: a Llama with scaled input rows and divided logits.

Those with another `residual_multiplier` or `attention_multiplier` are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from modtok_cli.base.errors import ModtokError
from modtok_cli.model.architecture.shape import Shape


@dataclass(frozen=True)
class Granite(Shape):
    """The shape of a Granite."""

    embedding_multiplier: float = 3.0
    logits_scaling: float = 4.0

    architecture: ClassVar = "granite"
    hf_name: ClassVar = "Granite"
    hf_plain: ClassVar = {"attention_bias": False, "mlp_bias": False}
    gguf_name: ClassVar = "granite"
    gguf_pairs: ClassVar = True
    gguf_divides: ClassVar = True

    @property
    def input_scale(self) -> float:
        return self.embedding_multiplier

    @property
    def logit_factor(self) -> float:
        return 1 / self.logits_scaling

    def hf_arguments(self) -> dict[str, Any]:
        return {
            **super().hf_arguments(),
            "embedding_multiplier": self.embedding_multiplier,
            "logits_scaling": self.logits_scaling,
            "attention_multiplier": self.head_width**-0.5,
        }

    @classmethod
    def of_hf(cls, config: Mapping[str, Any]) -> Granite:
        shape = super().of_hf(config)
        whole = cls._completed(config)
        assert isinstance(shape, Granite)
        if whole["residual_multiplier"] != 1 or (
            abs(whole["attention_multiplier"] ** 2 * shape.head_width - 1) > 1e-6
        ):
            raise ModtokError("attention or residuals are scaled, which is not supported")
        return replace(
            shape,
            embedding_multiplier=float(whole["embedding_multiplier"]),
            logits_scaling=float(whole["logits_scaling"]),
        )


ARCHITECTURE = Granite
