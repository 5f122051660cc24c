"""ModularTokenizer × documents → checkpoints: sampled subtokenizers, sliced vocabularies."""
