"""Every algorithm of learning and packing in plain Python: to read, and to test against.

`splitting` cuts text into words, `encoding` words into tokens, `sequential_bpe` is Algorithm 2 of
the paper, `unigram` its Algorithm 1, `fewest_tokens` all segmentations and the best
of them, `pruning` which tokens a language keeps; `superwords` says how superwords are chosen and
phrases cut, `packing` what a training step reads, `pretrain` is a training step and a program. They
are slow, and import nothing but tables of the core.
"""
