"""Operations and bytes of steps and of scoring, by the shape of a model."""

from collections.abc import Sequence

from modtok_cli.model.architecture.shape import Shape


def step_flops(shape: Shape, length: int, sizes: Sequence[tuple[int, float]]) -> float:
    """Floating-point operations of a training step, forward and backward.

    `sizes` holds (tokens, output rows) of each microbatch, `length` is the sequence's:
    6 per backbone parameter and token, 6 · d per output row and token, and 6 · S · d per
    layer and token for causal attention.
    """
    attention = 6 * shape.layers * length * shape.heads * shape.head_width
    return float(
        sum(
            tokens * (6 * shape.parameters + 6 * shape.hidden_size * rows + attention)
            for tokens, rows in sizes
        )
    )


def activation_bytes(
    shape: Shape,
    sequences: int,
    length: int,
    number_bytes: int,
    *,
    recompute: int = 0,
    shards: int = 1,
    sequence_parallel: bool = False,
    masked: bool = False,
    fused: bool = False,
) -> int:
    """Bytes that a forward pass keeps for the backward pass on one device.

    Counted on Megatron's local layers with N tokens of `number_bytes` b each, hidden size
    d, a = heads · head_width, g = kv_heads · head_width, feed-forward size f:

    * a norm keeps its input and the normalized input in float32, and its output:
      N d (8 + b), and 4 N for the scale; `fused`, its input and its output: N d 2 b, and 4 N.
      Every shard holds it whole, and with `sequence_parallel` the part of its tokens.
    * attention keeps queries, keys and values before and after rotation and its output:
      b N (3 a + 3 g), and 4 N per head; feed-forward b N 5 f, `fused` b N 3 f: the input of
      SwiGLU and its output. Shards divide these.
    * rotary embeddings keep 2 length · head_width numbers; with `masked`, a layer keeps a mask
      of sequences · length² numbers.
    * the loss keeps the gradient of the hidden states in float32.

    Of `recompute` layers, the first ones, only the inputs are kept, and one layer at a time,
    when all that follows is free again.
    """
    tokens, b = sequences * length, number_bytes
    own = tokens // shards if sequence_parallel else tokens
    inside = b if fused else 8
    norm = own * (shape.hidden_size * (inside + b) + 4)
    wide = 3 * (shape.heads + shape.kv_heads) * shape.head_width + (3 if fused else 5) * shape.ffn
    layer = 2 * norm + (tokens * (b * wide + 4 * shape.heads)) // shards
    if masked:
        layer += sequences * length * length * b
    whole = tokens * shape.hidden_size * b if sequence_parallel else 0  # gathered for the loss
    again = min(recompute, shape.layers)
    rest = (shape.layers - again) * layer + own * (shape.hidden_size * (inside + 4) + 4) + whole
    tables = 2 * length * shape.head_width * b
    return again * own * shape.hidden_size * b + max(rest, layer if again else 0) + tables


def recomputed_flops(shape: Shape, length: int, tokens: int, recompute: int) -> float:
    """Floating-point operations of the second forward pass of so many layers."""
    attention = 2 * shape.layers * length * shape.heads * shape.head_width
    again = min(recompute, shape.layers) / shape.layers
    return again * tokens * (2 * shape.parameters + attention)


def scoring_bytes(shape: Shape, sequences: int, tokens: int, number_bytes: int) -> int:
    """Bytes of scoring a batch without gradients: KV cache twice, activations of one layer.

    The cache counts twice because scoring copies the cache of a shared prefix.
    """
    activations = (4 * shape.hidden_size + 2 * shape.ffn) * number_bytes
    return sequences * tokens * (2 * shape.kv_bytes_per_token(number_bytes) + activations)


def working_bytes(shape: Shape, tokens: int, number_bytes: int, *, shards: int = 1) -> int:
    """Bytes of temporary gradients in the backward pass of a layer, at their peak.

    Activations of both halves of the feed-forward layer: 2 N f.
    """
    return 2 * tokens * shape.ffn * number_bytes // shards
