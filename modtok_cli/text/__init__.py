"""Text in: readers, languages, pre-tokens, word counts. Knows nothing of vocabularies."""
