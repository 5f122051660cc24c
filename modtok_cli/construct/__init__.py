"""Files in, a tokenizer directory out: joins text, learning and the artefact."""
