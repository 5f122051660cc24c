"""How words are split into tokens, one way a module."""

CLASSES = {
    "library": "adopted.segmenter:ModularLibrary",
    "merges": "segmenters.merges:ModularMerges",
    "unigram": "segmenters.unigram:ModularUnigram",
    "fewest-tokens": "segmenters.fewest_tokens:ModularFewestTokens",
}
# A file of an adopted tokenizer says so and is asked first; it may have the shape of another.
SEGMENTATIONS = tuple(CLASSES)
