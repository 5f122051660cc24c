"""One pre-tokenizer a file: each module holds a `PRETOKENIZER`; see `text.pretokenizer`."""
