"""OLMo 2 as another package would add it: one file, named by an entry point.

It normalizes queries and keys over all heads, and the outputs of attention and feed-forward layer
in place of their inputs.
"""

from typing import Any, ClassVar

from modtok_cli.base.errors import UsageError
from modtok_cli.model.architecture.shape import Shape


class Olmo2(Shape):
    """The shape of an OLMo 2."""

    architecture = "olmo2"
    options: ClassVar = {"qk_norm": True}
    hf_name = "Olmo2"
    hf_plain: ClassVar = {"attention_bias": False}
    gguf_name = "olmo2"
    own_layer = True

    @property
    def layer_tensors(self) -> dict[str, tuple[str, str, tuple[int, ...]]]:
        d, tensors = (self.hidden_size,), super().layer_tensors
        del tensors["input_layernorm"], tensors["pre_mlp_layernorm"]
        for part, heads in (("q", self.heads), ("k", self.kv_heads)):
            names = (f"self_attn.{part}_norm", f"attn_{part}_norm", (heads * self.head_width,))
            tensors[f"self_attention.{part}_layernorm"] = names
        return tensors | {
            "self_attention.linear_proj.norm": (
                "post_attention_layernorm", "post_attention_norm", d
            ),
            "mlp.linear_fc2.norm": ("post_feedforward_layernorm", "post_ffw_norm", d),
        }  # fmt: skip

    def megatron_layer(self, parts: Any) -> None:
        import torch
        from megatron.core.tensor_parallel import RowParallelLinear
        from megatron.core.transformer.identity_op import IdentityOp
        from megatron.core.transformer.spec_utils import ModuleSpec

        class NormOfHeads(torch.nn.RMSNorm):
            """Over all heads of (S, B, heads, head_width)."""

            def __init__(self, heads: int, hidden_size: int, config: Any, eps: float) -> None:
                if config.tensor_model_parallel_size > 1:
                    raise UsageError("olmo2 normalizes over all heads", remedy="use --tp 1")
                super().__init__(heads * hidden_size, eps=eps)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return super().forward(x.flatten(-2)).reshape(x.shape)

        class NormedOutput(RowParallelLinear):
            def __init__(self, input_size: int, output_size: int, **settings: Any) -> None:
                super().__init__(input_size, output_size, **settings)
                epsilon = settings["config"].layernorm_epsilon
                self.norm = torch.nn.RMSNorm(output_size, eps=epsilon)

            def forward(self, x: torch.Tensor) -> Any:
                output, bias = super().forward(x)
                return self.norm(output), bias

        def norm_of(heads: int) -> ModuleSpec:
            return ModuleSpec(NormOfHeads, params={"heads": heads})

        parts.input_layernorm = parts.pre_mlp_layernorm = IdentityOp
        attention, mlp = parts.self_attention.submodules, parts.mlp.submodules
        attention.q_layernorm = norm_of(self.heads)
        attention.k_layernorm = norm_of(self.kv_heads)
        attention.linear_proj = mlp.linear_fc2 = NormedOutput


ARCHITECTURE = Olmo2
