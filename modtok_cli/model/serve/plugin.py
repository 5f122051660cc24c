"""The entry point of `vllm.general_plugins`, which vLLM calls in each of its processes."""

PREFIX = "Modtok"
"""Before the name of an architecture: the same with logits over the languages of each request."""
OFFLOAD = "offload_rows"
"""Field of vLLM's additional configuration: whether rows of T stay in host memory."""
PROCESSOR = f"{__name__.rpartition('.')[0]}.engine:RequestLanguages"
"""Admits requests and follows them in a batch; vLLM's `--logits-processors` takes it."""
MODE = "modtok"
"""Tokenizer mode of the renderer."""


def register() -> None:
    """Make the architectures and the renderer known to vLLM. Nothing heavy is imported."""
    from vllm.model_executor.models.registry import ModelRegistry
    from vllm.renderers.registry import RENDERER_REGISTRY
    from vllm.tokenizers.registry import TokenizerRegistry

    package = __name__.rpartition(".")[0]
    for name in list(ModelRegistry.models):
        if name.endswith("ForCausalLM") and not name.startswith(PREFIX):
            ModelRegistry.register_model(PREFIX + name, f"{package}.engine:{PREFIX}{name}")
    if MODE not in RENDERER_REGISTRY.renderers:
        RENDERER_REGISTRY.register(MODE, f"{package}.renderer", "LanguageRenderer")
        TokenizerRegistry.register(MODE, "vllm.tokenizers.hf", "CachedHfTokenizer")
