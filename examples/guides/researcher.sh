#!/bin/sh
# For who studies tokenizers: three constructions on one corpus, measured side by side.
# Run it in a workspace: data/<lang>* to learn from, parallel/<lang>.txt (line-aligned) to measure.
#   sh researcher.sh            K=8000 sh researcher.sh
set -eu
k=${K:-24000}
mkdir -p results

# Read the text once; everything after works on these tables.
modtok corpus count -o counts

# The paper's two constructions and ours, and ordinary tokenizers to compare with.
modtok bpe-seq --data counts -k "$k" --passes 2 -o tokenizer
modtok bpe-merge --data counts -k "$k" -o least
modtok unigram-merge --data data -k "$k" -o pieces
modtok bpe --data counts --joint -k "$((2 * k))" -o bpe-joint

# Is every subset sound?
modtok inspect -t tokenizer --check
modtok inspect -t least --check

# One yardstick for all: the monolingual BPE tokenizers beside tokenizer/.
modtok nsl -t tokenizer@each -t least@each -t pieces@each -t tokenizer -t bpe-joint \
    --references tokenizer/references parallel --plot nsl.svg > results/nsl.jsonl
modtok fairness -t tokenizer -t tokenizer@each -t bpe-joint \
    --references tokenizer/references parallel > results/fairness.jsonl
modtok origin parallel > results/origin.jsonl

# Does the order of the languages matter? Does the set?
modtok study orders parallel --data counts -k "$k" --orders "${ORDERS:-3}"
modtok study combos parallel --data counts -k "$k" --sample "${SETS:-20}"
modtok report -o report.html
