#!/bin/sh
# Serve French and English from a multilingual checkpoint. Run it in a workspace with runs/latest.
set -eu

# Parameters and KV cache, for the whole vocabulary and for each language.
modtok cost runs/latest

# A directory that transformers, vLLM and lm-eval open without modtok.
modtok slice --langs fr,en -o fr-en
python - <<'EOF'
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("fr-en")
model = AutoModelForCausalLM.from_pretrained("fr-en")
prompt = tokenizer("Il était une fois", return_tensors="pt", return_token_type_ids=False)
print(tokenizer.decode(model.generate(**prompt, max_new_tokens=20, do_sample=False)[0]))
EOF

# The same with modtok, and with the subset chosen by the prompt.
modtok generate fr-en --max-tokens 20 "Il était une fois"
modtok generate --langs auto --max-tokens 20 "Once upon a time"

# Add Finnish from the original run.
modtok slice fr-en --append fi -o fr-en-fi

# A file for llama.cpp. Without --inexact, the export fails if llama.cpp gives other token ids.
modtok export fr-en --format gguf -o fr-en.gguf --inexact
