#!/bin/sh
# Compare three constructions on one corpus. Run it in a workspace with data/<lang>* to learn from
# and parallel/<lang>.txt (line-aligned) to measure on.
#   sh researcher.sh            K=8000 sh researcher.sh
set -eu
k=${K:-24000}
mkdir -p results

# Count words once; later commands read the counts.
modtok corpus count -o counts

# The three constructions, and a joint BPE as baseline.
modtok bpe-seq --data counts -k "$k" --passes 2 -o tokenizer
modtok bpe-merge --data counts -k "$k" -o fewest
modtok unigram-merge --data data -k "$k" -o pieces
modtok bpe --data counts --joint -k "$((2 * k))" -o bpe-joint

# Check that every subset is sound.
modtok inspect -t tokenizer --check
modtok inspect -t fewest --check

# Measure all of them with the same references.
modtok nsl -t tokenizer@each -t fewest@each -t pieces@each -t tokenizer -t bpe-joint \
    --references tokenizer/references parallel --plot nsl.svg > results/nsl.jsonl
modtok fairness -t tokenizer -t tokenizer@each -t bpe-joint \
    --references tokenizer/references parallel > results/fairness.jsonl
modtok origin parallel > results/origin.jsonl

modtok report -o report.html
