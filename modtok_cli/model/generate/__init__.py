"""Run a model: logits, generation, likelihoods."""
