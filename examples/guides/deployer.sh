#!/bin/sh
# For who serves: French and English out of a checkpoint, for the tools people already run.
# Run it in a workspace with runs/latest.
set -eu

# What does it save? Parameters, and the cache that a text takes.
modtok memory --run runs/latest

# A directory for transformers, vLLM, lm-eval; no code of ours is needed to open it.
modtok slice --langs fr,en -o fr-en
python - <<'EOF'
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("fr-en")
model = AutoModelForCausalLM.from_pretrained("fr-en")
# Every text in training follows an end of text: write one before the prompt.
prompt = tokenizer("<|endoftext|>Il était une fois", return_tensors="pt", return_token_type_ids=False)
print(tokenizer.decode(model.generate(**prompt, max_new_tokens=20, do_sample=False)[0]))
EOF

# Our own command line says the same, and chooses the subset by the prompt where asked.
modtok generate --run fr-en --max-tokens 20 "Il était une fois"
modtok generate --langs auto --max-tokens 20 "Once upon a time"

# Finnish customers arrive: widen the slice from the run it came from.
modtok slice --run fr-en --append fi -o fr-en-fi

# One file for llama.cpp, its token ids checked against ours on real text first. Where its
# pre-tokenizer differs from ours on that text the export is refused: --inexact writes it anyway.
modtok export --run fr-en --format gguf -o fr-en.gguf --inexact
